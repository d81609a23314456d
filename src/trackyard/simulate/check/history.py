"""A history of a small cluster: what comes, what breaks, what people change, and when.

Owns the values that a history is made of and their words. A history holds all that is random:
the same history always runs the same way. Knows nothing of how it is run or checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from trackyard.core.job import Job
from trackyard.core.lease import Lease
from trackyard.core.node import Node
from trackyard.scheduling import Policy, Queue, Team

HOUR = 3600.0


class StopReply(StrEnum):
    """What a command does when it is told to stop."""

    #: saves what it has and ends well before the grace is over
    SAVES = "saves"
    #: ends at once and saves nothing more
    ENDS = "ends"
    #: takes no notice and is killed when the grace is over
    IGNORES = "ignores"


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedJob:
    """A job of a history, with what only the history knows of it."""

    #: what is submitted
    job: Job
    #: seconds of work, without any loss
    work_seconds: float
    #: seconds between checkpoints; None: it saves none by itself
    saves_every: float | None = None
    #: what it does when told to stop
    reply: StopReply = StopReply.ENDS
    #: seconds that a later attempt needs before it goes on from its checkpoint
    restart_seconds: float = 7.0
    #: seconds after which its first attempts fail by themselves, one entry for each
    fails_after: tuple[float, ...] = ()
    #: failures of its own after which it is tried again
    retries: int = 0
    #: time it asks for to save
    grace_seconds: float = 60.0

    @property
    def words(self) -> str:
        """Say it in a line."""
        job, request = self.job, self.job.request
        gpus = f"{request.gpus}" if request.gpu_milli == 1000 else f"{request.gpu_milli / 1000:g}"
        nodes = f"{request.nodes}x" if request.nodes > 1 else ""
        parts = [
            f"{job.id} of {job.team}/{job.user or '-'}: {job.priority.name.lower()}",
            f"{nodes}{gpus} GPU",
            f"{self.work_seconds:g} s of work",
            "preemptible" if job.preemptible else "not preemptible",
        ]
        if self.saves_every is not None:
            parts.append(f"saves every {self.saves_every:g} s")
        parts.append(f"when told to stop it {self.reply}")
        facts = {
            "limit": job.time_limit_seconds,
            "estimate": job.estimate_seconds,
            "not before": job.not_before or None,
            "lease": job.lease or None,
            "array": f"{job.array}/{job.array_cap}" if job.array else None,
            "after": ",".join(f"{one.job}:{one.when}" for one in job.dependencies) or None,
            "queue": job.queue if job.queue != "default" else None,
            "same": request.same or None,
            "cpus": request.cpu_milli / 1000 if request.cpu_milli else None,
            "fails after": self.fails_after or None,
            "retries": self.retries or None,
            "held": job.held or None,
            "exclusive": request.exclusive or None,
        }
        parts.extend(f"{name} {value}" for name, value in facts.items() if value is not None)
        return ", ".join(parts)


class EventKind(StrEnum):
    """What may happen from outside."""

    SUBMIT = "submit"
    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"
    #: a running job is stopped and queued again, by hand
    REQUEUE = "requeue"
    #: a job gets another priority class
    RECLASS = "reclass"
    NODE_DOWN = "node down"
    NODE_DRAINED = "node drained"
    NODE_UP = "node up"
    LEASE = "lease"
    LEASE_DROPPED = "lease dropped"
    #: a team gets another quota, limit or weight
    TEAM = "team"
    #: the server has other settings from here on
    POLICY = "policy"
    #: the server is gone for a while: nothing is decided and nothing is noticed
    OUTAGE = "outage"
    # Faults between server and engine; where there is no engine they change nothing.
    #: the engine starts the next attempt and its answer is lost
    LOST_ANSWER = "lost answer"
    #: the engine refuses the next launch
    REFUSED = "refused launch"
    #: the engine's notices are lost for a while
    LOST_NOTICES = "lost notices"
    #: the engine's notices come late, the last first
    LATE_NOTICES = "late notices"
    #: the engine answers nothing for a while
    ENGINE_AWAY = "engine away"
    #: the server dies after it wrote its decisions and before the engine heard of them
    DIED = "died"
    #: the server is frozen, another takes over, and the frozen one wakes up
    SUPERSEDED = "superseded"


#: What upsets the way between server and engine, and nothing else.
ENGINE_FAULTS = (
    EventKind.LOST_ANSWER,
    EventKind.REFUSED,
    EventKind.LOST_NOTICES,
    EventKind.LATE_NOTICES,
    EventKind.ENGINE_AWAY,
    EventKind.DIED,
    EventKind.SUPERSEDED,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryEvent:
    """Something that happens at a moment, whatever the queue does."""

    at: float
    kind: EventKind
    #: the job, node or lease that it is about
    subject: str = ""
    #: what is submitted
    planned: PlannedJob | None = None
    lease: Lease | None = None
    team: Team | None = None
    policy: Policy | None = None
    #: the new class, or the seconds of an outage
    value: float = 0.0

    @property
    def words(self) -> str:
        """Say it in a line."""
        if self.planned is not None:
            return f"submit {self.planned.words}"
        if self.lease is not None:
            one = self.lease
            lent = ", lent" if one.lent else ""
            return (
                f"lease {one.id} of {one.team} on {','.join(one.nodes)}"
                f" from {one.starts_at:g} to {one.ends_at:g}{lent}"
            )
        if self.team is not None:
            one_team = self.team
            return (
                f"team {one_team.id} now has quota {one_team.quota_gpus}, limit"
                f" {one_team.limit_gpus}, weight {one_team.weight:g}"
            )
        if self.policy is not None:
            return f"policy {self.policy.name}"
        value = f" {self.value:g}" if self.value else ""
        return f"{self.kind} {self.subject}{value}"


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckHistory:
    """Everything that is given: the cluster, the rules, and what happens from outside."""

    #: where it came from: a seed, or the name of a scenario
    name: str
    nodes: tuple[Node, ...]
    teams: tuple[Team, ...] = ()
    queues: tuple[Queue, ...] = (Queue(),)
    policy: Policy = field(default_factory=Policy)
    #: in order of time
    events: tuple[HistoryEvent, ...] = ()

    @property
    def planned(self) -> dict[str, PlannedJob]:
        """The jobs that come, by id."""
        return {one.planned.job.id: one.planned for one in self.events if one.planned is not None}

    @property
    def last_at(self) -> float:
        """The moment of the last thing that happens from outside."""
        ends = [
            one.at + (one.value if one.kind is EventKind.OUTAGE else 0.0) for one in self.events
        ]
        return max(ends, default=0.0)

    @property
    def longest_seconds(self) -> float:
        """The longest time for which one attempt may hold its GPUs."""
        return max(
            (one.work_seconds + one.restart_seconds + one.grace_seconds)
            for one in (*self.planned.values(), _NOTHING)
        )

    def without(self, dropped: set[int]) -> CheckHistory:
        """Leave out some events, with what makes no sense without them."""
        kept = [one for at, one in enumerate(self.events) if at not in dropped]
        jobs = {one.planned.job.id for one in kept if one.planned is not None}
        leases = {one.lease.id for one in kept if one.lease is not None}
        known = {*jobs, *leases, *(node.id for node in self.nodes), ""}
        events = [
            _pruned(one, jobs, leases)
            for one in kept
            if one.subject in known or one.kind is EventKind.SUBMIT
        ]
        return replace(self, events=tuple(events))

    def lines(self) -> Iterator[str]:
        """Say it to a person."""
        yield f"history {self.name}, policy {self.policy.name}"
        for node in self.nodes:
            labels = " ".join(f"{name}={value}" for name, value in node.labels)
            cpus = node.cpu_milli // 1000
            yield f"  node {node.id}: {len(node.gpus)} GPUs, {cpus} CPUs {labels}"
        for team in self.teams:
            inside = f" in {team.parent}" if team.parent else ""
            lends = f", lends {team.lendable_gpus:g}" if team.lendable_gpus else ""
            yield (
                f"  team {team.id}{inside}: quota {team.quota_gpus}, limit {team.limit_gpus},"
                f" weight {team.weight:g}{lends}"
            )
        for queue in self.queues:
            yield f"  queue {queue.name}: {_limits(queue)}"
        for event in self.events:
            yield f"  {clock(event.at)} {event.words}"


def _limits(queue: Queue) -> str:
    names = ("quota_gpus", "max_running", "max_gpus_per_user", "max_running_per_user")
    found = [
        f"{name} {getattr(queue, name)}" for name in names if getattr(queue, name) is not None
    ]
    return ", ".join(found) or "no limits"


def _pruned(event: HistoryEvent, jobs: set[str], leases: set[str]) -> HistoryEvent:
    """Drop what a submission names that does not come any more."""
    planned = event.planned
    if planned is None:
        return event
    job = planned.job
    kept = tuple(one for one in job.dependencies if one.job in jobs)
    lease = job.lease if job.lease in leases else ""
    if kept == job.dependencies and lease == job.lease:
        return event
    return replace(
        event, planned=replace(planned, job=replace(job, dependencies=kept, lease=lease))
    )


def clock(seconds: float) -> str:
    """Say a moment of a history: hours, minutes and seconds since it began."""
    whole = int(seconds)
    tail = f"{seconds - whole:.3f}"[1:].rstrip("0").rstrip(".") if seconds != whole else ""
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}{tail}"


_NOTHING = PlannedJob(job=Job(id="", team=""), work_seconds=0.0)
