"""What decisions must keep to, checked once more before anyone acts on them.

Owns `prove`, which counts a pass's decisions again by the stated rules and names each one that is
broken, and `hold_to_rules`, which decides again without stops where one is. Both look only at the
snapshot and the decisions, and cost time in proportion to what runs and what is decided. It asks
what is necessary, never what is best: sound decisions always pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from trackyard.core.job import Job
from trackyard.core.node import Node
from trackyard.core.reasons import Code, Reason
from trackyard.core.resources import WHOLE, NodeShare, Placement
from trackyard.scheduling.decisions import Admission, Cause, Decisions, Ranking, Stop
from trackyard.scheduling.forecast.durations import level_of
from trackyard.scheduling.policy import HOUR, NO_PREEMPTION
from trackyard.scheduling.scheduler import decide, uncollected
from trackyard.scheduling.shares.departments import TeamUse, Tree
from trackyard.scheduling.snapshot import ActiveJob, Snapshot, WaitingJob


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """A decision that breaks a rule."""

    #: the job that would start or stop
    job: str
    #: what is wrong with that
    sentence: str


def prove(snapshot: Snapshot, decisions: Decisions) -> list[Fault]:
    """Return the decisions that break a rule; none does where all is well."""
    if not decisions.admissions and not decisions.stops:
        return []
    proof = _Proof(snapshot, decisions)
    found = (*proof.stops(), *proof.starts(), *proof.loans())
    return [Fault(job=job, sentence=sentence) for job, sentence in found]


def hold_to_rules(snapshot: Snapshot, decisions: Decisions) -> tuple[Decisions, list[Fault]]:
    """Return decisions that break no rule, and what was wrong with those given.

    Where a rule is broken nobody is stopped in this pass; a start that breaks one even then is
    left out, and its job says so.
    """
    with uncollected():
        faults = prove(snapshot, decisions)
    if not faults:
        return decisions, []
    careful = replace(snapshot, policy=replace(snapshot.policy, preemption=NO_PREEMPTION))
    decisions = decide(careful)
    refused = {fault.job: fault.sentence for fault in prove(careful, decisions)}
    return (_without(decisions, refused) if refused else decisions), faults


def _without(decisions: Decisions, refused: dict[str, str]) -> Decisions:
    line = decisions.line
    aside = {job: (Reason(code=Code.SET_ASIDE, what=words),) for job, words in refused.items()}
    return replace(
        decisions,
        admissions=tuple(one for one in decisions.admissions if one.job not in refused),
        reasons={**decisions.reasons, **aside},
        line=Ranking(lambda: (*line, *sorted(aside))),
    )


class _Proof:
    """One count of a pass: what runs, then what starts, each looked at once."""

    def __init__(self, snapshot: Snapshot, decisions: Decisions) -> None:
        self._snapshot = snapshot
        self._decisions = decisions
        named = {one.job for one in decisions.admissions}
        named.update(stop.for_job for stop in decisions.stops)
        told = {stop.job for stop in decisions.stops}
        gone = {stop.job for stop in decisions.stops if stop.grace_seconds == 0}
        self._waiting = {one.job.id: one for one in snapshot.waiting if one.job.id in named}
        self._running = {one.job.id: one for one in snapshot.running if one.job.id in told}
        self._gone = [one for job, one in self._running.items() if job in gone]
        self._rooms = self._touched_rooms()
        running = [one.job for one in snapshot.running]
        self._limits = _Limits(snapshot, running)
        for one in self._gone:
            _free(self._rooms, one.placement)
            self._limits.count(one.job, -1)

    def _touched_rooms(self) -> dict[str, _Room]:
        """The nodes that decisions are about, with what runs there."""
        placements = [one.placement for one in self._decisions.admissions]
        placements += [one.placement for one in self._running.values()]
        return self._rooms_of({node for one in placements for node in one.nodes})

    def _rooms_of(self, names: set[str]) -> dict[str, _Room]:
        rooms = {node.id: _Room(node) for node in self._snapshot.nodes if node.id in names}
        for one in self._snapshot.running:
            placement = one.placement
            for share in placement.shares:
                if share.node in rooms:
                    rooms[share.node].take(share, exclusive=placement.exclusive)
        return rooms

    def starts(self) -> Iterator[tuple[str, str]]:
        """Count the starts one after the other; one that breaks a rule is not counted."""
        seen: set[str] = set()
        for admission in self._decisions.admissions:
            waiting = self._waiting.get(admission.job)
            if waiting is None or admission.job in seen:
                yield admission.job, "it would start without waiting, or twice"
                continue
            seen.add(admission.job)
            job = waiting.job
            fault = _misplaced(job, admission, self._rooms) or self._limits.broken_by(job)
            if fault:
                yield job.id, fault
                continue
            _take(self._rooms, admission.placement)
            self._limits.count(job)

    def stops(self) -> Iterator[tuple[str, str]]:
        """Look at each stop, and at what comes of all stops for one job."""
        plans: dict[str, list[ActiveJob]] = {}
        seen: set[str] = set()
        for stop in self._decisions.stops:
            victim, claimant = self._running.get(stop.job), self._waiting.get(stop.for_job)
            if victim is None or claimant is None or stop.job in seen:
                yield (
                    stop.job,
                    "it does not run, is stopped twice, or for a job that does not wait",
                )
                continue
            seen.add(stop.job)
            plans.setdefault(stop.for_job, []).append(victim)
            fault = _wrongful(self._snapshot, stop, victim, claimant)
            if not fault and stop.cause is Cause.RECLAIMED:
                fault = self._limits.beyond(claimant.job, victim.job)
            if fault:
                yield stop.job, f"it would be stopped for {stop.for_job}, but {fault}"
        for name, victims in plans.items():
            if not self._has_room(self._waiting[name].job, victims):
                words = f"{name}, for which it would be stopped, has no room after that"
                yield from ((victim.job.id, words) for victim in victims)

    def _has_room(self, job: Job, victims: list[ActiveJob]) -> bool:
        """Say whether a job has room once these are gone, whatever else starts or stops."""
        if self._could_hold(job, victims, self._rooms):
            return True
        rooms = self._rooms_of({node.id for node in self._snapshot.nodes})
        for one in self._gone:
            _free(rooms, one.placement)
        return self._could_hold(job, victims, rooms)

    def _could_hold(self, job: Job, victims: list[ActiveJob], rooms: dict[str, _Room]) -> bool:
        leaving = [one for one in victims if one not in self._gone]
        for one in leaving:
            _free(rooms, one.placement)
        enough = sum(room.could_hold(job) for room in rooms.values()) >= job.request.nodes
        for one in leaving:
            _take(rooms, one.placement)
        return enough

    def loans(self) -> Iterator[tuple[str, str]]:
        """Name jobs taken back for a quota although their team holds nothing of it.

        What a pass starts only adds to what is held, so this looks at what is held in the end.
        """
        for one in self._gone:
            self._limits.count(one.job)
        for stop in self._decisions.stops:
            victim, claimant = self._running.get(stop.job), self._waiting.get(stop.for_job)
            if stop.cause is not Cause.RECLAIMED or victim is None or claimant is None:
                continue
            if not self._limits.owes(victim.job, claimant.job):
                yield stop.job, f"its team holds nothing that is promised to {stop.for_job}"


class _Room:
    """What is left of one node."""

    __slots__ = ("cpu", "gpu", "is_closed", "is_up", "memory", "tenants")

    def __init__(self, node: Node) -> None:
        self.gpu = [WHOLE] * len(node.gpus)
        self.cpu = node.cpu_milli
        self.memory = node.memory_bytes
        self.tenants = 0
        self.is_closed = False
        self.is_up = node.state.takes_work

    def take(self, share: NodeShare, *, exclusive: bool) -> None:
        for gpu in share.gpus:
            if gpu < len(self.gpu):
                self.gpu[gpu] -= share.gpu_milli
        self.cpu -= share.cpu_milli
        self.memory -= share.memory_bytes
        self.tenants += 1
        self.is_closed |= exclusive

    def fits(self, share: NodeShare, *, exclusive: bool) -> bool:
        """Say whether a share is free here."""
        gpus = self.gpu
        return (
            self.is_up
            and not self.is_closed
            and not (exclusive and self.tenants)
            and (not share.cpu_milli or share.cpu_milli <= self.cpu)
            and (not share.memory_bytes or share.memory_bytes <= self.memory)
            and all(0 <= at < len(gpus) and share.gpu_milli <= gpus[at] for at in share.gpus)
        )

    def could_hold(self, job: Job) -> bool:
        """Say whether there is room for one node's part of a job, by amounts alone."""
        ask = job.request
        enough = sum(free >= ask.gpu_milli for free in self.gpu) if ask.gpus else 0
        return (
            self.is_up
            and not self.is_closed
            and not (ask.exclusive and self.tenants)
            and enough >= ask.gpus
            and (not ask.cpu_milli or ask.cpu_milli <= self.cpu)
            and (not ask.memory_bytes or ask.memory_bytes <= self.memory)
        )


