"""Random small histories, each wholly given by its seed.

Owns the odds. Most histories are small and crowded: few GPUs, several teams, more work than
fits, because there the queue has to choose.
"""

from __future__ import annotations

from dataclasses import replace
from math import exp, log
from random import Random

from trackyard.core.job import Dependency, DependsOn, Job, PriorityClass
from trackyard.core.lease import Lease
from trackyard.core.node import Node, NodeGpu
from trackyard.core.resources import WHOLE, ResourceRequest
from trackyard.scheduling import Policy, PreemptionRules, Queue, Team, preset
from trackyard.simulate.check.history import (
    ENGINE_FAULTS,
    HOUR,
    CheckHistory,
    EventKind,
    HistoryEvent,
    PlannedJob,
    StopReply,
)

GIB = 2**30
_CLASSES = (
    (PriorityClass.SCAVENGE, 5),
    (PriorityClass.LOW, 15),
    (PriorityClass.NORMAL, 55),
    (PriorityClass.HIGH, 15),
    (PriorityClass.URGENT, 10),
)
#: Policies by how often a history has them; the product's own is the one that matters.
_POLICIES = (("default", 14), ("easy", 1), ("conservative", 1), ("fair", 1), ("sjf", 1))
#: Seconds before which nobody is stopped, as a server may be set.
_FIRST_MINUTES = (60.0, 60.0, 600.0)


def generate(seed: int, *, engine_faults: bool = False) -> CheckHistory:
    """Return the history of a seed; on request with faults between server and engine."""
    history = _Maker(seed).make()
    if not engine_faults:
        return history
    random = Random(-1 - seed)  # noqa: S311 - histories, not secrets
    last = history.last_at + HOUR
    faults = [
        HistoryEvent(
            at=float(round(random.uniform(0.0, last))),
            kind=random.choice(ENGINE_FAULTS),
            value=float(random.randint(5, 300)),
        )
        for _ in range(random.choice((1, 2, 3, 5)))
    ]
    events = sorted((*history.events, *faults), key=lambda one: one.at)
    return replace(history, events=tuple(events))


