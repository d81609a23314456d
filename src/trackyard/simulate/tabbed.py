"""Readers of trace files without a header: Shockwave, Gavel, and the Standard Workload Format.

Owns `read_tabbed`. Gavel's files count steps; their run times come from the table of
throughputs beside them.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

from trackyard.core.errors import InvalidInput
from trackyard.simulate.trace import TraceJob

_THROUGHPUTS = "simulation_throughputs.json.gz"


def read_tabbed(path: Path, text: str) -> tuple[str, Iterator[TraceJob]]:
    """Recognise a format by its fields and return its name and jobs."""
    lines = [line for line in text.splitlines() if line.strip()]
    sample = next((line for line in lines if not line.startswith(";")), "")
    fields = sample.split("\t")
    if len(fields) == 12:
        return "shockwave", _shockwave(lines)
    if len(fields) in (7, 10):
        return "gavel", _gavel(lines, _throughputs(path))
    if len(sample.split()) == 18:
        return "swf", _swf(lines)
    message = (
        f"{path} is in no known trace format; known are CSV files with the published headers, "
        "Shockwave and Gavel traces, and the Standard Workload Format"
    )
    raise InvalidInput(message)


def _shockwave(lines: list[str]) -> Iterator[TraceJob]:
    for number, line in enumerate(lines):
        fields = line.split("\t")
        yield TraceJob(
            id=str(number),
            submitted_at=float(fields[11]),
            duration=float(fields[10]),
            gpus=int(fields[6]),
            name=fields[0],
        )


def _gavel(lines: list[str], throughputs: dict[str, float]) -> Iterator[TraceJob]:
    for number, line in enumerate(lines):
        fields = line.split("\t")
        if len(fields) == 7:
            steps, arrival, gpus = float(fields[4]), float(fields[5]), int(fields[6])
        else:
            steps, arrival, gpus = float(fields[5]), float(fields[9]), int(fields[6])
        rate = throughputs.get(f"('{fields[0]}', {gpus})")
        if not rate:
            message = f"No throughput for {fields[0]} on {gpus} V100 beside the trace"
            raise InvalidInput(message)
        yield TraceJob(
            id=str(number),
            submitted_at=arrival,
            duration=steps / rate,
            gpus=gpus,
            name=fields[0],
        )


def _throughputs(path: Path) -> dict[str, float]:
    """Steps per second alone on V100, by model and GPUs."""
    for folder in path.resolve().parents[:3]:
        table = folder / _THROUGHPUTS
        if table.exists():
            loaded = json.loads(gzip.decompress(table.read_bytes()))
            return {key: float(value["null"]) for key, value in loaded["v100"].items()}
    message = f"{path} counts steps: put {_THROUGHPUTS} beside it or in a folder above"
    raise InvalidInput(message)


def _swf(lines: list[str]) -> Iterator[TraceJob]:
    for line in lines:
        if line.startswith(";"):
            continue
        fields = line.split()
        allocated, requested = int(fields[4]), int(fields[7])
        duration = float(fields[3])
        if duration < 0:
            continue
        yield TraceJob(
            id=fields[0],
            submitted_at=float(fields[1]),
            duration=duration,
            gpus=max(requested if requested > 0 else allocated, 1),
            user=f"u{fields[11]}",
            team=f"g{fields[12]}",
            name=f"app{fields[13]}",
        )
