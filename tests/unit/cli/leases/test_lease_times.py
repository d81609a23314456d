"""Times as people write them: zones, offsets, and the two nights when clocks change."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackyard.cli.leases.lease_times import Zone, find_zone, minutes, moment_ms, say
from trackyard.core.errors import SetupError

BERLIN = Zone("Europe/Berlin", ZoneInfo("Europe/Berlin"))
#: Sat 28 Feb 2026 12:30 UTC
NOW = int(datetime(2026, 2, 28, 12, 30, tzinfo=UTC).timestamp() * 1000)


def read(text: str, zone: Zone = BERLIN) -> str:
    found = moment_ms(text, zone, now_ms=NOW, what="--start")
    assert found is not None
    return datetime.fromtimestamp(found / 1000, UTC).strftime("%Y-%m-%d %H:%M")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-01 14:00", "2026-03-01 13:00"),
        ("2026-03-01T14:00", "2026-03-01 13:00"),
        ("2026-07-01 14:00", "2026-07-01 12:00"),
        ("2026-03-01 14:00+05:30", "2026-03-01 08:30"),
        ("2026-03-01 14:00Z", "2026-03-01 14:00"),
        ("14:00", "2026-02-28 13:00"),
        ("09:00", "2026-03-01 08:00"),
        ("today 09:00", "2026-02-28 08:00"),
        ("tomorrow 09:00", "2026-03-01 08:00"),
        ("+2h", "2026-02-28 14:30"),
    ],
)
def test_a_time_is_read_in_the_users_zone(text: str, expected: str) -> None:
    assert read(text) == expected


def test_now_is_left_to_the_server() -> None:
    assert moment_ms("now", BERLIN, now_ms=NOW, what="--start") is None


def test_a_time_that_the_clocks_skip_is_refused_with_the_next_that_exists() -> None:
    with pytest.raises(SetupError, match="does not exist in Europe/Berlin") as fault:
        read("2026-03-29 02:30")
    assert fault.value.hint == "write '2026-03-29 03:30', or give an offset"
    assert read("2026-03-29 01:59") == "2026-03-29 00:59"
    assert read("2026-03-29 03:00") == "2026-03-29 01:00"


def test_a_time_that_comes_twice_is_refused_with_both_spellings() -> None:
    with pytest.raises(SetupError, match="is there twice in Europe/Berlin") as fault:
        read("2026-10-25 02:30")
    assert fault.value.hint == "write '2026-10-25 02:30+02:00' or '2026-10-25 02:30+01:00'"
    assert read("2026-10-25 02:30+02:00") == "2026-10-25 00:30"
    assert read("2026-10-25 02:30+01:00") == "2026-10-25 01:30"


@given(st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1)))  # noqa: DTZ001 - made aware below
def test_what_is_said_is_read_back_as_the_same_moment(moment: datetime) -> None:
    """The offset makes every minute clear, also in the hour that comes twice."""
    time_ms = int(moment.replace(second=0, microsecond=0, tzinfo=UTC).timestamp() * 1000)
    assert moment_ms(say(time_ms, BERLIN), BERLIN, now_ms=NOW, what="--start") == time_ms


@pytest.mark.parametrize(
    "text", ["yesterday", "2026-13-01 10:00", "25:00", "2026-02-30 10:00", ""]
)
def test_what_is_no_time_is_refused_with_forms_that_work(text: str) -> None:
    with pytest.raises(SetupError) as fault:
        read(text)
    assert "2026-03-01 14:00" in str(fault.value.hint)


def test_lengths_are_whole_minutes() -> None:
    assert minutes("1h30m", what="--for") == 90
    with pytest.raises(SetupError, match="not a whole number of minutes"):
        minutes("90s", what="--for")


def test_the_zone_is_the_one_named_or_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    assert find_zone(None).name == "America/New_York"
    assert find_zone("UTC").name == "UTC"
    with pytest.raises(SetupError, match="there is no zone 'Mars/Base'"):
        find_zone("Mars/Base")
    monkeypatch.setenv("TZ", "nonsense")
    assert find_zone(None).name == "UTC"
