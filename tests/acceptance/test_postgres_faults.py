"""PostgreSQL restarted, killed, cut off, frozen, full and rotten; two servers on one database."""

import contextlib
import json
import secrets
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.acceptance.disks import SmallDisk
from tests.acceptance.loading import load
from tests.acceptance.postgres import Postgres
from tests.acceptance.serving import TrackingServer

NewServer = Callable[..., TrackingServer]
HEALED_SECONDS = 60.0
START = 1_700_000_000_000
#: Finds who waits for a lock in this database; the cluster has others.
WAITS = """SELECT 1 FROM pg_locks JOIN pg_database d ON d.oid = database
WHERE NOT granted AND d.datname = current_database()"""


@pytest.fixture
def on_postgres(new_server: NewServer, postgres: Postgres, tmp_path: Path) -> NewServer:
    """Make servers on one database and one artifact store, each with a home of its own."""
    database = postgres.new_database()

    def make(**how: str) -> TrackingServer:
        server = new_server(**how)
        server.database = database
        server.artifacts = str(tmp_path / "artifacts")
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
    on_postgres: NewServer,
) -> None:
    """A caller who had an answer gets another run; one who left before it, its own at either."""
    first, second = on_postgres(), on_postgres()
    first.start()
    second.start()
    with (
        httpx.Client(base_url=first.url, headers=first.headers, timeout=180) as one,
        httpx.Client(base_url=second.url, headers=first.headers, timeout=180) as other,
    ):
        answered = create_run(one, "both")
        one.close()
        assert create_run(other, "both") != answered
        lost = lose_answer(first, "lost")
        assert create_run(other, "lost") == lost
        assert create_run(other, "lost") != lost


def lose_answer(server: TrackingServer, name: str) -> str:
    """Create a run for a caller who leaves while the database writes it; return its id."""
    body = json.dumps({"experiment_id": "0", "start_time": START, "run_name": name}).encode()
    head = f"POST /api/2.0/mlflow/runs/create HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
    head += f"Authorization: Bearer {server.token}\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    with (
        psycopg.connect(server.database) as holder,
        psycopg.connect(server.database, autocommit=True) as look,
    ):
        holder.execute("LOCK TABLE runs IN SHARE MODE")
        with socket.create_connection(("127.0.0.1", server.port)) as line:
            line.sendall(head.encode() + body)
            wait_until(lambda: look.execute(WAITS).fetchone())
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


def test_a_frozen_database_keeps_nobody_waiting_for_ever(
    on_postgres: NewServer, postgres: Postgres
) -> None:
    """It neither answers nor goes away: reads and writes are told 503 within a bound, health
    answers, and once it thaws all goes on with nothing lost.
    """
    server = on_postgres()
    server.start()
    with load(server, 2) as book:
        wait_until(lambda: len(book.acked) > 20)
        frozen = postgres.freeze()
        try:
            answers = ask_together(
                server,
                ("POST", "runs/set-tag", {"run_id": book.run_id, "key": "k", "value": "v"}),
                ("GET", f"runs/get?run_id={book.run_id}", None),
                ("POST", "runs/search", {"experiment_ids": ["0"]}),
            )
            # A row that was written a moment ago is proof enough that the server is ready.
            while (ready := server.ask("GET", "/ready")).status_code == 200:
                time.sleep(0.1)
            answers.append(ready)
            assert [answer.status_code for answer in answers] == [503, 503, 503, 503]
            assert all(answer.headers["retry-after"] for answer in answers)
            assert all("database" in answer.json()["message"] for answer in answers)
            assert server.ask("GET", "/health").text == "OK"
        finally:
            postgres.thaw(frozen)
        before = len(book.acked)
        wait_until(lambda: len(book.acked) > before + 20)
        wait_until(lambda: server.ask("GET", "/ready").status_code == 200)
    assert set(book.refusals) <= {503}, book.refusals
    assert book.cut == 0
    book.check(server)
    assert server.stop() == 0


def ask_together(
    server: TrackingServer, *calls: tuple[str, str, dict[str, object] | None]
) -> list[httpx.Response]:
    """Do several calls at once, and return the answers in their order."""

    def ask(call: tuple[str, str, dict[str, object] | None]) -> httpx.Response:
        method, path, body = call
        return server.ask(method, path, **({} if body is None else {"json": body}))

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(ask, calls))


@pytest.fixture
def small_postgres(tmp_path: Path) -> Iterator[tuple[Postgres, SmallDisk]]:
    """A PostgreSQL on a disk of its own that a test fills and frees."""
    folder = Path(tempfile.mkdtemp(prefix="yard-pg-"))
    disk = SmallDisk(folder / "disk", megabytes=160)
    (disk.folder / "data").mkdir()
    server = Postgres(disk.folder / "data")
    # Its log must not take the last bytes from its tables.
    server.run("ALTER SYSTEM SET wal_recycle = on")
    yield server, disk
    server.close()
    disk.close()
    shutil.rmtree(folder, ignore_errors=True)


