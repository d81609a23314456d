"""Readers of published trace files with a header line, and the choice of reader.

Owns `read_trace`. Each format is recognised by its columns. Files may be gzip-compressed. Tab-
separated formats and the Standard Workload Format are in tabbed.py.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from trackyard.core.errors import InvalidInput
from trackyard.core.resources import WHOLE
from trackyard.simulate.tabbed import read_tabbed
from trackyard.simulate.trace import JobTrace, TraceJob

Row = dict[str, str]

_MIB = 2**20
#: GPU-hours by application for the Pollux workloads, the middle of the size classes that its paper
#: gives them; the files themselves hold no run times.
_POLLUX_GPU_HOURS = {
    "cifar10": 0.5,
    "ncf": 0.5,
    "deepspeech2": 4.0,
    "bert": 4.0,
    "yolov3": 30.0,
    "imagenet": 150.0,
}


def read_trace(path: Path, *, limit: int | None = None) -> JobTrace:
    """Read a trace file of any known format."""
    text = _open(path)
    first = text.split("\n", 1)[0]
    kind = _kind(first)
    if kind is None:
        name, jobs = read_tabbed(path, text)
    else:
        name = kind
        jobs = _FORMATS[kind][1](csv.DictReader(text.splitlines()))
    ordered = _from_zero(jobs)
    if not ordered:
        message = f"{path} holds no jobs"
        raise InvalidInput(message)
    return JobTrace(
        name=path.name,
        format=name,
        jobs=tuple(ordered[:limit]),
        has_durations=any(job.duration > 0 for job in ordered),
    )


def open_text(path: Path) -> str:
    """Return a file's text, unpacked when it is compressed."""
    return _open(path)


