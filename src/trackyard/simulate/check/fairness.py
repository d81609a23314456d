"""How jobs fare over time: nobody is passed by lower right, quotas come back, all work ends.

Owns the invariants about waiting. What the queue says about it is `truth`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import takewhile
from math import inf

from trackyard.core.job import Job
from trackyard.core.reasons import Code, Tier
from trackyard.core.resources import WHOLE, Placement
from trackyard.scheduling import Backfill, Snapshot, WaitingJob, decide
from trackyard.simulate.check.claims import CLUSTER, Claims, claims_after
from trackyard.simulate.check.history import CheckHistory, clock
from trackyard.simulate.check.room import Room, can_hold, earliest, foreseen_end
from trackyard.simulate.check.watch import (
    Fact,
    FinalState,
    Invariant,
    Occurrence,
    PassRecord,
    Promises,
)

#: Seconds by which sums of foreseen ends may differ.
_SLACK = 1.0
#: A job that waits for these alone would start if there were room for it.
_FOR_ROOM = (Tier.PRIORITY, Tier.CAPACITY)


def _waits_for_room(look: PassRecord, name: str) -> bool:
    reasons = look.decisions.reasons.get(name, ())
    return bool(reasons) and all(reason.tier in _FOR_ROOM for reason in reasons)


def _is_lower(snapshot: Snapshot, one: WaitingJob, head: WaitingJob) -> bool:
    """Say whether a job has less right to start than another under every order."""
    job, first = one.job, head.job
    if job.priority != first.priority:
        return job.priority < first.priority
    if (job.team, job.queue) != (first.team, first.queue):
        return False
    if one.attained_seconds or head.attained_seconds or job.submitted_at <= first.submitted_at:
        return False
    if one.is_owed:
        # Others were stopped for it: the room is its own.
        return False
    if job.preemptible and not first.preemptible:
        # It is weighed by what it may need before it is worth stopping, the other by its mean.
        return False
    seconds = snapshot.durations.expected_seconds
    gpus, ours = job.request.total_gpus, first.request.total_gpus
    longer = seconds(job) >= seconds(first) and _rank(snapshot, job) >= _rank(snapshot, first)
    return longer and gpus >= ours


def _gives_way(snapshot: Snapshot, job: Job, head: Job) -> bool:
    """Say whether a job may be stopped for another, so that it is in nobody's way for long."""
    is_higher = head.priority > job.priority
    return job.preemptible and is_higher and snapshot.policy.preemption.lower_classes


def _rank(snapshot: Snapshot, job: Job) -> float:
    """The least GPU-seconds that an order by length may take a job for: as stated, or learned."""
    seconds = job.estimate_seconds
    if seconds is None:
        seconds = min(snapshot.durations.rows(job)[0], job.time_limit_seconds or inf)
    return seconds * max(job.request.total_gpus, 0.1)


def heads(look: PassRecord) -> Iterator[WaitingJob]:
    """Yield the first of each class, and of each quota that it is within, that waits for room."""
    waiting = {one.job.id: one for one in look.snapshot.waiting}
    claims = claims_after(look)
    seen: set[object] = set()
    for name in look.decisions.line:
        one = waiting.get(name)
        if one is None or not _waits_for_room(look, name):
            continue
        keys: set[object] = {one.job.priority}
        if owner := claims.owner(one.job.team, one.job.request.gpu_milli_total):
            keys.add(("team", owner))
        if not keys <= seen:
            seen |= keys
            yield one


#: The room of this moment is kept for someone before it, or room is being made for it.
_SERVED = (Code.BEHIND_RESERVATION, Code.PREEMPTING)


def _checked_heads(look: PassRecord) -> Iterator[WaitingJob]:
    """Yield the heads of the highest class that waits; what it is kept is not free for others."""
    waits = [
        one
        for one in heads(look)
        if look.decisions.reason(one.job.id).code not in _SERVED and not _came_later(look, one)
    ]
    highest = max((one.job.priority for one in waits), default=None)
    yield from (one for one in waits if one.job.priority == highest)


def _came_later(look: PassRecord, head: WaitingJob) -> bool:
    """Say whether another team's job of its class was given its reservation first.

    Which team is next depends on what it holds and on what it has left of its quota, which
    change with every start of a pass; the line shows how things stand after the last of them.
    Reservations are listed as they were made.
    """
    jobs = {one.job.id: one.job for one in look.snapshot.waiting}
    kept = [jobs[one.job] for one in look.decisions.reservations if one.job in jobs]
    before = takewhile(lambda job: job.id != head.job.id, kept)
    return any(job.priority == head.job.priority and job.team != head.job.team for job in before)


