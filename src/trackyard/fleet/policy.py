"""What follows from verdicts on health: how often nodes are looked at, when one is quarantined and
when it is given back. Owns the settings of the table [health] and their defaults. Acts on nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from trackyard.core.errors import SetupError
from trackyard.core.health import LIMITS

AUTO, BY_HAND = "auto", "hand"


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthPolicy:
    """How the fleet is kept healthy; each field is a key of the table [health]."""

    every_seconds: float = 60.0
    """Seconds between two looks at a node."""
    quarantine_after: int = 3
    """Failed looks in a row after which a node is quarantined; 0 never quarantines."""
    lift: str = AUTO
    """`auto` gives a node back once its checks hold again, `hand` leaves that to an operator."""
    lift_after: int = 3
    """Good looks in a row after which a quarantine is lifted."""
    probation_minutes: float = 60.0
    """Minutes after which a node that only runners look at is tried again."""
    jobs_fail: int = 3
    """Attempts that ended as on broken hardware within jobs_hours from which `jobs` fails."""
    jobs_hours: float = 24.0
    """Hours for which such an attempt counts."""
    clock_warn_seconds: float = 2.0
    """Distance of a node's clock from the server's from which `clock` warns."""
    clock_fail_seconds: float = 30.0
    """Distance from which it fails."""
    keep_days: float = 30.0
    """Days for which verdicts are kept."""
    limits: Mapping[str, float] = field(
        default_factory=lambda: {name: default for name, (default, _) in LIMITS.items()}
    )
    """What the checks on a node are judged by; the keys of core.health.LIMITS."""

    @property
    def jobs_ms(self) -> int:
        """For how long a failed attempt counts."""
        return int(self.jobs_hours * 3_600_000)


_NAMES = {one.name: one for one in fields(HealthPolicy) if one.name != "limits"}


def read_policy(table: Mapping[str, Any]) -> HealthPolicy:
    """Read the table [health] of the config file; a wrong key or value is refused."""
    if not isinstance(table, Mapping):
        raise SetupError("health is a table of the config file", hint="write [health]")
    values: dict[str, Any] = {}
    limits = {name: default for name, (default, _) in LIMITS.items()}
    for key, value in table.items():
        if key in LIMITS:
            limits[key] = _number(key, value)
        elif key == "lift":
            if value not in (AUTO, BY_HAND):
                raise SetupError(f"[health] lift is {value!r}", hint='write "auto" or "hand"')
            values[key] = value
        elif key in _NAMES:
            number = _number(key, value)
            whole = isinstance(_NAMES[key].default, int)
            if whole and number != int(number):
                raise SetupError(f"[health] {key} must be a whole number, not {value!r}")
            values[key] = int(number) if whole else number
        else:
            raise SetupError(
                f"[health] has an unknown key {key!r}",
                hint=f"the keys are {', '.join(sorted({*_NAMES, *LIMITS}))}",
            )
    policy = HealthPolicy(**values, limits=limits)
    if policy.every_seconds < 1 or policy.lift_after < 1:
        raise SetupError("[health] every_seconds and lift_after must be at least 1")
    return policy


def _number(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise SetupError(f"[health] {key} must be a number from 0, not {value!r}")
    return float(value)
