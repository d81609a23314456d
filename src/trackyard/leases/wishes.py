"""What people ask of leases, as it comes over the wire. Owns the shapes and the checks that need
no calendar.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from trackyard.core.errors import InvalidInput
from trackyard.core.ids import LEASE_NAME, TEAM_NAME, USER_NAME
from trackyard.core.ports import NODE_ID
from trackyard.leases.plan.where import BadWhere, Condition, parse
from trackyard.leases.rules import MINUTE_MS
from trackyard.leases.wording import refusal
from trackyard.store.bounds import Int64, Line, Rows, Word

BEFORE_END = ("drain", "notify")
MAX_NODES = 10_000
#: No lease lies beyond the year 2200.
LATEST_MS = 7_258_118_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseCaller:
    """The caller, as far as leases care."""

    name: str
    user_id: int | None
    team: str
    team_id: int
    is_admin: bool = False
    #: maintainer of the team or more
    is_maintainer: bool = False


class NodeChoice(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which nodes."""

    nodes: Rows = []
    type: Word = ""
    where: Line = ""
    count: Int64 | None = None

    def condition(self) -> Condition | None:
        """Read the expression, or refuse it."""
        if not self.where.strip():
            return None
        try:
            return parse(self.where)
        except BadWhere as fault:
            raise refusal(
                "bad_where",
                f"The expression cannot be read {fault}",
                "Write it as in gpu.count >= 2 and gpu.memory >= 40GB",
            ) from fault


class NewLease(NodeChoice, kw_only=True):
    """A lease to be made."""

    name: Word
    min: Int64 | None = None
    max: Int64 | None = None
    #: null: now
    starts_ms: Int64 | None = None
    ends_ms: Int64 | None = None
    minutes: Int64 | None = None
    #: for another team, or another person of it
    team: Word = ""
    user: Word = ""
    purpose: Line = ""
    before_end: Word = "drain"
    personal: bool = False
    pool: bool = False
    #: id or name of the pool it is handed out from
    parent: Word = ""
    provider: Word = ""
    dry_run: bool = False
    #: zone in which sentences name times
    zone: Word = ""

    def check(self) -> None:
        """Refuse what makes no sense by itself."""
        if not LEASE_NAME.match(self.name):
            raise InvalidInput(
                f"{self.name[:80]!r} is no name for a lease: at most 80 letters, digits and . _ -,"
                " the first a letter or digit"
            )
        if not (self.nodes or self.type or self.where.strip() or self.parent):
            raise InvalidInput("say which nodes: --node NAME, --type TYPE or --where EXPRESSION")
        _check_nodes(self.nodes)
        for what, value in (("count", self.count), ("min", self.min), ("max", self.max)):
            if value is not None and not 1 <= value <= MAX_NODES:
                raise InvalidInput(f"{what} is a number of nodes, 1 or more")
        if self.team and not TEAM_NAME.match(self.team):
            raise InvalidInput(f"{self.team[:80]!r} is no name of a team")
        if self.user and not USER_NAME.match(self.user):
            raise InvalidInput(f"{self.user[:80]!r} is no name of a user")
        _check_words(self.purpose, self.before_end, self.provider)
        _check_times(self.starts_ms, self.ends_ms, self.minutes)
        if (self.ends_ms is None) == (self.minutes is None):
            raise InvalidInput("say how long: --for LENGTH or --end TIME, one of them")

    def bounds(self) -> tuple[int, int]:
        """Return the least and the greatest number of nodes."""
        named = len(set(self.nodes)) or 1
        least = self.min if self.min is not None else (self.count or self.max or named)
        most = self.max if self.max is not None else max(least, self.count or named)
        if self.min is not None and self.max is None and self.count is None:
            most = max(self.min, named)
        if least > most:
            raise InvalidInput(f"--min {least} is more than --max {most}")
        return least, most


class LeaseExtension(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A later end."""

    ends_ms: Int64 | None = None
    #: added to the present end
    minutes: Int64 | None = None
    dry_run: bool = False
    zone: Word = ""

    def check(self) -> None:
        """Refuse what makes no sense by itself."""
        _check_times(None, self.ends_ms, self.minutes)
        if (self.ends_ms is None) == (self.minutes is None):
            raise InvalidInput("say by how much: --for LENGTH or --end TIME, one of them")


class LeaseShrinking(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An earlier end, a later start, or fewer nodes."""

    starts_ms: Int64 | None = None
    ends_ms: Int64 | None = None
    #: taken off the end
    minutes: Int64 | None = None
    #: to give back
    nodes: Rows = []
    dry_run: bool = False
    zone: Word = ""

    def check(self) -> None:
        """Refuse what makes no sense by itself."""
        _check_nodes(self.nodes)
        _check_times(self.starts_ms, self.ends_ms, self.minutes)
        if self.ends_ms is not None and self.minutes is not None:
            raise InvalidInput("give --for or --end, not both")
        if self.starts_ms is self.ends_ms is self.minutes is None and not self.nodes:
            raise InvalidInput("say what to give up: --for, --end, --start or --node")


class LeaseChange(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Another time, other nodes, another name."""

    starts_ms: Int64 | None = None
    ends_ms: Int64 | None = None
    nodes: Rows | None = None
    name: Word | None = None
    purpose: Line | None = None
    before_end: Word | None = None
    dry_run: bool = False
    zone: Word = ""

    def check(self) -> None:
        """Refuse what makes no sense by itself."""
        if self.name is not None and not LEASE_NAME.match(self.name):
            raise InvalidInput(f"{self.name[:80]!r} is no name for a lease")
        _check_nodes(self.nodes or [])
        _check_words(self.purpose or "", self.before_end or "drain", "")
        _check_times(self.starts_ms, self.ends_ms, None)


class LeaseTransfer(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Another holder."""

    user: Word
    team: Word = ""
    zone: Word = ""


class LeaseEnd(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An early end."""

    note: Line = ""
    zone: Word = ""


def _check_nodes(nodes: list[str]) -> None:
    if len(nodes) > MAX_NODES:
        raise InvalidInput("too many nodes are named")
    for node in nodes:
        if not NODE_ID.match(node):
            raise InvalidInput(f"{node[:80]!r} is no name of a node")


def _check_words(purpose: str, before_end: str, provider: str) -> None:
    if before_end not in BEFORE_END:
        raise InvalidInput(f"--before-end is drain or notify, not {before_end[:40]!r}")
    for what, text, most in (("purpose", purpose, 500), ("provider", provider, 80)):
        if len(text) > most or (text and not text.isprintable()):
            raise InvalidInput(f"the {what} is one line of at most {most} characters")


def _check_times(starts_ms: int | None, ends_ms: int | None, minutes: int | None) -> None:
    for what, value in (("start", starts_ms), ("end", ends_ms)):
        if value is not None and (value % MINUTE_MS or not 0 < value < LATEST_MS):
            raise InvalidInput(f"the {what} is a whole minute, in milliseconds since 1970 (UTC)")
    if minutes is not None and not -LATEST_MS < minutes * MINUTE_MS < LATEST_MS:
        raise InvalidInput("that is too long")