class NoInversion(Invariant):
    """Backfill never delays the first of a class or of a quota's owner."""

    name = "no inversion"
    promise = (
        "The first waiting job of each class and of each team within its quota has its room kept:"
        " nothing of lower right starts that would have it wait longer, unless its higher class"
        " may stop that again."
    )

    def on_look(self, look: PassRecord) -> Iterator[str]:
        """Compare when each head finds room, with and without those who passed it."""
        snapshot = look.snapshot
        if not look.decisions.admissions or snapshot.leases:
            return
        if snapshot.policy.backfill is Backfill.SKIP:
            return
        waiting = {one.job.id: one for one in snapshot.waiting}
        ends = {one.job.id: foreseen_end(one, snapshot) for one in snapshot.running}
        for stop in look.decisions.stops:
            ends[stop.job] = look.at + stop.grace_seconds
        held = {one.job.id: (ends[one.job.id], one.placement) for one in snapshot.running}
        for claim in look.decisions.claims:
            # It has what is free of its room already, beside those who are leaving the rest.
            held[f"{claim.job}, when room is made"] = (
                claim.at + claim.predicted_seconds,
                claim.placement,
            )
        for head in _checked_heads(look):
            passed: dict[str, tuple[float, Placement]] = {}
            before = dict(held)
            for admission in look.decisions.admissions:
                end = look.at + (admission.predicted_seconds or 0.0)
                if _gives_way(snapshot, waiting[admission.job].job, head.job):
                    continue
                is_lower = _is_lower(snapshot, waiting[admission.job], head)
                group = passed if is_lower else before
                group[admission.job] = (end, admission.placement)
            if not passed:
                continue
            nodes, job = snapshot.nodes, head.job
            first = earliest(job, nodes, before, look.at, head.avoid)
            then = earliest(job, nodes, {**before, **passed}, look.at, head.avoid)
            if first is not None and (then is None or then > first + _SLACK):
                late = "never" if then is None else clock(then)
                yield (
                    f"{', '.join(passed)} of lower right started although {job.id}"
                    f" ({job.priority.name.lower()}, {job.request.total_gpus:g} GPUs) waits:"
                    f" it would have had its room at {clock(first)}, now at {late}"
                )


class BoundedWait(Invariant):
    """Lower right does not start for ever in the way of a job that waits."""

    name = "bounded wait"
    promise = (
        "No job waits longer than a stated number of times the longest job while jobs of lower"
        " right, which it may not stop, start on nodes that it could use."
    )

    def __init__(self, history: CheckHistory, promises: Promises) -> None:
        super().__init__(history, promises)
        #: since when each job waits for room that nobody of its own right or more was given
        self._since: dict[str, float] = {}

    def on_fact(self, fact: Fact) -> Iterable[str]:
        """Begin anew when the outside changes something."""
        if fact.came is Occurrence.CHANGED:
            self._since.clear()
        return ()

    def on_look(self, look: PassRecord) -> Iterator[str]:
        """Look who passed whom."""
        snapshot = look.snapshot
        if snapshot.policy.backfill is Backfill.SKIP:
            return
        nodes = {node.id: node for node in snapshot.nodes}
        bound = self.promises.wait_factor * self.history.longest_seconds
        by_id = {one.job.id: one for one in snapshot.waiting}
        for one in snapshot.waiting:
            name, request = one.job.id, one.job.request
            if not _waits_for_room(look, name):
                self._since.pop(name, None)
                continue
            since = self._since.setdefault(name, look.at)
            for admission in look.decisions.admissions:
                places = [nodes[node] for node in admission.placement.nodes]
                if not any(can_hold(node, request) for node in places):
                    continue
                if not _is_lower(snapshot, by_id[admission.job], one):
                    self._since[name] = look.at
                elif _gives_way(snapshot, by_id[admission.job].job, one.job):
                    continue
                elif look.at - since > bound:
                    yield (
                        f"{name} waits since {clock(since)}, longer than {bound:.0f} s, and"
                        f" {admission.job} of lower right starts where it could have run"
                    )
                    self._since[name] = look.at
                    break


