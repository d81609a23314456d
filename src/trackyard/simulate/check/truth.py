"""Every reason is true: take away what it names, and the job starts or waits for another reason.

Owns the invariant about explanations, and what to take away for each code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from zlib import crc32

from trackyard.core.job import JobState
from trackyard.core.node import NodeState
from trackyard.core.reasons import Code, Reason, Tier
from trackyard.scheduling import Decisions, Queue, Snapshot, WaitingJob, decide
from trackyard.simulate.check.history import clock
from trackyard.simulate.check.watch import Invariant, PassRecord

#: Of so many reasons one is looked into; each costs a pass.
EVERY = 8
_NEVER = (Tier.MISCONFIGURED, Tier.INFEASIBLE)


class TrueReasons(Invariant):
    """Take away what a reason names, and the job starts or waits for another one."""

    name = "true reasons"
    promise = (
        "Every reason is true: without what it names the job starts, or waits for something else."
    )
    every = EVERY

    def on_look(self, look: PassRecord) -> Iterator[str]:
        """Look into some of the reasons of a pass, the same ones in each run."""
        for one in look.snapshot.waiting:
            reasons = look.decisions.reasons.get(one.job.id, ())
            if not reasons:
                continue
            if crc32(f"{one.job.id} {look.at:.0f}".encode()) % self.every:
                continue
            yield from self._look_into(look, one, reasons)
        yield from _misplaced(look)

    def _look_into(
        self, look: PassRecord, one: WaitingJob, reasons: tuple[Reason, ...]
    ) -> Iterator[str]:
        first = reasons[0]
        until = first.until
        if until is not None and until < look.at - 1.0 and first.code is not Code.LEASE_OVER:
            yield (
                f"{one.job.id} is told to wait until {clock(until)}, which is past:"
                f" {first.sentence}"
            )
        lifted = _lift(look, one, reasons)
        if lifted is None:
            return
        answer = decide(lifted)
        if any(admission.job == one.job.id for admission in answer.admissions):
            if first.tier in _NEVER and first.code in _HOPELESS:
                yield f"{one.job.id} is told that it can never start, and does: {first.sentence}"
            return
        yield from self._still(one, first, answer)

    def _still(self, one: WaitingJob, first: Reason, answer: Decisions) -> Iterator[str]:
        if first.code in _HOPELESS:
            return
        now = answer.reasons.get(one.job.id, ())
        if not now:
            return
        is_same = now[0].code is first.code and now[0].what == first.what
        is_for_room = first.tier in (Tier.CAPACITY, Tier.PRIORITY)
        if is_same or (is_for_room and now[0].tier in (Tier.CAPACITY, Tier.PRIORITY)):
            yield (
                f"{one.job.id} waits although what its reason names is gone:"
                f" first {first.sentence!r}, then {now[0].sentence!r}"
            )


#: What nothing but a change of the job itself, or of the cluster, can lift.
_HOPELESS = (
    Code.TOO_LARGE,
    Code.BAD_REQUEST,
    Code.UNKNOWN_QUEUE,
    Code.UNKNOWN_TEAM,
    Code.UNKNOWN_GPU_TYPE,
    Code.UNKNOWN_LABEL,
)


def _misplaced(look: PassRecord) -> Iterator[str]:
    """Name who can never start and yet stands before someone who can."""
    hopeless = ""
    for name in look.decisions.line:
        tier = look.decisions.reasons[name][0].tier
        if tier in _NEVER:
            hopeless = name
        elif hopeless and tier in (Tier.PRIORITY, Tier.CAPACITY):
            yield f"{hopeless}, which cannot start, stands in the line before {name}"
            return


def _lift(look: PassRecord, one: WaitingJob, reasons: tuple[Reason, ...]) -> Snapshot | None:
    """Return the cluster without what a job's reasons name; None: nothing to be tried."""
    first = reasons[0]
    lift = _LIFTS.get(first.code)
    if lift is None:
        return None
    leases = {reason.what for reason in reasons if reason.tier is Tier.LEASE_CONFLICT}
    snapshot = replace(
        look.snapshot,
        waiting=(one,),
        outcomes={
            **look.snapshot.outcomes,
            **{other.job.id: JobState.QUEUED for other in look.snapshot.waiting},
        },
        leases=tuple(lease for lease in look.snapshot.leases if lease.label not in leases),
    )
    return lift(snapshot, one, first)


