"""The replay: jobs come, run for as long as they once did, and end; policy is in scheduling.

Owns the event loop, the cost of checkpoints and what each job lived through. All policy is in
scheduling: this only tells it what happened and does what it says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import inf
from zlib import crc32

from trackyard.core.job import Job
from trackyard.core.node import Node
from trackyard.core.resources import ResourceRequest
from trackyard.scheduling.forecast.durations import DurationModel
from trackyard.scheduling.passing import PassResult
from trackyard.scheduling.place.fragmentation import Fragmentation
from trackyard.scheduling.place.table import NodeTable
from trackyard.scheduling.policy import Policy
from trackyard.scheduling.scheduler import PassScheduler
from trackyard.scheduling.snapshot import MOST_STOPS, Queue, Snapshot, Team, WaitingJob
from trackyard.scheduling.state import HeldJob
from trackyard.simulate.overtaking import Overtaking
from trackyard.simulate.trace import JobTrace, TraceJob

#: Passes at one moment; each after the first follows a preemption.
_MOST_PASSES = 8
#: Points kept of the curves of use and waiting.
_CURVE_POINTS = 4000


@dataclass(frozen=True, kw_only=True, slots=True)
class Costs:
    """What stopping and resuming a job costs it, in seconds by size."""

    #: one GPU
    one: float = 7.0
    #: up to eight
    few: float = 30.0
    #: more
    many: float = 60.0

    def of(self, gpus: float) -> float:
        """Seconds to save and to load again."""
        if gpus <= 1:
            return self.one
        return self.few if gpus <= 8 else self.many


FREE = Costs(one=0.0, few=0.0, many=0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Habits:
    """How the users of a replay submit; the defaults are those of `yard submit`."""

    #: part of the jobs that may be stopped for others
    preemptible_share: float = 0.0
    #: seconds between their checkpoints, work since the last is lost; 0: they save when told to
    checkpoint_seconds: float = 1800.0
    #: part of the jobs that state their run time; the others are learned
    stated_share: float = 0.0
    #: stated run times are this many times the true ones
    overestimate: float = 1.0


#: Every job may be stopped at any time and loses nothing: the literature's idea of preemption.
EAGER = Habits(preemptible_share=1.0, checkpoint_seconds=0.0)


def is_among(job: str, share: float, salt: str) -> bool:
    """Say whether a job belongs to a part of all; the same job always does."""
    return crc32(f"{salt}{job}".encode()) < share * 2**32


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One replay: the policy, and what it may know."""

    #: the policy
    policy: Policy
    #: the scheduler knows true run times
    oracle: bool = False
    #: what users do
    habits: Habits = field(default_factory=Habits)
    #: price of a preemption
    costs: Costs = field(default_factory=Costs)
    #: tenants with quotas; empty: none
    teams: tuple[Team, ...] = ()
    #: lines
    queues: tuple[Queue, ...] = (Queue(),)


class ReplayedJob:
    """What one job of the trace lived through."""

    __slots__ = ("attained", "ended_at", "first_start", "left", "source", "stops", "wasted")

    def __init__(self, source: TraceJob) -> None:
        self.source = source
        self.left = source.duration
        self.attained = 0.0
        self.first_start = -1.0
        self.ended_at = -1.0
        self.stops: list[float] = []
        self.wasted = 0.0

    @property
    def preemptions(self) -> int:
        """How often it was stopped for others."""
        return len(self.stops)


@dataclass(slots=True)
class Replayed:
    """The outcome of a replay."""

    policy: str
    total_gpus: int
    jobs: list[ReplayedJob]
    #: GPU-seconds in use, and free while someone waited
    busy: float = 0.0
    idle_while_waiting: float = 0.0
    #: (time, GPUs in use, jobs waiting)
    curve: list[tuple[float, float, int]] = field(default_factory=list)
    passes: int = 0
    #: ids of jobs that can never run on this cluster
    impossible: list[str] = field(default_factory=list)


