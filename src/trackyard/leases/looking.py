"""Looking at the calendar: leases, free slots, rules. Owns what callers are shown of it; changes
nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from trackyard.core.errors import InvalidInput
from trackyard.core.lease import Lease
from trackyard.leases.plan.calendar import Calendar, NodeQuery, RunningJob
from trackyard.leases.plan.fairness import used_units
from trackyard.leases.plan.machines import NodeCache
from trackyard.leases.plan.world import LeaseWorld, closing_ms
from trackyard.leases.records import (
    find_lease,
    load_leases,
    load_open,
    load_since,
    scheduler_leases,
)
from trackyard.leases.rules import DAY_MS, MINUTE_MS, LeaseRules
from trackyard.leases.views import (
    ClassView,
    JobEffect,
    LeaseList,
    LeaseView,
    RulesView,
    SlotList,
    SlotView,
    view,
)
from trackyard.leases.wishes import LeaseCaller, NodeChoice
from trackyard.leases.wording import slot_fact
from trackyard.leases.wording import zone_of as zone_named
from trackyard.store.database import Database, ReadConnection, Tx


async def _nobody() -> list[RunningJob]:
    return []


async def _nothing(_lease: Lease, _who: LeaseCaller) -> list[JobEffect]:
    return []


class LeaseReader:
    """Reads the calendar for those who ask, and for the scheduler."""

    def __init__(self, database: Database, rules: LeaseRules | None = None) -> None:
        self._db = database
        self.rules = rules or LeaseRules()
        self._shelf = NodeCache()
        #: what runs now, as the queue sees it
        self.occupants: Callable[[], Awaitable[list[RunningJob]]] = _nobody
        #: which waiting jobs a lease would move
        self.foresee: Callable[[Lease, LeaseCaller], Awaitable[list[JobEffect]]] = _nothing
        #: called after a change of the calendar
        self.on_change: Callable[[], None] = lambda: None

    # -- looking ----------------------------------------------------------------------------

    def world(
        self, reader: ReadConnection | Tx, now_ms: int, occupants: Sequence[RunningJob] = ()
    ) -> LeaseWorld:
        """Read all that a judgement depends on."""
        since = now_ms - int(self.rules.quota_days * DAY_MS)
        recent = load_since(reader, since)
        records = load_open(reader)
        over = [one.promise for one in recent if one.state.is_over]
        return LeaseWorld(
            now_ms=now_ms,
            rules=self.rules,
            machines=self._shelf.load(reader),
            records=records,
            past=over,
            occupants=occupants,
        )

    def for_scheduler(self, reader: ReadConnection) -> list[Lease]:
        """Return the leases in the scheduler's words: those that are not over, and of those that
        are the recent ones, so that a job that names one is told so.
        """
        records = load_open(reader)
        over = [
            replace(lease, nodes=(), ends_at=(record.row.ended_ms or record.row.ends_ms) / 1000)
            for record in load_leases(
                reader, "l.state IN ('terminated', 'deleted') ORDER BY l.id DESC LIMIT 200"
            )
            for lease in scheduler_leases([record])[:1]
        ]
        if not records:
            return over
        # Nodes matter here only where their classes differ in turnaround.
        machines = self._shelf.load(reader) if self.rules.classes else ()
        calendar = Calendar(machines, [record.promise for record in records])
        closes = {
            record.row.lease_id: closing_ms(record.promise, calendar, self.rules)
            for record in records
        }
        return [*over, *scheduler_leases(records, closes)]

    async def find(self, who: LeaseCaller, name: str, zone: str = "") -> LeaseView:
        """Show one lease."""
        now_ms = self._db.clock.time_ms()

        def load(reader: ReadConnection) -> LeaseView:
            record = find_lease(reader, name, who.team_id)
            return view(record, who, self.world(reader, now_ms), zone_named(zone))

        return await self._db.read(load)

    async def list(
        self,
        who: LeaseCaller,
        *,
        mine: bool = False,
        team: str = "",
        node: str = "",
        states: Sequence[str] = (),
        span_ms: tuple[int, int] | None = None,
        all_: bool = False,
        zone: str = "",
    ) -> LeaseList:
        """List leases by start; those that are over only on demand."""
        now_ms = self._db.clock.time_ms()

        def load(reader: ReadConnection) -> LeaseList:
            world = self.world(reader, now_ms)
            found = list(world.records)
            if all_ or states:
                known = {one.row.id for one in found}
                past = load_leases(
                    reader,
                    "l.state IN ('terminated', 'deleted')"
                    " ORDER BY l.ends_ms DESC, l.id DESC LIMIT 200",
                )
                found = [*reversed([one for one in past if one.row.id not in known]), *found]
            shown = [
                view(one, who, world, zone_named(zone))
                for one in found
                if (not mine or (one.row.team_id, one.row.user_name) == (who.team_id, who.name))
                and (not team or one.team == team)
                and (not node or node in one.nodes)
                and (not states or one.row.state in states)
                and (span_ms is None or one.promise.overlaps(*span_ms))
            ]
            return LeaseList(now_ms, sorted(shown, key=lambda one: one.starts_ms))

        return await self._db.read(load)

    async def free(
        self,
        who: LeaseCaller,
        choice: NodeChoice,
        *,
        minutes: int,
        from_ms: int | None = None,
        within_days: int = 14,
        zone: str = "",
    ) -> SlotList:
        """Return the next free slots of a shape."""
        if not 1 <= minutes <= 366 * 1440 or not 1 <= within_days <= 366:
            raise InvalidInput("a slot has at least a minute and lies within a year")
        occupants, now_ms = await self.occupants(), self._db.clock.time_ms()
        named = len(set(choice.nodes)) or 1
        count = choice.count or named
        ask = NodeQuery(
            nodes=tuple(dict.fromkeys(choice.nodes)),
            type=choice.type,
            where=choice.condition(),
            min_nodes=count,
            max_nodes=count,
            team=who.team,
        )

        def load(reader: ReadConnection) -> SlotList:
            world = self.world(reader, now_ms, occupants)
            begin = max(from_ms or 0, world.minute_ms)
            found = world.calendar.slots(
                ask,
                length_ms=minutes * MINUTE_MS,
                from_ms=begin,
                until_ms=begin + within_days * DAY_MS,
                most=5,
            )
            facts = [slot_fact(slot, zone_named(zone)) for slot in found]
            return SlotList(
                [SlotView(**fact) for fact in facts],
                f"The next free slot is {facts[0]['sentence']}."
                if facts
                else self._no_slot(world, ask, within_days),
            )

        return await self._db.read(load)

    def _no_slot(self, world: LeaseWorld, ask: NodeQuery, days: int) -> str:
        fitting = world.calendar.candidates(ask)
        if len(fitting) < ask.min_nodes:
            return f"Only {len(fitting)} nodes fit, {ask.min_nodes} are wanted; see `yard nodes`."
        return f"No slot of that shape is free within {days} days; ask for less or shorter."

    async def rules_for(self, who: LeaseCaller) -> RulesView:
        """Show the rules and what the caller's team has used."""
        now_ms, rules = self._db.clock.time_ms(), self.rules

        def load(reader: ReadConnection) -> RulesView:
            world = self.world(reader, now_ms)
            classes = {
                machine.node_class: ClassView(
                    gap_minutes=rules.gap_ms(machine) // MINUTE_MS,
                    units=rules.units_an_hour(machine),
                    nodes=sum(one.node_class == machine.node_class for one in world.machines),
                )
                for machine in world.machines
            }
            shown = {
                name: getattr(rules, name)
                for name in RulesView.__struct_fields__
                if hasattr(rules, name)
            }
            shown |= {"classes": classes, "quota_units": rules.quota_of(who.team)}
            used = used_units(
                [*world.past, *world.promises],
                who.team,
                until_ms=now_ms + int(rules.quota_days * DAY_MS),
                machines=world.machines,
                rules=rules,
            )
            return RulesView(used_units=round(used, 3), **shown)

        return await self._db.read(load)
