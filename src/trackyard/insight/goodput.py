"""Where GPU time went: every GPU-microsecond of every node in exactly one class. Pure.

Owns the classes, the phases of an attempt and the ledger of a window of time. One thousandth of
a GPU for one millisecond is one GPU-microsecond, so all sums are whole numbers and agree with
wall time exactly. Knows no table, no clock, no price and no person.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from trackyard.core.resources import WHOLE


class GpuClass(StrEnum):
    """What a GPU was doing."""

    #: a job computed, and its work counts
    PRODUCTIVE = "productive"
    #: the engine starts the job and its package is fetched and unpacked
    PACKAGE = "starting_package"
    #: its environment is built
    ENVIRONMENT = "starting_environment"
    #: the command runs and has not reached its first step: imports, model, data
    LOAD = "starting_load"
    #: training waits for a checkpoint, or saves because it was asked to stop
    CHECKPOINTING = "checkpointing"
    #: computed after the last checkpoint of an attempt that failed, was lost or was stopped
    #: without saving: to be computed again
    LOST = "lost"
    #: no progress within the interval that the job promised
    STALLED = "stalled"
    #: held by a running job and hardly used
    IDLE_HELD = "idle_held"
    #: leased, and no job on it
    IDLE_LEASED = "idle_leased"
    #: ready, and nobody's
    FREE = "free"
    #: down, quarantined or drained, and no job on it
    BROKEN = "broken"


STARTING = (GpuClass.PACKAGE, GpuClass.ENVIRONMENT, GpuClass.LOAD)
#: Classes of time that a job holds.
HELD = (
    GpuClass.PRODUCTIVE,
    *STARTING,
    GpuClass.CHECKPOINTING,
    GpuClass.LOST,
    GpuClass.STALLED,
    GpuClass.IDLE_HELD,
)
Interval = tuple[int, int]
Segment = tuple[int, int, GpuClass]


class Share(NamedTuple):
    """An attempt's part of one node."""

    node: str
    gpus: tuple[int, ...]
    #: thousandths of each of these GPUs
    gpu_milli: int = WHOLE

    @property
    def milli(self) -> int:
        """Thousandths of GPUs in all."""
        return len(self.gpus) * self.gpu_milli


# Not frozen: a month has tens of thousands, and frozen ones take three times as long to make.
@dataclass(slots=True, kw_only=True)
class AttemptSpan:
    """One attempt as the account sees it; times in milliseconds."""

    key: int
    shares: tuple[Share, ...]
    admitted_ms: int
    #: the package is in place; None: not known
    unpacked_ms: int | None = None
    #: the command runs
    started_ms: int | None = None
    first_step_ms: int | None = None
    #: it was asked to stop
    stop_ms: int | None = None
    #: None: it still runs
    ended_ms: int | None = None
    #: whether it said that its state was saved at its end
    saved: bool = False
    #: whether it failed, was lost, or was preempted
    cut_short: bool = False
    #: when its last checkpoint was complete
    saved_until_ms: int | None = None
    #: while training waited for a checkpoint
    saving: tuple[Interval, ...] = ()
    #: without progress; an open end is the attempt's
    stalls: tuple[tuple[int, int | None], ...] = ()
    #: its segments and the milliseconds of each class, once it has ended and they are known
    known: tuple[list[Segment], dict[GpuClass, int]] | None = field(
        default=None, compare=False, repr=False
    )


@dataclass(frozen=True, slots=True)
class NodeSpan:
    """A stretch of a node's life."""

    since_ms: int
    until_ms: int
    gpus: int
    #: takes no new work: quarantined, drained
    is_out: bool = False
    #: does not answer: what is placed there does not run
    is_down: bool = False


@dataclass(frozen=True, slots=True)
class LeaseSpan:
    """A node that is someone's for a time; the first of several counts."""

    node: str
    since_ms: int
    until_ms: int
    lease: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageHistory:
    """All that an account is made from."""

    attempts: Sequence[AttemptSpan]
    #: spans of a node in order, without overlap
    nodes: Mapping[str, Sequence[NodeSpan]]
    leases: Sequence[LeaseSpan] = ()
    #: stretches in which a GPU was hardly used, in order, without overlap
    idle: Mapping[tuple[str, int], Sequence[Interval]] = field(default_factory=dict)


@dataclass(slots=True)
class GpuLedger:
    """GPU-microseconds of a window of time."""

    since_ms: int
    until_ms: int
    #: by attempt, node and class
    held: dict[tuple[int, str, GpuClass], int] = field(default_factory=lambda: defaultdict(int))
    #: by node, class and lease (0: none)
    unheld: dict[tuple[str, GpuClass, int], int] = field(default_factory=lambda: defaultdict(int))
    #: GPUs of leased nodes times the time of the lease, used or not
    leased: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    #: GPUs of each node times the time that they were there
    wall: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def classes(self) -> dict[GpuClass, int]:
        """Return the sum of each class over all nodes."""
        sums = dict.fromkeys(GpuClass, 0)
        for (_, _, kind), amount in self.held.items():
            sums[kind] += amount
        for (_, kind, _), amount in self.unheld.items():
            sums[kind] += amount
        return sums