class Replay:
    """One run of a trace under a setting."""

    def __init__(
        self,
        trace: JobTrace,
        nodes: tuple[Node, ...],
        setting: Setting,
        *,
        overtaking: Overtaking | None = None,
    ) -> None:
        self._setting = setting
        #: hears who waits and who starts, where someone wants to know
        self._overtaking = overtaking
        self._jobs = [ReplayedJob(job) for job in trace.jobs]
        self._by_id = {lived.source.id: lived for lived in self._jobs}
        self._durations = DurationModel()
        self._requests = ReplayRequests(nodes)
        policy = setting.policy
        # Victims save while the clock stands still; the price is charged when they resume.
        self._grace = policy.preemption.grace_seconds
        policy = replace(policy, preemption=replace(policy.preemption, grace_seconds=0.0))
        snapshot = Snapshot(
            now=0.0,
            nodes=nodes,
            teams=setting.teams,
            queues=setting.queues,
            durations=self._durations,
            policy=policy,
        )
        self._scheduler = PassScheduler(snapshot, keep_fragmentation=False)
        self._scheduler.state.fragmentation = self._requests.fragmentation(
            trace, self._scheduler.state.table
        )
        self._ends: list[tuple[float, int, str]] = []
        self._started: dict[str, tuple[float, int]] = {}
        self._core: dict[str, Job] = {}
        self._starts = 0
        self._in_use = 0.0
        self._total = sum(len(node.gpus) for node in nodes)
        self._waiting = 0
        self.outcome = Replayed(setting.policy.name, self._total, self._jobs)
        self._curve_every = max(2 * len(self._jobs) // _CURVE_POINTS, 1)

    def run(self, progress: Callable[[int], None] | None = None) -> Replayed:
        """Replay to the end."""
        jobs, outcome = self._jobs, self.outcome
        at, done, now, events = 0, 0, 0.0, 0
        while at < len(jobs) or self._ends:
            arrival = jobs[at].source.submitted_at if at < len(jobs) else inf
            end = self._next_end()
            moment = min(arrival, end)
            if moment == inf:
                break
            self._pass_time(moment - now)
            now = moment
            done += self._finish_until(now)
            while at < len(jobs) and jobs[at].source.submitted_at <= now:
                self._submit(jobs[at])
                at += 1
            self._decide(now)
            events += 1
            if events % self._curve_every == 0:
                outcome.curve.append((now, self._in_use, self._waiting))
            if progress is not None and events % 1024 == 0:
                progress(done)
        outcome.impossible = [lived.source.id for lived in jobs if lived.ended_at < 0]
        return outcome

    def _next_end(self) -> float:
        while self._ends:
            end, start, name = self._ends[0]
            if self._started.get(name, (0.0, -1))[1] == start:
                return end
            heappop(self._ends)
        return inf

    def _pass_time(self, seconds: float) -> None:
        self.outcome.busy += self._in_use * seconds
        if self._waiting:
            self.outcome.idle_while_waiting += (self._total - self._in_use) * seconds

    def _finish_until(self, now: float) -> int:
        finished = 0
        while self._ends and self._ends[0][0] <= now:
            _, start, name = heappop(self._ends)
            if self._started.get(name, (0.0, -1))[1] != start:
                continue
            lived = self._by_id[name]
            held = self._scheduler.finish(name, at=now)
            del self._started[name]
            self._in_use -= lived.source.gpu_share
            lived.ended_at = now
            finished += 1
            if not self._setting.oracle:
                self._durations.observe(held.job, lived.source.duration)
            self._core.pop(name, None)
        return finished

    def _submit(self, lived: ReplayedJob) -> None:
        source = lived.source
        habits = self._setting.habits
        stated = None
        if self._setting.oracle or is_among(source.id, habits.stated_share, "stated"):
            stated = source.duration * habits.overestimate
        job = Job(
            id=source.id,
            team=source.team,
            user=source.user,
            name=source.name,
            group=source.group,
            request=self._requests.of(source),
            submitted_at=source.submitted_at,
            estimate_seconds=stated,
            preemptible=is_among(source.id, habits.preemptible_share, "preemptible"),
        )
        self._core[source.id] = job
        self._wait(WaitingJob(job=job, save_seconds=self._save_seconds(job)))
        self._waiting += 1

    def _wait(self, waiting: WaitingJob) -> None:
        self._scheduler.submit(waiting)
        if self._overtaking is not None:
            table = self._scheduler.state.table
            self._overtaking.waits(waiting, self._durations, table)

    def _save_seconds(self, job: Job) -> float | None:
        return self._setting.habits.checkpoint_seconds if job.preemptible else None

    def _decide(self, now: float) -> None:
        for _ in range(_MOST_PASSES):
            self.outcome.passes += 1
            result = self._scheduler.step(now)
            self._apply(result, now)
            if not result.stopped:
                return

    def _apply(self, result: PassResult, now: float) -> None:
        claimants = set()
        for held, claimant, _ in result.stopped:
            self._stop(held, claimant, now)
            claimants.add(claimant)
        for _, held, _ in result.started:
            name = held.job.id
            lived = self._by_id[name]
            if self._overtaking is not None:
                self._overtaking.starts(name, now)
            if lived.first_start < 0:
                lived.first_start = now
            if name in claimants:
                # The GPUs are its own only once its victims have saved.
                lived.left += self._grace
                lived.wasted += self._grace * lived.source.gpu_share
            self._starts += 1
            self._started[name] = (now, self._starts)
            heappush(self._ends, (now + lived.left, self._starts, name))
            self._in_use += lived.source.gpu_share
            self._waiting -= 1

    def _stop(self, held: HeldJob, claimant: str, now: float) -> None:
        """Put a stopped job back into the line with what it keeps and what that cost it."""
        job = held.job
        lived = self._by_id[job.id]
        started, _ = self._started.pop(job.id)
        ran, lost = now - started, held.lost_seconds(now)
        price = self._setting.costs.of(lived.source.gpu_share)
        lived.left += price + lost - ran
        lived.attained += ran - lost
        lived.wasted += (price + lost) * lived.source.gpu_share
        lived.stops.append(now)
        self._in_use -= lived.source.gpu_share
        self._waiting += 1
        again = WaitingJob(
            job=job,
            attained_seconds=lived.attained,
            save_seconds=self._save_seconds(job),
            stops=tuple(lived.stops[-MOST_STOPS:]),
            stopped_for=claimant,
        )
        self._wait(again)


class ReplayRequests:
    """A trace's sizes as requests to a given cluster: wide jobs become gangs of even parts."""

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self._width = max(len(node.gpus) for node in nodes)
        self._has_cpu = any(node.cpu_milli for node in nodes)
        self._types = {node.gpu_type for node in nodes}
        self._known: dict[tuple[object, ...], ResourceRequest] = {}

    def of(self, source: TraceJob) -> ResourceRequest:
        """Return the request for a job of the trace."""
        types = source.gpu_types if set(source.gpu_types) & self._types else ()
        beside = (source.cpu_milli, source.memory_bytes) if self._has_cpu else (0, 0)
        key = (source.gpus, source.gpu_milli, types, *beside)
        request = self._known.get(key)
        if request is None:
            nodes = max(-(-source.gpus // self._width), 1)
            request = self._known[key] = ResourceRequest(
                nodes=nodes,
                gpus=-(-source.gpus // nodes),
                gpu_milli=source.gpu_milli,
                gpu_types=types,
                cpu_milli=beside[0] // nodes,
                memory_bytes=beside[1] // nodes,
            )
        return request

    def fragmentation(self, trace: JobTrace, table: NodeTable) -> Fragmentation | None:
        """Take the trace's own mix as the jobs usually seen."""
        if table.count < 2:
            return None
        counts = Counter(self.of(job) for job in trace.jobs)
        return Fragmentation(table, [(table.shape(r), float(n)) for r, n in counts.items()])
