"""Who owns what and who owes whom, counted plainly from a snapshot.

Owns Claims: teams and departments with what they hold, and the rule by which one holds GPUs that
are promised to another. It shares no code with the scheduler, so that quotas are not judged by
the sums that they were given by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trackyard.core.job import Job
from trackyard.core.resources import WHOLE
from trackyard.scheduling import Snapshot, Team
from trackyard.simulate.check.watch import PassRecord

#: The name of the whole cluster among departments.
CLUSTER = "/"


class Claims:
    """Teams and departments of one snapshot, and what given jobs hold of them."""

    def __init__(self, snapshot: Snapshot, jobs: Sequence[Job]) -> None:
        self._teams = {team.id: team for team in snapshot.teams}
        for job in jobs:
            self._teams.setdefault(job.team, Team(id=job.team))
        self._departments = {team.parent for team in snapshot.teams if team.parent}
        self._total = sum(len(node.gpus) for node in snapshot.nodes) * WHOLE
        self.used: dict[str, int] = dict.fromkeys(self._teams, 0)
        self.fixed: dict[str, int] = dict.fromkeys(self._teams, 0)
        for job in jobs:
            self.take(job)

    def take(self, job: Job, sign: int = 1) -> None:
        """Count a job, or with -1 count it no more."""
        milli = sign * job.request.gpu_milli_total
        self.used[job.team] = self.used.get(job.team, 0) + milli
        if not job.preemptible:
            self.fixed[job.team] = self.fixed.get(job.team, 0) + milli

    def path(self, team: str) -> list[str]:
        """The way down to a team: its departments, each with a slash, and the team."""
        found, name = [team], team if team in self._departments else self._parent(team)
        while name:
            found.append(f"{name}/")
            name = self._parent(name)
        return found[::-1]

    def quota(self, place: str) -> float | None:
        """Thousandths of GPUs that are its own; of a department without any, those below it."""
        name = place.rstrip("/")
        if place == CLUSTER:
            return float(self._total)
        if place == name and name in self._departments:
            return None
        own = self._teams[name].quota_gpus
        if own is not None or place == name:
            return None if own is None else own * WHOLE
        below = [self.quota(one) for one in self.members(place)]
        known = [one for one in below if one is not None]
        return sum(known) if known else None

    def members(self, place: str) -> list[str]:
        """The teams and departments right below a department."""
        name = place.rstrip("/")
        found = [name] if name else []
        inside = [team for team in self._teams if self._parent(team) == name]
        found.extend(f"{team}/" if team in self._departments else team for team in inside)
        return found

    def held(self, place: str) -> int:
        """What a team, or all below a department, hold."""
        if not place.endswith("/"):
            return self.used[place]
        return sum(self.held(one) for one in self.members(place))

    def limits(self, team: str) -> Mapping[str, float]:
        """The limits in GPUs of a team and of the departments above it, by their names."""
        names = dict.fromkeys(place.rstrip("/") for place in self.path(team))
        known = ((name, self._teams[name].limit_gpus) for name in names)
        return {name: limit for name, limit in known if limit is not None}

    def held_under(self, name: str) -> int:
        """What a team holds with all that are below it."""
        return self.held(f"{name}/" if name in self._departments else name)

    def owner(self, team: str, need: int) -> str:
        """Whose quota its jobs use first, if so much more is within that; empty: nobody's."""
        for place in reversed(self.path(team)):
            quota = self.quota(place)
            if quota is not None:
                return place.rstrip("/") if self.held(place) + need <= quota else ""
        return ""

    def is_within(self, team: str, need: int) -> bool:
        """Say whether with so much more neither it nor its departments go beyond a quota."""
        quotas = [(place, self.quota(place)) for place in self.path(team)]
        return any(quota is not None for _, quota in quotas) and all(
            quota is None or self.held(place) + need <= quota for place, quota in quotas
        )

    def owes(self, team: str, claimant: str, need: int) -> bool:
        """Say whether a team holds GPUs that another, with so much more, may have back."""
        ours, theirs = self.path(team), self.path(claimant)
        shared = 0
        while shared < min(len(ours), len(theirs)) and ours[shared] == theirs[shared]:
            shared += 1
        if team == claimant or not self._is_over(ours, shared):
            return False
        quotas = ((place, self.quota(place)) for place in theirs[shared:])
        if any(quota is not None and self.held(place) + need > quota for place, quota in quotas):
            return False
        return all(
            self._is_over(ours, at) or not self._has_quotas(_above(ours, at))
            for at in range(shared + 1, len(ours))
        )

    def committed(self, place: str = CLUSTER) -> float:
        """What is gone for good or must come back in time, of a team or all of a department."""
        quota, name = self.quota(place) or 0.0, place.rstrip("/")
        if not place.endswith("/"):
            lends = self._teams[name].lendable_gpus * WHOLE if quota else 0.0
            return max(self.fixed[place], quota - lends)
        below = sum(self.committed(one) for one in self.members(place))
        if place == CLUSTER:
            return below
        return max(below, quota - self._lends(place))

    @property
    def capacity(self) -> float:
        """What may be committed of the whole cluster."""
        promised = sum(self.quota(one) or 0.0 for one in self.members(CLUSTER))
        return max(float(self._total), promised)

    def _lends(self, place: str) -> float:
        team = self._teams[place.rstrip("/")]
        if not place.endswith("/") or team.quota_gpus is not None:
            return team.lendable_gpus * WHOLE
        return sum(self._lends(one) for one in self.members(place) if one.rstrip("/") != team.id)

    def _is_over(self, path: Sequence[str], at: int) -> bool:
        """Say whether a place on a path holds more than is promised to it."""
        place, above = path[at], _above(path, at)
        quota = self.quota(place)
        if quota is not None:
            return self.held(place) > quota
        if not self._has_quotas(above) or not self.held(place):
            return False
        siblings = self.members(above)
        promised = sum(self.quota(one) or 0.0 for one in siblings)
        open_use = sum(self.held(one) for one in siblings if self.quota(one) is None)
        return open_use > max((self.quota(above) or 0.0) - promised, 0.0)

    def _has_quotas(self, above: str) -> bool:
        return any(self.quota(one) is not None for one in self.members(above))

    def _parent(self, team: str) -> str:
        return self._teams[team].parent if team in self._teams else ""


def claims_after(look: PassRecord) -> Claims:
    """What teams hold and own after a pass, whoever it stops still there."""
    jobs = {one.job.id: one.job for one in look.snapshot.waiting}
    new = [jobs[one.job] for one in look.decisions.admissions]
    found = Claims(look.snapshot, [*(one.job for one in look.snapshot.running), *jobs.values()])
    for job in jobs.values():
        found.take(job, -1)
    for job in new:
        found.take(job)
    return found


def _above(path: Sequence[str], at: int) -> str:
    return path[at - 1] if at else CLUSTER
