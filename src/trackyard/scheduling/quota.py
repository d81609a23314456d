"""Who holds how much, and what the limits still allow.

Owns Ledger: use per team, queue, user and array, decayed use for fair share, borrowing between
teams. Knows nothing of nodes or of the order of the line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, inf

from trackyard.core.job import Job
from trackyard.core.reasons import Code, Reason
from trackyard.core.resources import WHOLE
from trackyard.scheduling.place.table import NodeTable, Shape
from trackyard.scheduling.policy import Policy
from trackyard.scheduling.snapshot import Queue, Team

#: A job foreseen to end within the hour is counted with its own length, others with an hour.
BRIEF_SECONDS = 3600.0


@dataclass(slots=True)
class Use:
    """What someone holds now."""

    milli: int = 0
    running: int = 0


class TeamUse:
    """What a team holds now, has used, and may have."""

    __slots__ = (
        "brief_milli",
        "brief_seconds",
        "cpu",
        "fixed",
        "limit",
        "memory",
        "milli",
        "quota",
        "running",
        "stretch",
        "team",
        "usage",
    )

    def __init__(self, team: Team) -> None:
        self.team = team
        self.milli = 0
        #: of that, what jobs hold that may not be preempted
        self.fixed = 0
        #: of that, what brief jobs hold, and the GPU-milliseconds for which they will
        self.brief_milli = 0
        self.brief_seconds = 0
        self.cpu = 0
        self.memory = 0
        self.running = 0
        #: decayed GPU-seconds
        self.usage = team.usage_gpu_seconds
        #: factor on the length of its jobs under the default order
        self.stretch = 1.0
        self.quota = inf if team.quota_gpus is None else team.quota_gpus * WHOLE
        self.limit = inf if team.limit_gpus is None else team.limit_gpus * WHOLE

    def expect(self, shape: Shape, seconds: float, sign: int = 1) -> None:
        """Count how long a job that starts (or with -1, ends) is foreseen to hold its GPUs."""
        if seconds < BRIEF_SECONDS:
            self.brief_milli += sign * shape.total_milli
            self.brief_seconds += sign * shape.total_milli * max(ceil(seconds), 1)

    @property
    def soon_used(self) -> float:
        """GPU-seconds of the hour to come that are as good as used."""
        long = (self.milli - self.brief_milli) * 3.6
        return long + self.brief_seconds / WHOLE if self.brief_milli else long

    @property
    def fixed_excess(self) -> float:
        """What it holds beyond its quota by jobs that may not be preempted."""
        return max(self.fixed - (self.quota if self.quota < inf else 0.0), 0.0)

    def owns(self, shape: Shape) -> bool:
        """Say whether a job of this shape is within the team's own quota."""
        return self.quota < inf and self.milli + shape.total_milli <= self.quota


