"""Reading the event log by subject, by time and by kind. Owns those queries; knows no kind.

Times are not indexed: they grow with ids, so a moment is found by halving. Where a server's clock
was set back, a window may begin or end that much early.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

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


def read_events(
    reader: ReadConnection,
    team_id: int | None,
    *,
    since: int = 0,
    limit: int = 100,
    kind: str | None = None,
    subject: str | None = None,
    subject_id: str | None = None,
    actor: str | None = None,
    before: int | None = None,
    newest_first: bool = False,
) -> list[dict[str, Any]]:
    """Return events after a cursor; a kind that ends in `.` matches its whole family."""
    where, params = ["id > ?"], [since]  # type: list[str], list[Any]
    for column, value in (
        ("team_id", team_id),
        ("subject", subject),
        ("subject_id", subject_id),
        ("actor", actor),
    ):
        if value is not None:
            where.append(f"{column} = ?")
            params.append(value)
    if before is not None:
        where.append("id < ?")
        params.append(before)
    if kind is not None and kind.endswith("."):
        where.append("kind >= ? AND kind < ?")
        params += [kind, kind[:-1] + "/"]
    elif kind is not None:
        where.append("kind = ?")
        params.append(kind)
    order = "DESC" if newest_first else "ASC"
    rows = reader.all(
        f"SELECT {_COLUMNS} FROM events WHERE {' AND '.join(where)} ORDER BY id {order} LIMIT ?",
        [*params, limit],
    )
    keys = EventRow._fields[:7]
    return [
        {**dict(zip(keys, row[:7], strict=True)), "data": msgspec.Raw(row[7].encode())}
        for row in rows
    ]


def newest_id(reader: ReadConnection) -> int:
    """Return the id of the newest event, 0 where there is none."""
    row = reader.one("SELECT max(id) FROM events")
    return int(row[0] or 0) if row else 0
