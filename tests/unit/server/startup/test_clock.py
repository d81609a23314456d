"""The clock of a throw-away server that a file sets."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from trackyard.core.clock import SYSTEM_CLOCK
from trackyard.core.errors import SetupError
from trackyard.server.startup.clock import FileClock, choose_clock

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def seconds_from_noon(clock: FileClock) -> float:
    return (clock.now() - NOON).total_seconds()


def test_it_shows_what_the_file_says_and_runs_on(tmp_path: Path) -> None:
    path = tmp_path / "clock"
    path.write_text("2026-03-01T12:00:00+00:00\n")
    clock = FileClock(path)
    assert 0 <= seconds_from_noon(clock) < 60
    written = path.stat().st_mtime_ns - 90 * 10**9
    os.utime(path, ns=(written, written))
    assert 90 <= seconds_from_noon(clock) < 150
    path.write_text("2026-03-01T14:00:00+02:00")
    assert 0 <= seconds_from_noon(clock) < 60
    assert clock.monotonic() <= SYSTEM_CLOCK.monotonic()


def test_while_the_file_is_unreadable_time_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "clock"
    path.write_text("2026-03-01T12:00:00+00:00")
    clock = FileClock(path)
    path.write_text("half a ti")
    assert 0 <= seconds_from_noon(clock) < 60
    path.unlink()
    assert 0 <= seconds_from_noon(clock) < 60


def test_only_a_throw_away_server_has_such_a_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert choose_clock(ephemeral=False) is SYSTEM_CLOCK
    path = tmp_path / "clock"
    monkeypatch.setenv("YARD_CLOCK", str(path))
    with pytest.raises(SetupError, match="throw-away server only"):
        choose_clock(ephemeral=False)
    with pytest.raises(SetupError, match="does not hold a time"):
        choose_clock(ephemeral=True)
    path.write_text("2026-03-01T12:00:00")
    with pytest.raises(SetupError, match="no offset"):
        choose_clock(ephemeral=True)
    path.write_text("2026-03-01T12:00:00Z")
    assert isinstance(choose_clock(ephemeral=True), FileClock)
