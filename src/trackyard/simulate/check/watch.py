"""What is seen while a history runs, and what an invariant may say of it.

Owns Look (one pass: what it saw and what it decided), Fact (something that came about),
Promises (the numbers that the queue keeps) and the base of every invariant. Whoever runs a
history, in memory or over the real loop, tells the same things here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from trackyard.core.job import JobState
from trackyard.scheduling import Decisions, Policy, Snapshot
from trackyard.simulate.check.history import CheckHistory


@dataclass(frozen=True, kw_only=True, slots=True)
class PassRecord:
    """One pass: what it saw and what it decided."""

    snapshot: Snapshot
    decisions: Decisions

    @property
    def at(self) -> float:
        """The moment of the pass."""
        return self.snapshot.now


class Occurrence(StrEnum):
    """What may come about."""

    #: a job was accepted
    SUBMITTED = "submitted"
    #: an attempt began
    STARTED = "started"
    #: an attempt was told to stop
    STOPPING = "stopping"
    #: an attempt is over and its job waits again
    REQUEUED = "requeued"
    #: a job is over
    ENDED = "ended"
    #: someone or something from outside changed the cluster, its rules or a job
    CHANGED = "changed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """Something that came about."""

    at: float
    came: Occurrence
    #: the job or other thing that it is about
    subject: str = ""
    #: of an end, how; of a stop, for whom
    state: JobState | None = None
    for_job: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Promises:
    """What the queue promises, in numbers that its documentation states."""

    #: a pass happens at least this often while someone waits
    pass_seconds: float = 15.0
    #: beyond its grace a stopped attempt may take this long to be gone
    stop_slack_seconds: float = 5.0
    #: stops of one job within an hour, whatever the cause
    stops_per_hour: int = 4
    #: what is lent comes back within this time, and the grace of those who have it
    quota_back_seconds: float = 1800.0
    #: lower right starts nothing in the way of a job that waited this many times the longest job
    wait_factor: float = 3.0
    #: with nothing more coming, all work ends within so many times its serial length
    drain_factor: float = 3.0

    def restart_seconds(self, gpus: float) -> float:
        """Return what a stop costs its victim beside lost work, by size."""
        if gpus <= 1:
            return 7.0
        return 30.0 if gpus <= 8 else 60.0

    def grace(self, policy: Policy) -> float:
        """Return how long a stop may take from the decision until the room is free and used."""
        return policy.preemption.grace_seconds + self.stop_slack_seconds + 2 * self.pass_seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    """A promise that was not kept."""

    invariant: str
    at: float
    sentence: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FinalState:
    """What is left when a history is over."""

    at: float
    #: the last look's view of the cluster, with everything that still waits or runs
    snapshot: Snapshot
    #: seconds that all work left would take one after the other, seen when nothing more came
    serial_seconds: float


class Invariant:
    """Something that holds in every history. Sentences that it yields say where it did not."""

    #: a short name for reports
    name = ""
    #: what it promises, in a sentence
    promise = ""

    def __init__(self, history: CheckHistory, promises: Promises) -> None:
        self.history = history
        self.promises = promises

    def on_fact(self, fact: Fact) -> Iterable[str]:
        """Hear what came about."""
        del fact
        return ()

    def on_look(self, look: PassRecord) -> Iterable[str]:
        """See a pass."""
        del look
        return ()

    def on_end(self, rest: FinalState) -> Iterable[str]:
        """See what is left at the end."""
        del rest
        return ()
