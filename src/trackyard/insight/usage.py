"""Usage by team, user, project, job, node or time, with its cost. Pure.

Owns the entries that an account is written down as, their grouping, goodput, the causes of loss
and CSV. Amounts are GPU-microseconds until they are shown as hours. Knows no table.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from trackyard.core.errors import InvalidInput
from trackyard.insight.goodput import HELD, GpuClass, GpuLedger
from trackyard.insight.rates import RateCard

HOUR_US = 3_600_000_000
_HELD = frozenset(HELD)
#: Somebody pays for these.
_CHARGED = _HELD | {GpuClass.IDLE_LEASED}
_UNPRODUCTIVE = _CHARGED - {GpuClass.PRODUCTIVE}
#: Ends that a job did not bring about itself.
INTERRUPTIONS = frozenset(("node_lost", "node_unfit", "engine", "fenced"))
DAY_MS = 86_400_000


class UsageHolder(NamedTuple):
    """Whose an attempt or a lease is."""

    team: str
    user: str
    project: str = ""
    queue: str = ""
    job: str = ""
    job_name: str = ""
    #: how the attempt ended; empty while it runs
    cause: str = ""
    lease: str = ""


class NodeHardware(NamedTuple):
    """What a node is made of."""

    gpu_type: str = ""
    is_spot: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerNames:
    """Names for the numbers of a ledger."""

    attempts: Mapping[int, UsageHolder]
    leases: Mapping[int, UsageHolder]
    machines: Mapping[str, NodeHardware]


class UsageEntry(NamedTuple):
    """GPU time of one holder on one node in one class."""

    team: str
    user: str
    project: str
    queue: str
    job: str
    job_name: str
    cause: str
    lease: str
    node: str
    gpu_type: str
    is_spot: bool
    kind: str
    #: begin of its day in ms, where the account was cut by days; else of the window
    day_ms: int
    amount: int


#: `.value` of an enumeration's member is slow to read tens of thousands of times.
_WORDS = {kind: kind.value for kind in GpuClass}
NOBODY = UsageHolder("", "")
_ANY = NodeHardware()


def entries(ledger: GpuLedger, facts: LedgerNames) -> list[UsageEntry]:
    """Write a ledger down with names."""
    found = []
    day, machines = ledger.since_ms, facts.machines
    for (key, node, kind), amount in ledger.held.items():
        if amount:
            holder, machine = facts.attempts.get(key, NOBODY), machines.get(node, _ANY)
            found.append(UsageEntry(*holder, node, *machine, _WORDS[kind], day, amount))
    for (node, kind, lease), amount in ledger.unheld.items():
        holder, machine = facts.leases.get(lease, NOBODY), machines.get(node, _ANY)
        found.append(UsageEntry(*holder, node, *machine, _WORDS[kind], day, amount))
    return found


def _day(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, tz=UTC).strftime("%Y-%m-%d")


def _week(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, tz=UTC).strftime("%G-W%V")


#: What usage can be grouped by, and the field of an entry that says it.
_FIELDS: Mapping[str, str] = {
    "team": "team",
    "user": "user",
    "project": "project",
    "queue": "queue",
    "job": "job",
    "node": "node",
    "gpu": "gpu_type",
    "cause": "cause",
    "class": "kind",
    "day": "day_ms",
    "week": "day_ms",
}
DIMENSIONS = tuple(_FIELDS)
_SHOWN: Mapping[str, Callable[[Any], str]] = {"day": _day, "week": _week}
#: These need an account that is cut by days.
BY_TIME = frozenset(("day", "week"))


class UsageGroup(msgspec.Struct):
    """What one team, user or whatever was asked for used."""

    #: by the names asked for
    key: dict[str, str]
    #: held by jobs, and leased without one
    gpu_hours: float
    #: hours of each class
    classes: dict[str, float]
    #: productive part of what jobs held; null: they held nothing
    goodput: float | None
    cost: float
    carbon_kg: float
    #: GPU-hours of leases, used or not
    lease_gpu_hours: float = 0.0
    #: GPU-hours over those of the quota; null: no quota
    quota_ratio: float | None = None
    #: name of the job, where grouped by job
    name: str = ""


class UsageLoss(msgspec.Struct):
    """Held time that computed nothing that counts, by cause."""

    kind: str
    #: how the attempt ended, for time that was lost
    cause: str
    gpu_hours: float
    cost: float
    #: jobs that it befell
    jobs: int
    #: one of them, the most expensive
    job: str
    job_name: str


class _Prices:
    """Price and emission of an hour, looked up once for each kind of GPU."""

    def __init__(self, card: RateCard) -> None:
        self._card = card
        self._known: dict[tuple[str, bool, bool], tuple[float, float]] = {}

    def of(self, gpu_type: str, is_spot: bool, kind: str) -> tuple[float, float]:
        key = (gpu_type, is_spot, kind in _HELD)
        found = self._known.get(key)
        if found is None:
            gpu, spot, held = key
            found = self._known[key] = (
                self._card.price(gpu, is_spot=spot, is_held=held),
                self._card.carbon_kg(gpu, is_held=held),
            )
        return found


def parse_by(text: str) -> tuple[str, ...]:
    """Read what to group by: names with commas."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names:
        if name not in DIMENSIONS:
            raise InvalidInput(
                f"usage is not grouped by {name[:40]!r}; choose among {', '.join(DIMENSIONS)}"
            )
    return names


