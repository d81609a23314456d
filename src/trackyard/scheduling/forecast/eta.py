"""When a waiting job will start, and what a job not yet submitted would meet.

Owns `forecast`, `what_if` and `lesser`. They run the very scheduler that decides, forward in
time, with foreseen run times in place of real ones. They promise nothing: jobs still to come
are not in the snapshot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import inf

from trackyard.core.job import Job
from trackyard.core.reasons import Reason, in_singular, stands_in_line
from trackyard.core.resources import WHOLE, Placement, ResourceRequest
from trackyard.scheduling.forecast.outlook import PACES, end_of, runs_on
from trackyard.scheduling.policy import PreemptionRules
from trackyard.scheduling.scheduler import PassScheduler, decide
from trackyard.scheduling.snapshot import Snapshot, WaitingJob
from trackyard.scheduling.state import HeldJob

#: Events run forward before giving up on a forecast.
_MOST_EVENTS = 20_000
#: Seconds that stand for a run time without any bound.
_AGES = 1e9


@dataclass(frozen=True, kw_only=True, slots=True)
class StartForecast:
    """A predicted start; None where none is in sight."""

    #: when jobs end as soon as they well may
    earliest: float | None
    #: when jobs end as expected
    expected: float | None
    #: when jobs use all of the time they may
    latest: float | None
    #: 0 (guesses) to 1 (stated run times)
    confidence: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SmallerRequest:
    """A lesser request that would start at once."""

    #: the request
    request: ResourceRequest
    #: its time limit, where a shorter one is what helps
    time_limit_seconds: float | None
    #: say it to a person
    sentence: str
    #: where it would run
    placement: Placement


@dataclass(frozen=True, kw_only=True, slots=True)
class SubmissionForecast:
    """What a job not yet submitted would meet."""

    #: it would start at once, there
    placement: Placement | None
    #: why it would wait, dominant first; empty when it would start
    reasons: tuple[Reason, ...]
    #: when it would start
    forecast: StartForecast
    #: the largest lesser requests that would start now, at most a few
    smaller: tuple[SmallerRequest, ...]
    #: its place among the jobs that start when their turn comes, 1 is next; None: not among them
    position: int | None = None
    #: how many others are among them
    in_line: int = 0


def forecast(
    snapshot: Snapshot, jobs: Collection[str], *, most_events: int = _MOST_EVENTS
) -> dict[str, StartForecast]:
    """Predict when these waiting jobs start by running the policy forward."""
    wanted = frozenset(jobs)
    confidence = {
        one.job.id: snapshot.durations.estimate(one.job).confidence
        for one in snapshot.waiting
        if one.job.id in wanted
    }
    outlooks = {pace: _run_forward(snapshot, wanted, pace, most_events) for pace in PACES}
    early, middle, late = (outlooks[pace] for pace in PACES)
    trust = _trust(snapshot)
    answers = {}
    for job in wanted:
        known = [outlook.get(job) for outlook in (early, middle, late)]
        moments = [moment for moment in known if moment is not None]
        answers[job] = StartForecast(
            earliest=min(moments, default=None),
            expected=middle.get(job),
            latest=max(moments) if len(moments) == len(known) else None,
            confidence=min(confidence.get(job, 0.0), 1.0) * trust,
        )
    return answers


def what_if(
    snapshot: Snapshot, job: Job, *, most_events: int = _MOST_EVENTS
) -> SubmissionForecast:
    """Say what this job would meet if it were submitted now, and what less would start at once."""
    job = replace(job, submitted_at=min(job.submitted_at or snapshot.now, snapshot.now))
    asked = replace(snapshot, waiting=(*snapshot.waiting, WaitingJob(job=job)))
    decisions = decide(asked)
    for admission in decisions.admissions:
        if admission.job == job.id:
            now = snapshot.now
            sure = StartForecast(earliest=now, expected=now, latest=now, confidence=1.0)
            return SubmissionForecast(
                placement=admission.placement, reasons=(), forecast=sure, smaller=()
            )
    ahead = forecast(asked, (job.id,), most_events=most_events)[job.id]
    line = [one for one in decisions.line if stands_in_line(decisions.reasons.get(one))]
    return SubmissionForecast(
        placement=None,
        reasons=decisions.reasons[job.id],
        forecast=ahead,
        smaller=tuple(_smaller(snapshot, job)),
        position=line.index(job.id) + 1 if job.id in line else None,
        in_line=len(line) - (job.id in line),
    )


def lesser(snapshot: Snapshot, job_id: str) -> tuple[SmallerRequest, ...]:
    """Say which lesser requests of a waiting job would start at once in its place."""
    own = [one for one in snapshot.waiting if one.job.id == job_id]
    others = tuple(one for one in snapshot.waiting if one.job.id != job_id)
    if not own:
        return ()
    return tuple(_smaller(replace(snapshot, waiting=others), own[0].job))


def _run_forward(
    snapshot: Snapshot, wanted: frozenset[str], pace: float, most_events: int
) -> dict[str, float]:
    """Let the scheduler work on with foreseen run times; return the starts of those wanted."""
    policy = replace(snapshot.policy, preemption=_immediate(snapshot.policy.preemption))
    scheduler = PassScheduler(replace(snapshot, policy=policy))
    ends: list[tuple[float, int, str]] = []
    number = 0
    for held in scheduler.state.held.values():
        number += 1
        end = end_of(held, snapshot.now, snapshot.durations, pace)
        heappush(ends, (end, number, held.job.id))
    starts: dict[str, float] = {}
    current: dict[str, int] = {name: order for _, order, name in ends}
    now, is_chance = snapshot.now, False
    jobs = [one.job for one in snapshot.waiting if one.job.id in wanted]
    for _ in range(most_events):
        # Nothing came or went at a mere chance: the whole line must be looked at all the same.
        result = scheduler.step(now, explain=is_chance)
        for held, _, _ in result.stopped:
            current.pop(held.job.id, None)
            scheduler.submit(_stopped(held, now))
        for pending, held, _ in result.started:
            number += 1
            current[held.job.id] = number
            bound = min(pending.bound, _AGES)
            runs = runs_on(snapshot.durations, held.job, held.attained, bound, pace)
            heappush(ends, (now + runs, number, held.job.id))
            if held.job.id in wanted and held.job.id not in starts:
                starts[held.job.id] = now
        if len(starts) == len(wanted):
            break
        if not result.stopped:
            open_ = [job for job in jobs if job.id not in starts]
            chance = _next_chance(scheduler, open_, now)
            now = _next_moment(scheduler, ends, current, chance, now)
            is_chance = now == chance
            if now == inf:
                break
    return starts


def _next_moment(
    scheduler: PassScheduler,
    ends: list[tuple[float, int, str]],
    current: dict[str, int],
    chance: float,
    now: float,
) -> float:
    """Go to the next end of a job, change of a lease or chance to stop someone; end what ends."""
    while ends and current.get(ends[0][2]) != ends[0][1]:
        heappop(ends)
    change = min(
        scheduler.state.windows.changes_after(now),
        scheduler.next_release(now),
        chance,
    )
    if not ends or change < ends[0][0]:
        return change
    now = ends[0][0]
    while ends and ends[0][0] <= now:
        _, number, name = heappop(ends)
        if current.get(name) == number:
            del current[name]
            scheduler.finish(name, at=now)
    return now


def _next_chance(scheduler: PassScheduler, wanted: Sequence[Job], now: float) -> float:
    """When a running job may first be stopped, or one of those wanted may first have it so."""
    rules = scheduler.state.policy.preemption
    if not rules.is_on:
        return inf
    moments = [
        held.started_at + rules.min_run_seconds * 2 ** min(len(held.stops), 16)
        for held in scheduler.state.held.values()
        if held.job.preemptible
    ]
    moments += [job.submitted_at + rules.reclaim_after_seconds for job in wanted]
    return min((moment for moment in moments if moment > now), default=inf)


def _stopped(held: HeldJob, now: float) -> WaitingJob:
    """A job that was stopped, with the run time that it goes on from."""
    kept = now - held.started_at - held.lost_seconds(now)
    return WaitingJob(
        job=held.job,
        attained_seconds=held.attained + kept,
        save_seconds=held.save_seconds,
        stops=(*held.stops, now),
    )


def _immediate(preemption: PreemptionRules) -> PreemptionRules:
    return replace(preemption, grace_seconds=0.0)


def _trust(snapshot: Snapshot) -> float:
    """How far the run times of what runs now are known."""
    estimates = [snapshot.durations.estimate(one.job).confidence for one in snapshot.running]
    return sum(estimates) / len(estimates) if estimates else 1.0


def _smaller(snapshot: Snapshot, job: Job) -> Iterator[SmallerRequest]:
    """Try lesser requests, the largest first, and yield those that would start now."""
    found = 0
    for request, limit, sentence in _lesser(snapshot, job):
        tried = replace(
            job, id=f"{job.id}?", request=request, time_limit_seconds=limit, estimate_seconds=None
        )
        if limit is None:
            tried = replace(tried, estimate_seconds=job.estimate_seconds)
        decisions = decide(replace(snapshot, waiting=(*snapshot.waiting, WaitingJob(job=tried))))
        for admission in decisions.admissions:
            if admission.job == tried.id:
                found += 1
                yield SmallerRequest(
                    request=request,
                    time_limit_seconds=limit,
                    sentence=sentence,
                    placement=admission.placement,
                )
        if found >= 2:
            return


def _lesser(snapshot: Snapshot, job: Job) -> Iterator[tuple[ResourceRequest, float | None, str]]:
    request = job.request
    if request.gpu_types:
        yield replace(request, gpu_types=()), job.time_limit_seconds, "any GPU type: starts now"
    for seconds in _limits(snapshot, job):
        words = f"a time limit of {seconds / 60:.0f} min: starts now"
        yield request, seconds, words
    nodes = request.nodes // 2
    while nodes >= 1:
        total = nodes * request.gpus
        yield (
            replace(request, nodes=nodes),
            job.time_limit_seconds,
            in_singular(f"drop to {nodes} nodes ({total} GPUs): starts now"),
        )
        nodes //= 2
    gpus = request.gpus // 2
    while gpus >= 1:
        smaller = _with_less(job, gpus * request.gpu_milli, nodes=1, gpus=gpus)
        yield smaller, job.time_limit_seconds, in_singular(f"drop to {gpus} GPUs: starts now")
        gpus //= 2
    if request.gpus and request.gpu_milli == WHOLE:
        half = _with_less(job, WHOLE // 2, nodes=1, gpus=1, gpu_milli=WHOLE // 2)
        yield half, job.time_limit_seconds, "drop to half a GPU: starts now"


def _with_less(job: Job, milli: int, **changes: int) -> ResourceRequest:
    """Return its request with fewer GPUs on each node; defaults follow them."""
    request = replace(job.request, **changes)  # type: ignore[arg-type]
    whole = max(job.request.gpu_milli_per_node, 1)
    if job.default_cpus:
        request = replace(request, cpu_milli=request.cpu_milli * milli // whole)
    if job.default_memory:
        request = replace(request, memory_bytes=request.memory_bytes * milli // whole)
    return request


def _limits(snapshot: Snapshot, job: Job) -> Iterator[float]:
    """Run times that would end before a lease, longest first."""
    now = snapshot.now
    starts = sorted({lease.starts_at - now for lease in snapshot.leases if lease.starts_at > now})
    stated = job.time_limit_seconds or inf
    yield from (seconds for seconds in reversed(starts) if 60 <= seconds < stated)
