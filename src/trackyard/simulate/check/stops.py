"""Preemption that always gains: who may be stopped, for whom, how often, and what comes of it.

Owns the invariants about stops. What jobs wait for and how long is `fairness`'s.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from trackyard.core.job import Job
from trackyard.core.resources import WHOLE
from trackyard.scheduling import ActiveJob, Cause, Stop
from trackyard.simulate.check.claims import claims_after
from trackyard.simulate.check.history import CheckHistory, clock
from trackyard.simulate.check.room import Room, foreseen_end
from trackyard.simulate.check.watch import Fact, Invariant, Occurrence, PassRecord, Promises

HOUR = 3600.0


def _kind(job: Job) -> tuple[object, ...]:
    """What jobs have in common that nothing tells apart beforehand."""
    return (
        job.priority,
        job.request,
        job.name,
        job.command,
        job.group,
        job.estimate_seconds,
        job.time_limit_seconds,
    )


def _has_saved(one: ActiveJob) -> bool:
    return one.checkpoint_at is not None or one.attained_seconds > 0


class RightfulStops(Invariant):
    """Each stop has a cause that is true, and work that was never saved yields to rights alone."""

    name = "rightful stops"
    promise = (
        "Only preemptible jobs are stopped, for a cause that is true, and for one of their class"
        " only after their first minutes, twice as many after each stop; equals never stop equals;"
        " who never saved is stopped only for a higher class or a quota's owner."
    )

    def on_look(self, look: PassRecord) -> Iterator[str]:
        """Look at each stop of a pass."""
        running = {one.job.id: one for one in look.snapshot.running}
        waiting = {one.job.id: one.job for one in look.snapshot.waiting}
        for stop in look.decisions.stops:
            victim, claimant = running.get(stop.job), waiting.get(stop.for_job)
            if victim is None or claimant is None:
                yield f"{stop.job} is stopped for {stop.for_job}, one of which is not there"
                continue
            yield from self._one(look, stop, victim, claimant)

    def _one(
        self, look: PassRecord, stop: Stop, victim: ActiveJob, claimant: Job
    ) -> Iterator[str]:
        snapshot = look.snapshot
        name = f"{stop.job} is stopped for {claimant.id}"
        if not victim.job.preemptible:
            yield f"{name}, but may not be preempted"
        if victim.stops_at is not None:
            yield f"{name}, but is stopping already"
        ran = snapshot.now - victim.started_at
        least = snapshot.policy.preemption.min_run_seconds * 2 ** len(victim.stops)
        if claimant.priority <= victim.job.priority and ran < least:
            yield f"{name} after {ran:g} s, before its first minutes were over"
        yield from _false_cause(look, stop, victim, claimant)
        if stop.cause is Cause.YIELDS_TO_SHORTER:
            if _kind(victim.job) == _kind(claimant):
                yield f"{name}, its equal"
            if not _has_saved(victim):
                yield f"{name}, which has no higher right, and it never saved"


def _false_cause(look: PassRecord, stop: Stop, victim: ActiveJob, claimant: Job) -> Iterator[str]:
    name = f"{stop.job} is stopped for {claimant.id}"
    if stop.cause is Cause.HIGHER_CLASS and claimant.priority <= victim.job.priority:
        yield f"{name} of a class that is not higher"
    if stop.cause is Cause.YIELDS_TO_SHORTER and claimant.priority != victim.job.priority:
        yield f"{name} for being shorter, across classes"
    if stop.cause is Cause.RECLAIMED:
        claims = claims_after(look)
        if not claims.owes(victim.job.team, claimant.team, 0):
            yield f"{name} as borrowed, but its team is within its quota"
        elif not claims.owes(victim.job.team, claimant.team, claimant.request.gpu_milli_total):
            yield f"{name} as borrowed, but the claimant's team would go beyond its own quota"


class StopsGain(Invariant):
    """What a stop for a shorter job loses is less than what the shorter job wins by it."""

    name = "stops gain"
    promise = (
        "A job yields to a shorter one only if the work lost and the restart, in GPU-seconds, are"
        " less than what it would wait for those it has stopped to end, in GPU-seconds."
    )

    def on_look(self, look: PassRecord) -> Iterator[str]:
        """Weigh all stops for one claimant together."""
        snapshot = look.snapshot
        running = {one.job.id: one for one in snapshot.running}
        waiting = {one.job.id: one.job for one in snapshot.waiting}
        plans: dict[str, list[Stop]] = defaultdict(list)
        for stop in look.decisions.stops:
            if stop.job in running and stop.for_job in waiting:
                plans[stop.for_job].append(stop)
        for name, stops in plans.items():
            if snapshot.leases or any(one.cause is not Cause.YIELDS_TO_SHORTER for one in stops):
                continue
            claimant = waiting[name]
            last = max(foreseen_end(running[stop.job], snapshot) for stop in stops)
            spared = max(0.0, last - look.at - stops[0].grace_seconds)
            won = spared * max(claimant.request.total_gpus, 0.1)
            lost = sum(self._lost(running[stop.job], look.at) for stop in stops)
            if lost >= won:
                names = ", ".join(stop.job for stop in stops)
                yield (
                    f"stopping {names} for {name} loses {lost:.0f} GPU-seconds and spares"
                    f" {won:.0f}"
                )

    def _lost(self, victim: ActiveJob, now: float) -> float:
        saved = max(victim.started_at, victim.checkpoint_at or victim.started_at)
        gpus = max(victim.placement.gpu_milli_total / WHOLE, 0.1)
        return (now - saved + self.promises.restart_seconds(gpus)) * gpus


class FewStops(Invariant):
    """Nobody is stopped over and over."""

    name = "few stops"
    promise = (
        "A job is stopped at most a stated number of times an hour, and not a second time for a"
        " shorter one before the one it was first stopped for has ended."
    )

    def __init__(self, history: CheckHistory, promises: Promises) -> None:
        super().__init__(history, promises)
        self._stops: dict[str, list[float]] = defaultdict(list)
        #: by victim the claimant that it was last stopped for and that has not ended
        self._owes: dict[str, str] = {}

    def on_fact(self, fact: Fact) -> Iterable[str]:
        """Hear who ended."""
        if fact.came is Occurrence.ENDED:
            self._owes = {one: by for one, by in self._owes.items() if by != fact.subject}
        return ()

    def on_look(self, look: PassRecord) -> Iterator[str]:
        """Count the stops."""
        for stop in look.decisions.stops:
            times = self._stops[stop.job]
            times.append(look.at)
            recent = [at for at in times if at > look.at - HOUR]
            if len(recent) > self.promises.stops_per_hour:
                yield f"{stop.job} is stopped for the {len(recent)}th time within an hour"
            first = self._owes.get(stop.job)
            if first is not None and stop.cause is Cause.YIELDS_TO_SHORTER:
                yield (
                    f"{stop.job} is stopped for {stop.for_job} while {first}, for which it was"
                    " stopped before, has not ended"
                )
            self._owes.setdefault(stop.job, stop.for_job)


@dataclass(slots=True)
class _Claim:
    victims: list[str]
    asked_at: float
    due: float


class StopsServe(Invariant):
    """After a stop the job that it was for really starts, soon."""

    name = "stops serve"
    promise = (
        "Whoever others were stopped for starts within their grace and a pass, unless a job of a"
        " higher class comes and takes the room."
    )

    def __init__(self, history: CheckHistory, promises: Promises) -> None:
        super().__init__(history, promises)
        self._claims: dict[str, _Claim] = {}

    def on_fact(self, fact: Fact) -> Iterable[str]:
        """Forget claims that were served, or that the outside upset."""
        if fact.came in (Occurrence.STARTED, Occurrence.ENDED):
            self._claims.pop(fact.subject, None)
        elif fact.came is Occurrence.CHANGED:
            self._claims.clear()
        return ()

    def on_look(self, look: PassRecord) -> Iterator[str]:
        """Look whether anyone's time is over."""
        started = {one.job for one in look.decisions.admissions}
        classes = {one.job.id: one.job.priority for one in look.snapshot.waiting}
        best = max((classes[one] for one in started), default=-1)
        for name in [one for one in self._claims if classes.get(one, best) < best]:
            del self._claims[name]
        for name, claim in list(self._claims.items()):
            if name not in started and look.at > claim.due:
                del self._claims[name]
                reason = look.decisions.reasons.get(name, ())
                words = f": {reason[0].sentence}" if reason else ""
                yield (
                    f"{', '.join(claim.victims)} stopped for {name} at {clock(claim.asked_at)},"
                    f" and it still waits{words}"
                )
        due = look.at + self.promises.grace(look.snapshot.policy)
        for stop in look.decisions.stops:
            claim = self._claims.setdefault(stop.for_job, _Claim([], look.at, due))
            claim.victims.append(stop.job)
            claim.due = due


