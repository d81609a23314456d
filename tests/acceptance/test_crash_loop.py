"""Nothing acknowledged is lost and nothing is there twice, however the server ends."""

import os
import random
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.acceptance.checking import Checker
from tests.acceptance.cutting import Cable, CuttingProxy
from tests.acceptance.serving import (
    SCRIPTS,
    TrackingServer,
    client_environment,
    python_of,
    run_client,
)
from tests.acceptance.test_postgres_faults import Postgres

ROUNDS = int(os.environ.get("YARD_TEST_CRASH_ROUNDS", "10"))
CHECKED_ROUNDS = int(os.environ.get("YARD_TEST_CRASH_ROUNDS", "3"))
WORKERS, THREADS = 2, 4
MAX_READY_SECONDS = 5.0
NewServer = Callable[..., TrackingServer]


@contextmanager
def _writers(server: TrackingServer, folder: Path, experiment: str) -> Iterator[None]:
    """Stock clients that log numbers until the block ends; they must end well themselves."""
    settings = client_environment(
        server, folder, MLFLOW_HTTP_REQUEST_MAX_RETRIES="9", MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR="1"
    )
    script = SCRIPTS / "log_numbers.py"
    clients = [
        subprocess.Popen(
            [python_of("mlflow3"), script, experiment, f"w{number}", str(THREADS), str(folder)],
            env=settings,
            stdout=subprocess.DEVNULL,
            stderr=(folder / f"w{number}.err").open("wb"),
        )
        for number in range(WORKERS)
    ]
    try:
        _wait_until(lambda: len(_lines(folder, "ack")) > 40, 180)
        yield
        (folder / "stop").touch()
        for number, client in enumerate(clients):
            assert client.wait(240) == 0, (folder / f"w{number}.err").read_text()[-2000:]
    finally:
        for client in clients:
            if client.poll() is None:
                client.kill()
                client.wait()


def _wait_until(holds: Callable[[], bool], patience: float) -> None:
    over = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < over, "waited in vain"
        time.sleep(0.05)


def _lines(folder: Path, word: str) -> list[tuple[str, str, int]]:
    """Return (writer, kind, number) of every line of the books that begins with a word."""
    found = []
    for book in folder.glob("*.book"):
        for line in book.read_text().splitlines():
            parts = line.split()
            if len(parts) == 3 and parts[0] == word:
                found.append((book.stem, parts[1], int(parts[2])))
    return found


def _experiment(server: TrackingServer) -> str:
    made = server.post("experiments/create", name=f"crash-{uuid.uuid4().hex[:8]}")
    return str(made["experiment_id"])


def _check(
    server: TrackingServer, folder: Path, experiment: str, *, unread_answers: int = 0
) -> int:
    """Compare what was tried, acknowledged and is there; return how much was acknowledged.

    As many runs may be there twice as there were answers on a line that was cut: the server
    cannot know that nobody read them, and a second empty run is cheaper than two in one.
    """
    tried, acked = set(_lines(folder, "try")), set(_lines(folder, "ack"))
    there: list[tuple[str, str, int]] = []
    for file in folder.glob("*.run"):
        for number in range(THREADS):
            writer = f"{file.stem}-{number}"
            points = server.history(file.read_text(), writer)
            assert all(p["value"] == p["step"] for p in points)
            there += [(writer, "point", int(p["step"])) for p in points]
    token: dict[str, str] = {}
    while True:
        body = {"experiment_ids": [experiment], "max_results": 1000, **token}
        page = server.post("runs/search", **body)
        for run in page.get("runs", []):
            writer, _, number = run["info"]["run_name"].rpartition("-")
            if writer != "log":
                there.append((writer, "run", int(number)))
        if not page.get("next_page_token"):
            break
        token = {"page_token": page["next_page_token"]}
    twice = [entry for entry, count in Counter(there).items() if count > 1]
    points = [entry for entry in twice if entry[1] == "point"]
    assert points == [], f"{len(points)} are there more than once: {points[:5]}"
    assert len(twice) <= unread_answers, f"{len(twice)} are there more than once: {twice[:5]}"
    lost = acked - set(there)
    assert lost == set(), f"{len(lost)} of {len(acked)} acknowledged are lost: {sorted(lost)[:5]}"
    assert set(there) <= tried
    return len(acked)


