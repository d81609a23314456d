"""What a read or write function is given. Owns how a transaction collects the events it causes;
knows neither when it is committed nor how.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from trackyard.core.events import EVENT_KINDS, Event
from trackyard.store.connection import DatabaseConnection, Dialect, Row

Values = Sequence[Any]
#: Rows that a write looks up or changes in passing; one of more says `is_long`.
FEW_ROWS = 100


class Deferred(Protocol):
    """How a quick write hands over rows that reach their tables later."""

    def __call__(self, number: int, rows: Iterable[Values], *, run: int) -> None:
        """Defer rows of a statement of the journal; they are about one run, by inner id."""
        ...


def _nowhere(number: int, rows: Iterable[Values], *, run: int) -> None:  # noqa: ARG001
    raise AssertionError(f"rows of statement {number} were deferred where there is no journal")


def _no_key(table: str) -> int:
    raise AssertionError(f"the database itself gives out the keys of {table}")


class Tx:
    """One request's share of a transaction: queries, statements and the events they cause."""

    __slots__ = (
        "all",
        "conn",
        "dialect",
        "events",
        "insert",
        "later",
        "many",
        "new_id",
        "now_ms",
        "one",
        "run",
    )

    def __init__(
        self,
        conn: DatabaseConnection,
        now_ms: int,
        *,
        later: Deferred = _nowhere,
        new_id: Callable[[str], int] = _no_key,
    ) -> None:
        self.conn = conn
        self.dialect: Dialect = conn.dialect
        self.all = conn.all
        self.one = conn.one
        self.run = conn.run
        self.many = conn.many
        self.insert = conn.insert
        self.now_ms = now_ms
        self.events: list[Event] = []
        #: defers rows of a statement of the journal; for quick writes, as their last act
        self.later = later
        #: the next key of a table whose keys this process gives out; SQLite only
        self.new_id = new_id

    def event(
        self,
        kind: str,
        *,
        team_id: int | None,
        actor: str,
        subject: str,
        subject_id: str,
        **data: Any,
    ) -> None:
        """Record what this transaction changed; it is written with the change or not at all."""
        assert kind in EVENT_KINDS, kind
        self.events.append(
            Event(
                kind=kind,
                team_id=team_id,
                actor=actor,
                subject=subject,
                subject_id=subject_id,
                data=data,
            )
        )


class ReadConnection(Protocol):
    """What a read function is given: a connection it must not write to."""

    dialect: Dialect

    def all(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        """Run a query and return every row."""
        ...

    def one(self, sql: str, params: Sequence[Any] = ()) -> Row | None:
        """Run a query and return its first row, or None."""
        ...


def count_rows(reader: ReadConnection, table: str) -> int:
    """Return how many rows a table has."""
    row = reader.one(f"SELECT count(*) FROM {table}")
    return int(row[0]) if row else 0


def size_bytes(reader: ReadConnection) -> int:
    """Return the size of the database."""
    if reader.dialect.name == "sqlite":
        pages, size = reader.one("PRAGMA page_count"), reader.one("PRAGMA page_size")
        return int(pages[0]) * int(size[0]) if pages and size else 0
    row = reader.one("SELECT pg_database_size(current_database())")
    return int(row[0]) if row else 0