class QuotaBack(Invariant):
    """What a team has lent comes back in time when its own job needs it."""

    name = "quota back"
    promise = (
        "A job within its team's quota starts within a stated time if what others borrowed is"
        " all that it lacks."
    )

    def __init__(self, history: CheckHistory, promises: Promises) -> None:
        super().__init__(history, promises)
        self._since: dict[str, float] = {}

    def on_fact(self, fact: Fact) -> Iterable[str]:
        """Begin anew when the outside changes something."""
        if fact.came is Occurrence.CHANGED:
            self._since.clear()
        return ()

    def on_look(self, look: PassRecord) -> Iterator[str]:
        """Look for owners whose quota is lent."""
        snapshot = look.snapshot
        lacking = set(self._owners_kept_out(look)) if self._is_keepable(snapshot) else set()
        for name in set(self._since) - lacking:
            del self._since[name]
        preemption = snapshot.policy.preemption
        if not preemption.reclaim:
            return
        bound = self.promises.quota_back_seconds + self.promises.grace(snapshot.policy)
        for name in sorted(lacking):
            since = self._since.setdefault(name, look.at)
            if look.at - since > bound:
                self._since[name] = look.at
                yield (
                    f"{name} is within its team's quota, which others have borrowed, and waits"
                    f" since {clock(since)}, longer than {bound:.0f} s"
                )

    def _is_keepable(self, snapshot: Snapshot) -> bool:
        """Say whether there are quotas, for everyone, that the nodes in service can hold."""
        claims = Claims(snapshot, ())
        there = sum(len(node.gpus) for node in snapshot.nodes if node.state.takes_work) * WHOLE
        departments = {team.parent for team in snapshot.teams}
        quotas = [claims.quota(team.id) for team in snapshot.teams if team.id not in departments]
        top = sum(claims.quota(one) or 0.0 for one in claims.members(CLUSTER))
        return bool(quotas) and None not in quotas and top <= there

    def _owners_kept_out(self, look: PassRecord) -> Iterator[str]:
        snapshot = look.snapshot
        if snapshot.leases:
            return
        waiting = {one.job.id: one for one in snapshot.waiting}
        claims = claims_after(look)
        seen: set[str] = set()
        for name in look.decisions.line:
            first = waiting[name]
            team, request = first.job.team, first.job.request
            if team in seen or not request.gpus:
                continue
            if not self._may_start(look, name):
                continue
            seen.add(team)
            if claims.is_within(team, request.gpu_milli_total):
                borrowed = _borrowed(snapshot, claims, first.job)
                if borrowed and self._fits_without(look, first, borrowed):
                    yield name

    def _may_start(self, look: PassRecord, name: str) -> bool:
        """Say whether it waits for room or for what others borrowed, and nobody leaves yet.

        Limits of its queue or user are not its team's quota.
        """
        if any(stop.for_job == name for stop in look.decisions.stops) or any(
            one.stops_for == name for one in look.snapshot.running
        ):
            return False
        reasons = look.decisions.reasons.get(name, ())
        return bool(reasons) and all(
            reason.tier in _FOR_ROOM or reason.code is Code.BORROW_LIMIT for reason in reasons
        )

    def _fits_without(self, look: PassRecord, one: WaitingJob, borrowed: set[str]) -> bool:
        room = Room(look.snapshot.nodes)
        for running in look.snapshot.running:
            if running.job.id not in borrowed:
                room.take(running.placement)
        for admission in look.decisions.admissions:
            room.take(admission.placement)
        return room.fits(one.job.request, one.avoid)


def _borrowed(snapshot: Snapshot, claims: Claims, claimant: Job) -> set[str]:
    """Name the jobs, last started first, without which nobody holds what is the claimant's."""
    found: set[str] = set()
    need = claimant.request.gpu_milli_total
    lends = any(team.lendable_gpus for team in snapshot.teams)
    newest = sorted(snapshot.running, key=lambda one: (-one.started_at, one.job.id))
    for one in newest:
        # What is lent to jobs that may not be preempted is lent until they end.
        if one.job.priority > claimant.priority or (lends and not one.job.preemptible):
            continue
        if claims.owes(one.job.team, claimant.team, need):
            found.add(one.job.id)
            claims.take(one.job, -1)
    for one in snapshot.running:
        if one.job.id in found:
            claims.take(one.job)
    return found


class NoLivelock(Invariant):
    """Once nothing more comes, everything that could end alone ends in time."""

    name = "no livelock"
    promise = (
        "After the last thing that comes from outside, every job that could run alone ends within"
        " a stated number of times the length of all work one after the other."
    )

    def on_end(self, rest: FinalState) -> Iterator[str]:
        """Look who is left."""
        snapshot = rest.snapshot
        for one in snapshot.running:
            yield f"{one.job.id} still runs, started at {clock(one.started_at)}{_words(rest)}"
        for waiting in snapshot.waiting:
            alone = replace(
                snapshot,
                waiting=(waiting,),
                running=(),
                policy=replace(snapshot.policy),
            )
            if decide(alone).admissions:
                yield f"{waiting.job.id} still waits{_words(rest)}"


def _words(rest: FinalState) -> str:
    return (
        f" at {clock(rest.at)}, although all work left would have taken {rest.serial_seconds:.0f}"
        " s one after the other"
    )


FAIRNESS: tuple[type[Invariant], ...] = (NoInversion, BoundedWait, QuotaBack, NoLivelock)