class NoCascade(Invariant):
    """One arrival stops no more than it needs, and those stopped stop nobody in turn."""

    name = "no cascade"
    promise = (
        "For one job no more are stopped than its room takes, and a job that was stopped makes"
        " nobody of its class stop for it."
    )

    def __init__(self, history: CheckHistory, promises: Promises) -> None:
        super().__init__(history, promises)
        self._served: dict[str, int] = defaultdict(int)
        #: victims whose first claimant has not ended
        self._owes: dict[str, str] = {}

    def on_fact(self, fact: Fact) -> Iterable[str]:
        """Hear who ended, and who starts anew after its own stop."""
        if fact.came is Occurrence.ENDED:
            self._owes = {one: by for one, by in self._owes.items() if by != fact.subject}
        if fact.came in (Occurrence.ENDED, Occurrence.REQUEUED):
            self._served.pop(fact.subject, None)
        return ()

    def on_look(self, look: PassRecord) -> Iterator[str]:
        """Count, and look whether each victim was needed."""
        running = {one.job.id: one for one in look.snapshot.running}
        waiting = {one.job.id: one for one in look.snapshot.waiting}
        plans: dict[str, list[Stop]] = defaultdict(list)
        for stop in look.decisions.stops:
            if stop.job in running and stop.for_job in waiting:
                plans[stop.for_job].append(stop)
        for name, stops in plans.items():
            self._served[name] += len(stops)
            most = _most_victims(waiting[name].job, [running[stop.job] for stop in stops])
            if self._served[name] > most:
                yield f"{self._served[name]} jobs were stopped for {name}, which needs {most}"
            yield from self._in_turn(name, stops)
            if len(plans) == 1 and not look.decisions.reservations:
                yield from _superfluous(look, waiting[name].job, stops)
        for stop in look.decisions.stops:
            self._owes.setdefault(stop.job, stop.for_job)

    def _in_turn(self, name: str, stops: list[Stop]) -> Iterator[str]:
        first = self._owes.get(name)
        if first is None:
            return
        for stop in stops:
            if stop.cause is Cause.YIELDS_TO_SHORTER:
                yield (
                    f"{name}, itself stopped for {first} which has not ended, has {stop.job}"
                    " stopped"
                )