# -- one attempt --------------------------------------------------------------------------------


def segments(attempt: AttemptSpan, now_ms: int) -> list[Segment]:
    """Cut the time that an attempt holds its GPUs into classes, without gap or overlap."""
    begin = attempt.admitted_ms
    end = max(begin, now_ms if attempt.ended_ms is None else attempt.ended_ms)
    started = _within(attempt.started_ms, begin, end, end)
    unpacked = _within(attempt.unpacked_ms, begin, started, started)
    loaded = _within(attempt.first_step_ms, started, end, started)
    found = [
        (begin, unpacked, GpuClass.PACKAGE),
        (unpacked, started, GpuClass.ENVIRONMENT),
        (started, loaded, GpuClass.LOAD),
    ]
    lost = end
    if attempt.cut_short and not attempt.saved:
        lost = _within(attempt.saved_until_ms, loaded, end, loaded)
    saving = list(attempt.saving)
    if attempt.saved and attempt.stop_ms is not None:
        saving.append((attempt.stop_ms, end))
    stalls = [(since, end if until is None else until) for since, until in attempt.stalls]
    if saving or stalls:
        found += _painted(loaded, end, lost, saving, stalls)
    else:
        found += [(loaded, lost, GpuClass.PRODUCTIVE), (lost, end, GpuClass.LOST)]
    return [one for one in found if one[0] < one[1]]


def _within(value: int | None, low: int, high: int, otherwise: int) -> int:
    return otherwise if value is None else min(max(value, low), high)


def _painted(
    begin: int, end: int, lost: int, saving: list[Interval], stalls: list[Interval]
) -> list[Segment]:
    """Paint a running attempt: productive below lost, below checkpoints, below stalls."""
    changes: list[tuple[int, int, int]] = [(lost, 0, 1)]
    for layer, intervals in ((1, saving), (2, stalls)):
        for since, until in intervals:
            if max(since, begin) < min(until, end):
                changes += [(max(since, begin), layer, 1), (min(until, end), layer, -1)]
    changes.sort()
    depth, at, found = [0, 0, 0], begin, list[Segment]()
    for moment, layer, step in [*changes, (end, 0, 0)]:
        if at < moment:
            found.append((at, min(moment, end), _top(depth)))
            at = moment
        depth[layer] += step
    return found


def _top(depth: list[int]) -> GpuClass:
    if depth[2]:
        return GpuClass.STALLED
    if depth[1]:
        return GpuClass.CHECKPOINTING
    return GpuClass.LOST if depth[0] else GpuClass.PRODUCTIVE


# -- all nodes ----------------------------------------------------------------------------------


class _Piece(NamedTuple):
    """What an attempt really had of a node for a while."""

    attempt: AttemptSpan
    share: Share
    since: int
    until: int
    #: thousandths; less than the share's where the node had not that much
    milli: int


def account(history: UsageHistory, since_ms: int, until_ms: int, now_ms: int) -> GpuLedger:
    """Put every GPU-microsecond of a window into one class."""
    ledger = GpuLedger(since_ms, until_ms)
    until_ms = max(since_ms, min(until_ms, now_ms))
    shares: dict[str, list[tuple[AttemptSpan, Share]]] = defaultdict(list)
    for attempt in history.attempts:
        ended = now_ms if attempt.ended_ms is None else attempt.ended_ms
        if attempt.admitted_ms < until_ms and ended > since_ms:
            for share in attempt.shares:
                if share.gpus:
                    shares[share.node].append((attempt, share))
    leases: dict[str, list[LeaseSpan]] = defaultdict(list)
    for lease in history.leases:
        leases[lease.node].append(lease)
    for node, spans in history.nodes.items():
        clipped = _clip(spans, since_ms, until_ms)
        pieces = _fit(shares.get(node, ()), clipped, now_ms)
        for piece in pieces:
            _write_held(ledger, piece, history.idle, now_ms)
        _write_rest(ledger, node, clipped, pieces, leases.get(node, ()))
    return ledger


def _phases(attempt: AttemptSpan, now_ms: int) -> tuple[list[Segment], dict[GpuClass, int]]:
    """Return an attempt's segments and their sums; those of one that has ended are kept."""
    if attempt.known is not None:
        return attempt.known
    found = segments(attempt, now_ms)
    sums: dict[GpuClass, int] = {}
    for begin, end, kind in found:
        sums[kind] = sums.get(kind, 0) + end - begin
    if attempt.ended_ms is not None:
        attempt.known = (found, sums)
    return found, sums


def _clip(spans: Iterable[NodeSpan], since: int, until: int) -> list[NodeSpan]:
    return [
        NodeSpan(
            max(one.since_ms, since), min(one.until_ms, until), one.gpus, one.is_out, one.is_down
        )
        for one in spans
        if one.since_ms < until and one.until_ms > since and one.gpus > 0
    ]


