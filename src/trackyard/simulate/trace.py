"""A trace: jobs as someone once submitted them, and for how long they ran.

Owns TraceJob and Trace. Knows nothing of file formats or of the cluster they are replayed on.
"""

from __future__ import annotations

from dataclasses import dataclass

from trackyard.core.resources import WHOLE


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceJob:
    """One job of a trace; times are seconds from the first submission."""

    #: id within the trace
    id: str
    #: when it was submitted
    submitted_at: float
    #: how long it ran, or would run with the GPUs it asked for
    duration: float
    #: whole GPUs in all
    gpus: int = 1
    #: share of one GPU in thousandths; under 1000 only when gpus is 1
    gpu_milli: int = WHOLE
    #: acceptable GPU types; empty: any
    gpu_types: tuple[str, ...] = ()
    #: CPUs in all, in thousandths
    cpu_milli: int = 0
    #: memory in all
    memory_bytes: int = 0
    #: who, for whom, and what recurs
    user: str = ""
    team: str = "all"
    name: str = ""
    group: str = ""
    #: when it should have ended, from the first submission; None: no matter
    deadline: float | None = None

    @property
    def gpu_share(self) -> float:
        """GPUs in all, fractions included."""
        return self.gpus * self.gpu_milli / WHOLE


@dataclass(frozen=True, kw_only=True, slots=True)
class JobTrace:
    """Jobs in order of submission."""

    #: file it came from
    name: str
    #: which reader understood it
    format: str
    #: the jobs, sorted by submission
    jobs: tuple[TraceJob, ...]
    #: whether the jobs have run times (some only arrive)
    has_durations: bool = True