@pytest.mark.alone
def test_killed_again_and_again_loses_nothing(new_server: NewServer, tmp_path: Path) -> None:
    """Killed at random moments: all acknowledged is there once, ready again within seconds."""
    server = new_server()
    server.start()
    experiment = _experiment(server)
    until_ready: list[float] = []
    with _writers(server, tmp_path, experiment):
        for _ in range(ROUNDS):
            time.sleep(random.uniform(0.05, 2.0))
            server.kill()
            until_ready.append(server.start())
        before = len(_lines(tmp_path, "ack"))
        _wait_until(lambda: len(_lines(tmp_path, "ack")) > before + 20, 240)
    assert _check(server, tmp_path, experiment) > 60
    assert _lines(tmp_path, "gave-up") == []
    assert statistics.median(until_ready) < MAX_READY_SECONDS


@pytest.fixture(params=["sqlite", "postgresql"])
def checked_server(
    request: pytest.FixtureRequest, new_server: NewServer
) -> Iterator[TrackingServer]:
    """A server on each database."""
    server = new_server()
    if request.param == "postgresql":
        folder = Path(tempfile.mkdtemp(prefix="yard-pg-"))
        postgres = Postgres(folder)
        server.home.mkdir(parents=True, exist_ok=True)
        server.database = postgres.url
    server.start()
    yield server
    server.kill()
    if request.param == "postgresql":
        postgres.close()
        shutil.rmtree(folder, ignore_errors=True)


def test_what_was_acknowledged_is_what_every_read_shows(checked_server: TrackingServer) -> None:
    """Writers, readers and refused writes at once, over every cache, with kill -9 in between."""
    server = checked_server
    checker = Checker(server)
    with checker.running():
        for _ in range(CHECKED_ROUNDS):
            before = checker.acknowledged
            _wait_until(
                lambda before=before: checker.faults or checker.acknowledged > before + 60, 400
            )
            checker.insist()
            server.kill()
            server.start()
        before = checker.reads
        _wait_until(lambda: checker.faults or checker.reads > before + 10, 400)
    assert checker.acknowledged > 60


def test_told_to_end_under_load_loses_nothing(new_server: NewServer, tmp_path: Path) -> None:
    """SIGTERM while clients write: it ends with status 0 and everything acknowledged stays."""
    server = new_server()
    server.start()
    experiment = _experiment(server)
    with _writers(server, tmp_path, experiment):
        for _ in range(3):
            time.sleep(0.5)
            assert server.stop() == 0, server.log
            server.start()
    assert _check(server, tmp_path, experiment) > 40


def test_a_cut_network_goes_unnoticed_by_stock_clients(
    new_server: NewServer, tmp_path: Path
) -> None:
    """The cable is pulled for seconds: clients go on, nothing is lost and no point is double."""
    server = new_server()
    server.start()
    experiment = _experiment(server)
    with Cable(server.port) as cable:
        beyond = TrackingServer(server.home, port=cable.port, token=server.token)
        with _writers(beyond, tmp_path, experiment):
            for seconds in (0.1, 3.0):
                time.sleep(0.5)
                cable.pull()
                time.sleep(seconds)
                cable.plug()
                before = len(_lines(tmp_path, "ack"))
                _wait_until(lambda before=before: len(_lines(tmp_path, "ack")) > before + 20, 240)
    pulls = 2
    checked = _check(server, tmp_path, experiment, unread_answers=pulls * WORKERS * THREADS)
    assert checked > 40
    assert _lines(tmp_path, "gave-up") == []


