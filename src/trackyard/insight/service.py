"""Usage for routes and loops: reports, closed months, budgets counted again and again.

Owns what is read together and that sums are made off the event loop. Rules are in goodput, usage
and report; tables belong to others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence

import msgspec

from trackyard.core.errors import InvalidInput, YardError
from trackyard.fleet.nodes import NodeRow, load_nodes
from trackyard.insight import months
from trackyard.insight.counter import GpuSeconds
from trackyard.insight.fleet_map import FleetHistory, edges_of, fleet_map, queue_curves
from trackyard.insight.goodput import account
from trackyard.insight.loading import LoadedHistory, load_history
from trackyard.insight.rates import RateCard
from trackyard.insight.recent import RecentAccounts
from trackyard.insight.report import (
    Filter,
    UsageAccount,
    UsageReport,
    make_account,
    make_report,
    needs_days,
    use_by_team,
)
from trackyard.queue.records import decode_spec
from trackyard.queue.shares import past
from trackyard.queue.shares.budgets import (
    BudgetRow,
    TeamBudget,
    load_budgets,
    month_bounds,
    month_of,
    note_use,
    set_budget,
    within,
)
from trackyard.queue.shares.queues import load_shares
from trackyard.queue.shares.settings import quota_of
from trackyard.store.database import Database, ReadConnection

log = logging.getLogger(__name__)
#: Seconds between counts of what budgets have left.
COUNT_SECONDS = 30.0
LONGEST_MS = 400 * 86_400_000


class TraceLine(msgspec.Struct):
    """A past job as it was asked for, and for how long it ran."""

    id: str
    submitted_at: float
    duration: float
    gpus: int
    gpu_milli: int
    gpu_types: list[str]
    cpu_milli: int
    memory_bytes: int
    user: str
    team: str
    name: str


class TraceNode(msgspec.Struct):
    """A node that is there now."""

    id: str
    gpus: int
    type: str
    cpu_milli: int
    memory_bytes: int


class LiveTrace(msgspec.Struct):
    """What a replay of the past needs."""

    jobs: list[TraceLine]
    nodes: list[TraceNode]


class Usage:
    """Accounts of GPU time."""

    def __init__(
        self,
        database: Database,
        *,
        on_change: Callable[[], None] = lambda: None,
        is_leader: Callable[[], bool] = lambda: True,
    ) -> None:
        self._db = database
        self._task: asyncio.Task[None] | None = None
        self._counter: GpuSeconds | None = None
        self._recent = RecentAccounts(self._account, database.clock)
        #: told when a budget began or ceased to hold jobs
        self._on_change = on_change
        #: whether this server is the one that counts
        self._is_leader = is_leader

    # -- reports ------------------------------------------------------------------------------

    async def report(
        self, since_ms: int, until_ms: int, by: Sequence[str], wanted: Filter
    ) -> UsageReport:
        """Report usage of any window."""
        if not 0 <= since_ms < until_ms or until_ms - since_ms > LONGEST_MS:
            raise InvalidInput(
                "give a window that ends after it begins and spans at most 400 days"
            )
        found = await self._recent.get(since_ms, until_ms, by_day=needs_days(by))
        return await asyncio.to_thread(make_report, found, by, wanted)

    async def month(self, month: str, by: Sequence[str], wanted: Filter) -> UsageReport:
        """Report a month: as it was closed, or as it stands."""
        since, until = month_bounds(month)
        closed = await self._db.read(lambda reader: months.load_closed(reader, month))
        if closed is None:
            report = await self.report(since, until, by, wanted)
            report.month = month
            return report
        kept, found = closed
        report = await asyncio.to_thread(make_report, found, by, wanted)
        report.month, report.closed_ms, report.closed_by = month, kept.closed_ms, kept.actor
        return report

    async def _account(self, since_ms: int, until_ms: int, by_day: bool) -> UsageAccount:
        now_ms = self._db.clock.time_ms()

        def load(reader: ReadConnection) -> tuple[LoadedHistory, RateCard, dict[str, float]]:
            shares = load_shares(reader)
            quotas = {
                name: quota_of(name, shares)
                for name, share in shares.items()
                if share.quota_gpus is not None
            }
            loaded = load_history(reader, since_ms, until_ms, now_ms)
            return loaded, months.load_rates(reader), quotas

        loaded, rates, quotas = await self._db.read(load)
        return await asyncio.to_thread(
            make_account,
            loaded,
            since_ms,
            until_ms,
            now_ms,
            rates=rates,
            quotas=quotas,
            by_day=by_day,
        )

    async def fleet(self, since_ms: int, until_ms: int, points: int) -> FleetHistory:
        """Return what each GPU was doing over time, and how many jobs waited."""
        now_ms = self._db.clock.time_ms()
        loaded, waits = await self._db.read(
            lambda reader: (
                load_history(reader, since_ms, until_ms, now_ms),
                past.waits(reader, since_ms, until_ms),
            )
        )

        def draw() -> FleetHistory:
            edges = edges_of(since_ms, until_ms, points)
            types = {node: one.gpu_type for node, one in loaded.facts.machines.items()}
            return FleetHistory(
                since_ms=since_ms,
                until_ms=until_ms,
                width_ms=int(edges[1] - edges[0]),
                gpus=fleet_map(loaded.history, types, edges, now_ms),
                queue=queue_curves(waits, edges, since_ms, until_ms),
            )

        return await asyncio.to_thread(draw)

    async def live_trace(self, days: int, limit: int) -> LiveTrace:
        """Return the jobs of the last days and the present nodes, for a replay."""
        since_ms = self._db.clock.time_ms() - days * 86_400_000

        def load(reader: ReadConnection) -> LiveTrace:
            jobs = [_line(one) for one in past.past_jobs(reader, since_ms, limit)]
            found = [_node(row) for row in load_nodes(reader) if row.in_force.takes_work]
            return LiveTrace(jobs=jobs[::-1], nodes=found)

        return await self._db.read(load)

    async def gpu_seconds(self) -> dict[str, float]:
        """Return counters of GPU-seconds by class since this server began to count."""
        now_ms = self._db.clock.time_ms()
        if not self._is_leader():
            self._counter = None
        if self._counter is None:
            self._counter = GpuSeconds(now_ms)
        counter = self._counter

        def load(reader: ReadConnection) -> LoadedHistory:
            begin = counter.since(past.ended_since(reader, counter.until_ms))
            return load_history(reader, begin, now_ms, now_ms)

        loaded = await self._db.read(load)
        await asyncio.to_thread(counter.advance, loaded, now_ms)
        return counter.seconds()

    # -- months and rates ---------------------------------------------------------------------

    async def close_month(self, month: str, *, actor: str) -> months.ClosedMonth:
        """Freeze a month that is over."""
        since, until = months.check_closable(month, self._db.clock.time_ms())
        found = await self._account(since, until, by_day=True)
        packed = await asyncio.to_thread(months.pack, found)
        return await self._db.write(lambda tx: months.store_month(tx, month, packed, actor=actor))

    async def closed_months(self) -> list[months.ClosedMonth]:
        """List the closed months."""
        return await self._db.read(months.list_closed)

    async def rates(self) -> RateCard:
        """Return the rate card."""
        return await self._db.read(months.load_rates)

    async def set_rates(self, card: RateCard, *, actor: str) -> None:
        """Change the rate card."""
        await self._db.write(lambda tx: months.set_rates(tx, card, actor=actor))
        self._recent.forget()

    # -- budgets ------------------------------------------------------------------------------

    async def budgets(self) -> list[BudgetRow]:
        """Return every budget with what was used of it."""
        return await self._db.read(load_budgets)

    async def set_budget(self, team: str, budget: TeamBudget, *, actor: str) -> None:
        """Set a budget and count at once."""
        await self._db.write(lambda tx: set_budget(tx, team, budget, actor=actor))
        await self.count_budgets()
        self._on_change()

    async def count_budgets(self) -> None:
        """Write down what every team with a budget has used this month."""
        rows = await self._db.read(load_budgets)
        if not rows:
            return
        now_ms = self._db.clock.time_ms()
        month = month_of(now_ms)
        since, until = month_bounds(month)
        loaded, rates, shares = await self._db.read(
            lambda reader: (
                load_history(reader, since, until, now_ms),
                months.load_rates(reader),
                load_shares(reader),
            ),
            seconds=None,
        )
        used = await asyncio.to_thread(
            lambda: use_by_team(account(loaded.history, since, until, now_ms), loaded, rates)
        )
        parents = {name: share.parent for name, share in shares.items()}
        sums: dict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
        for team, (hours, cost) in used.items():
            for one in within(team, parents):
                sums[one] = (sums[one][0] + hours, sums[one][1] + cost)
        changed = await self._db.write(
            lambda tx: [
                note_use(tx, row.team, month, gpu_hours=sums[row.team][0], cost=sums[row.team][1])
                for row in rows
            ]
        )
        if any(changed):
            self._on_change()

    def start(self) -> None:
        """Begin to count budgets."""
        self._task = asyncio.create_task(self._count(), name="budgets")

    async def stop(self) -> None:
        """Stop counting."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _count(self) -> None:
        while True:
            await asyncio.sleep(COUNT_SECONDS)
            if not self._is_leader():
                continue
            try:
                await self.count_budgets()
            except YardError as fault:
                log.warning("budgets were not counted: %s", fault)


def _line(job: past.PastJob) -> TraceLine:
    request = decode_spec(job.spec).request
    return TraceLine(
        id=job.job_id,
        submitted_at=job.submitted_ms / 1000,
        duration=job.ran_ms / 1000,
        gpus=request.nodes * request.gpus,
        gpu_milli=request.gpu_milli,
        gpu_types=list(request.gpu_types),
        cpu_milli=request.nodes * request.cpu_milli,
        memory_bytes=request.nodes * request.memory_bytes,
        user=job.user_name,
        team=job.team,
        name=job.name,
    )


def _node(row: NodeRow) -> TraceNode:
    facts = row.facts
    return TraceNode(
        id=row.id,
        gpus=len(facts.gpus),
        type=row.properties.gpu_model,
        cpu_milli=round(facts.cpus * 1000),
        memory_bytes=facts.memory_bytes,
    )
