"""What jobs have held so far: seconds and GPU-seconds over all their attempts. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trackyard.core.resources import WHOLE
from trackyard.queue.records import decode_placement
from trackyard.store.database import ReadConnection, Tx


@dataclass(frozen=True, slots=True)
class JobHolding:
    """What one job has held."""

    seconds: float = 0.0
    gpu_seconds: float = 0.0


def held(reader: ReadConnection | Tx, jobs: Sequence[int], now_ms: int) -> dict[int, JobHolding]:
    """Return what each of these jobs, by inner id, has held; without attempts it is left out."""
    found: dict[int, JobHolding] = {}
    for at in range(0, len(jobs), 500):
        part = jobs[at : at + 500]
        marks = ",".join("?" * len(part))
        rows = reader.all(
            f"SELECT job, placement, admitted_ms, ended_ms FROM attempts WHERE job IN ({marks})",
            part,
        )
        for job, placement, began, ended in rows:
            seconds = max(0, (ended or now_ms) - began) / 1000
            gpus = decode_placement(placement).gpu_milli_total / WHOLE
            before = found.get(job, JobHolding())
            found[job] = JobHolding(before.seconds + seconds, before.gpu_seconds + gpus * seconds)
    return found
