"""What runs on the nodes past the queue, said as jobs that nobody can move.

Pure. Such a job has no row: it takes room, and is named where someone waits for that room.
"""

from __future__ import annotations

from collections.abc import Iterable

from trackyard.core.job import Job
from trackyard.core.resources import NodeShare, Placement, ResourceRequest
from trackyard.fleet.nodes import NodeRow
from trackyard.scheduling import ActiveJob

#: before the name of a job that is not ours; no id of ours holds a colon
PREFIX = "foreign:"


def is_foreign(job_id: str) -> bool:
    """Tell whether this is no job of the queue's."""
    return job_id.startswith(PREFIX)


def foreign_jobs(rows: Iterable[NodeRow], now: float) -> list[ActiveJob]:
    """Return what nodes report as held by others."""
    found: list[ActiveJob] = []
    for row in rows:
        if not row.in_force.takes_work:
            continue
        for use in row.facts.foreign:
            gpus = tuple(index for index in use.gpus if index < len(row.facts.gpus))
            request = ResourceRequest(
                gpus=len(gpus),
                gpu_milli=use.gpu_milli,
                cpu_milli=use.cpu_milli,
                memory_bytes=use.memory_bytes,
            )
            share = NodeShare(
                node=row.id,
                gpus=gpus,
                gpu_milli=use.gpu_milli,
                cpu_milli=use.cpu_milli,
                memory_bytes=use.memory_bytes,
            )
            job = Job(
                # A name stands for several where a job is on several nodes.
                id=f"{PREFIX}{use.name}" + (f"/{len(found)}" if found else ""),
                team=PREFIX,
                queue=PREFIX,
                request=request,
                submitted_at=now,
                preemptible=False,
                name=use.name,
            )
            found.append(ActiveJob(job=job, placement=Placement(shares=(share,)), started_at=now))
    return found
