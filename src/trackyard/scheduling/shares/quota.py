"""Who holds how much, and what the limits still allow.

Owns Ledger: use per team, queue, user and array, decayed use for fair share, limits. What teams
owe each other is worked out in `departments`. Knows nothing of nodes or of the order of the line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from trackyard.core.job import Job
from trackyard.core.reasons import Code, Reason
from trackyard.core.resources import WHOLE
from trackyard.scheduling.place.table import NodeTable, Shape
from trackyard.scheduling.policy import Policy
from trackyard.scheduling.shares.departments import ShareHolder, TeamUse, Tree
from trackyard.scheduling.snapshot import Queue, Team


@dataclass(slots=True)
class ShareUse:
    """What someone holds now."""

    milli: int = 0
    running: int = 0


class QuotaLedger:
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
        total = int(table.gpus.sum()) * WHOLE
        self.tree = Tree(teams, total)
        self.teams = self.tree.teams
        #: teams of the snapshot; without any, every team is welcome
        self.declared = frozenset(self.teams)
        self.is_open = not self.teams
        #: teams that a used-up budget holds
        self.spent = frozenset(n for n, one in self.teams.items() if one.budget_hold is not None)
        #: shares that differ are a promise: the default order then serves teams by them first
        shares = self.tree.shares().values()
        self.keeps_shares = max(shares, default=0.0) > 1.000001 * min(shares, default=0.0)
        self.queues = {queue.name: queue for queue in queues}
        self.queue_use = {name: ShareUse() for name in self.queues}
        #: use by queue and user, where the queue limits users
        self.users: dict[tuple[str, str], ShareUse] = {}
        self._personal = frozenset(
            queue.name
            for queue in self.queues.values()
            if queue.max_gpus_per_user is not None or queue.max_running_per_user is not None
        )
        self.arrays: dict[str, int] = {}
        self.now = now
        #: how often someone started or ended
        self.changes = 0
        self.has_quotas = any(one.quota < inf for one in self.tree.holders())
        self._borrow_limits: dict[tuple[str, int, int, float], Reason] = {}
        self._limits_queues = any(map(_limits_queue, self.queues.values()))
        self._is_unlimited = not self._limits_queues and not any(
            map(_limits_holder, self.tree.holders())
        )
        #: places of the teams under an order that walks down the tree, and when they were found
        self._places: dict[bool, tuple[tuple[int, float], dict[str, float]]] = {}
        self._totals = (
            max(total, 1),
            max(int(table.cpu.sum()), 1),
            max(int(table.memory.sum()), 1),
        )

    def team(self, name: str) -> TeamUse:
        """Return a team's use; without any declared teams every name is one."""
        use = self.teams.get(name)
        return self.tree.add(name) if use is None else use

    def charge(self, job: Job, shape: Shape, sign: int = 1) -> None:
        """Count a job that starts (or with -1, ends)."""
        self.changes += 1
        milli = sign * shape.total_milli
        # What a running job asked for later is no further job.
        count = 0 if job.part_of else sign
        self._add(job.team, shape, sign, running=count, is_fixed=not job.preemptible)
        queue = self.queue_use.get(job.queue)
        if queue is not None:
            queue.milli += milli
            queue.running += count
        if job.queue in self._personal:
            user = self.users.setdefault((job.queue, job.user), ShareUse())
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
            self._add(name, shape, count, running=running, is_fixed=is_fixed)
            queue = self.queue_use.get(line, ShareUse())
            queue.milli += milli
            queue.running += running
        if self._personal:
            self._charge_users(jobs, shapes)
        for name in [job.array for job in jobs if job.array]:
            self.arrays[name] = self.arrays.get(name, 0) + 1

    def _add(self, team: str, shape: Shape, count: int, *, running: int, is_fixed: bool) -> None:
        nodes = count * shape.node_count
        self.team(team).add(
            count * shape.total_milli,
            running=running,
            is_fixed=is_fixed,
            cpu=nodes * shape.cpu,
            memory=nodes * shape.memory,
        )

    def _charge_users(self, jobs: Sequence[Job], shapes: Sequence[Shape]) -> None:
        for job, shape in zip(jobs, shapes, strict=True):
            if job.queue in self._personal:
                user = self.users.setdefault((job.queue, job.user), ShareUse())
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
        shares = self.tree.shares()
        for name, use in self.teams.items():
            fair = total * shares[name]
            ratio = use.usage / fair if fair > 0 else 1.0
            use.stretch = min(max(ratio, 1 / most), most)

    def used(self, use: TeamUse) -> float:
        """How much a team used for its weight; where there are departments, its place by that."""
        if self.tree.is_flat:
            return use.used / use.weight
        return self._place(use, is_dominant=False)

    def dominant_share(self, use: TeamUse) -> float:
        """The largest of its shares of GPUs, CPUs and memory for its weight, or its place so."""
        if self.tree.is_flat:
            return self._dominant(use)
        return self._place(use, is_dominant=True)

    def _dominant(self, holder: ShareHolder) -> float:
        gpus, cpu, memory = self._totals
        share = max(holder.milli / gpus, holder.cpu / cpu, holder.memory / memory)
        return share / holder.weight

    def _place(self, use: TeamUse, *, is_dominant: bool) -> float:
        """Its place among all teams: departments compare first, then the teams of one."""
        at = (self.changes, self.now)
        known = self._places.get(is_dominant)
        if known is None or known[0] != at or use.name not in known[1]:
            values: dict[ShareHolder, float] = {}
            for team in self.teams.values():
                for one in team.path:
                    more = 0.0 if is_dominant else team.used / one.weight
                    values[one] = values.get(one, 0.0) + more
            if is_dominant:
                values = {one: self._dominant(one) for one in values}
            ways = {
                name: tuple(values[one] for one in team.path) for name, team in self.teams.items()
            }
            numbers = {way: float(at) for at, way in enumerate(sorted(set(ways.values())))}
            known = (at, {name: numbers[way] for name, way in ways.items()})
            self._places[is_dominant] = known
        return known[1][use.name]

    def is_some_over(self) -> bool:
        """Say whether anyone at all holds GPUs that are promised to others."""
        return self.has_quotas and any(one.is_over for one in self.tree.holders())

    def _lacks_loan(self, job: Job, use: TeamUse, need: int) -> bool:
        """Say whether a job that may not be preempted would hold GPUs promised to others."""
        if job.preemptible or not self.has_quotas:
            return False
        more, due = use.growth(need)
        return due > 0 and self.tree.root.committed + more > self.tree.capacity

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
        if use.max_running is None and need:
            after = use.milli + need
            if after > use.limit or self._lacks_loan(job, use, need):
                return True
            if not self._limits_queues and not job.array_cap and not use.above:
                return False
        return self.block(job, shape) is not None

    def never(self, job: Job, shape: Shape) -> Reason | None:
        """Return why a limit forbids this job even when nothing else runs, or None."""
        need = shape.total_milli
        use = self.team(job.team)
        queue = self.queues[job.queue]
        limits = [
            *((one.limit, "team `{}`", one.name) for one in reversed(use.path)),
            (self._most_fixed(job, use), "jobs of team `{}` that may not be preempted", job.team),
            (_milli(queue.quota_gpus), "queue `{}`", queue.name),
            (_milli(queue.max_gpus_per_user), "one user of queue `{}`", queue.name),
        ]
        for limit, words, name in limits:
            if need > limit:
                what = words.format(name)
                return Reason(
                    code=Code.LARGER_THAN_QUOTA, needed=need / WHOLE, free=limit / WHOLE, what=what
                )
        return None

    def _most_fixed(self, job: Job, use: TeamUse) -> float:
        """GPU thousandths that a job may ask for which may not be preempted."""
        if job.preemptible or not self.has_quotas:
            return inf
        most, others, lent = use.own, 0.0, 0.0
        below: ShareHolder = use
        for above in (*use.above, self.tree.root):
            others += above.first_entitled - below.own
            lent += above.first_committed - below.floor
            most, below = max(most, above.own - others), above
        return max(most, self.tree.capacity - lent)

    def _block_team(self, job: Job, shape: Shape) -> Reason | None:
        use, need = self.team(job.team), shape.total_milli
        for one in reversed(use.path):
            most = None if job.part_of else one.max_running
            if most is not None and one.running >= most:
                return Reason(code=Code.TEAM_JOBS, what=one.name, limit=most, free=0, needed=1)
        if need == 0:
            return None
        for one in reversed(use.path):
            if one.milli + need > one.limit:
                return Reason(
                    code=Code.TEAM_QUOTA,
                    what=one.name,
                    needed=need / WHOLE,
                    free=max(one.limit - one.milli, 0) / WHOLE,
                    limit=one.limit / WHOLE,
                )
        if self._lacks_loan(job, use, need):
            return self._borrow_limit(use, need)
        return None

    def _borrow_limit(self, use: TeamUse, need: int) -> Reason:
        """The same answer for all alike jobs until someone starts or ends."""
        left = max(self.tree.capacity - self.tree.root.committed, 0.0)
        key = (use.name, need, use.fixed, left)
        known = self._borrow_limits.get(key)
        if known is None:
            owner = use.owner or use
            known = self._borrow_limits[key] = Reason(
                code=Code.BORROW_LIMIT,
                what=owner.name,
                needed=need / WHOLE,
                free=left / WHOLE,
                limit=owner.own / WHOLE,
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
        user = self.users.get((job.queue, job.user)) or ShareUse()
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


def _limits_holder(one: ShareHolder) -> bool:
    return one.quota < inf or one.limit < inf or one.max_running is not None


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
