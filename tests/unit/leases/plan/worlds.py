"""Small worlds for the pure half of leases: machines, records and a book that applies plans."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from trackyard.core.errors import LeaseRefused
from trackyard.leases.plan.calendar import RunningJob
from trackyard.leases.plan.machines import LeasableNode
from trackyard.leases.plan.planning import new
from trackyard.leases.plan.world import LeaseHolder, LeasePlan, LeaseWorld
from trackyard.leases.records import BoundNode, LeaseQuery, LeaseRecord, LeaseRow
from trackyard.leases.rules import HOUR_MS, LeaseRules
from trackyard.leases.wishes import NewLease

#: Mon 2 Mar 2026 00:00 UTC, a whole hour
NOW = 1_772_409_600_000
TEAMS = ("lab", "vision")
ANN = LeaseHolder(team="lab", user="ann")
BOB = LeaseHolder(team="vision", user="bob")


def hours(count: float) -> int:
    """Return the moment so many hours from now."""
    return NOW + int(count * HOUR_MS)


def machine(name: str, gpus: int = 2, model: str = "A100", **more: Any) -> LeasableNode:
    return LeasableNode(
        id=name,
        node_class=more.pop("node_class", model),
        gpu_model=model,
        gpu_count=gpus,
        gpu_memory_bytes=40 * 2**30,
        **more,
    )


def record(number: int, holder: LeaseHolder, plan: LeasePlan, **more: Any) -> LeaseRecord:
    """A lease as it would be kept."""
    values: dict[str, Any] = dict.fromkeys(LeaseRow._fields)
    values.update(
        id=number,
        lease_id=f"l{number:010d}",
        team_id=TEAMS.index(holder.team),
        user_name=holder.user,
        name=f"lease{number}",
        state="pending",
        kind="lease",
        personal=0,
        starts_ms=plan.starts_ms,
        ends_ms=plan.ends_ms,
        asked=msgspec.json.encode(LeaseQuery(type="A100")).decode(),
        min_nodes=plan.min_nodes,
        max_nodes=plan.max_nodes,
        before_end="drain",
        purpose="",
        provider="",
        provider_ref="",
        degraded=0,
        created_ms=NOW,
        changed_ms=NOW,
        sentence="",
        hold="",
        version=0,
    )
    values.update(more)
    return LeaseRecord(
        row=LeaseRow(**values),
        team=holder.team,
        bound=tuple(BoundNode(node, NOW, None) for node in plan.nodes),
    )


class Book:
    """A calendar in memory: judges requests with the real code and keeps what was granted."""

    def __init__(
        self,
        machines: Sequence[LeasableNode],
        *,
        rules: LeaseRules | None = None,
        occupants: Sequence[RunningJob] = (),
    ) -> None:
        self.now_ms = NOW
        self.machines = list(machines)
        self.rules = rules or LeaseRules()
        self.occupants = list(occupants)
        self.records: dict[str, LeaseRecord] = {}
        self._count = 0

    @property
    def world(self) -> LeaseWorld:
        return LeaseWorld(
            now_ms=self.now_ms,
            rules=self.rules,
            machines=self.machines,
            records=list(self.records.values()),
            occupants=self.occupants,
        )

    def add(self, holder: LeaseHolder = ANN, **wish: Any) -> LeaseRecord:
        """Grant a lease or raise the refusal."""
        self._count += 1
        wish.setdefault("name", f"lease{self._count}")
        if not {"nodes", "type", "where"} & set(wish):
            wish["nodes"] = [self.machines[0].id]
        asked = NewLease(**wish)
        asked.check()
        plan = new(self.world, asked, holder)
        kept = LeaseQuery(nodes=asked.nodes, type=asked.type, where=asked.where)
        made = record(
            self._count,
            holder,
            plan,
            name=asked.name,
            asked=msgspec.json.encode(kept).decode(),
        )
        self.records[made.row.lease_id] = made
        return made

    def keep(self, made: LeaseRecord, plan: LeasePlan) -> LeaseRecord:
        """Write down a change that was granted."""
        row = made.row._replace(starts_ms=plan.starts_ms, ends_ms=plan.ends_ms)
        bound = tuple(BoundNode(node, self.now_ms, None) for node in plan.nodes)
        changed = replace(made, row=row, bound=bound)
        self.records[made.row.lease_id] = changed
        return changed


def explained(fault: LeaseRefused) -> dict[str, Any]:
    """Insist that a refusal is a sentence with a remedy, and return its facts."""
    facts = fault.details
    assert facts is not None
    assert facts["refusal"]
    assert facts["sentence"].endswith(".")
    assert facts["remedy"].endswith(".")
    assert "None" not in fault.message
    return facts