def _fit(
    shares: Sequence[tuple[AttemptSpan, Share]], spans: Sequence[NodeSpan], now_ms: int
) -> list[_Piece]:
    """Return what attempts really had: nothing on a node that is down, never more than it has."""
    found: list[_Piece] = []
    for span in spans:
        if span.is_down:
            continue
        inside = []
        for attempt, share in shares:
            ended = now_ms if attempt.ended_ms is None else attempt.ended_ms
            since, until = max(attempt.admitted_ms, span.since_ms), min(ended, span.until_ms)
            if since < until:
                inside.append(_Piece(attempt, share, since, until, share.milli))
        found += _bounded(inside, span.gpus * WHOLE)
    return found


def _bounded(pieces: list[_Piece], capacity: int) -> list[_Piece]:
    """Cut pieces down to what a node has; who was first there keeps it."""
    edges = [(one.since, one.milli) for one in pieces] + [
        (one.until, -one.milli) for one in pieces
    ]
    # At one moment ends come before beginnings.
    edges.sort()
    held = most = 0
    for _, step in edges:
        held += step
        most = max(most, held)
    if most <= capacity:
        return pieces
    changes = sorted(
        [(one.since, 1, at) for at, one in enumerate(pieces)]
        + [(one.until, 0, at) for at, one in enumerate(pieces)]
    )
    rank = [(one.attempt.admitted_ms, one.attempt.key, at) for at, one in enumerate(pieces)]
    found: list[_Piece] = []
    active: list[tuple[int, int, int]] = []
    for (since, begins, at), (until, _, _) in pairwise(changes):
        if begins:
            insort(active, rank[at])
        else:
            active.remove(rank[at])
        left = capacity
        for _, _, which in active if since < until else ():
            one = pieces[which]
            milli = min(left, one.milli)
            left -= milli
            if milli:
                found.append(_Piece(one.attempt, one.share, since, until, milli))
    return found


def _write_held(
    ledger: GpuLedger,
    piece: _Piece,
    idle: Mapping[tuple[str, int], Sequence[Interval]],
    now_ms: int,
) -> None:
    attempt, share, since, until, milli = piece
    held, key = ledger.held, attempt.key
    found, sums = _phases(attempt, now_ms)
    if not idle and since == attempt.admitted_ms and until == attempt.ended_ms:
        for kind, length in sums.items():
            held[key, share.node, kind] += length * milli
        return
    for begin, end, kind in found:
        if begin >= until or end <= since:
            continue
        low = begin if begin > since else since
        high = end if end < until else until
        amount = (high - low) * milli
        if idle and kind is GpuClass.PRODUCTIVE and milli == share.milli:
            unused = share.gpu_milli * sum(
                _overlap(idle.get((share.node, gpu), ()), low, high) for gpu in share.gpus
            )
            if unused:
                held[key, share.node, GpuClass.IDLE_HELD] += unused
                amount -= unused
        held[key, share.node, kind] += amount


def _overlap(intervals: Sequence[Interval], low: int, high: int) -> int:
    return sum(
        max(0, min(until, high) - max(since, low))
        for since, until in intervals
        if since < high and until > low
    )


def _write_rest(
    ledger: GpuLedger,
    node: str,
    spans: Sequence[NodeSpan],
    pieces: Sequence[_Piece],
    leases: Sequence[LeaseSpan],
) -> None:
    """Put what no attempt had of a node into its class."""
    held = sorted(pieces, key=lambda one: one.since)
    for span in spans:
        length = span.until_ms - span.since_ms
        ledger.wall[node] += length * span.gpus * WHOLE
        for since, until, lease in _leased(span, leases):
            if lease:
                ledger.leased[lease] += (until - since) * span.gpus * WHOLE
            used = sum(
                max(0, min(one.until, until) - max(one.since, since)) * one.milli
                for one in held
                if one.since < until and one.until > since
            )
            rest = (until - since) * span.gpus * WHOLE - used
            if not rest:
                continue
            kind = GpuClass.FREE
            if span.is_down or span.is_out:
                kind = GpuClass.BROKEN
            elif lease:
                kind = GpuClass.IDLE_LEASED
            ledger.unheld[node, kind, lease if kind is GpuClass.IDLE_LEASED else 0] += rest


def _leased(span: NodeSpan, leases: Sequence[LeaseSpan]) -> list[tuple[int, int, int]]:
    """Cut a span by the leases on it: (since, until, lease or 0)."""
    open_ = [(span.since_ms, span.until_ms)]
    found: list[tuple[int, int, int]] = []
    for lease in leases:
        rest = []
        for since, until in open_:
            low, high = max(since, lease.since_ms), min(until, lease.until_ms)
            if low >= high:
                rest.append((since, until))
                continue
            found.append((low, high, lease.lease))
            rest += [part for part in ((since, low), (high, until)) if part[0] < part[1]]
        open_ = rest
    return sorted([*found, *((since, until, 0) for since, until in open_)])