def is_charged(entry: UsageEntry) -> bool:
    """Tell whether somebody pays for it: what is free or broken is nobody's."""
    return entry.kind in _CHARGED


def group(found: Iterable[UsageEntry], by: Sequence[str], card: RateCard) -> list[UsageGroup]:
    """Add entries up by the names asked for, the most used first."""
    fields = (*(_FIELDS[name] for name in by), "job_name", "gpu_type", "is_spot", "kind")
    if "job" not in by:
        fields = tuple(name for name in fields if name != "job_name")
    prices = _Prices(card)
    groups: dict[tuple[str, ...], _Sum] = defaultdict(_Sum)
    shown = [_SHOWN.get(name, str) for name in by]
    for key, amount in _sums(found, fields).items():
        gpu_type, is_spot, kind = key[-3:]
        words = tuple(show(value) for show, value in zip(shown, key, strict=False))
        one = groups[words]
        one.amounts[kind] += amount
        price, carbon = prices.of(gpu_type, is_spot, kind)
        one.cost += amount / HOUR_US * price
        one.carbon += amount / HOUR_US * carbon
        one.name = key[len(by)] if "job" in by else ""
    made = [_group(dict(zip(by, key, strict=True)), one) for key, one in groups.items()]
    timed = next((name for name in by if name in BY_TIME), None)
    if timed is not None:
        return sorted(made, key=lambda one: (one.key[timed], -one.gpu_hours))
    return sorted(made, key=lambda one: (-one.gpu_hours, *one.key.values()))


@dataclass(slots=True)
class _Sum:
    amounts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    cost: float = 0.0
    carbon: float = 0.0
    name: str = ""


def _sums(found: Iterable[UsageEntry], fields: Sequence[str]) -> dict[tuple[Any, ...], int]:
    """Add amounts up by some fields; a month has tens of thousands of entries."""
    read = itemgetter(*(UsageEntry._fields.index(name) for name in fields))
    sums: dict[tuple[Any, ...], int] = defaultdict(int)
    for entry in found:
        sums[read(entry)] += entry.amount
    return sums


def _group(key: dict[str, str], one: _Sum) -> UsageGroup:
    held = sum(amount for kind, amount in one.amounts.items() if kind in _HELD)
    leased = one.amounts.get(GpuClass.IDLE_LEASED.value, 0)
    return UsageGroup(
        key=key,
        gpu_hours=(held + leased) / HOUR_US,
        classes={kind: amount / HOUR_US for kind, amount in sorted(one.amounts.items())},
        goodput=one.amounts.get(GpuClass.PRODUCTIVE.value, 0) / held if held else None,
        cost=round(one.cost, 6),
        carbon_kg=round(one.carbon, 6),
        name=one.name,
    )


def losses(found: Iterable[UsageEntry], card: RateCard, most: int = 20) -> list[UsageLoss]:
    """Return the most expensive causes of held time that did not count."""
    prices = _Prices(card)
    lost = (one for one in found if one.kind in _UNPRODUCTIVE)
    fields = ("kind", "cause", "job", "job_name", "gpu_type", "is_spot")
    sums: dict[tuple[str, str], tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    jobs: dict[tuple[str, str], dict[tuple[str, str], int]] = defaultdict(lambda: defaultdict(int))
    for (kind, ended, job, name, gpu_type, is_spot), more in _sums(lost, fields).items():
        key = (kind, ended if kind == GpuClass.LOST else "")
        amount, cost = sums[key]
        price, _ = prices.of(gpu_type, is_spot, kind)
        sums[key] = (amount + more, cost + more / HOUR_US * price)
        if job:
            jobs[key][job, name] += more
    ordered = sorted(sums.items(), key=lambda one: (-one[1][1], -one[1][0]))[:most]
    lines = []
    for (kind, cause), (amount, cost) in ordered:
        hit = jobs[kind, cause]
        job, name = max(hit, key=lambda one: (hit[one], one)) if hit else ("", "")
        lines.append(UsageLoss(kind, cause, amount / HOUR_US, round(cost, 6), len(hit), job, name))
    return lines


#: Columns of CSV after those that were grouped by.
_CLASS_COLUMNS = tuple(kind.value for kind in GpuClass)


def as_csv(groups: Sequence[UsageGroup], by: Sequence[str], currency: str) -> str:
    """Write groups as CSV, hours with three decimals more than a second needs."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = ("gpu_hours", *(f"{name}_hours" for name in _CLASS_COLUMNS), "goodput")
    more = (f"cost_{currency.lower()}", "carbon_kg", "lease_gpu_hours", "quota_ratio")
    writer.writerow([*by, *names, *more])
    for one in groups:
        writer.writerow(
            [
                *(_plain(one.key[name]) for name in by),
                f"{one.gpu_hours:.6f}",
                *(f"{one.classes.get(name, 0.0):.6f}" for name in _CLASS_COLUMNS),
                "" if one.goodput is None else f"{one.goodput:.4f}",
                f"{one.cost:.4f}",
                f"{one.carbon_kg:.4f}",
                f"{one.lease_gpu_hours:.6f}",
                "" if one.quota_ratio is None else f"{one.quota_ratio:.4f}",
            ]
        )
    return out.getvalue()


def _plain(text: str) -> str:
    """Keep a name from being run as a formula by the program that opens the file."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