def _take(rooms: dict[str, _Room], placement: Placement) -> None:
    for share in placement.shares:
        room = rooms.get(share.node)
        if room is not None:
            room.take(share, exclusive=placement.exclusive)


def _misplaced(job: Job, admission: Admission, rooms: dict[str, _Room]) -> str:
    """Say what is wrong with where a job would start; empty: nothing is."""
    ask, placement = job.request, admission.placement
    names = {share.node for share in placement.shares}
    if len(names) != ask.nodes or len(placement.shares) != ask.nodes:
        return f"it asks for {ask.nodes} nodes and would get {len(placement.shares)}"
    for share in placement.shares:
        room = rooms.get(share.node)
        if len(set(share.gpus)) != ask.gpus:
            return f"it asks for {ask.gpus} GPUs on each node and would get {len(share.gpus)}"
        if room is None or not room.fits(share, exclusive=placement.exclusive):
            return f"node {share.node} has no room for it"
    return ""


class _Limits:
    """Quotas and limits of teams, departments and queues, counted from what runs."""

    def __init__(self, snapshot: Snapshot, held: Sequence[Job]) -> None:
        total = sum(len(node.gpus) for node in snapshot.nodes) * WHOLE
        self._tree = Tree(snapshot.teams, total)
        self._queues = {queue.name: queue for queue in snapshot.queues}
        self._milli: Counter[str] = Counter()
        self._has_quotas = any(team.quota_gpus is not None for team in snapshot.teams)
        sums: dict[tuple[str, str, bool], list[int]] = {}
        for job in held:
            request = job.request
            known = sums.setdefault((job.team, job.queue, job.preemptible), [0, 0])
            known[0] += request.nodes * request.gpus * request.gpu_milli
            known[1] += 0 if job.part_of else 1
        for (team, queue, preemptible), (milli, running) in sums.items():
            self.team(team).add(milli, running=running, is_fixed=not preemptible)
            self._milli[queue] += milli

    def team(self, name: str) -> TeamUse:
        """Return what a team holds."""
        return self._tree.teams.get(name) or self._tree.add(name)

    def broken_by(self, job: Job) -> str:
        """Say which limit a job's start would break; empty: none."""
        team, need = self.team(job.team), job.request.gpu_milli_total
        for one in team.path:
            if need and one.milli + need > one.limit:
                return f"team {one.name} would hold more than its limit"
            if one.max_running is not None and not job.part_of and one.running >= one.max_running:
                return f"team {one.name} would run more jobs than its limit"
        if need and self._has_quotas and not job.preemptible:
            more, due = team.growth(need)
            if due > 0 and self._tree.root.committed + more > self._tree.capacity:
                return "it may not be preempted and would hold GPUs promised to others"
        queue = self._queues.get(job.queue)
        most = None if queue is None else queue.quota_gpus
        if most is not None and need and self._milli[job.queue] + need > most * WHOLE:
            return f"queue {job.queue} would hold more than its limit"
        return ""

    def count(self, job: Job, sign: int = 1) -> None:
        """Count a job that starts, or with -1 one that is gone."""
        milli = sign * job.request.gpu_milli_total
        running = 0 if job.part_of else sign
        self.team(job.team).add(milli, running=running, is_fixed=not job.preemptible)
        self._milli[job.queue] += milli

    def beyond(self, claimant: Job, victim: Job) -> str:
        """Say whether a job is beyond the quota that another would be stopped for."""
        own, theirs = self.team(claimant.team), self.team(victim.team)
        if own.is_within(claimant.request.gpu_milli_total, beside=theirs):
            return ""
        return "that is beyond the quota of its own team"

    def owes(self, victim: Job, claimant: Job) -> bool:
        """Say whether a job's team holds what is promised to another's."""
        return self.team(victim.team).is_debtor(self.team(claimant.team))