def _without_holders(snapshot: Snapshot, one: WaitingJob, reason: Reason) -> Snapshot:
    del one
    named = set(reason.holders)
    is_all = reason.holder_count <= len(named) and bool(named)
    return replace(
        snapshot,
        running=tuple(held for held in snapshot.running if is_all and held.job.id not in named),
    )


def _alone(snapshot: Snapshot, one: WaitingJob, reason: Reason) -> Snapshot:
    del one, reason
    return snapshot


def _without_limits(snapshot: Snapshot, one: WaitingJob, reason: Reason) -> Snapshot:
    del reason
    return replace(
        snapshot,
        waiting=(replace(one, job=replace(one.job, array_cap=0)),),
        teams=tuple(
            replace(team, quota_gpus=None, limit_gpus=None, max_running=None)
            for team in snapshot.teams
        ),
        queues=tuple(
            Queue(name=queue.name, rank=queue.rank, order=queue.order) for queue in snapshot.queues
        ),
    )


def _unbound(snapshot: Snapshot, one: WaitingJob, reason: Reason) -> Snapshot:
    """Lift exactly what one of the job's own terms says."""
    job = one.job
    if reason.code is Code.HELD:
        job = replace(job, held=False)
    elif reason.code is Code.NOT_BEFORE:
        job = replace(job, not_before=0.0)
    else:
        kept = tuple(
            dependency
            for dependency in job.dependencies
            if dependency.job not in reason.holders and dependency.job != reason.what
        )
        job = replace(job, dependencies=kept)
    return replace(snapshot, waiting=(replace(one, job=job),))


def _in_service(snapshot: Snapshot, one: WaitingJob, reason: Reason) -> Snapshot:
    del reason
    return replace(
        snapshot,
        nodes=tuple(replace(node, state=NodeState.READY) for node in snapshot.nodes),
        waiting=(replace(one, avoid=()),),
    )


def _idle(snapshot: Snapshot, one: WaitingJob, reason: Reason) -> Snapshot:
    del reason
    return replace(snapshot, running=(), leases=(), waiting=(one,))


Lift = Callable[[Snapshot, WaitingJob, Reason], Snapshot]
_LIFTS: dict[Code, Lift] = {
    Code.NO_FREE_GPUS: _without_holders,
    Code.FRAGMENTED: _without_holders,
    Code.NO_FREE_CPU_OR_MEMORY: _without_holders,
    Code.NODE_SHARED: _without_holders,
    Code.PREEMPTING: _without_holders,
    Code.BEHIND_JOBS: _alone,
    Code.BEHIND_RESERVATION: _alone,
    Code.BEHIND_HEAD: _alone,
    Code.RUNS_INTO_LEASE: _alone,
    Code.LEASED_TO_OTHERS: _alone,
    Code.TEAM_QUOTA: _without_limits,
    Code.BORROW_LIMIT: _without_limits,
    Code.TEAM_JOBS: _without_limits,
    Code.QUEUE_QUOTA: _without_limits,
    Code.QUEUE_JOBS: _without_limits,
    Code.USER_GPUS: _without_limits,
    Code.USER_JOBS: _without_limits,
    Code.ARRAY_CAP: _without_limits,
    Code.LARGER_THAN_QUOTA: _without_limits,
    Code.HELD: _unbound,
    Code.NOT_BEFORE: _unbound,
    Code.WAITS_FOR_JOB: _unbound,
    Code.DEPENDENCY_NEVER: _unbound,
    Code.UNKNOWN_DEPENDENCY: _unbound,
    Code.NODES_UNHEALTHY: _in_service,
    Code.AVOIDS_NODES: _in_service,
    Code.TOO_LARGE: _idle,
}
