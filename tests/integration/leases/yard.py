"""A yard with a calendar: fake nodes, leases wired to the queue, and a clock that stands."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.integration.jobs.yard import Yard, member, open_yard
from trackyard.access.principal import Principal, Role
from trackyard.control.forecast.lease_impact import LeaseImpact
from trackyard.control.lease_sync import LeaseSync
from trackyard.core.errors import LeaseRefused
from trackyard.leases.records import LeaseRecord, find_lease
from trackyard.leases.rules import LeaseRules
from trackyard.leases.service import Leases
from trackyard.leases.views import LeaseAnswer, LeaseView
from trackyard.leases.wishes import (
    LeaseCaller,
    LeaseChange,
    LeaseEnd,
    LeaseExtension,
    LeaseShrinking,
    NewLease,
)

#: The clock of a yard begins here.
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def at(hours: float) -> int:
    """Return the moment so many hours after the beginning."""
    return int((BEGIN.timestamp() + hours * 3600) * 1000)


def who(principal: Principal, *, is_admin: bool = False) -> LeaseCaller:
    return LeaseCaller(
        name=principal.name,
        user_id=principal.user_id,
        team=principal.team,
        team_id=principal.team_id,
        is_admin=is_admin or principal.is_admin,
        is_maintainer=principal.may(Role.maintainer),
    )


@dataclass
class LeaseYard:
    """The yard, its calendar, and two people of different teams."""

    yard: Yard
    leases: Leases
    ann: LeaseCaller
    bob: LeaseCaller

    async def add(self, name: str, /, who: LeaseCaller | None = None, **wish: Any) -> LeaseAnswer:
        asked = {"nodes": ["n1"]} if not {"nodes", "type", "where"} & set(wish) else {}
        if "ends_ms" not in wish and "minutes" not in wish:
            wish["minutes"] = 60
        return await self.leases.create(who or self.ann, NewLease(name=name, **asked, **wish))

    async def refusal(
        self, name: str, /, who: LeaseCaller | None = None, **wish: Any
    ) -> dict[str, Any]:
        """Return the facts of a refusal; fail if there is none."""
        try:
            await self.add(name, who, **wish)
        except LeaseRefused as fault:
            return explained(fault)
        raise AssertionError("it was not refused")

    async def extend(
        self, name: str, /, who: LeaseCaller | None = None, **wish: Any
    ) -> LeaseAnswer:
        return await self.leases.extend(who or self.ann, name, LeaseExtension(**wish))

    async def shrink(
        self, name: str, /, who: LeaseCaller | None = None, **wish: Any
    ) -> LeaseAnswer:
        return await self.leases.shrink(who or self.ann, name, LeaseShrinking(**wish))

    async def move(self, name: str, /, who: LeaseCaller | None = None, **wish: Any) -> LeaseAnswer:
        return await self.leases.move(who or self.ann, name, LeaseChange(**wish))

    async def release(self, name: str, who: LeaseCaller | None = None) -> LeaseAnswer:
        return await self.leases.release(who or self.ann, name, LeaseEnd())

    async def show(self, name: str, who: LeaseCaller | None = None) -> LeaseView:
        return await self.leases.find(who or self.ann, name)

    async def record(self, name: str, who: LeaseCaller | None = None) -> LeaseRecord:
        caller = who or self.ann
        return await self.yard.database.read(
            lambda reader: find_lease(reader, name, caller.team_id)
        )

    async def state(self, name: str, who: LeaseCaller | None = None) -> str:
        return (await self.show(name, who)).state

    async def until(self, hours: float, seconds: float = 0.0) -> None:
        """Let time pass up to so many hours after the beginning, and do what is due."""
        target = at(hours) / 1000 + seconds
        await self.yard.tick(max(0.0, target - self.yard.clock.time_ms() / 1000))

    async def kinds(self) -> list[str]:
        return [kind for kind, _ in await self.yard.events("lease.")]


def explained(fault: LeaseRefused) -> dict[str, Any]:
    """Insist that a refusal is one sentence with a remedy, and return its facts."""
    details = fault.details
    assert details is not None
    assert details["refusal"]
    assert details["sentence"].endswith(".")
    assert details["remedy"].endswith(".")
    assert "None" not in fault.message, fault.message
    return details


@contextlib.asynccontextmanager
async def open_lease_yard(
    url: str, home: Path, *, nodes: int = 3, gpus: int = 2, rules: LeaseRules | None = None
) -> AsyncIterator[LeaseYard]:
    """Open a yard with a calendar; ann is of team lab, bob of team vision."""
    async with open_yard(url, home, gpus=gpus, nodes=nodes) as yard:
        leases = Leases(yard.database, rules)
        LeaseSync(yard.database, leases, yard.scheduler)
        yard.scheduler._leases = leases.for_scheduler
        leases.foresee = LeaseImpact(yard.scheduler)
        bob = await member(yard.directory, "bob", "vision")
        yield LeaseYard(yard, leases, who(yard.user), who(bob))