def _wrongful(snapshot: Snapshot, stop: Stop, victim: ActiveJob, claimant: WaitingJob) -> str:
    """Say why a job may not be stopped for another; empty: it may."""
    rules, now = snapshot.policy.preemption, snapshot.now
    ours, theirs = victim.job, claimant.job
    if not ours.preemptible:
        return "it may not be preempted"
    if victim.stops_at is not None:
        return "it is stopping already"
    if sum(at > now - HOUR for at in victim.stops) >= rules.max_stops_per_hour:
        return f"it was stopped {rules.max_stops_per_hour} times within the hour"
    if stop.cause is Cause.HIGHER_CLASS:
        return "" if theirs.priority > ours.priority else "that is of no higher class"
    if theirs.priority < ours.priority:
        return "that is of a lower class"
    ran = now - victim.started_at
    if theirs.priority == ours.priority and ran < _first_minutes(snapshot, victim):
        return "it has not run for its first minutes"
    return _no_gain(snapshot, victim, claimant) if stop.cause is Cause.YIELDS_TO_SHORTER else ""


def _first_minutes(snapshot: Snapshot, victim: ActiveJob) -> float:
    least = snapshot.policy.preemption.min_run_seconds * 2.0 ** min(len(victim.stops), 16)
    # Sums of seconds are not exact.
    return least - 1e-3


