"""What leases are allowed: lengths, windows, quotas, turnaround, idleness; all with defaults.

Owns the table [leases] of the config file. Decides nothing about a particular lease.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from trackyard.core.errors import SetupError
from trackyard.leases.plan.machines import LeasableNode

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


class ClassRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What differs for one class of nodes."""

    #: turnaround between leases; null: as for all
    gap_minutes: int | None = None
    #: service units that an hour of one node costs
    units: float = 1.0


class TeamRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What differs for one team."""

    #: service units within the period; null: as for all
    quota_units: float | None = None
    #: longest lease; null: as for all
    max_hours: float | None = None


class LeaseRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table [leases]."""

    #: longest lease
    max_hours: float = 168.0
    #: how far ahead a lease may begin
    ahead_days: float = 60.0
    #: a lease may be prolonged in its last hours only, so that others may plan
    extend_window_hours: float = 48.0
    #: service units a team may lease in any period of `quota_days`; null: as many as there are
    quota_units: float | None = None
    quota_days: float = 30.0
    #: part of the nodes of one class that one team may hold at one time, where there are several
    hoard_share: float = 0.75
    hoard_from_nodes: int = 4
    #: part of the coming weeks on one class above which a string of leases is reported
    stacking_share: float = 0.6
    stacking_days: float = 21.0
    #: minutes at the end of a lease in which its nodes are made ready, if another follows
    gap_minutes: int = 5
    #: how long before its end a lease's holder is warned
    warn_minutes: int = 60
    #: how long before its start a lease's dead nodes are replaced
    heal_minutes: int = 60
    #: idle minutes until the holder is nudged, and from then until idle nodes are lent
    idle_minutes: int = 30
    #: null, or -1 in a config file: never lent
    lend_minutes: int | None = 30
    #: idle minutes after which a lease that was never used is released; 0: never
    release_idle_minutes: int = 0
    #: what becomes of jobs that were started past the queue on nodes of a lease: "leave" or "stop"
    foreign_jobs: str = "leave"
    classes: dict[str, ClassRules] = {}
    teams: dict[str, TeamRules] = {}

    def of_class(self, machine: LeasableNode) -> ClassRules:
        """Return what holds for a machine's class."""
        exact = self.classes.get(machine.node_class)
        if exact is not None:
            return exact
        for name, rules in self.classes.items():
            if machine.is_type(name):
                return rules
        return ClassRules()

    def gap_ms(self, machine: LeasableNode) -> int:
        """Return the turnaround of a machine."""
        own = self.of_class(machine).gap_minutes
        return (self.gap_minutes if own is None else own) * MINUTE_MS

    def units_an_hour(self, machine: LeasableNode) -> float:
        """Return what an hour of a machine costs."""
        return self.of_class(machine).units

    def longest_ms(self, team: str) -> int:
        """Return the length of the longest lease a team may take."""
        own = self.teams.get(team, TeamRules()).max_hours
        return int((self.max_hours if own is None else own) * HOUR_MS)

    def quota_of(self, team: str) -> float | None:
        """Return how many units a team may lease within a period."""
        own = self.teams.get(team, TeamRules()).quota_units
        return self.quota_units if own is None else own

    def check(self) -> None:
        """Refuse values that make no sense."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, int | float) and value < 0:
                raise SetupError(f"[leases] {name} cannot be negative")
        if self.foreign_jobs not in ("leave", "stop"):
            raise SetupError('[leases] foreign_jobs is "leave" or "stop"')
        for name in ("hoard_share", "stacking_share"):
            if not 0 < getattr(self, name) <= 1:
                raise SetupError(f"[leases] {name} lies above 0 and at most at 1")
        if self.max_hours <= 0 or self.quota_days <= 0 or self.stacking_days <= 0:
            raise SetupError("[leases] max_hours, quota_days and stacking_days are above 0")


def read_rules(values: Mapping[str, Any]) -> LeaseRules:
    """Read the table of a config file, before anything is opened."""
    try:
        rules = msgspec.convert(dict(values), LeaseRules)
    except msgspec.ValidationError as fault:
        names = ", ".join(LeaseRules.__struct_fields__)
        raise SetupError(f"[leases] in the config file: {fault}", hint=f"keys: {names}") from fault
    if rules.lend_minutes == -1:
        rules = msgspec.structs.replace(rules, lend_minutes=None)
    rules.check()
    return rules