def test_a_create_whose_answer_was_lost_makes_one(
    tracking: TrackingServer, tmp_path: Path
) -> None:
    """The client's own retry finds what the first try made, where nobody can have its answer."""
    name = f"once-{uuid.uuid4().hex[:8]}"
    calls = tuple(
        f"POST /api/2.0/mlflow/{made}/create".encode()
        for made in ("experiments", "runs", "registered-models", "model-versions")
    )
    with CuttingProxy(tracking.port, *calls) as proxy:
        output = run_client(
            tracking,
            "mlflow3",
            SCRIPTS / "create_once.py",
            name,
            home=tmp_path,
            MLFLOW_TRACKING_URI=f"http://127.0.0.1:{proxy.port}",
        )
        assert sorted(proxy.cut) == sorted(calls)
    (run,) = tracking.runs(name)
    found = tracking.get("model-versions/search", filter=f"name = '{name}'")["model_versions"]
    assert [v["version"] for v in found] == ["1"]
    assert f"MADE {run['info']['run_id']} 1" in output


def _upload_part(server: TrackingServer, path: str, whole: bytes, share: float) -> None:
    """Announce a whole upload, send a share of it, and hang up."""
    head = f"PUT {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
    head += "".join(f"{key}: {value}\r\n" for key, value in server.headers.items())
    head += f"Content-Length: {len(whole)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as line:
        line.sendall(head.encode() + whole[: int(len(whole) * share)])
        time.sleep(0.05)


@pytest.fixture
def artifact(tracking: TrackingServer) -> tuple[str, str]:
    """A fresh run and the path of a file that may come to lie in it."""
    experiment = tracking.post("experiments/create", name=f"cut-{uuid.uuid4().hex[:8]}")
    info = tracking.post("runs/create", experiment_id=experiment["experiment_id"])["run"]["info"]
    inside = info["artifact_uri"].removeprefix("mlflow-artifacts:/")
    return info["run_id"], f"/api/2.0/mlflow-artifacts/artifacts/{inside}/model.bin"


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_cut_upload_leaves_the_old_file_or_none(
    tracking: TrackingServer, artifact: tuple[str, str], share: float
) -> None:
    """Half a file is never served, and never takes the place of a whole one."""
    run, path = artifact
    new = random.Random(1).randbytes(4_000_000)
    _upload_part(tracking, path, new, share)
    time.sleep(0.3)
    assert tracking.ask("GET", path).status_code == 404
    assert tracking.files(run) == {}
    old = b"the old version"
    assert tracking.ask("PUT", path, content=old).status_code == 200
    _upload_part(tracking, path, new, share)
    time.sleep(0.3)
    assert tracking.ask("GET", path).content == old
    assert tracking.files(run) == {"model.bin": len(old)}
    assert tracking.ask("PUT", path, content=new).status_code == 200
    assert tracking.ask("GET", path).content == new


def test_a_server_killed_during_an_upload_keeps_the_old_file(new_server: NewServer) -> None:
    """After kill -9 in the middle of an upload the old version is served, whole."""
    server = new_server()
    server.start()
    info = server.post("runs/create", experiment_id="0")["run"]["info"]
    inside = info["artifact_uri"].removeprefix("mlflow-artifacts:/")
    path = f"/api/2.0/mlflow-artifacts/artifacts/{inside}/model.bin"
    assert server.ask("PUT", path, content=b"old").status_code == 200
    head = f"PUT {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
    head += "".join(f"{key}: {value}\r\n" for key, value in server.headers.items())
    with socket.create_connection(("127.0.0.1", server.port)) as line:
        line.sendall(f"{head}Content-Length: 9000000\r\n\r\n".encode() + b"n" * 3_000_000)
        time.sleep(0.2)
        server.kill()
    server.start()
    assert server.ask("GET", path).content == b"old"
    assert server.files(info["run_id"]) == {"model.bin": 3}