class _Maker:
    """One draw of everything."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._random = Random(seed)  # noqa: S311 - histories, not secrets
        self._span = self._random.choice((0.0, 600.0, HOUR, 2 * HOUR))
        self._count = 0
        self._nodes: tuple[Node, ...] = ()
        self._teams: tuple[Team, ...] = ()
        self._queues: tuple[Queue, ...] = ()

    def make(self) -> CheckHistory:
        self._nodes = self._make_nodes()
        self._teams = self._make_teams()
        self._queues = self._make_queues()
        policy = self._policy()
        events = self._submissions()
        events.extend(self._leases(events))
        events.extend(self._upsets(events, policy))
        return CheckHistory(
            name=f"seed {self._seed}",
            nodes=self._nodes,
            teams=self._teams,
            queues=self._queues,
            policy=policy,
            events=tuple(sorted(events, key=lambda one: one.at)),
        )

    def _is(self, chance: float) -> bool:
        return self._random.random() < chance

    def _length(self, low: float, high: float) -> float:
        """Draw a time; short ones are as common as long ones."""
        return float(round(exp(self._random.uniform(log(low), log(high)))))

    def _make_nodes(self) -> tuple[Node, ...]:
        count = self._random.choice((1, 1, 1, 2, 2, 3))
        width = self._random.choice((1, 2, 2, 4, 4, 8))
        return tuple(
            Node(
                id=f"n{number}",
                gpus=tuple(NodeGpu(index=index, type="a") for index in range(self._width(width))),
                cpu_milli=32 * WHOLE,
                memory_bytes=256 * GIB,
                labels=(("rack", f"r{number % 2}"),),
            )
            for number in range(count)
        )

    def _width(self, width: int) -> int:
        return width if self._is(0.8) else max(1, width // 2)

    @property
    def _total(self) -> int:
        return sum(len(node.gpus) for node in self._nodes)

    def _make_teams(self) -> tuple[Team, ...]:
        names = [f"team{number}" for number in range(self._random.choice((1, 2, 2, 3, 4)))]
        if len(names) > 1 and self._is(0.5):
            shares = self._shares(len(names))
            return self._in_departments(
                [
                    Team(id=name, quota_gpus=float(share), weight=float(max(share, 1)))
                    for name, share in zip(names, shares, strict=True)
                ]
            )
        weights = (1.0, 2.0, 4.0) if self._is(0.3) else (1.0,)
        return tuple(
            Team(
                id=name,
                weight=self._random.choice(weights),
                limit_gpus=float(self._total) if self._is(0.1) else None,
            )
            for name in names
        )

    def _in_departments(self, teams: list[Team]) -> tuple[Team, ...]:
        """Put some teams into a department, now and then with GPUs to lend for good."""
        if self._is(0.2):
            teams = [replace(team, lendable_gpus=(team.quota_gpus or 0) // 2) for team in teams]
        if len(teams) < 3 or self._is(0.4):
            return tuple(teams)
        first, second, *rest = teams
        together = (first.quota_gpus or 0.0) + (second.quota_gpus or 0.0)
        department = Team(
            id="dept",
            quota_gpus=together if self._is(0.6) else None,
            weight=self._random.choice((1.0, 2.0)),
        )
        inside = (replace(first, parent="dept"), replace(second, parent="dept"))
        return (*inside, *rest, department)

    @property
    def _working(self) -> list[Team]:
        """Teams that submit jobs; a department here has none of its own."""
        return [team for team in self._teams if team.id != "dept"]

    def _shares(self, count: int) -> list[int]:
        """Divide the GPUs among teams, as an admin would; some get none."""
        shares = [0] * count
        for _ in range(self._total):
            shares[self._random.randrange(count)] += 1
        return shares

    def _make_queues(self) -> tuple[Queue, ...]:
        if self._is(0.85):
            return (Queue(),)
        return (
            Queue(
                max_running_per_user=3 if self._is(0.5) else None,
                max_gpus_per_user=float(self._total) if self._is(0.3) else None,
                quota_gpus=float(max(1, self._total - 1)) if self._is(0.3) else None,
            ),
        )

    def _policy(self) -> Policy:
        names, odds = [name for name, _ in _POLICIES], [one for _, one in _POLICIES]
        policy = preset(self._random.choices(names, odds)[0])
        seconds = self._random.choice(_FIRST_MINUTES)
        return replace(policy, preemption=_with_first_minutes(policy.preemption, seconds))

    # -- jobs -------------------------------------------------------------------------------

    def _submissions(self) -> list[HistoryEvent]:
        most = self._random.choice((3, 4, 4, 5, 6, 6, 8, 8, 10, 12, 16, 30))
        events: list[HistoryEvent] = []
        while self._count < most:
            at = float(round(self._random.uniform(0.0, self._span)))
            known = [one.planned.job.id for one in events if one.planned is not None]
            planned = self._planned(known)
            copies = self._random.randint(2, 8) if self._is(0.3) else 1
            for _ in range(min(copies, most - self._count)):
                job = replace(planned.job, id=f"j{self._count}")
                self._count += 1
                events.append(
                    HistoryEvent(at=at, kind=EventKind.SUBMIT, planned=replace(planned, job=job))
                )
                if job.held and self._is(0.8):
                    later = at + self._length(60.0, HOUR)
                    events.append(HistoryEvent(at=later, kind=EventKind.RELEASE, subject=job.id))
        return events

    def _planned(self, known: list[str]) -> PlannedJob:
        work = self._length(60.0, 3 * HOUR)
        preemptible = self._is(0.55)
        reply = self._random.choice(
            (StopReply.SAVES, StopReply.SAVES, StopReply.ENDS, StopReply.IGNORES)
        )
        every = self._random.choice((None, 300.0, 1800.0)) if preemptible else None
        fails = (float(round(work / 2)),) if self._is(0.08) else ()
        return PlannedJob(
            job=self._job(work, preemptible, known),
            work_seconds=work,
            saves_every=every,
            reply=reply,
            restart_seconds=self._random.choice((0.0, 7.0, 30.0)),
            fails_after=fails,
            retries=self._random.choice((0, 1, 2)) if fails else 0,
            grace_seconds=self._random.choice((10.0, 30.0, 60.0)),
        )

    def _job(self, work: float, preemptible: bool, known: list[str]) -> Job:
        random = self._random
        limit = estimate = None
        if self._is(0.45):
            limit = float(round(work * random.choice((1.1, 1.5, 3.0, 10.0))))
            if self._is(0.06):
                limit = float(max(30, round(work * 0.5)))
        if self._is(0.15):
            estimate = float(round(work * random.choice((0.3, 0.9, 1.0, 1.3, 4.0))))
        team = random.choice(self._working)
        needs: tuple[Dependency, ...] = ()
        if known and self._is(0.06):
            needs = (Dependency(job=random.choice(known), when=random.choice(tuple(DependsOn))),)
        classes, odds = [one for one, _ in _CLASSES], [one for _, one in _CLASSES]
        array = f"array{self._count}" if self._is(0.08) else ""
        return Job(
            id="",
            team=team.id,
            user=f"{team.id}-{random.choice('ab')}",
            priority=random.choices(classes, odds)[0],
            request=self._request(),
            time_limit_seconds=limit,
            estimate_seconds=estimate,
            preemptible=preemptible,
            not_before=float(round(random.uniform(60, HOUR))) if self._is(0.04) else 0.0,
            held=self._is(0.04),
            dependencies=needs,
            array=array,
            array_cap=random.choice((1, 2)) if array else 0,
            name=random.choice(("train", "eval", "sweep", "")),
            # As with real jobs, those that do the same run the same command.
            command=f"python work.py --seconds {work:g}",
        )

    def _request(self) -> ResourceRequest:
        widest = max(len(node.gpus) for node in self._nodes)
        draw = self._random.random()
        if draw < 0.05:
            return ResourceRequest(gpus=1, gpu_milli=self._random.choice((250, 500)))
        if draw < 0.08:
            return ResourceRequest(gpus=0, cpu_milli=self._random.choice((1000, 8000, 32_000)))
        if draw < 0.18 and len(self._nodes) > 1:
            nodes = self._random.randint(2, len(self._nodes))
            gpus = self._random.randint(1, min(len(node.gpus) for node in self._nodes))
            return ResourceRequest(nodes=nodes, gpus=gpus, same="rack" if self._is(0.15) else "")
        if draw < 0.20:
            return ResourceRequest(gpus=widest + 1)
        sizes = [size for size in (1, 1, 1, 2, 4, 8) if size <= widest] + [widest]
        return ResourceRequest(
            gpus=self._random.choice(sizes),
            cpu_milli=self._random.choice((0, 0, 2000, 8000)),
            exclusive=self._is(0.03),
        )

    # -- from outside -----------------------------------------------------------------------

    def _leases(self, events: list[HistoryEvent]) -> list[HistoryEvent]:
        if not self._is(0.2):
            return []
        found = []
        for number in range(self._random.choice((1, 1, 2))):
            starts = float(round(self._random.uniform(0.0, self._span + HOUR)))
            lease = Lease(
                id=f"lease{number}",
                nodes=(self._nodes[number % len(self._nodes)].id,),
                starts_at=starts,
                ends_at=starts + self._length(600.0, 2 * HOUR),
                team=self._random.choice(self._working).id,
                lent=self._is(0.2),
            )
            told = max(0.0, starts - self._length(60.0, HOUR))
            found.append(
                HistoryEvent(at=told, kind=EventKind.LEASE, subject=lease.id, lease=lease)
            )
            if self._is(0.2):
                at = told + self._length(60.0, HOUR)
                found.append(HistoryEvent(at=at, kind=EventKind.LEASE_DROPPED, subject=lease.id))
        del events
        return found

    def _upsets(self, events: list[HistoryEvent], policy: Policy) -> list[HistoryEvent]:
        jobs = [one.planned.job for one in events if one.planned is not None]
        found: list[HistoryEvent] = []
        for _ in range(self._random.choice((0, 0, 0, 1, 2, 3))):
            at = float(round(self._random.uniform(0.0, self._span + HOUR)))
            found.extend(self._upset(at, self._random.choice(jobs), policy))
        return found

    def _upset(self, at: float, job: Job, policy: Policy) -> list[HistoryEvent]:
        random = self._random
        draw = random.randrange(8)
        if draw == 0:
            node = random.choice(self._nodes).id
            kind = random.choice((EventKind.NODE_DOWN, EventKind.NODE_DRAINED))
            back = at + self._length(60.0, HOUR)
            return [
                HistoryEvent(at=at, kind=kind, subject=node),
                HistoryEvent(at=back, kind=EventKind.NODE_UP, subject=node),
            ]
        if draw == 1:
            team = random.choice(self._working)
            if team.quota_gpus is None:
                changed = replace(team, weight=random.choice((1.0, 3.0)))
            else:
                most = int(team.quota_gpus) if team.parent else self._total
                changed = replace(team, quota_gpus=float(random.randint(0, most)))
            return [HistoryEvent(at=at, kind=EventKind.TEAM, team=changed)]
        if draw == 2:
            return [HistoryEvent(at=at, kind=EventKind.OUTAGE, value=self._length(10.0, 1200.0))]
        if draw == 3:
            value = float(random.choice(tuple(PriorityClass)))
            return [HistoryEvent(at=at, kind=EventKind.RECLASS, subject=job.id, value=value)]
        if draw == 4:
            later = at + self._length(60.0, HOUR)
            return [
                HistoryEvent(at=at, kind=EventKind.HOLD, subject=job.id),
                HistoryEvent(at=later, kind=EventKind.RELEASE, subject=job.id),
            ]
        if draw == 5 and self._is(0.3):
            settings = _with_first_minutes(policy.preemption, random.choice(_FIRST_MINUTES))
            changed_policy = replace(policy, preemption=settings)
            return [HistoryEvent(at=at, kind=EventKind.POLICY, policy=changed_policy)]
        kind = EventKind.REQUEUE if draw in (5, 6) else EventKind.CANCEL
        return [HistoryEvent(at=at, kind=kind, subject=job.id)]


def _with_first_minutes(preemption: PreemptionRules, seconds: float) -> PreemptionRules:
    return replace(preemption, min_run_seconds=seconds)
