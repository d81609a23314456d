"""What no pass may ever do: give a thing twice, split a gang, cross a lease, pass a limit.

Owns the invariants that look at one pass alone. How jobs fare over time is `fairness`'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from trackyard.core.job import Job
from trackyard.core.resources import WHOLE
from trackyard.scheduling import Admission
from trackyard.scheduling.preemption.proof import prove
from trackyard.scheduling.windows import WORTH_STARTING_SECONDS
from trackyard.simulate.check.claims import Claims
from trackyard.simulate.check.history import clock
from trackyard.simulate.check.room import Room, can_hold
from trackyard.simulate.check.watch import Fact, Invariant, Occurrence, PassRecord


class NothingTwice(Invariant):
    """No GPU, CPU, byte or exclusive node is given to more than it holds."""

    name = "nothing twice"
    promise = "No GPU, CPU, memory or exclusive node is ever given away twice."

    def on_look(self, look: PassRecord) -> Iterable[str]:
        """Add up what runs and what starts."""
        room = Room(look.snapshot.nodes)
        for one in look.snapshot.running:
            room.take(one.placement)
        for admission in look.decisions.admissions:
            room.take(admission.placement)
        return room.faults()


class WholeGangs(Invariant):
    """Every start has all its nodes, each with all that was asked for."""

    name = "whole gangs"
    promise = "A job starts with all that it asked for, on nodes that are in service and fit."

    def on_look(self, look: PassRecord) -> Iterator[str]:
        """Compare each start with its request."""
        jobs = {one.job.id: one.job for one in look.snapshot.waiting}
        nodes = {node.id: node for node in look.snapshot.nodes}
        for admission in look.decisions.admissions:
            job = jobs.get(admission.job)
            if job is None:
                continue
            request, shares = job.request, admission.placement.shares
            if len({share.node for share in shares}) != request.nodes:
                yield f"{job.id} asked for {request.nodes} nodes and got {len(shares)}"
            for share in shares:
                if len(set(share.gpus)) != request.gpus:
                    yield f"{job.id} got {len(share.gpus)} GPUs on {share.node}"
                if not can_hold(nodes[share.node], request):
                    yield f"{job.id} started on {share.node}, which does not fit or is out"
            values = {nodes[share.node].label(request.same) for share in shares}
            if request.same and len(values) > 1:
                yield f"{job.id} wants one {request.same} and got {sorted(values)}"


class OneAttempt(Invariant):
    """A job that runs is not started again, and each waiting job is answered once."""

    name = "one attempt"
    promise = "A job has at most one live attempt, and every waiting job starts or has a reason."

    def __init__(self, *args: object, **more: object) -> None:
        super().__init__(*args, **more)  # type: ignore[arg-type]
        self._live: set[str] = set()

    def on_fact(self, fact: Fact) -> Iterator[str]:
        """Follow which jobs are live."""
        if fact.came is Occurrence.STARTED:
            if fact.subject in self._live:
                yield f"{fact.subject} was started while an attempt of it was live"
            self._live.add(fact.subject)
        elif fact.came in (Occurrence.REQUEUED, Occurrence.ENDED):
            self._live.discard(fact.subject)

    def on_look(self, look: PassRecord) -> Iterator[str]:
        """Compare the answers with the line."""
        decisions = look.decisions
        waiting = {one.job.id for one in look.snapshot.waiting}
        started = [one.job for one in decisions.admissions]
        for job, count in Counter(started).items():
            if count > 1 or job not in waiting:
                yield f"{job} was started {count} times in one pass, waiting or not"
        answered = set(started) | set(decisions.reasons)
        for job in sorted(waiting - answered):
            yield f"{job} neither starts nor has a reason"
        for job in sorted(set(started) & set(decisions.reasons)):
            yield f"{job} starts and has a reason to wait"
        if sorted(decisions.line) != sorted(decisions.reasons):
            yield "the line does not list exactly those who wait"


class LeasesKept(Invariant):
    """Nobody starts where others' lease would be crossed, and nobody is there in its time."""

    name = "leases kept"
    promise = "Leased nodes run nothing of others, and nothing starts that would run into a lease."

    def on_look(self, look: PassRecord) -> Iterator[str]:
        """Look at starts, and at who is still there."""
        snapshot = look.snapshot
        jobs = {one.job.id: one.job for one in snapshot.waiting}
        for admission in look.decisions.admissions:
            job = jobs.get(admission.job)
            if job is not None:
                yield from self._crossed(look, job, admission)
        for one in snapshot.running:
            for lease in snapshot.leases:
                late = snapshot.now - lease.starts_at
                if not set(lease.nodes) & set(one.placement.nodes) or late < 0:
                    continue
                is_told = one.stops_at is not None
                if not _admits(lease, one.job) and late > 1 and not is_told:
                    yield (
                        f"{one.job.id} runs on {lease.id}'s nodes {late:g} s after its start"
                        " and was not told to leave"
                    )

    def _crossed(self, look: PassRecord, job: Job, admission: Admission) -> Iterator[str]:
        now = look.at
        seconds = admission.predicted_seconds or 0.0
        end = now + (min(seconds, WORTH_STARTING_SECONDS) if job.preemptible else seconds)
        for lease in look.snapshot.leases:
            if _admits(lease, job) or not set(lease.nodes) & set(admission.placement.nodes):
                continue
            if lease.overlaps(start=now, end=end):
                yield (
                    f"{job.id} starts on nodes of lease {lease.id} (from"
                    f" {clock(lease.starts_at)}) and is foreseen to run until {clock(end)}"
                )


