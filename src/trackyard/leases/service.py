"""Leases as the server uses them: make, change, hand over, give back, look up.

Owns that each change is judged and written in one transaction under the calendar's lock, so that
of simultaneous requests for one slot exactly one wins. The queue reports what jobs do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from trackyard.core.lease import LeaseState
from trackyard.leases import life
from trackyard.leases.ending import recalled, released
from trackyard.leases.holders import Named, changer_of, holder_of, pool_of, receiver_of
from trackyard.leases.looking import LeaseReader
from trackyard.leases.plan import changing, planning
from trackyard.leases.plan.world import LeaseHolder, LeasePlan, LeaseWorld
from trackyard.leases.records import (
    BoundNode,
    LeaseRecord,
    find_lease,
    lock_calendar,
    scheduler_leases,
)
from trackyard.leases.telling import asked_of, drained, imagined, tell_neighbours
from trackyard.leases.views import (
    LeaseAnswer,
    view,
)
from trackyard.leases.wishes import (
    LeaseCaller,
    LeaseChange,
    LeaseEnd,
    LeaseExtension,
    LeaseShrinking,
    LeaseTransfer,
    NewLease,
)
from trackyard.leases.wording import length, names, refusal, span
from trackyard.leases.wording import zone_of as zone_named
from trackyard.store.database import ReadConnection, Tx


class _Way(NamedTuple):
    """How a lease is changed, and how that is called."""

    judge: Callable[[LeaseWorld, LeaseRecord, Any, LeaseHolder], LeasePlan]
    event: str
    verb: str


class Leases(LeaseReader):
    """The calendar of promised nodes, and every change of it."""

    # -- making -----------------------------------------------------------------------------

    async def create(self, who: LeaseCaller, wish: NewLease) -> LeaseAnswer:
        """Make a lease, or say what would become of it."""
        wish.check()
        occupants = await self.occupants()

        def judge(
            reader: ReadConnection | Tx, now_ms: int
        ) -> tuple[LeaseWorld, Named, LeaseRecord | None, LeasePlan]:
            named = holder_of(reader, who, wish)
            pool = pool_of(reader, who, wish.parent) if wish.parent else None
            world = self.world(reader, now_ms, occupants)
            return world, named, pool, planning.new(world, wish, named.holder, pool)

        def change(tx: Tx) -> tuple[LeaseWorld, LeaseRecord, LeasePlan]:
            lock_calendar(tx)
            world, named, pool, plan = judge(tx, tx.now_ms)
            record = life.create(
                tx,
                team_id=named.team_id,
                user_id=named.user_id,
                user_name=named.holder.user,
                name=wish.name,
                nodes=plan.nodes,
                starts_ms=plan.starts_ms,
                ends_ms=plan.ends_ms,
                asked=asked_of(wish),
                min_nodes=plan.min_nodes,
                max_nodes=plan.max_nodes,
                sentence=f"{names(plan.nodes)} {span(plan.starts_ms, plan.ends_ms)}.",
                actor=who.name,
                kind="pool" if wish.pool else "lease",
                personal=wish.personal,
                before_end=wish.before_end,
                purpose=wish.purpose,
                provider=wish.provider,
                parent=pool.row.id if pool else None,
            )
            tell_neighbours(tx, world, record)
            return world, _flag(tx, record, plan), plan

        def imagine(reader: ReadConnection) -> tuple[LeaseWorld, LeaseRecord, LeasePlan]:
            now_ms = self._db.clock.time_ms()
            world, named, pool, plan = judge(reader, now_ms)
            return world, imagined(wish, named, pool, plan, now_ms), plan

        world, record, plan = await (
            self._db.read(imagine) if wish.dry_run else self._db.write(change)
        )
        verb = "would get" if wish.dry_run else "has"
        zone = zone_named(wish.zone)
        sentence = (
            f"Lease {wish.name} {verb} {names(plan.nodes)},"
            f" {span(plan.starts_ms, plan.ends_ms, zone)}"
            f" ({length(plan.ends_ms - plan.starts_ms)})."
        )
        return await self._answer(who, record, world, plan, sentence=sentence, wish=wish)

    # -- changing ---------------------------------------------------------------------------

    async def extend(self, who: LeaseCaller, name: str, wish: LeaseExtension) -> LeaseAnswer:
        """Prolong a lease."""
        wish.check()
        way = _Way(changing.extend, "lease.extended", "lasts")
        return await self._change(who, name, wish, way)

    async def shrink(self, who: LeaseCaller, name: str, wish: LeaseShrinking) -> LeaseAnswer:
        """Give up a part of a lease."""
        wish.check()
        way = _Way(changing.shrink, "lease.changed", "lasts")
        return await self._change(who, name, wish, way)

    async def move(self, who: LeaseCaller, name: str, wish: LeaseChange) -> LeaseAnswer:
        """Give a lease another time, other nodes or another name."""
        wish.check()
        more = {
            key: value
            for key in ("name", "purpose", "before_end")
            if (value := getattr(wish, key)) is not None
        }
        way = _Way(changing.move, "lease.changed", "is")
        return await self._change(who, name, wish, way, more)

    async def _change(
        self,
        who: LeaseCaller,
        name: str,
        wish: Any,
        way: _Way,
        columns: Mapping[str, Any] = {},
    ) -> LeaseAnswer:
        occupants = await self.occupants()

        def plan_it(
            reader: ReadConnection | Tx, now_ms: int
        ) -> tuple[LeaseWorld, LeaseRecord, LeasePlan]:
            record = find_lease(reader, name, who.team_id)
            holder = changer_of(who, record, wish.zone)
            world = self.world(reader, now_ms, occupants)
            return world, record, way.judge(world, record, wish, holder)

        def change(tx: Tx) -> tuple[LeaseWorld, LeaseRecord, LeasePlan]:
            lock_calendar(tx)
            world, record, plan = plan_it(tx, tx.now_ms)
            before = {"starts_ms": record.row.starts_ms, "ends_ms": record.row.ends_ms}
            record = life.update(
                tx,
                record,
                event=way.event,
                sentence=f"{names(plan.nodes)} {span(plan.starts_ms, plan.ends_ms)}.",
                actor=who.name,
                nodes=plan.nodes,
                data={"before": {**before, "nodes": list(record.nodes)}},
                starts_ms=plan.starts_ms,
                ends_ms=plan.ends_ms,
                min_nodes=plan.min_nodes,
                **_warn_again(record, plan),
                **columns,
            )
            tell_neighbours(tx, world, record)
            return world, _flag(tx, record, plan), plan

        def imagine(reader: ReadConnection) -> tuple[LeaseWorld, LeaseRecord, LeasePlan]:
            now_ms = self._db.clock.time_ms()
            world, record, plan = plan_it(reader, now_ms)
            row = record.row._replace(starts_ms=plan.starts_ms, ends_ms=plan.ends_ms, **columns)
            bound = tuple(BoundNode(node, now_ms, None) for node in plan.nodes)
            return world, replace(record, row=row, bound=bound), plan

        world, record, plan = await (
            self._db.read(imagine) if wish.dry_run else self._db.write(change)
        )
        verb = {"lasts": "would last", "is": "would be"}[way.verb] if wish.dry_run else way.verb
        zone = zone_named(wish.zone)
        sentence = (
            f"Lease {record.row.name} {verb} {span(plan.starts_ms, plan.ends_ms, zone)}"
            f" on {names(plan.nodes)} ({length(plan.ends_ms - plan.starts_ms)})."
        )
        return await self._answer(who, record, world, plan, sentence=sentence, wish=wish)

    async def transfer(self, who: LeaseCaller, name: str, wish: LeaseTransfer) -> LeaseAnswer:
        """Hand a lease over to someone else."""

        def change(tx: Tx) -> tuple[LeaseWorld, LeaseRecord]:
            lock_calendar(tx)
            record = find_lease(tx, name, who.team_id)
            changer_of(who, record, wish.zone)
            _check_open(record)
            named = receiver_of(tx, who, wish)
            world = self.world(tx, tx.now_ms)
            taker = named.holder
            if taker.team != record.team:
                moved = replace(record.promise, team=taker.team, user=taker.user)
                planning.check_fair(world, moved, taker)
            taken = [
                one
                for one in world.records
                if (one.team, one.row.name) == (taker.team, record.row.name)
                and one.row.id != record.row.id
            ]
            if taken:
                raise refusal(
                    "name_taken",
                    f"Team {taker.team} has a lease {record.row.name} already",
                    "Rename one with `yard lease move --name`",
                )
            before = f"{record.row.user_name} (team {record.team})"
            columns: dict[str, Any] = {
                "team_id": named.team_id,
                "user_id": named.user_id,
                "user_name": taker.user,
            }
            record = life.update(
                tx,
                record,
                event="lease.transferred",
                sentence=f"{before} handed it over to {taker.user} (team {taker.team}).",
                actor=who.name,
                **columns,
            )
            return world, replace(record, team=taker.team)

        world, record = await self._db.write(change)
        sentence = f"Lease {record.row.name} is {record.row.user_name}'s (team {record.team}) now."
        return await self._answer(who, record, world, None, sentence=sentence, wish=wish)

    async def release(self, who: LeaseCaller, name: str, wish: LeaseEnd) -> LeaseAnswer:
        """Give a lease back: one that has not begun is deleted, another ends at once."""

        def change(tx: Tx) -> tuple[LeaseWorld, LeaseRecord]:
            lock_calendar(tx)
            record = find_lease(tx, name, who.team_id)
            changer_of(who, record, wish.zone)
            _check_open(record)
            world = self.world(tx, tx.now_ms)
            parts = [one for one in world.records if one.parent_id == record.row.lease_id]
            if parts:
                raise refusal(
                    "outside_pool",
                    f"{len(parts)} leases are handed out from pool {record.row.name}",
                    "Release them first",
                )
            why = f" ({wish.note})" if wish.note else ""
            return world, released(tx, record, actor=who.name, why=f"{who.name} released it{why}")

        world, record = await self._db.write(change)
        gone = "is deleted" if record.state is LeaseState.DELETED else "ends now"
        sentence = f"Lease {record.row.name} {gone}; {names(record.nodes)} can be leased again."
        return await self._answer(who, record, world, None, sentence=sentence, wish=wish)

    async def recall(self, who: LeaseCaller, name: str, zone: str = "") -> LeaseAnswer:
        """Call lent nodes back at once."""

        def change(tx: Tx) -> tuple[LeaseWorld, LeaseRecord]:
            lock_calendar(tx)
            record = find_lease(tx, name, who.team_id)
            changer_of(who, record, zone)
            if record.row.lent_ms is not None:
                record = recalled(tx, record, actor=who.name)
            return self.world(tx, tx.now_ms), record

        world, record = await self._db.write(change)
        sentence = f"The nodes of lease {record.row.name} are its own."
        return await self._answer(
            who, record, world, None, sentence=sentence, wish=LeaseEnd(zone=zone)
        )

    # -- telling ----------------------------------------------------------------------------

    async def _answer(
        self,
        who: LeaseCaller,
        record: LeaseRecord,
        world: LeaseWorld,
        plan: LeasePlan | None,
        *,
        sentence: str,
        wish: Any,
    ) -> LeaseAnswer:
        dry_run, zone = getattr(wish, "dry_run", False), wish.zone
        if not dry_run:
            self.on_change()
        others = [one for one in world.records if one.row.lease_id != record.row.lease_id]
        if not record.state.is_over:
            others.append(record)
        world = replace(world, records=others)
        effects = list(drained(record, world, who)) if plan is not None else []
        if plan is not None and not record.state.is_over:
            lease = scheduler_leases([record])[0]
            effects += await self.foresee(replace(lease, id=lease.id or "this lease"), who)
        return LeaseAnswer(
            lease=view(record, who, world, zone_named(zone)),
            dry_run=dry_run,
            sentence=sentence,
            effects=effects,
            warnings=list(plan.warnings) if plan is not None else [],
        )


def _check_open(record: LeaseRecord) -> None:
    state = record.state
    if state.is_over or state is LeaseState.TERMINATING:
        raise refusal(
            "over", f"Lease {record.row.name} is over", "Make a new one with `yard lease add`"
        )
    if state is LeaseState.STARTING:
        raise refusal("started", f"Lease {record.row.name} is starting", "Try again in a minute")


def _warn_again(record: LeaseRecord, plan: LeasePlan) -> dict[str, Any]:
    return {"warned_ms": None} if plan.ends_ms > record.row.ends_ms else {}


def _flag(tx: Tx, record: LeaseRecord, plan: LeasePlan) -> LeaseRecord:
    for words in plan.flags:
        record = life.step(tx, record, event="lease.flagged", sentence=f"{words}.")
    return record
