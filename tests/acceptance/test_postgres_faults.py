"""PostgreSQL restarted, killed and cut off under load; two servers on one database."""

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.acceptance.loading import load
from tests.acceptance.postgres import Postgres
from tests.acceptance.serving import TrackingServer

NewServer = Callable[..., TrackingServer]
HEALED_SECONDS = 60.0


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
    wish = {"experiment_id": "0", "start_time": 1_700_000_000_000, "run_name": name}
    answer = client.post("/api/2.0/mlflow/runs/create", json=wish)
    return str(answer.json()["run"]["info"]["run_id"])


def test_the_same_words_to_two_servers_make_two_runs_unless_repeated(
    on_postgres: NewServer,
) -> None:
    """Two callers get a run each; one whose connection broke finds its own at the other server."""
    first, second = on_postgres(), on_postgres()
    first.start()
    second.start()
    with (
        httpx.Client(base_url=first.url, headers=first.headers, timeout=60) as one,
        httpx.Client(base_url=second.url, headers=first.headers, timeout=60) as other,
    ):
        assert create_run(one, "both") != create_run(other, "both")
        lost = create_run(one, "lost")
        one.close()
        assert create_run(other, "lost") == lost


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