def _admits(lease: object, job: Job) -> bool:
    admits: bool = lease.admits(  # type: ignore[attr-defined]
        team=job.team, user=job.user, lease=job.lease, preemptible=job.preemptible
    )
    return admits


class LimitsKept(Invariant):
    """No start takes a team, queue, user or array past its limit."""

    name = "limits kept"
    promise = "No start takes a team, queue, user or array past its limit."

    def on_look(self, look: PassRecord) -> Iterator[str]:
        """Add up what everyone holds after this pass."""
        snapshot = look.snapshot
        jobs = {one.job.id: one.job for one in snapshot.waiting}
        new = [jobs[one.job] for one in look.decisions.admissions if one.job in jobs]
        if not new:
            return
        stopped = {stop.job for stop in look.decisions.stops if stop.grace_seconds == 0}
        held = [one.job for one in snapshot.running if one.job.id not in stopped] + new
        claims, queues = Claims(snapshot, held), Counter[str]()
        users, arrays = Counter[tuple[str, str]](), Counter[str]()
        running = Counter[str]()
        for job in held:
            milli = job.request.gpu_milli_total
            queues[job.queue] += milli
            users[job.queue, job.user] += milli
            running[job.queue] += 1
            arrays[job.array] += 1
        for job in new:
            yield from _past_team_limits(job, claims)
            queue = next((one for one in snapshot.queues if one.name == job.queue), None)
            if queue is not None:
                if _over(queues[queue.name], queue.quota_gpus, job):
                    yield f"{job.id} takes queue {queue.name} past {queue.quota_gpus:g} GPUs"
                if _over(users[queue.name, job.user], queue.max_gpus_per_user, job):
                    yield f"{job.id} takes {job.user} past {queue.max_gpus_per_user:g} GPUs"
                if queue.max_running is not None and running[queue.name] > queue.max_running:
                    yield f"{job.id} takes queue {queue.name} past {queue.max_running} jobs"
            if job.array_cap and arrays[job.array] > job.array_cap:
                yield f"{job.id} takes array {job.array} past its cap of {job.array_cap}"


def _past_team_limits(job: Job, claims: Claims) -> Iterator[str]:
    for name, limit in claims.limits(job.team).items():
        if _over(claims.held_under(name), limit, job):
            yield f"{job.id} takes team {name} past its limit of {limit:g} GPUs"


def _over(milli: int, limit: float | None, job: Job) -> bool:
    return limit is not None and bool(job.request.gpus) and milli > limit * WHOLE


class LoansKept(Invariant):
    """Jobs that may not be preempted hold no more of others' quotas than those lend for good."""

    name = "loans kept"
    promise = (
        "No start of a job that may not be preempted takes GPUs that are promised to others,"
        " beyond what these lend to such jobs."
    )

    def on_look(self, look: PassRecord) -> Iterator[str]:
        """Add up what can never be asked back, start by start."""
        snapshot = look.snapshot
        if all(team.quota_gpus is None for team in snapshot.teams):
            return
        jobs = {one.job.id: one.job for one in snapshot.waiting}
        stopped = {stop.job for stop in look.decisions.stops if stop.grace_seconds == 0}
        held = [one.job for one in snapshot.running if one.job.id not in stopped]
        claims = Claims(snapshot, [*held, *jobs.values()])
        for job in jobs.values():
            claims.take(job, -1)
        for admission in look.decisions.admissions:
            job = jobs[admission.job]
            before = claims.committed()
            own = claims.quota(job.team)
            claims.take(job)
            is_own = own is not None and claims.fixed[job.team] <= own
            after = claims.committed()
            if not job.preemptible and not is_own and after > max(before, claims.capacity):
                yield (
                    f"{job.id}, which may not be preempted, takes what others may ask back:"
                    f" {after / WHOLE:g} GPUs are promised of {claims.capacity / WHOLE:g}"
                )


class SelfProof(Invariant):
    """The pass's own proof finds nothing wrong, and so never holds sound decisions back."""

    name = "self-proof"
    promise = "Every decision passes the proof that the live loop makes before it acts."

    def on_look(self, look: PassRecord) -> Iterator[str]:
        """Make the proof."""
        for fault in prove(look.snapshot, look.decisions):
            yield f"{fault.job}: {fault.sentence}"


SAFETY: tuple[type[Invariant], ...] = (
    NothingTwice,
    WholeGangs,
    OneAttempt,
    LeasesKept,
    LimitsKept,
    LoansKept,
    SelfProof,
)
