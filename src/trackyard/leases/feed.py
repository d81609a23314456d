"""The calendar feed: leases as iCalendar (RFC 5545) text. Owns its lines; reads nothing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from trackyard.core.lease import LeaseState
from trackyard.leases.records import LeaseRecord
from trackyard.leases.wording import names

_STATUS = {LeaseState.PENDING: "CONFIRMED", LeaseState.DELETED: "CANCELLED"}


def calendar_text(records: Iterable[LeaseRecord], *, team: str, host: str, now_ms: int) -> str:
    """Write leases as a calendar that programs subscribe to."""
    lines = [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//Trackyard//Leases//EN",
        "CALSCALE:GREGORIAN",
        "METHOD:PUBLISH",
        f"X-WR-CALNAME:{_text(f'Leases of {team}')}",
        "REFRESH-INTERVAL;VALUE=DURATION:PT15M",
        "X-PUBLISHED-TTL:PT15M",
    ]
    for record in records:
        lines += _event(record, host, now_ms)
    lines.append("END:VCALENDAR")
    return "".join(f"{part}\r\n" for line in lines for part in _fold(line))


def _event(record: LeaseRecord, host: str, now_ms: int) -> list[str]:
    row = record.row
    end = row.ended_ms or row.ends_ms
    words = f"Held by {row.user_name} (team {record.team}), {row.state}."
    if row.purpose:
        words += f"\n{row.purpose}"
    return [
        "BEGIN:VEVENT",
        f"UID:{row.lease_id}@{_text(host)}",
        f"DTSTAMP:{_moment(max(row.changed_ms, 0) or now_ms)}",
        f"LAST-MODIFIED:{_moment(row.changed_ms)}",
        f"SEQUENCE:{row.version}",
        f"DTSTART:{_moment(row.starts_ms)}",
        f"DTEND:{_moment(max(end, row.starts_ms))}",
        f"SUMMARY:{_text(f'{row.name}: {names(record.nodes)}')}",
        f"LOCATION:{_text(', '.join(record.nodes))}",
        f"DESCRIPTION:{_text(words)}",
        f"STATUS:{_STATUS.get(record.state, 'CONFIRMED')}",
        "END:VEVENT",
    ]


def _moment(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")


def _text(words: str) -> str:
    escaped = words.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,")
    return escaped.replace("\r", "").replace("\n", "\\n")


def _fold(line: str) -> Iterable[str]:
    """Break a line at 75 bytes, never inside a character."""
    part = b""
    for character in line:
        data = character.encode()
        if len(part) + len(data) > 75:
            yield part.decode()
            part = b" "
        part += data
    yield part.decode()
