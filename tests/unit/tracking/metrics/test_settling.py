"""What is settled when: the server's callers come first."""

from __future__ import annotations

from trackyard.tracking.metrics.settling import (
    BUSY_SHARE,
    ENOUGH_POINTS,
    ENOUGH_ROWS,
    FEW_ROWS,
    LATE_SECONDS,
    MANY_POINTS,
    MANY_ROWS,
    MOST_ROWS,
    QUIET_LOOKS,
    QuietRuns,
    Waiting,
    share_of,
)

LEISURE, BUSY = 0.0, BUSY_SHARE


def _due(pace: QuietRuns, waiting: list[Waiting], share: float) -> list[int]:
    return [run for run, _ in pace.due(waiting, share)]


def test_at_leisure_every_run_with_enough_is_settled() -> None:
    waiting = [(1, ENOUGH_ROWS, 9), (2, 3, ENOUGH_POINTS), (3, 3, 3)]
    assert _due(QuietRuns(), waiting, LEISURE) == [1, 2]


def test_a_quiet_run_is_settled_after_a_few_looks() -> None:
    pace = QuietRuns()
    looks = [_due(pace, [(1, 5, 5)], LEISURE) for _ in range(QUIET_LOOKS + 1)]
    assert looks == [[]] * QUIET_LOOKS + [[1]]


def test_a_run_that_still_grows_is_not_quiet() -> None:
    pace = QuietRuns()
    for rows in range(20):
        assert _due(pace, [(1, rows, rows)], LEISURE) == []


def test_while_busy_one_run_a_look_is_settled_the_one_that_waits_longest_first() -> None:
    pace = QuietRuns()
    waiting = [(run, ENOUGH_ROWS, ENOUGH_ROWS) for run in (1, 2, 3)]
    order = []
    while waiting:
        chosen = _due(pace, [*waiting, (9, ENOUGH_ROWS + len(order), 9)], BUSY)
        assert len(chosen) == 1
        order += chosen
        waiting = [one for one in waiting if one[0] not in chosen]
    assert sorted(set(order) - {9}) == [1, 2, 3]


def test_a_long_log_is_settled_however_busy_the_server_is() -> None:
    waiting = [(1, MANY_ROWS, 5), (2, 5, MANY_POINTS), (3, ENOUGH_ROWS, 5)]
    assert _due(QuietRuns(), waiting, BUSY) == [1, 2]


def test_a_run_that_someone_draws_is_settled_before_others() -> None:
    pace = QuietRuns()
    pace.look_at(2)
    waiting = [(run, ENOUGH_ROWS, ENOUGH_ROWS) for run in (1, 2, 3)]
    assert _due(pace, waiting, BUSY) == [2]
    assert _due(pace, waiting, BUSY) != [2]


def test_while_busy_a_turn_is_short() -> None:
    waiting = [(1, ENOUGH_ROWS, ENOUGH_ROWS)]
    assert QuietRuns().due(waiting, BUSY) == [(1, FEW_ROWS)]
    assert QuietRuns().due(waiting, LEISURE) == [(1, MOST_ROWS)]


def test_who_was_halted_meanwhile_counts_as_busy() -> None:
    assert share_of(0.1, 1.0) == 0.1
    assert share_of(0.0, LATE_SECONDS * 5) >= BUSY_SHARE
