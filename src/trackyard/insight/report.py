"""An account of a window of time, and the report that people read of it. Pure.

Owns the account (entries with names, leases, quotas, interruptions, the rates of the day), which
can be kept as it is, and the figures made from it: groups, totals, goodput, mean time between
failures, causes of loss. Knows no table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from trackyard.insight.goodput import GpuClass, GpuLedger, NodeSpan, account
from trackyard.insight.loading import LoadedHistory
from trackyard.insight.rates import RateCard
from trackyard.insight.usage import (
    BY_TIME,
    DAY_MS,
    HOUR_US,
    INTERRUPTIONS,
    UsageEntry,
    UsageGroup,
    UsageLoss,
    entries,
    group,
    is_charged,
    losses,
)

HOUR_MS = 3_600_000


class UsageAccount(msgspec.Struct, frozen=True):
    """Usage in a window of time, with everything needed to show it again."""

    since_ms: int
    until_ms: int
    entries: list[UsageEntry]
    #: GPU-microseconds of leases by team, used or not
    leased: dict[str, int]
    #: GPUs that are a team's own
    quotas: dict[str, float]
    rates: RateCard
    #: of all attempts: time that their commands ran, and ends from outside
    ran_ms: int
    interruptions: int
    #: of all nodes: time in service, and times that they failed
    service_ms: int
    node_failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Whose usage is asked for; empty: everybody's."""

    team: str = ""
    user: str = ""
    project: str = ""
    job: str = ""

    @property
    def is_open(self) -> bool:
        """Whether everything is asked for."""
        return not (self.team or self.user or self.project or self.job)

    def takes(self, entry: UsageEntry) -> bool:
        """Tell whether an entry is asked for."""
        return (
            (not self.team or entry.team == self.team)
            and (not self.user or entry.user == self.user)
            and (not self.project or entry.project == self.project)
            and (not self.job or self.job in (entry.job, entry.job_name))
        )


class UsageReport(msgspec.Struct):
    """Usage as people read it."""

    since_ms: int
    until_ms: int
    #: grouped by these
    by: list[str]
    groups: list[UsageGroup]
    #: all groups together
    total: UsageGroup
    #: GPU-hours of the whole fleet by class, which add up to `wall_gpu_hours`
    fleet: dict[str, float]
    wall_gpu_hours: float
    #: productive part of what all jobs held
    fleet_goodput: float | None
    losses: list[UsageLoss]
    #: hours that a job runs between interruptions from outside; null: there was none
    job_mtbf_hours: float | None
    interruptions: int
    #: hours that a node is in service between failures
    node_mtbf_hours: float | None
    node_failures: int
    currency: str
    carbon_g_per_kwh: float
    pue: float
    #: the month, where one was asked for, and when it was closed; null: it can still change
    month: str = ""
    closed_ms: int | None = None
    closed_by: str = ""


def make_account(
    loaded: LoadedHistory,
    since_ms: int,
    until_ms: int,
    now_ms: int,
    *,
    rates: RateCard,
    quotas: Mapping[str, float],
    by_day: bool = False,
) -> UsageAccount:
    """Account for a window, cut by days (UTC) if need be."""
    until_ms = max(since_ms, min(until_ms, now_ms))
    found: list[UsageEntry] = []
    leased: dict[str, int] = defaultdict(int)
    for begin, end in _cuts(since_ms, until_ms, by_day=by_day):
        ledger = account(loaded.history, begin, end, now_ms)
        found += entries(ledger, loaded.facts)
        for lease, amount in ledger.leased.items():
            leased[loaded.facts.leases[lease].team] += amount
    ran = sum(
        _overlap(row.started_ms, row.ended_ms or now_ms, since_ms, until_ms)
        for row in loaded.attempts
        if row.started_ms is not None
    )
    return UsageAccount(
        since_ms=since_ms,
        until_ms=until_ms,
        entries=found,
        leased=dict(leased),
        quotas=dict(quotas),
        rates=rates,
        ran_ms=ran,
        interruptions=sum(
            row.cause in INTERRUPTIONS and since_ms < (row.ended_ms or 0) <= until_ms
            for row in loaded.attempts
        ),
        service_ms=_service(loaded.history.nodes, since_ms, until_ms),
        node_failures=len(loaded.failures),
    )