def _most_victims(job: Job, victims: list[ActiveJob]) -> int:
    """Return how many a job may need to have stopped, by the smallest of them."""
    request = job.request
    if not request.gpus or request.cpu_milli or request.memory_bytes or request.exclusive:
        return 64
    least = min(one.job.request.gpu_milli for one in victims)
    return max(1, -(-request.gpu_milli_total // min(least, WHOLE)))


def _superfluous(look: PassRecord, claimant: Job, stops: list[Stop]) -> Iterator[str]:
    """Name victims without whose stop the claimant would have had its room as well."""
    snapshot, names = look.snapshot, {stop.job for stop in stops}
    if snapshot.leases or any(one.stops_for for one in snapshot.running):
        return
    if len(stops) == 1:
        return
    room = Room(snapshot.nodes)
    for one in snapshot.running:
        if one.job.id not in names:
            room.take(one.placement)
    for admission in look.decisions.admissions:
        room.take(admission.placement)
    if not room.fits(claimant.request):
        return
    for one in snapshot.running:
        if one.job.id in names:
            room.take(one.placement)
            if room.fits(claimant.request):
                yield f"{one.job.id} is stopped for {claimant.id}, which has room without that"
            room.take(one.placement, -1)


STOPS: tuple[type[Invariant], ...] = (
    RightfulStops,
    StopsGain,
    FewStops,
    StopsServe,
    NoCascade,
)
