"""Telling people what a change does: to neighbours on the calendar, to running jobs, and what a
dry run would make. Owns no decision.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec

from trackyard.core.lease import LeaseState
from trackyard.leases import life
from trackyard.leases.holders import Named
from trackyard.leases.plan.calendar import NodeQuery
from trackyard.leases.plan.world import LeasePlan, LeaseWorld, usable_until
from trackyard.leases.records import BoundNode, LeaseQuery, LeaseRecord, LeaseRow
from trackyard.leases.views import JobEffect, effect
from trackyard.leases.wishes import LeaseCaller, NewLease
from trackyard.leases.wording import job_fact, spoken
from trackyard.store.database import Tx


def tell_neighbours(tx: Tx, world: LeaseWorld, record: LeaseRecord) -> None:
    """Tell the holder of a lease that must now make room for the next one."""
    before = {one.row.lease_id: one for one in world.records}
    after = replace(
        world,
        records=[
            *(one for one in world.records if one.row.lease_id != record.row.lease_id),
            record,
        ],
    )
    for one in after.records:
        if one.row.lease_id == record.row.lease_id or one.row.lease_id not in before:
            continue
        until, follower = usable_until(one.promise, after.calendar, world.rules)
        if follower != record.row.lease_id or until >= one.row.ends_ms:
            continue
        was, _ = usable_until(one.promise, world.calendar, world.rules)
        if until < was:
            life.step(
                tx,
                one,
                event="lease.changed",
                sentence=f"Lease {record.row.name} of {record.row.user_name} follows: its jobs"
                f" are asked to save from {spoken(until)}.",
                data={"usable_until_ms": until},
            )


def asked_of(wish: NewLease) -> LeaseQuery:
    """Return what is kept of a request."""
    return LeaseQuery(
        nodes=list(dict.fromkeys(wish.nodes)),
        type=wish.type,
        where=wish.where,
        count=wish.bounds()[0],
    )


def imagined(
    wish: NewLease, named: Named, pool: LeaseRecord | None, plan: LeasePlan, now_ms: int
) -> LeaseRecord:
    """A lease that is not there, for a dry run."""
    values: dict[str, Any] = dict.fromkeys(LeaseRow._fields)
    values.update(
        id=0,
        lease_id="",
        team_id=named.team_id,
        user_id=named.user_id,
        user_name=named.holder.user,
        name=wish.name,
        state=LeaseState.PENDING.value,
        kind="pool" if wish.pool else "lease",
        personal=int(wish.personal),
        starts_ms=plan.starts_ms,
        ends_ms=plan.ends_ms,
        asked=msgspec.json.encode(asked_of(wish)).decode(),
        min_nodes=plan.min_nodes,
        max_nodes=plan.max_nodes,
        before_end=wish.before_end,
        purpose=wish.purpose,
        provider=wish.provider,
        provider_ref="",
        degraded=0,
        created_ms=now_ms,
        changed_ms=now_ms,
        sentence="",
        hold="",
        version=0,
    )
    return LeaseRecord(
        row=LeaseRow(**values),
        team=named.holder.team,
        bound=tuple(BoundNode(node, now_ms, None) for node in plan.nodes),
        parent_id=pool.row.lease_id if pool else "",
        parent_name=pool.row.name if pool else "",
    )


def drained(record: LeaseRecord, world: LeaseWorld, who: LeaseCaller) -> Iterable[JobEffect]:
    """Describe what will happen to the jobs now running on a lease's nodes."""
    ask = NodeQuery(team=record.team, only_user=record.only_user)
    for one in world.occupants:
        if not set(one.nodes) & set(record.nodes) or ask.covers(one):
            continue
        ends = one.ends_ms is not None and one.ends_ms <= record.row.starts_ms
        at = one.ends_ms if ends else max(world.now_ms, record.row.starts_ms - one.grace_ms)
        words = (
            "ends before the lease begins"
            if ends
            else ("is asked to save in time for the start, and waits in its queue again")
        )
        yield effect(
            job_fact(
                one,
                effect="ends_before" if ends else "drained",
                at_ms=at,
                sentence=words,
                team=who.team,
                sees_all=who.is_admin,
            )
        )
