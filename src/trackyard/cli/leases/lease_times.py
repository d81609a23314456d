"""Times as people write them for leases: in their own zone, whole minutes, daylight saving right.

Owns reading and saying moments. A local time that does not exist, or exists twice, is refused
with the spelling that is clear. Knows no command.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from trackyard.cli import amounts
from trackyard.core.errors import SetupError

_CLOCK = re.compile(r"(?:(today|tomorrow)\s+)?(\d{1,2}):(\d{2})\Z", re.IGNORECASE)
_DATED = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})[ T](\d{1,2}):(\d{2})\s*(Z|[+-]\d{2}:?\d{2})?\Z")
_FORMS = "write it as '2026-03-01 14:00', 14:00, 'tomorrow 09:00', +2h or now"


class Zone:
    """A zone with the name to send to the server."""

    def __init__(self, name: str, info: tzinfo) -> None:
        self.name = name
        self.info = info


def find_zone(name: str | None) -> Zone:
    """Return the zone that was named, else this machine's own."""
    if name:
        try:
            return Zone(name, ZoneInfo(name))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise SetupError(
                f"there is no zone {name!r}", hint="write it as Europe/Berlin, or UTC"
            ) from None
    own = os.environ.get("TZ", "").lstrip(":") or _system_zone()
    try:
        return Zone(own, ZoneInfo(own)) if own else Zone("UTC", UTC)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return Zone("UTC", UTC)


def _system_zone() -> str:
    path = Path("/etc/localtime")
    try:
        real = str(path.resolve(strict=True))
    except OSError:
        return ""
    _, found, name = real.partition("/zoneinfo/")
    return name if found else ""


def moment_ms(text: str, zone: Zone, *, now_ms: int, what: str) -> int | None:
    """Read a moment as milliseconds since the epoch; None for `now`."""
    written = text.strip()
    if written.lower() == "now":
        return None
    if written.startswith("+"):
        seconds = amounts.seconds(written[1:], what=what)
        return _up_to_minute(now_ms + int(seconds * 1000))
    dated = _DATED.match(written)
    if dated:
        year, month, day, hour, minute = (int(part) for part in dated.groups()[:5])
        plain = _plain(year, month, day, hour, minute, what=what, text=text)
        if dated[6]:
            return _with_offset(plain, dated[6])
        return local_ms(plain, zone, what=what)
    clock = _CLOCK.match(written)
    if clock is None:
        raise SetupError(f"{what} {text!r} is not a time", hint=_FORMS)
    today = datetime.fromtimestamp(now_ms / 1000, zone.info)
    day_word = (clock[1] or "").lower()
    date = today.date() + timedelta(days=1 if day_word == "tomorrow" else 0)
    plain = _plain(
        date.year, date.month, date.day, int(clock[2]), int(clock[3]), what=what, text=text
    )
    found = local_ms(plain, zone, what=what)
    if not day_word and found < now_ms - 60_000:
        # A bare clock time is the next one that comes.
        found = local_ms(plain + timedelta(days=1), zone, what=what)
    return found


def local_ms(plain: datetime, zone: Zone, *, what: str) -> int:
    """Return the moment of a local time, refusing one that is not there or is there twice."""
    first, second = (plain.replace(tzinfo=zone.info, fold=fold) for fold in (0, 1))
    back = first.astimezone(UTC).astimezone(zone.info).replace(tzinfo=None)
    if back != plain:
        later = second.astimezone(UTC).astimezone(zone.info)
        after = max(back, later.replace(tzinfo=None))
        raise SetupError(
            f"{what} {plain:%Y-%m-%d %H:%M} does not exist in {zone.name}: the clocks go forward",
            hint=f"write '{after:%Y-%m-%d %H:%M}', or give an offset",
        )
    if first.utcoffset() != second.utcoffset():
        one, other = (_offset(moment) for moment in (first, second))
        raise SetupError(
            f"{what} {plain:%Y-%m-%d %H:%M} is there twice in {zone.name}: the clocks go back",
            hint=f"write '{plain:%Y-%m-%d %H:%M}{one}' or '{plain:%Y-%m-%d %H:%M}{other}'",
        )
    return int(first.timestamp() * 1000)


def minutes(text: str, *, what: str) -> int:
    """Read a length in whole minutes."""
    seconds = amounts.seconds(text, what=what)
    if seconds % 60:
        raise SetupError(
            f"{what} {text!r} is not a whole number of minutes",
            hint=f"leases are in minutes: {what} {max(1, round(seconds / 60))}m",
        )
    return int(seconds // 60)


def say(time_ms: int | None, zone: Zone) -> str:
    """Say a moment with its offset: `2026-03-01 14:00 +01:00`."""
    if time_ms is None:
        return "-"
    local = datetime.fromtimestamp(time_ms / 1000, zone.info)
    return f"{local:%Y-%m-%d %H:%M} {_offset(local)}"


def _offset(moment: datetime) -> str:
    text = moment.strftime("%z") or "+0000"
    return f"{text[:3]}:{text[3:5]}"


def _plain(
    year: int, month: int, day: int, hour: int, minute: int, *, what: str, text: str
) -> datetime:
    try:
        return datetime(year, month, day, hour, minute)  # noqa: DTZ001 - the zone comes after
    except ValueError as fault:
        raise SetupError(f"{what} {text!r} is not a time: {fault}", hint=_FORMS) from fault


def _with_offset(plain: datetime, offset: str) -> int:
    if offset == "Z":
        return int(plain.replace(tzinfo=UTC).timestamp() * 1000)
    digits = offset.replace(":", "")
    shift = timedelta(hours=int(digits[1:3]), minutes=int(digits[3:5]))
    shift = -shift if digits[0] == "-" else shift
    return int((plain.replace(tzinfo=UTC) - shift).timestamp() * 1000)


def _up_to_minute(time_ms: int) -> int:
    return -(-time_ms // 60_000) * 60_000
