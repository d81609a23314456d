"""FakeClock moves only when told to."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from trackyard.core.clock import Clock
from trackyard.testing.clock import FakeClock


def test_time_stands_still_until_it_is_advanced() -> None:
    clock: Clock = FakeClock(datetime(2026, 5, 1, tzinfo=UTC))
    before = (clock.now(), clock.time_ms(), clock.monotonic())
    assert (clock.now(), clock.time_ms(), clock.monotonic()) == before


def test_advancing_moves_all_of_it() -> None:
    clock = FakeClock()
    now, milliseconds, monotonic = clock.now(), clock.time_ms(), clock.monotonic()
    clock.advance(1.5)
    assert (clock.now() - now).total_seconds() == 1.5
    assert clock.time_ms() - milliseconds == 1500
    assert clock.monotonic() - monotonic == 1.5


def test_a_jump_leaves_waiting_alone() -> None:
    clock = FakeClock()
    now, monotonic = clock.now(), clock.monotonic()
    clock.jump(-3600)
    assert (clock.now() - now).total_seconds() == -3600
    assert clock.monotonic() == monotonic


def test_time_does_not_pass_backwards() -> None:
    with pytest.raises(ValueError, match="backwards"):
        FakeClock().advance(-1)
    with pytest.raises(ValueError, match="zone"):
        FakeClock(datetime(2026, 5, 1))  # noqa: DTZ001
