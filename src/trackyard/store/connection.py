"""One small connection interface over sqlite3 and psycopg. Owns the drivers; knows no table.

SQL is written once with `?` placeholders and standard `ON CONFLICT`; what differs goes through
`Dialect`.
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from trackyard.core.clock import SYSTEM_CLOCK
from trackyard.core.errors import SetupError

if TYPE_CHECKING:
    import psycopg

Row = tuple[Any, ...]
#: Steps of SQLite's machine between two looks at the clock: a fraction of a millisecond.
_STEPS_BETWEEN_LOOKS = 20_000
#: Rows that PostgreSQL is given in one statement where many are inserted.
_ROWS_AT_ONCE = 100
_PLAIN_INSERT = re.compile(r"(INSERT INTO \w+ \([^()?]*\) VALUES )(\([^()]*\))")
DialectName = Literal["sqlite", "postgresql"]


class Dialect:
    """The few words in which the two databases differ."""

    def __init__(self, name: DialectName) -> None:
        self.name = name
        lite = name == "sqlite"
        self.json_list = "json_group_array" if lite else "json_agg"
        self.json_object = "json_object" if lite else "json_build_object"
        self.as_text = "" if lite else "::text"
        #: joins texts of several rows by a comma
        self.text_list = "group_concat({})" if lite else "string_agg({}, ',')"
        #: appended to a SELECT whose rows the transaction is about to change
        self.for_update = "" if lite else " FOR UPDATE"

    def like(self, column: str, *, any_case: bool) -> str:
        """Return a condition that matches a column against one `?` pattern."""
        if self.name == "sqlite":
            return f"{column} LIKE ?" if any_case else f"yard_like(?, {column})"
        return f"{column} {'ILIKE' if any_case else 'LIKE'} ? ESCAPE ''"


SQLITE = Dialect("sqlite")
POSTGRESQL = Dialect("postgresql")


class DatabaseConnection(Protocol):
    """What the store's queries ask of a database."""

    dialect: Dialect

    def all(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        """Run a query and return every row."""
        ...

    def one(self, sql: str, params: Sequence[Any] = ()) -> Row | None:
        """Run a query and return its first row, or None."""
        ...

    def run(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Run a statement and return how many rows it touched."""
        ...

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement once per row of parameters."""
        ...

    def insert(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Run an INSERT into a table with an `id` column and return the new id."""
        ...

    def begin(self) -> None:
        """Open a transaction."""
        ...

    def commit(self) -> None:
        """Make the transaction durable."""
        ...

    def rollback(self) -> None:
        """Undo the transaction."""
        ...

    def close(self) -> None:
        """Give the connection back to the system."""
        ...


class SqliteConnection:
    """A connection to an SQLite file in WAL mode with full synchronisation."""

    dialect = SQLITE

    def __init__(self, path: Path, *, readonly: bool = False) -> None:
        try:
            self._db = sqlite3.connect(
                path,
                isolation_level=None,
                check_same_thread=False,
                timeout=20.0,
                cached_statements=512,
            )
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute("PRAGMA foreign_keys=ON")
            self._db.execute("PRAGMA temp_store=MEMORY")
            # Some builds write zeros over each page they free, which doubles what a delete costs.
            self._db.execute("PRAGMA secure_delete=FAST")
            # KiB of page cache: readers share the system's through the map.
            self._db.execute(f"PRAGMA cache_size={-4000 if readonly else -32000}")
            self._db.execute("PRAGMA mmap_size=268435456")
            self._db.execute("PRAGMA case_sensitive_like=OFF")
            # Checkpoints are a thread's business: never in the way of a commit.
            self._db.execute("PRAGMA wal_autocheckpoint=0")
            if readonly:
                self._db.execute("PRAGMA query_only=ON")
        except sqlite3.Error as fault:
            raise SetupError(
                f"cannot open the database file {path}: {fault}",
                hint="check that the folder exists, is writable and is not on a network"
                " file system",
            ) from fault
        self._db.create_function("yard_like", 2, _like, deterministic=True)
        self._deadline = math.inf
        if readonly:
            self._db.set_progress_handler(self._is_overdue, _STEPS_BETWEEN_LOOKS)

    def limit(self, seconds: float | None) -> None:
        """Let no statement from now on run longer than so many seconds."""
        self._deadline = math.inf if seconds is None else SYSTEM_CLOCK.monotonic() + seconds

    def _is_overdue(self) -> bool:
        return SYSTEM_CLOCK.monotonic() > self._deadline

    def all(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        """Run a query and return every row."""
        return self._db.execute(sql, params).fetchall()

    def one(self, sql: str, params: Sequence[Any] = ()) -> Row | None:
        """Run a query and return its first row, or None."""
        row: Row | None = self._db.execute(sql, params).fetchone()
        return row

    def run(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Run a statement and return how many rows it touched."""
        return self._db.execute(sql, params).rowcount

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement once per row of parameters."""
        self._db.executemany(sql, rows)

    def insert(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Run an INSERT and return the new row's id."""
        return self._db.execute(sql, params).lastrowid or 0

    def begin(self) -> None:
        """Open a write transaction."""
        self._db.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Write the commit record and wait until the disk has it."""
        self._db.execute("COMMIT")

    def rollback(self) -> None:
        """Undo the transaction, if one is open."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def changes(self) -> int:
        """Return how many rows this connection has changed so far."""
        return self._db.total_changes

    def checkpoint(self, mode: str) -> None:
        """Move what the write-ahead log holds into the file."""
        self._db.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()

    def raw(self) -> sqlite3.Connection:
        """Return the driver's connection, for backup."""
        return self._db

    def close(self) -> None:
        """Close the file."""
        self._db.close()


class PostgresConnection:
    """A connection to PostgreSQL through psycopg."""

    dialect = POSTGRESQL

    def __init__(self, url: str, *, readonly: bool = False) -> None:
        driver = _psycopg()
        self._url = url
        self._readonly = readonly
        self._changes = 0
        try:
            self._db: psycopg.Connection[Row] = driver.connect(
                url,
                autocommit=True,
                connect_timeout=10,
                application_name="trackyard",
                # Random reads are cheap on today's disks; our queries are too short to compile.
                options="-c synchronous_commit=on -c timezone=UTC -c random_page_cost=1.1"
                " -c jit=off" + (" -c default_transaction_read_only=on" if readonly else ""),
            )
        except driver.OperationalError as fault:
            raise SetupError(
                f"cannot reach the database: {str(fault).strip().splitlines()[0]}",
                hint="check the address in --database, that PostgreSQL runs, and the password",
            ) from fault
        self._db.prepare_threshold = 3
        self._limit_ms = 0

    def limit(self, seconds: float | None) -> None:
        """Let no statement from now on run longer than so many seconds."""
        limit_ms = 0 if seconds is None else int(seconds * 1000)
        if limit_ms != self._limit_ms:
            self._db.execute(f"SET statement_timeout = {limit_ms}".encode())
            self._limit_ms = limit_ms

    def all(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        """Run a query and return every row."""
        return self._db.execute(_percent(sql), params).fetchall()

    def one(self, sql: str, params: Sequence[Any] = ()) -> Row | None:
        """Run a query and return its first row, or None."""
        return self._db.execute(_percent(sql), params).fetchone()

    def run(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Run a statement and return how many rows it touched."""
        count = self._db.execute(_percent(sql), params).rowcount
        self._changes += max(count, 0)
        return count

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement once per row of parameters, pipelined."""
        batch = list(rows)
        if not batch:
            return
        self._changes += len(batch)
        with self._db.cursor() as cursor:
            if len(batch) >= _ROWS_AT_ONCE and (long := _with_rows(sql, _ROWS_AT_ONCE)):
                whole = len(batch) - len(batch) % _ROWS_AT_ONCE
                parts = (batch[at : at + _ROWS_AT_ONCE] for at in range(0, whole, _ROWS_AT_ONCE))
                cursor.executemany(long, [list(chain.from_iterable(part)) for part in parts])
                batch = batch[whole:]
            if batch:
                cursor.executemany(_percent(sql), batch)

    def insert(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Run an INSERT and return the new row's id."""
        self._changes += 1
        row = self._db.execute(_percent(sql + " RETURNING id"), params).fetchone()
        return int(row[0]) if row else 0

    def begin(self) -> None:
        """Open a transaction."""
        self._db.execute("BEGIN")

    def commit(self) -> None:
        """Make the transaction durable."""
        self._db.execute("COMMIT")

    def rollback(self) -> None:
        """Undo the transaction, if one is open."""
        self._db.execute("ROLLBACK")

    def changes(self) -> int:
        """Return how many rows this connection has changed so far."""
        return self._changes

    def closed(self) -> bool:
        """Tell whether the server has gone away."""
        return self._db.closed or self._db.broken

    def raw(self) -> psycopg.Connection[Row]:
        """Return the driver's connection, for LISTEN and COPY."""
        return self._db

    def close(self) -> None:
        """Hang up."""
        self._db.close()


@lru_cache(maxsize=4096)
def _percent(sql: str) -> str:
    """Turn `?` placeholders into psycopg's, once per statement."""
    return sql.replace("%", "%%").replace("?", "%s")


@lru_cache(maxsize=256)
def _with_rows(sql: str, count: int) -> str | None:
    """Return an INSERT of one row of values as one of several rows; None for other statements."""
    found = _PLAIN_INSERT.fullmatch(sql)
    return None if found is None else _percent(found[1] + ", ".join([found[2]] * count))


def _like(pattern: str | None, text: str | None) -> bool:
    """Match SQL's LIKE case-sensitively, as MLflow does on every database."""
    if pattern is None or text is None:
        return False
    at = mark = 0
    star = -1
    position = 0
    # Greedy match that only ever goes back to the last `%`: linear for real patterns, never
    # exponential.
    while position < len(text):
        if at < len(pattern) and pattern[at] == "%":
            star, mark = at, position
            at += 1
        elif at < len(pattern) and pattern[at] in ("_", text[position]):
            at += 1
            position += 1
        elif star >= 0:
            mark += 1
            at, position = star + 1, mark
        else:
            return False
    return all(char == "%" for char in pattern[at:])


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError as missing:
        raise SetupError(
            "PostgreSQL needs the psycopg driver, which is not installed",
            hint="pip install 'trackyard[postgres]'",
        ) from missing
    return psycopg
