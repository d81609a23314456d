"""Teams and the departments above them: what each holds, may have, and has promised away.

Owns TeamUse, Department and Tree, which is built from the teams of a snapshot. Quotas
are promises between siblings: a department's quota bounds what its teams own together, and what
one leaves unused its siblings borrow before anyone outside. Knows nothing of queues, users or
nodes; amounts are thousandths of a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil, inf

from trackyard.core.resources import WHOLE
from trackyard.scheduling.place.table import Shape
from trackyard.scheduling.snapshot import Team

#: A job foreseen to end within the hour is counted with its own length, others with an hour.
BRIEF_SECONDS = 3600.0


class ShareHolder:
    """What a team and a department have in common: use, quota and limits."""

    __slots__ = (
        "committed",
        "cpu",
        "depth",
        "entitled",
        "fixed",
        "floor",
        "lendable",
        "limit",
        "loan_rank",
        "max_running",
        "memory",
        "milli",
        "name",
        "own",
        "parent",
        "quota",
        "running",
        "weight",
    )

    def __init__(self, team: Team, parent: Department | None) -> None:
        self.name = team.id
        self.parent = parent
        self.weight = max(team.weight, 1e-9)
        self.quota = _milli(team.quota_gpus)
        self.lendable = team.lendable_gpus * WHOLE if self.quota < inf else 0.0
        self.limit = _milli(team.limit_gpus)
        self.max_running = team.max_running
        self.milli = 0
        self.cpu = 0
        self.memory = 0
        self.running = 0
        #: what jobs hold that may not be preempted
        self.fixed = 0
        #: GPUs that are gone or must come back to it in time: what such jobs hold, and at least
        #: the quota less what it lends for good; and the same with all of its quota
        self.committed = 0.0
        self.entitled = 0.0
        self._appoint()
        #: departments above it
        self.depth = 0
        #: how late those come who would borrow beyond its quota; the nearer the lender the sooner
        self.loan_rank = 1

    def _appoint(self) -> None:
        #: its quota, nothing where it has none; and the part that always comes back in time
        self.own = self.quota if self.quota < inf else 0.0
        self.floor = max(self.own - self.lendable, 0.0)

    @property
    def is_over(self) -> bool:
        """Whether it holds GPUs that are promised to its siblings."""
        if self.quota < inf:
            return self.milli > self.quota
        above = self.parent
        assert above is not None
        return above.has_quotas and self.milli > 0 and above.open_milli > above.unpromised

    @property
    def is_exposed(self) -> bool:
        """Whether no quota protects what it holds, once its department is over its own."""
        above = self.parent
        assert above is not None
        return self.is_over or (self.quota == inf and not above.has_quotas)


class Department(ShareHolder):
    """Several teams or departments together; the topmost one is the whole cluster."""

    __slots__ = (
        "below_committed",
        "below_entitled",
        "first_committed",
        "first_entitled",
        "has_quotas",
        "open_milli",
        "unpromised",
    )

    def __init__(self, team: Team, parent: Department | None) -> None:
        super().__init__(team, parent)
        #: whether any member has a quota, and what these leave of this one's
        self.has_quotas = False
        self.unpromised = 0.0
        #: what members without a quota hold
        self.open_milli = 0
        self.below_committed = self.below_entitled = 0.0
        #: the same while nothing runs
        self.first_committed = self.first_entitled = 0.0

    def settle(self, members: list[ShareHolder]) -> None:
        """Take the quotas of its members into account, each of which is settled."""
        quotas = [one.quota for one in members if one.quota < inf]
        self.has_quotas = bool(quotas)
        if self.quota == inf and quotas:
            # Without a quota of its own it has what its members have, and lends what they lend.
            self.quota = sum(quotas)
            self.lendable = sum(one.lendable for one in members)
            self._appoint()
        self.unpromised = max(self.own - sum(quotas), 0.0)
        self.first_committed = self.below_committed = sum(one.committed for one in members)
        self.first_entitled = self.below_entitled = sum(one.entitled for one in members)
        self.committed = max(self.below_committed, self.floor)
        self.entitled = max(self.below_entitled, self.own)


class TeamUse(ShareHolder):
    """What a team holds now, has used, and may have."""

    __slots__ = (
        "above",
        "brief_milli",
        "brief_seconds",
        "budget_hold",
        "owner",
        "path",
        "stretch",
        "usage",
    )

    parent: Department

    def __init__(self, team: Team, parent: Department, *, is_department: bool = False) -> None:
        # What is set of a department holds for all below it, its own jobs among them.
        super().__init__(Team(id=team.id) if is_department else team, parent)
        #: departments from the nearest to the topmost, without the cluster
        self.above: tuple[Department, ...] = tuple(_climb(parent))
        #: the same from the topmost down, with the team at the end
        self.path: tuple[ShareHolder, ...] = (*reversed(self.above), self)
        self.depth = len(self.above)
        #: whose quota its jobs use first: its own, else that of the nearest department
        self.owner: ShareHolder | None = None
        #: of what it holds, what brief jobs do, and the GPU-milliseconds for which they will
        self.brief_milli = 0
        self.brief_seconds = 0
        #: decayed GPU-seconds
        self.usage = team.usage_gpu_seconds
        #: the budget that keeps its jobs from starting
        self.budget_hold = team.budget_hold
        #: factor on the length of its jobs under the default order
        self.stretch = 1.0
        self.committed, self.entitled = self.floor, self.own

    def add(
        self, milli: int, *, running: int, is_fixed: bool, cpu: int = 0, memory: int = 0
    ) -> None:
        """Count what it holds more (or less), here and above."""
        for holder in self.path:
            holder.milli += milli
            holder.cpu += cpu
            holder.memory += memory
            holder.running += running
            if holder.quota == inf and holder.parent is not None:
                holder.parent.open_milli += milli
        if is_fixed:
            self._commit(milli)

    def _commit(self, milli: int) -> None:
        self.fixed += milli
        committed, entitled = max(self.fixed, self.floor), max(self.fixed, self.own)
        more, due = committed - self.committed, entitled - self.entitled
        self.committed, self.entitled = committed, entitled
        above: Department | None = self.parent
        while above is not None:
            above.fixed += milli
            above.below_committed += more
            above.below_entitled += due
            committed = max(above.below_committed, above.floor)
            entitled = max(above.below_entitled, above.own)
            more, due = committed - above.committed, entitled - above.entitled
            above.committed, above.entitled = committed, entitled
            above = above.parent

    def growth(self, need: int) -> tuple[float, float]:
        """How much more the cluster has committed, and owes, if it holds so much more for good."""
        held = self.fixed + need
        more, due = max(held, self.floor) - self.committed, max(held, self.own) - self.entitled
        for above in self.above:
            more = max(above.below_committed + more, above.floor) - above.committed
            due = max(above.below_entitled + due, above.own) - above.entitled
        return more, due

    def borrowing(self, need: int) -> int:
        """Say how late a job comes for going beyond a quota; 0: it goes beyond none."""
        rank = self.loan_rank if self.milli + need > self.quota else 0
        for above in self.above:
            if above.milli + need > above.quota:
                rank = above.loan_rank
        return rank

    def owns(self, shape: Shape) -> bool:
        """Say whether a job of this shape is within the quota that is its own."""
        owner = self.owner
        return owner is not None and owner.milli + shape.total_milli <= owner.quota

    def is_debtor(self, claimant: TeamUse, need: int | None = None) -> bool:
        """Say whether it holds GPUs that are promised to another team.

        It does where its own side of the tree, below all that both are in, holds more than its
        quota. With a `need`, the claimant's side must be within its quotas with that.
        """
        ours = self._apart_from(claimant)
        if not ours or not ours[0].is_over:
            return False
        if need is not None and not claimant.is_within(need, beside=self):
            return False
        return all(one.is_exposed for one in ours[1:])

    def is_within(self, need: int, *, beside: TeamUse) -> bool:
        """Say whether with so much more it is within its quotas, below all that both are in."""
        return all(one.milli + need <= one.quota for one in self._apart_from(beside))

    def _apart_from(self, other: TeamUse) -> tuple[ShareHolder, ...]:
        """The way down to it from where that to another team turns off."""
        ours, theirs = self.path, other.path
        at, end = 0, min(len(ours), len(theirs))
        while at < end and ours[at] is theirs[at]:
            at += 1
        return ours[at:]

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
    def used(self) -> float:
        """GPU-seconds used, those of the jobs that run now foreseen.

        What it holds counts as used for as long as it is foreseen to, an hour at most, so that
        one pass is fair and teams share time and not places.
        """
        return self.usage + self.soon_used


class Tree:
    """All teams under the cluster."""

    def __init__(self, teams: Iterable[Team], total_milli: int) -> None:
        known = {team.id: team for team in teams}
        parents = {name: _parent(name, known) for name in known}
        self.root = Department(Team(id=""), None)
        self.departments: dict[str, Department] = {}
        for name in sorted({name for name in parents.values() if name}):
            self._department(name, known, parents)
        self.teams: dict[str, TeamUse] = {}
        for name, team in known.items():
            own = self.departments.get(name)
            parent = own or self.departments.get(parents[name], self.root)
            self.teams[name] = TeamUse(team, parent, is_department=own is not None)
        self._settle()
        #: what fixed jobs may hold and quotas promise together
        self.capacity = max(float(total_milli), self.root.below_entitled)
        self.root.unpromised = max(total_milli - self.root.below_entitled, 0.0)

    @property
    def is_flat(self) -> bool:
        """Whether there is no department."""
        return not self.departments

    def add(self, name: str) -> TeamUse:
        """Take in a team that nobody declared."""
        use = self.teams[name] = TeamUse(Team(id=name), self.root)
        use.loan_rank = self.root.loan_rank - 1
        return use

    def holders(self) -> Iterator[ShareHolder]:
        """All teams and departments."""
        yield from self.teams.values()
        yield from self.departments.values()

    def shares(self) -> dict[str, float]:
        """The part of the cluster that each team may expect by the weights on its way down."""
        weights: dict[int, float] = {}
        for holder in self.holders():
            if not (isinstance(holder, TeamUse) and holder.name in self.departments):
                weights[id(holder.parent)] = weights.get(id(holder.parent), 0.0) + holder.weight
        found = {}
        for name, use in self.teams.items():
            part = 1.0
            for one in use.path:
                among = weights.get(id(one.parent), 0.0)
                is_own = one is use and name in self.departments
                part *= one.weight / (among + one.weight if is_own else among)
            found[name] = part
        return found

    def _department(
        self, name: str, known: dict[str, Team], parents: dict[str, str]
    ) -> Department:
        found = self.departments.get(name)
        if found is None:
            above = self._department(up, known, parents) if (up := parents[name]) else self.root
            found = self.departments[name] = Department(known[name], above)
            found.depth = 0 if above is self.root else above.depth + 1
        return found

    def _settle(self) -> None:
        members: dict[int, list[ShareHolder]] = {}
        for holder in self.holders():
            members.setdefault(id(holder.parent), []).append(holder)
        for one in sorted(self.departments.values(), key=lambda one: -one.depth):
            one.settle(members[id(one)])
        deepest = max((holder.depth for holder in self.holders()), default=0)
        for holder in self.holders():
            holder.loan_rank = 1 + deepest - holder.depth
        root = self.root
        root.loan_rank = 2 + deepest
        top = members.get(id(root), [])
        root.has_quotas = any(one.quota < inf for one in top)
        root.committed = root.below_committed = sum(one.committed for one in top)
        root.entitled = root.below_entitled = sum(one.entitled for one in top)
        root.first_committed, root.first_entitled = root.committed, root.entitled
        for use in self.teams.values():
            use.owner = next((one for one in reversed(use.path) if one.quota < inf), None)


def _climb(parent: Department) -> Iterator[Department]:
    """Yield departments from this one up, without the cluster."""
    above: Department | None = parent
    while above is not None and above.parent is not None:
        yield above
        above = above.parent


def _parent(name: str, known: dict[str, Team]) -> str:
    """Return the department that a team is in; empty where that leads nowhere or in a circle."""
    seen, up = {name}, known[name].parent
    while up:
        if up in seen or up not in known:
            return ""
        seen.add(up)
        up = known[up].parent
    return known[name].parent


def _milli(gpus: float | None) -> float:
    return inf if gpus is None else gpus * WHOLE
