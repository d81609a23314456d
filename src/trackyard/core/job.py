"""A job: a command that someone asked to run, with its resources; and the words for its life.

Owns Job, JobState, AttemptState, PriorityClass and Dependency. Knows nothing of storage, engines
or of how the queue decides. Times are seconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from trackyard.core.resources import ResourceRequest


class PriorityClass(IntEnum):
    """Business need; a higher class goes first and may preempt a lower one."""

    #: runs on what nobody wants, first to be stopped
    SCAVENGE = 0
    #: may wait
    LOW = 1
    #: the default
    NORMAL = 2
    #: a deadline is near
    HIGH = 3
    #: someone is waiting at the keyboard, or production is down
    URGENT = 4


class JobState(StrEnum):
    """Where a job stands."""

    #: accepted, waiting for the queue
    QUEUED = "queued"
    #: admitted, its attempt is being launched
    STARTING = "starting"
    #: its attempt runs
    RUNNING = "running"
    #: told to stop, saving its checkpoint
    STOPPING = "stopping"
    #: ended well
    SUCCEEDED = "succeeded"
    #: ended badly, no attempt left
    FAILED = "failed"
    #: stopped by someone
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Whether nothing more will happen to it."""
        return self in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)

    @property
    def holds_resources(self) -> bool:
        """Whether it has GPUs, CPUs or memory now."""
        return self in (JobState.STARTING, JobState.RUNNING, JobState.STOPPING)


class AttemptState(StrEnum):
    """Where one execution of a job stands."""

    #: given to the engine
    STARTING = "starting"
    #: the runner reports it alive
    RUNNING = "running"
    #: told to stop
    STOPPING = "stopping"
    #: the command returned 0
    SUCCEEDED = "succeeded"
    #: the command returned something else, or could not start
    FAILED = "failed"
    #: stopped by someone
    CANCELLED = "cancelled"
    #: stopped by the queue; the job waits again
    PREEMPTED = "preempted"
    #: node or runner vanished; the job waits again
    LOST = "lost"

    @property
    def is_final(self) -> bool:
        """Whether this execution is over."""
        return self not in (AttemptState.STARTING, AttemptState.RUNNING, AttemptState.STOPPING)


class DependsOn(StrEnum):
    """How the other job must end."""

    SUCCESS = "success"
    FAILURE = "failure"
    ANY_END = "any-end"

    def met_by(self, state: JobState) -> bool | None:
        """Return True when met, False when it never can be, None while open."""
        if not state.is_final:
            return None
        if self is DependsOn.ANY_END:
            return True
        return (state is JobState.SUCCEEDED) == (self is DependsOn.SUCCESS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Dependency:
    """Wait until another job has ended in a certain way."""

    #: the other job
    job: str
    #: how it must end
    when: DependsOn = DependsOn.SUCCESS


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What the queue must know of a job; its command and files live elsewhere."""

    #: stable id
    id: str
    #: team that pays
    team: str
    #: person
    user: str = ""
    #: line it stands in
    queue: str = "default"
    #: business need
    priority: PriorityClass = PriorityClass.NORMAL
    #: what it needs
    request: ResourceRequest = field(default_factory=ResourceRequest)
    #: whether its CPUs, and its memory, are defaults that follow its GPUs
    default_cpus: bool = False
    default_memory: bool = False
    #: when it was asked for
    submitted_at: float = 0.0
    #: hard limit on each attempt's run time; None: none
    time_limit_seconds: float | None = None
    #: the user's own guess; None: learn it
    estimate_seconds: float | None = None
    #: may be stopped for another and resume from its checkpoint
    preemptible: bool = True
    #: not before this moment
    not_before: float = 0.0
    #: held by its owner
    held: bool = False
    #: jobs to wait for
    dependencies: tuple[Dependency, ...] = ()
    #: runs only on this lease; empty: anywhere it may
    lease: str = ""
    #: array it belongs to, and how many of that array may run at once (0: no cap)
    array: str = ""
    array_cap: int = 0
    #: the running job that asked for this after it had started; it counts as that job, not as
    #: one more
    part_of: str = ""
    #: what recurs: name, command line and recurrence group, for learned durations
    name: str = ""
    command: str = ""
    group: str = ""
