"""Reading the event log by subject, by time and by kind. Owns those queries; knows no kind.

Times are not indexed: they grow with ids, so a moment is found by halving. Where a server's clock
was set back, a window may begin or end that much early.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trackyard.store.database import ReadConnection

_COLUMNS = "id, time_ms, team_id, actor, kind, subject, subject_id, data"
PAGE = 20_000


class EventRow(NamedTuple):
    """An event's row; `data` is JSON."""

    id: int
    time_ms: int
    team_id: int | None
    actor: str
    kind: str
    subject: str
    subject_id: str
    data: str


def first_id_at(reader: ReadConnection, time_ms: int) -> int:
    """Return the least id such that events from it on are not older than a time."""
    first = reader.one("SELECT id FROM events ORDER BY id LIMIT 1")
    last = reader.one("SELECT id FROM events ORDER BY id DESC LIMIT 1")
    if first is None or last is None:
        return 0
    low, high = int(first[0]), int(last[0]) + 1
    while low < high:
        middle = (low + high) // 2
        row = reader.one(
            "SELECT id, time_ms FROM events WHERE id >= ? ORDER BY id LIMIT 1", (middle,)
        )
        if row is None or row[1] >= time_ms:
            high = middle
        else:
            low = int(row[0]) + 1
    return low


def events_of(
    reader: ReadConnection,
    subject: str,
    subject_id: str,
    *,
    team_id: int,
    kinds: Sequence[str],
    ids: tuple[int, int] | None = None,
    limit: int = PAGE,
) -> list[EventRow]:
    """Return the latest events of one thing, the oldest first."""
    marks = ",".join("?" * len(kinds))
    where, more = "", ()  # type: str, tuple[int, ...]
    if ids is not None:
        where, more = " AND id >= ? AND id < ?", ids
    rows = reader.all(
        f"SELECT {_COLUMNS} FROM events WHERE subject = ? AND subject_id = ? AND team_id = ?"
        f" AND kind IN ({marks}){where} ORDER BY id DESC LIMIT ?",
        (subject, subject_id, team_id, *kinds, *more, limit),
    )
    return [EventRow(*row) for row in reversed(rows)]


def events_between(
    reader: ReadConnection,
    ids: tuple[int, int],
    *,
    team_id: int | None,
    kinds: Sequence[str],
    subject: str | None = None,
    limit: int,
) -> list[EventRow]:
    """Return the latest events of a range of ids, the oldest first; of all teams for None."""
    marks = ",".join("?" * len(kinds))
    where, params = f"id >= ? AND id < ? AND kind IN ({marks})", [*ids, *kinds]
    if team_id is not None:
        where += " AND team_id = ?"
        params.append(team_id)
    if subject is not None:
        where += " AND subject = ?"
        params.append(subject)
    rows = reader.all(
        f"SELECT {_COLUMNS} FROM events WHERE {where} ORDER BY id DESC LIMIT ?", [*params, limit]
    )
    return [EventRow(*row) for row in reversed(rows)]


def pages_between(
    reader: ReadConnection, ids: tuple[int, int], *, team_id: int, kinds: Sequence[str]
) -> Iterator[list[EventRow]]:
    """Yield all events of a range of ids in pages, the oldest first."""
    marks = ",".join("?" * len(kinds))
    since = ids[0]
    while True:
        rows = reader.all(
            f"SELECT {_COLUMNS} FROM events WHERE team_id = ? AND id >= ? AND id < ?"
            f" AND kind IN ({marks}) ORDER BY id LIMIT ?",
            (team_id, since, ids[1], *kinds, PAGE),
        )
        if rows:
            yield [EventRow(*row) for row in rows]
        if len(rows) < PAGE:
            return
        since = int(rows[-1][0]) + 1