def test_a_full_database_disk_refuses_writes_and_serves_reads(
    new_server: NewServer, small_postgres: tuple[Postgres, SmallDisk]
) -> None:
    """Full, writes are told so and reads go on; freed, it writes again; nothing is lost."""
    postgres, disk = small_postgres
    server = new_server()
    server.database = postgres.new_database()
    server.start()
    run_id = server.post("runs/create", experiment_id="0")["run"]["info"]["run_id"]
    disk.fill(postgres.processes())
    kept: list[str] = []
    for number in range(600):
        # Random, for PostgreSQL packs what repeats.
        tags = [{"key": f"t{number}", "value": secrets.token_hex(3500)}]
        answer = server.ask("POST", "runs/log-batch", json={"run_id": run_id, "tags": tags})
        if answer.status_code != 200:
            break
        kept.append(f"t{number}")
    assert answer.status_code in (503, 507), answer.text
    assert answer.headers["retry-after"]
    assert "disk" in answer.json()["message"] or "away" in answer.json()["message"]
    assert server.ask("GET", "/health").text == "OK"
    wait_until(lambda: server.ask("GET", f"runs/get?run_id={run_id}").status_code == 200)
    found = server.get("runs/get", run_id=run_id)["run"]["data"]["tags"]
    assert set(kept) <= {tag["key"] for tag in found}
    disk.free(postgres.processes())
    wait_until(
        lambda: (
            server.ask(
                "POST", "runs/set-tag", json={"run_id": run_id, "key": "after", "value": "x"}
            ).status_code
            == 200
        )
    )
    found = server.get("runs/get", run_id=run_id)["run"]["data"]["tags"]
    assert {*kept, "after"} <= {tag["key"] for tag in found}
    assert server.get("/api/v1/admin/verify/database")["damaged"] == []


def test_a_rotten_page_is_named_and_the_rest_is_served(
    on_postgres: NewServer, postgres: Postgres
) -> None:
    """A flipped bit in a table: its readers are told, others served, `verify` names the table."""
    server = on_postgres()
    server.start()
    run_id = server.post("runs/create", experiment_id="0")["run"]["info"]["run_id"]
    server.post("registered-models/create", name="resnet")
    server.kill()
    with psycopg.connect(server.database, autocommit=True) as conn:
        conn.execute("CHECKPOINT")
        found = conn.execute("SELECT pg_relation_filepath('models')").fetchone()
    assert found is not None
    postgres.kill()
    page = postgres.folder / str(found[0])
    data = bytearray(page.read_bytes())
    data[-10] ^= 4
    page.write_bytes(data)
    postgres.start()
    server.start()
    answer = server.ask("GET", "registered-models/search")
    assert (answer.status_code, answer.json()["error_code"]) == (500, "INTERNAL_ERROR")
    assert "the database file is damaged" in answer.json()["message"]
    assert server.get("runs/get", run_id=run_id)["run"]["info"]["run_id"] == run_id
    damaged = server.get("/api/v1/admin/verify/database")["damaged"]
    assert len(damaged) == 1
    assert damaged[0].startswith("table models: ")


@pytest.mark.parametrize("point", ["before-commit", "after-commit"])
def test_a_server_that_died_around_a_commit_keeps_all_or_nothing(
    on_postgres: NewServer, point: str
) -> None:
    """Killed before or after the commit and before the reply: the end of a run is there or not,
    and told again it is there once.
    """
    server = on_postgres(YARD_CRASH_POINT=f"{point}=run.finished")
    server.start()
    run_id = server.post("runs/create", experiment_id="0")["run"]["info"]["run_id"]
    with pytest.raises(httpx.HTTPError):
        server.post("runs/update", run_id=run_id, status="FINISHED", end_time=5)
    assert server.process is not None
    assert server.process.wait(60) == -signal.SIGKILL
    server.environment = {}
    server.start()
    status = server.get("runs/get", run_id=run_id)["run"]["info"]["status"]
    assert status == ("FINISHED" if point == "after-commit" else "RUNNING")
    server.post("runs/update", run_id=run_id, status="FINISHED", end_time=5)
    events = server.get("/api/v1/events", subject_id=run_id)["events"]
    assert [event["kind"] for event in events].count("run.finished") == 1


def test_a_server_killed_under_load_loses_nothing(on_postgres: NewServer) -> None:
    """Killed without a farewell and started again: all acknowledged is there once."""
    server = on_postgres()
    server.start()
    with load(server) as book:
        for _ in range(2):
            before = len(book.acked)
            wait_until(lambda before=before: len(book.acked) > before + 30)  # type: ignore[misc]
            server.kill()
            server.start()
        before = len(book.acked)
        wait_until(lambda: len(book.acked) > before + 10)
    book.check(server)