def _cuts(since: int, until: int, *, by_day: bool) -> list[tuple[int, int]]:
    if not by_day:
        return [(since, until)]
    edges = [since, *range((since // DAY_MS + 1) * DAY_MS, until, DAY_MS), until]
    return list(pairwise(edges))


def _overlap(since: int | None, until: int, low: int, high: int) -> int:
    return 0 if since is None else max(0, min(until, high) - max(since, low))


def _service(nodes: Mapping[str, Sequence[NodeSpan]], since: int, until: int) -> int:
    return sum(
        _overlap(one.since_ms, one.until_ms, since, until)
        for spans in nodes.values()
        for one in spans
        if not (one.is_out or one.is_down)
    )


def make_report(
    found: UsageAccount, by: Sequence[str], wanted: Filter, rates: RateCard | None = None
) -> UsageReport:
    """Show an account by what was asked for."""
    card = found.rates if rates is None else rates
    fleet: dict[str, int] = dict.fromkeys((kind.value for kind in GpuClass), 0)
    for entry in found.entries:
        fleet[entry.kind] += entry.amount
    inside = [one for one in found.entries if is_charged(one)]
    if not wanted.is_open:
        inside = [one for one in inside if wanted.takes(one)]
    shown = inside
    if wanted.is_open and set(by) & {"node", "gpu", "class"}:
        # For hardware, include the time that nobody held.
        shown = found.entries
    groups = group(shown, by, card)
    total = next(iter(group(inside, (), card)), UsageGroup({}, 0.0, {}, None, 0.0, 0.0))
    hours = (found.until_ms - found.since_ms) / HOUR_MS
    if tuple(by) == ("team",):
        for one in groups:
            _of_team(one, one.key["team"], found, hours)
    only = wanted.team if wanted == Filter(team=wanted.team) else None
    if wanted.is_open:
        total.lease_gpu_hours = sum(found.leased.values()) / HOUR_US
    elif only:
        _of_team(total, only, found, hours)
    held = sum(amount for kind, amount in fleet.items() if kind not in _UNHELD)
    return UsageReport(
        since_ms=found.since_ms,
        until_ms=found.until_ms,
        by=list(by),
        groups=groups,
        total=total,
        fleet={kind: amount / HOUR_US for kind, amount in fleet.items()},
        wall_gpu_hours=sum(fleet.values()) / HOUR_US,
        fleet_goodput=fleet[GpuClass.PRODUCTIVE] / held if held else None,
        losses=losses(inside, card),
        job_mtbf_hours=_between(found.ran_ms, found.interruptions),
        interruptions=found.interruptions,
        node_mtbf_hours=_between(found.service_ms, found.node_failures),
        node_failures=found.node_failures,
        currency=card.currency,
        carbon_g_per_kwh=card.carbon_g_per_kwh,
        pue=card.pue,
    )


_UNHELD = (GpuClass.IDLE_LEASED, GpuClass.FREE, GpuClass.BROKEN)


def _of_team(one: UsageGroup, team: str, found: UsageAccount, hours: float) -> None:
    one.lease_gpu_hours = found.leased.get(team, 0) / HOUR_US
    quota = found.quotas.get(team)
    if quota and hours:
        one.quota_ratio = one.gpu_hours / (quota * hours)


def _between(ms: int, times: int) -> float | None:
    return ms / HOUR_MS / times if times else None


def needs_days(by: Sequence[str]) -> bool:
    """Tell whether an account must be cut by days for this."""
    return bool(BY_TIME & set(by))


def use_by_team(
    ledger: GpuLedger, loaded: LoadedHistory, rates: RateCard
) -> dict[str, tuple[float, float]]:
    """Return each team's GPU-hours and cost, for budgets."""
    charged = [one for one in entries(ledger, loaded.facts) if is_charged(one)]
    return {one.key["team"]: (one.gpu_hours, one.cost) for one in group(charged, ("team",), rates)}
