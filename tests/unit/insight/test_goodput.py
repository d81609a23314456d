"""The account of GPU time: sums agree with wall time, and each moment is in the right class."""

import random
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackyard.insight.goodput import (
    AttemptSpan,
    GpuClass,
    LeaseSpan,
    NodeSpan,
    Share,
    UsageHistory,
    account,
    segments,
)

END = 60


def random_history(seed: int) -> UsageHistory:
    """Nodes that come, go, drain and lose GPUs; gangs, fractions, restarts, leases, stalls."""
    dice = random.Random(seed)
    nodes = {f"n{number}": _life(dice) for number in range(dice.randint(1, 3))}
    attempts = [_attempt(dice, key, sorted(nodes)) for key in range(1, dice.randint(1, 9))]
    leases = []
    for number in range(1, dice.randint(1, 4)):
        since = dice.randrange(END)
        node, until = dice.choice(sorted(nodes)), dice.randint(since, END)
        leases.append(LeaseSpan(node, since, until, number))
    idle = {
        (node, gpu): [(low, low + 5) for low in range(0, END, 5) if dice.random() < 0.2]
        for node in nodes
        for gpu in range(4)
    }
    return UsageHistory(attempts=attempts, nodes=nodes, leases=leases, idle=idle)


def _life(dice: random.Random) -> list[NodeSpan]:
    spans, at = [], dice.randrange(10)
    while at < END:
        until = at + dice.randint(1, 30)
        state = dice.choice(["ready", "ready", "out", "down", "absent"])
        if state != "absent":
            spans.append(NodeSpan(at, until, dice.randint(0, 4), state == "out", state == "down"))
        at = until
    return spans


def _attempt(dice: random.Random, key: int, nodes: list[str]) -> AttemptSpan:
    chosen = dice.sample(nodes, dice.randint(1, len(nodes)))
    if dice.random() < 0.4:
        shares = (Share(chosen[0], (dice.randrange(4),), dice.choice([250, 333, 500])),)
    else:
        count = dice.randint(0, 4)
        shares = tuple(Share(node, tuple(range(count))) for node in chosen)

    def moment() -> int:
        return dice.randrange(-5, END + 5)

    def maybe() -> int | None:
        return None if dice.random() < 0.3 else moment()

    admitted = moment()
    ended = None if dice.random() < 0.2 else admitted + dice.randint(0, 40)
    return AttemptSpan(
        key=key,
        shares=shares,
        admitted_ms=admitted,
        unpacked_ms=maybe(),
        started_ms=maybe(),
        first_step_ms=maybe(),
        stop_ms=maybe(),
        ended_ms=ended,
        saved=dice.random() < 0.3,
        cut_short=ended is not None and dice.random() < 0.5,
        saved_until_ms=maybe(),
        saving=tuple((low, low + dice.randint(0, 6)) for low in (moment(), moment())),
        stalls=((moment(), maybe()),) if dice.random() < 0.4 else (),
    )


def plain_account(
    history: UsageHistory, since: int, until: int, now: int
) -> tuple[dict[tuple[int, str, GpuClass], int], dict[tuple[str, GpuClass, int], int]]:
    """The same account, one millisecond and one node at a time."""
    held: dict[tuple[int, str, GpuClass], int] = defaultdict(int)
    unheld: dict[tuple[str, GpuClass, int], int] = defaultdict(int)
    phases = {one.key: segments(one, now) for one in history.attempts}
    ordered = sorted(history.attempts, key=lambda one: (one.admitted_ms, one.key))
    for at in range(since, min(until, now)):
        for node, spans in history.nodes.items():
            for span in spans:
                if span.since_ms <= at < span.until_ms:
                    _one_moment(history, node, span, at, ordered, phases, held, unheld)
    return held, unheld


def _one_moment(history, node, span, at, ordered, phases, held, unheld):  # type: ignore[no-untyped-def]
    left = span.gpus * 1000
    for attempt in ordered if not span.is_down else ():
        kind = next((k for low, high, k in phases[attempt.key] if low <= at < high), None)
        for share in attempt.shares:
            if share.node != node or kind is None:
                continue
            given = min(left, share.milli)
            left -= given
            unused = 0
            if kind is GpuClass.PRODUCTIVE and given == share.milli:
                unused = share.gpu_milli * sum(
                    any(low <= at < high for low, high in history.idle.get((node, gpu), ()))
                    for gpu in share.gpus
                )
            held[attempt.key, node, GpuClass.IDLE_HELD] += unused
            held[attempt.key, node, kind] += given - unused
    lease = next(
        (
            one.lease
            for one in history.leases
            if one.node == node and one.since_ms <= at < one.until_ms
        ),
        0,
    )
    if span.is_down or span.is_out:
        unheld[node, GpuClass.BROKEN, 0] += left
    elif lease:
        unheld[node, GpuClass.IDLE_LEASED, lease] += left
    else:
        unheld[node, GpuClass.FREE, 0] += left


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**9), st.integers(0, END), st.integers(0, END + 5))
def test_every_gpu_microsecond_is_in_one_class_and_the_right_one(
    seed: int, since: int, until: int
) -> None:
    history = random_history(seed)
    now = 50
    ledger = account(history, since, until, now)
    wall = sum(
        max(0, min(one.until_ms, until, now) - max(one.since_ms, since)) * one.gpus * 1000
        for spans in history.nodes.values()
        for one in spans
    )
    assert sum(ledger.classes().values()) == sum(ledger.wall.values()) == wall
    assert all(amount >= 0 for amount in (*ledger.held.values(), *ledger.unheld.values()))
    held, unheld = plain_account(history, since, until, now)
    assert {k: v for k, v in ledger.held.items() if v} == {k: v for k, v in held.items() if v}
    assert {k: v for k, v in ledger.unheld.items() if v} == {k: v for k, v in unheld.items() if v}


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, END - 1))
def test_windows_add_up(seed: int, cut: int) -> None:
    history = random_history(seed)
    whole = account(history, 0, END, END)
    first, second = account(history, 0, cut, END), account(history, cut, END, END)
    for kind, amount in whole.classes().items():
        assert amount == first.classes()[kind] + second.classes()[kind]


@pytest.mark.parametrize("seed", range(30))
def test_phases_of_an_attempt_have_no_gap(seed: int) -> None:
    for attempt in random_history(seed).attempts:
        found = segments(attempt, END)
        end = max(attempt.admitted_ms, END if attempt.ended_ms is None else attempt.ended_ms)
        edges = [attempt.admitted_ms, *(high for _, high, _ in found)]
        assert [low for low, _, _ in found] == edges[:-1]
        assert edges[-1] == end or not found


def test_a_restart_loses_what_came_after_the_last_checkpoint() -> None:
    attempt = AttemptSpan(
        key=1,
        shares=(Share("n", (0, 1)),),
        admitted_ms=0,
        unpacked_ms=2,
        started_ms=5,
        first_step_ms=10,
        ended_ms=100,
        cut_short=True,
        saved_until_ms=60,
        saving=((55, 60),),
        stalls=((80, 90),),
    )
    history = UsageHistory(attempts=[attempt], nodes={"n": [NodeSpan(0, 200, 2)]})
    sums = account(history, 0, 200, 200).classes()
    assert {kind.value: amount // 2000 for kind, amount in sums.items() if amount} == {
        "starting_package": 2,
        "starting_environment": 3,
        "starting_load": 5,
        "productive": 45,
        "checkpointing": 5,
        "lost": 30,
        "stalled": 10,
        "free": 100,
    }
