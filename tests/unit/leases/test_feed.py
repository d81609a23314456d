"""The calendar feed as programs read it."""

from tests.unit.leases.plan.worlds import ANN, hours, record
from trackyard.leases.feed import calendar_text
from trackyard.leases.plan.world import LeasePlan


def test_a_lease_is_an_event_with_its_times_in_utc() -> None:
    plan = LeasePlan(nodes=("g1", "g2"), starts_ms=hours(1), ends_ms=hours(4))
    made = record(1, ANN, plan, purpose="lab 3; rooms, and\nmore")
    text = calendar_text([made], team="lab", host="yard.example", now_ms=hours(0))
    lines = text.split("\r\n")
    assert lines[0] == "BEGIN:VCALENDAR"
    assert lines[-2] == "END:VCALENDAR"
    assert "DTSTART:20260302T010000Z" in lines
    assert "DTEND:20260302T040000Z" in lines
    assert "UID:l0000000001@yard.example" in lines
    assert "SUMMARY:lease1: g1\\, g2" in lines
    assert "lab 3\\; rooms\\, and\\nmore" in text.replace("\r\n ", "")


def test_no_line_is_longer_than_75_bytes_and_no_character_is_cut() -> None:
    plan = LeasePlan(nodes=("g1",), starts_ms=hours(1), ends_ms=hours(4))
    made = record(1, ANN, plan, purpose="ü" * 200)
    text = calendar_text([made], team="lab", host="h", now_ms=hours(0))
    assert all(len(line.encode()) <= 75 for line in text.split("\r\n"))
    assert "ü" * 200 in text.replace("\r\n ", "")