def _no_gain(snapshot: Snapshot, victim: ActiveJob, claimant: WaitingJob) -> str:
    """Say why a job may not yield to another as the shorter one; empty: it may."""
    rules, ours, theirs = snapshot.policy.preemption, victim.job, claimant.job
    if ours.priority != theirs.priority:
        return "that is of another class"
    if _is_alike(ours, theirs):
        return "both are of one array, name or command"
    if victim.stopped_for:
        return f"{victim.stopped_for}, which it was stopped for before, has not ended"
    if victim.checkpoint_at is None and not victim.attained_seconds and victim.save_seconds != 0:
        return "it never saved"
    lost = 0.0
    if victim.save_seconds != 0:
        lost = snapshot.now - max(victim.started_at, victim.checkpoint_at or 0.0)
    ran = victim.attained_seconds + snapshot.now - victim.started_at
    rest = (
        snapshot.durations.rows(ours)[level_of(ran)]
        if ours.estimate_seconds is None
        else ours.estimate_seconds - ran
    )
    if ours.time_limit_seconds is not None:
        rest = min(rest, victim.started_at + ours.time_limit_seconds - snapshot.now)
    if rest <= rules.loss_ratio * (lost + rules.restart_seconds):
        return f"the stop would lose {lost:.0f} s of work, and it needs but {rest:.0f} s more"
    return ""


def _is_alike(one: Job, other: Job) -> bool:
    return bool(
        (one.array and one.array == other.array)
        or (one.command and one.command == other.command)
        or (one.name and (one.team, one.user, one.name) == (other.team, other.user, other.name))
    )


def _free(rooms: dict[str, _Room], placement: Placement) -> None:
    for share in placement.shares:
        room = rooms.get(share.node)
        if room is None:
            continue
        for gpu in share.gpus:
            if gpu < len(room.gpu):
                room.gpu[gpu] += share.gpu_milli
        room.cpu += share.cpu_milli
        room.memory += share.memory_bytes
        room.tenants -= 1
        room.is_closed &= not placement.exclusive