def _open(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        message = f"Cannot read {path}: {error.strerror or error}"
        raise InvalidInput(message) from error
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return data.decode("utf-8")


def _kind(header: str) -> str | None:
    columns = set(header.strip().split(","))
    for kind, (needed, _) in _FORMATS.items():
        if needed <= columns:
            return kind
    return None


def _from_zero(jobs: Iterable[TraceJob]) -> list[TraceJob]:
    """Sort by submission and count time from the first one."""
    found = list(jobs)
    if not found:
        return []
    start = min(job.submitted_at for job in found)
    if start:
        found = [_shifted(job, start) for job in found]
    found.sort(key=lambda job: job.submitted_at)
    return found


def _shifted(job: TraceJob, start: float) -> TraceJob:
    return TraceJob(
        id=job.id,
        submitted_at=job.submitted_at - start,
        duration=job.duration,
        gpus=job.gpus,
        gpu_milli=job.gpu_milli,
        gpu_types=job.gpu_types,
        cpu_milli=job.cpu_milli,
        memory_bytes=job.memory_bytes,
        user=job.user,
        team=job.team,
        name=job.name,
        group=job.group,
        deadline=None if job.deadline is None else job.deadline - start,
    )


def _philly(rows: Iterable[Row]) -> Iterator[TraceJob]:
    for number, row in enumerate(rows):
        moment = datetime.fromisoformat(row["timestamp"]).replace(tzinfo=UTC)
        yield TraceJob(
            id=str(number),
            submitted_at=moment.timestamp(),
            duration=float(row["duration"]),
            gpus=int(row["num_gpus"]),
            team=row["cluster"],
        )


def _pai(rows: Iterable[Row]) -> Iterator[TraceJob]:
    for row in rows:
        kind = row.get("gpu_type", "")
        milli = round(float(row["num_gpu"]) * WHOLE)
        count = max(int(float(row.get("num_inst") or 1)), 1)
        yield TraceJob(
            id=row["job_id"],
            submitted_at=float(row["submit_time"]),
            duration=float(row["duration"]),
            gpus=1 if milli < WHOLE else milli // WHOLE * count,
            gpu_milli=milli if 0 < milli < WHOLE else WHOLE,
            gpu_types=() if kind in ("", "MISC", "CPU") else (kind,),
            cpu_milli=round(float(row.get("num_cpu") or 0) * WHOLE),
            team=row["user"],
            group=row.get("group", ""),
        )


def _openb(rows: Iterable[Row]) -> Iterator[TraceJob]:
    for row in rows:
        created = float(row.get("creation_time") or 0)
        deleted = float(row.get("deletion_time") or created)
        milli = int(row["gpu_milli"] or 0)
        yield TraceJob(
            id=row["name"],
            submitted_at=created,
            duration=max(deleted - created, 0.0),
            gpus=int(row["num_gpu"]),
            gpu_milli=milli if 0 < milli < WHOLE and row["num_gpu"] == "1" else WHOLE,
            gpu_types=tuple(filter(None, (row.get("gpu_spec") or "").split("|"))),
            cpu_milli=int(row["cpu_milli"]),
            memory_bytes=int(row["memory_mib"]) * _MIB,
            team=row.get("qos") or "all",
        )


def _chronus(rows: Iterable[Row]) -> Iterator[TraceJob]:
    for row in rows:
        submitted = float(row["submit_time"])
        due = None if row["best_effort"] == "1" else submitted + _expected(row)
        yield TraceJob(
            id=row["job_id"],
            submitted_at=submitted,
            duration=float(row["duration"]),
            gpus=int(row["num_gpu"]),
            team=row["user"],
            name=row["model_name"],
            deadline=due,
        )


def _expected(row: Row) -> float:
    """The time by which a job has its full value.

    Jobs with soft deadlines list several, each later one with a lesser value: 159-189-229-289.
    """
    text = row["expect_time_list"]
    try:
        return float(text.split("-")[0])
    except ValueError:
        message = (
            f"Job {row['job_id']} of the trace has {text!r} as expect_time_list: write a number of"
            " seconds, or several joined by -"
        )
        raise InvalidInput(message) from None


def _elasticflow(rows: Iterable[Row]) -> Iterator[TraceJob]:
    for row in rows:
        best_effort = row.get("best_effort") == "1"
        yield TraceJob(
            id=row["job_id"],
            submitted_at=float(row["submit_time"]),
            duration=float(row["duration"]),
            gpus=int(row["num_gpu"]),
            name=row["model_name"],
            deadline=None if best_effort else float(row["ddl"]),
        )


def _muri(rows: Iterable[Row]) -> Iterator[TraceJob]:
    for row in rows:
        yield TraceJob(
            id=row["job_id"],
            submitted_at=float(row["submit_time"]) / 1000,
            duration=float(row["duration"]) / 1000,
            gpus=int(row["num_gpu"]),
            name=row["model_name"],
        )


def _tiresias(rows: Iterable[Row]) -> Iterator[TraceJob]:
    for row in rows:
        yield TraceJob(
            id=row["job_id"],
            submitted_at=float(row["submit_time"]),
            duration=float(row["duration"]),
            gpus=int(row["num_gpu"]),
            name=row["model_name"],
        )


def _gaia(rows: Iterable[Row]) -> Iterator[TraceJob]:
    found = list(rows)
    # One file of this format counts in hours with fractions, the other in whole seconds.
    in_hours = any(not float(row["length"]).is_integer() for row in found)
    unit = 3600.0 if in_hours else 1.0
    for number, row in enumerate(found):
        yield TraceJob(
            id=str(number),
            submitted_at=float(row["arrival_time"]) * unit,
            duration=float(row["length"]) * unit,
            gpus=max(int(float(row["cpus"])), 1),
        )


def _pollux(rows: Iterable[Row]) -> Iterator[TraceJob]:
    for row in rows:
        gpus = max(int(row["num_replicas"]), 1)
        hours = _POLLUX_GPU_HOURS.get(row["application"], 1.0)
        yield TraceJob(
            id=row["name"],
            submitted_at=float(row["time"]),
            duration=hours * 3600 / gpus,
            gpus=gpus,
            name=row["application"],
        )


_FORMATS: dict[str, tuple[set[str], Callable[[Iterable[Row]], Iterator[TraceJob]]]] = {
    "philly": ({"timestamp", "duration", "num_gpus", "cluster"}, _philly),
    "pai": ({"job_id", "user", "num_inst", "num_gpu", "submit_time", "duration"}, _pai),
    "openb": ({"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"}, _openb),
    "chronus": ({"job_id", "num_gpu", "expect_time_list", "best_effort"}, _chronus),
    "elasticflow": ({"job_id", "submit_time", "ddl", "num_gpu", "duration"}, _elasticflow),
    "muri": ({"job_id", "num_gpu", "resource_time_0", "duration"}, _muri),
    "tiresias": ({"job_id", "num_gpu", "submit_time", "model_name", "duration"}, _tiresias),
    "gaia": ({"arrival_time", "length", "cpus"}, _gaia),
    "pollux": ({"name", "time", "application", "num_replicas"}, _pollux),
}

FORMATS = (*_FORMATS, "shockwave", "gavel", "swf")