class Ledger:
    """All use, kept up to date as jobs start and end."""

    def __init__(
        self,
        teams: Iterable[Team],
        queues: Iterable[Queue],
        *,
        table: NodeTable,
        now: float,
        policy: Policy | None = None,
    ) -> None:
        self.policy = policy or Policy()
        self.teams = {team.id: TeamUse(team) for team in teams}
        #: teams of the snapshot; without any, every team is welcome
        self.declared = frozenset(self.teams)
        self.is_open = not self.teams
        #: shares that differ are a promise: the default order then serves teams by them first
        self.keeps_shares = len({use.team.weight for use in self.teams.values()}) > 1
        self.queues = {queue.name: queue for queue in queues}
        self.queue_use = {name: Use() for name in self.queues}
        #: use by queue and user, where the queue limits users
        self.users: dict[tuple[str, str], Use] = {}
        self._personal = frozenset(
            queue.name
            for queue in self.queues.values()
            if queue.max_gpus_per_user is not None or queue.max_running_per_user is not None
        )
        self.arrays: dict[str, int] = {}
        self.now = now
        #: how often someone started or ended
        self.changes = 0
        quotas = [use.quota for use in self.teams.values() if use.quota < inf]
        self.has_quotas = bool(quotas)
        #: GPU thousandths that no quota promises to anyone, and what owners lend besides
        self.unpromised = max(int(table.gpus.sum()) * WHOLE - sum(quotas), 0.0)
        self.lendable = sum(use.team.lendable_gpus * WHOLE for use in self.teams.values())
        #: what teams without a quota hold, and what jobs hold beyond any quota that may not be
        #: preempted
        self._open_milli = 0
        self._fixed_excess = 0.0
        self._borrow_limits: dict[tuple[str, int, int, float], Reason] = {}
        self._limits_queues = any(map(_limits_queue, self.queues.values()))
        self._is_unlimited = not self._limits_queues and not any(
            map(_limits_team, self.teams.values())
        )
        self._totals = (
            max(int(table.gpus.sum()) * WHOLE, 1),
            max(int(table.cpu.sum()), 1),
            max(int(table.memory.sum()), 1),
        )

    def team(self, name: str) -> TeamUse:
        """Return a team's use; without any declared teams every name is one."""
        use = self.teams.get(name)
        if use is None:
            use = self.teams[name] = TeamUse(Team(id=name))
        return use

    def charge(self, job: Job, shape: Shape, sign: int = 1) -> None:
        """Count a job that starts (or with -1, ends)."""
        self.changes += 1
        milli = sign * shape.total_milli
        # What a running job asked for later is no further job.
        count = 0 if job.part_of else sign
        team = self.team(job.team)
        self._add(team, milli, is_fixed=not job.preemptible)
        team.cpu += sign * shape.cpu * shape.node_count
        team.memory += sign * shape.memory * shape.node_count
        team.running += count
        queue = self.queue_use.get(job.queue)
        if queue is not None:
            queue.milli += milli
            queue.running += count
        if job.queue in self._personal:
            user = self.users.setdefault((job.queue, job.user), Use())
            user.milli += milli
            user.running += count
        if job.array:
            self.arrays[job.array] = self.arrays.get(job.array, 0) + sign

    def charge_all(self, jobs: Sequence[Job], shapes: Sequence[Shape]) -> None:
        """Count many jobs that run already; the same as charging each."""
        alike = Counter(
            [
                (job.team, job.queue, shape, not job.part_of, not job.preemptible)
                for job, shape in zip(jobs, shapes, strict=True)
            ]
        )
        for (name, line, shape, is_whole, is_fixed), count in alike.items():
            milli, running = count * shape.total_milli, count * is_whole
            team = self.team(name)
            self._add(team, milli, is_fixed=is_fixed)
            team.cpu += count * shape.cpu * shape.node_count
            team.memory += count * shape.memory * shape.node_count
            team.running += running
            queue = self.queue_use.get(line, Use())
            queue.milli += milli
            queue.running += running
        if self._personal:
            self._charge_users(jobs, shapes)
        for name in [job.array for job in jobs if job.array]:
            self.arrays[name] = self.arrays.get(name, 0) + 1

    def _add(self, team: TeamUse, milli: int, *, is_fixed: bool) -> None:
        team.milli += milli
        if team.quota == inf:
            self._open_milli += milli
        if is_fixed:
            before = team.fixed_excess
            team.fixed += milli
            self._fixed_excess += team.fixed_excess - before

    def _charge_users(self, jobs: Sequence[Job], shapes: Sequence[Shape]) -> None:
        for job, shape in zip(jobs, shapes, strict=True):
            if job.queue in self._personal:
                user = self.users.setdefault((job.queue, job.user), Use())
                user.milli += shape.total_milli
                user.running += 0 if job.part_of else 1

    def advance(self, now: float, half_life_seconds: float) -> None:
        """Let use decay up to now, and grow by what was held since."""
        elapsed = now - self.now
        if elapsed <= 0:
            return
        self.now = now
        self._borrow_limits.clear()
        keep = 0.5 ** (elapsed / half_life_seconds)
        for use in self.teams.values():
            use.usage = use.usage * keep + use.milli / WHOLE * elapsed

    def stretch(self, most: float) -> None:
        """Set each team's stretch: above 1 when it used more than its share, below when less."""
        total = sum(use.usage for use in self.teams.values())
        weights = sum(use.team.weight for use in self.teams.values())
        for use in self.teams.values():
            fair = total * use.team.weight / weights if weights else 0.0
            ratio = use.usage / fair if fair > 0 else 1.0
            use.stretch = min(max(ratio, 1 / most), most)

    def dominant_share(self, use: TeamUse) -> float:
        """The largest of a team's shares of GPUs, CPUs and memory, by its weight."""
        gpus, cpu, memory = self._totals
        share = max(use.milli / gpus, use.cpu / cpu, use.memory / memory)
        return share / max(use.team.weight, 1e-9)

    def borrows(self, team: str, shape: Shape) -> bool:
        """Say whether this job would take its team beyond its own quota."""
        use = self.team(team)
        return use.milli + shape.total_milli > use.quota

    def is_over(self, use: TeamUse) -> bool:
        """Say whether a team holds GPUs that are promised to others."""
        if use.quota < inf:
            return use.milli > use.quota
        return self.has_quotas and use.milli > 0 and self._open_milli > self.unpromised

    def _lacks_loan(self, job: Job, use: TeamUse, need: int) -> bool:
        """Say whether a job that may not be preempted would hold GPUs promised to others."""
        if job.preemptible or not self.has_quotas:
            return False
        own = use.quota if use.quota < inf else 0.0
        excess = max(use.fixed + need - own, 0.0)
        if excess <= use.fixed_excess:
            return False
        return self._fixed_excess - use.fixed_excess + excess > self.unpromised + self.lendable

    def block(self, job: Job, shape: Shape) -> Reason | None:
        """Return why a limit forbids this job now, or None."""
        if self._is_unlimited and not job.array_cap:
            return None
        return (
            self._block_team(job, shape) or self._block_queue(job, shape) or self._block_array(job)
        )

    def is_blocked(self, job: Job, shape: Shape, use: TeamUse | None = None) -> bool:
        """Say whether a limit forbids this job now, without saying which."""
        if self._is_unlimited and not job.array_cap:
            return False
        need = shape.total_milli
        if use is None:
            use = self.team(job.team)
        if use.team.max_running is None and need:
            after = use.milli + need
            if after > use.limit or self._lacks_loan(job, use, need):
                return True
            if not self._limits_queues and not job.array_cap:
                return False
        return self.block(job, shape) is not None

    def never(self, job: Job, shape: Shape) -> Reason | None:
        """Return why a limit forbids this job even when nothing else runs, or None."""
        need = shape.total_milli
        use = self.team(job.team)
        queue = self.queues[job.queue]
        limits = [
            (use.limit, f"team `{job.team}`"),
            (self._most_fixed(job, use), f"jobs of team `{job.team}` that may not be preempted"),
            (_milli(queue.quota_gpus), f"queue `{queue.name}`"),
            (_milli(queue.max_gpus_per_user), f"one user of queue `{queue.name}`"),
        ]
        for limit, what in limits:
            if need > limit:
                return Reason(
                    code=Code.LARGER_THAN_QUOTA, needed=need / WHOLE, free=limit / WHOLE, what=what
                )
        return None

    def _most_fixed(self, job: Job, use: TeamUse) -> float:
        """GPU thousandths that a job may ask for which may not be preempted."""
        if job.preemptible or not self.has_quotas:
            return inf
        return (use.quota if use.quota < inf else 0.0) + self.unpromised + self.lendable

    def _block_team(self, job: Job, shape: Shape) -> Reason | None:
        use, need = self.team(job.team), shape.total_milli
        most = None if job.part_of else use.team.max_running
        if most is not None and use.running >= most:
            return Reason(code=Code.TEAM_JOBS, what=job.team, limit=most, free=0, needed=1)
        after = use.milli + need
        if need == 0:
            return None
        if after > use.limit:
            return Reason(
                code=Code.TEAM_QUOTA,
                what=job.team,
                needed=need / WHOLE,
                free=max(use.limit - use.milli, 0) / WHOLE,
                limit=use.limit / WHOLE,
            )
        if self._lacks_loan(job, use, need):
            return self._borrow_limit(job.team, use, need)
        return None

    def _borrow_limit(self, team: str, use: TeamUse, need: int) -> Reason:
        """The same answer for all alike jobs until someone starts or ends."""
        key = (team, need, use.fixed, self._fixed_excess)
        known = self._borrow_limits.get(key)
        if known is None:
            known = self._borrow_limits[key] = Reason(
                code=Code.BORROW_LIMIT,
                what=team,
                needed=need / WHOLE,
                free=max(self.unpromised + self.lendable - self._fixed_excess, 0) / WHOLE,
                limit=use.quota / WHOLE if use.quota < inf else 0.0,
            )
        return known

    def _block_queue(self, job: Job, shape: Shape) -> Reason | None:
        queue, use, need = self.queues[job.queue], self.queue_use[job.queue], shape.total_milli
        at_once = None if job.part_of else queue.max_running
        if at_once is not None and use.running >= at_once:
            return Reason(code=Code.QUEUE_JOBS, what=queue.name, limit=at_once, free=0, needed=1)
        if queue.quota_gpus is not None and use.milli + need > queue.quota_gpus * WHOLE:
            return _gpus(Code.QUEUE_QUOTA, queue.name, need, use.milli, queue.quota_gpus)
        if queue.max_running_per_user is None and queue.max_gpus_per_user is None:
            return None
        user = self.users.get((job.queue, job.user)) or Use()
        limit = None if job.part_of else queue.max_running_per_user
        if limit is not None and user.running >= limit:
            return Reason(
                code=Code.USER_JOBS, what=job.user or "a user", limit=limit, free=0, needed=1
            )
        most = queue.max_gpus_per_user
        if most is not None and user.milli + need > most * WHOLE:
            return _gpus(Code.USER_GPUS, job.user or "a user", need, user.milli, most)
        return None

    def _block_array(self, job: Job) -> Reason | None:
        if job.array_cap and job.array and self.arrays.get(job.array, 0) >= job.array_cap:
            return Reason(
                code=Code.ARRAY_CAP, what=job.array, limit=job.array_cap, free=0, needed=1
            )
        return None


def _limits_team(use: TeamUse) -> bool:
    return use.quota < inf or use.limit < inf or use.team.max_running is not None


def _limits_queue(queue: Queue) -> bool:
    return any(
        limit is not None
        for limit in (
            queue.quota_gpus,
            queue.max_running,
            queue.max_gpus_per_user,
            queue.max_running_per_user,
        )
    )


def _gpus(code: Code, what: str, need: int, used: int, limit: float) -> Reason:
    return Reason(
        code=code,
        what=what,
        needed=need / WHOLE,
        free=max(limit - used / WHOLE, 0.0),
        limit=limit,
    )


def _milli(gpus: float | None) -> float:
    return inf if gpus is None else gpus * WHOLE
