"""What a pass answers: who starts where, who stops for whom, and why the rest waits.

Owns the output types. Every job of the snapshot's line is either admitted or has its reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import overload

from trackyard.core.reasons import Reason
from trackyard.core.resources import Placement


@dataclass(frozen=True, kw_only=True, slots=True)
class Admission:
    """Start this job here, now."""

    #: the job
    job: str
    #: exactly where
    placement: Placement
    #: run time foreseen for this attempt; None: nothing known
    predicted_seconds: float | None
    #: it started ahead of an earlier job without delaying it
    backfilled: bool = False


class Cause(StrEnum):
    """Why a running job must stop."""

    #: a job of a higher class needs the room
    HIGHER_CLASS = "higher_class"
    #: its team borrowed these GPUs and their owner wants them back
    RECLAIMED = "reclaimed"
    #: a much shorter job of its class goes first; it resumes afterwards
    YIELDS_TO_SHORTER = "yields_to_shorter"


@dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    """Stop this running job, after it has saved its checkpoint."""

    #: the victim
    job: str
    #: who it makes room for
    for_job: str
    #: why
    cause: Cause
    #: time it gets to save
    grace_seconds: float
    #: run time that is lost if it saves nothing more
    lost_seconds: float

    @property
    def sentence(self) -> str:
        """Say it to the victim's owner."""
        why = {
            Cause.HIGHER_CLASS: "needs the room and has a higher priority class",
            Cause.RECLAIMED: "belongs to the team whose quota these GPUs were borrowed from",
            Cause.YIELDS_TO_SHORTER: "is expected to be much shorter; this one resumes afterwards",
        }[self.cause]
        return f"Stopped for job `{self.for_job}`, which {why}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation:
    """Room kept for a waiting job from a moment on."""

    #: the job
    job: str
    #: when the room is foreseen to be free
    at: float
    #: where
    placement: Placement


@dataclass(frozen=True, kw_only=True, slots=True)
class RoomClaim:
    """Room that is being made for a waiting job: others are stopping for it."""

    #: the job
    job: str
    #: when the last of them is gone
    at: float
    #: where it will start
    placement: Placement
    #: within how long it is foreseen to end
    predicted_seconds: float


class Ranking(Sequence[str]):
    """Job ids in order, sorted when first looked at."""

    def __init__(self, sort: Callable[[], tuple[str, ...]]) -> None:
        self._sort: Callable[[], tuple[str, ...]] | None = sort
        self._ids: tuple[str, ...] = ()

    def _all(self) -> tuple[str, ...]:
        if self._sort is not None:
            self._ids, self._sort = self._sort(), None
        return self._ids

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        return self._all()[index]

    def __len__(self) -> int:
        return len(self._all())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return repr(self._all())


@dataclass(frozen=True, kw_only=True, slots=True)
class Decisions:
    """The answer to one snapshot."""

    #: jobs to start, in order
    admissions: tuple[Admission, ...] = ()
    #: jobs to stop
    stops: tuple[Stop, ...] = ()
    #: room kept
    reservations: tuple[Reservation, ...] = ()
    #: room that is being made
    claims: tuple[RoomClaim, ...] = ()
    #: for every job left waiting its reasons, the dominant one first
    reasons: Mapping[str, tuple[Reason, ...]]
    #: the line: ids of the jobs left waiting, the next one first
    line: Sequence[str] = ()

    def reason(self, job: str) -> Reason:
        """Return the dominant reason of a waiting job."""
        return self.reasons[job][0]
