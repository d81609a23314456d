"""Faults of disk, database and process: nothing acknowledged is lost, and what cannot be kept is
refused with words.
"""

import contextlib
import os
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance.disks import SmallDisk
from tests.acceptance.loading import load
from tests.acceptance.serving import ROOT, TrackingServer, free_port

NewServer = Callable[..., TrackingServer]


def wait_until(holds: Callable[[], object], patience: float = 120.0) -> None:
    over = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < over, "waited in vain"
        time.sleep(0.05)


# -- the disk ---------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "disk")
    yield disk
    disk.close()


def pids(server: TrackingServer) -> list[int]:
    assert server.process is not None
    return [server.process.pid]


def test_a_full_disk_refuses_writes_and_serves_reads(small_disk: SmallDisk) -> None:
    """Full, the server says so and reads on; freed, it writes again; nothing is damaged."""
    server = TrackingServer(small_disk.folder / "home")
    server.start()
    try:
        run_id = server.post("runs/create", experiment_id="0")["run"]["info"]["run_id"]
        doomed = server.post("runs/create", experiment_id="0")["run"]["info"]["run_id"]
        small_disk.fill(pids(server))
        kept: list[str] = []
        for number in range(400):
            tags = [{"key": f"t{number}", "value": f"{number}-" + "x" * 7000}]
            answer = server.ask("POST", "runs/log-batch", json={"run_id": run_id, "tags": tags})
            if answer.status_code != 200:
                break
            kept.append(f"t{number}")
        assert answer.status_code in (503, 507), answer.text
        assert answer.headers["retry-after"]
        assert set(answer.json()) == {"error_code", "message"}
        assert "Traceback" not in answer.text
        assert server.ask("GET", "/health").text == "OK"
        found = server.get("runs/get", run_id=run_id)["run"]["data"]["tags"]
        assert set(kept) <= {tag["key"] for tag in found}
        assert server.post("runs/search", experiment_ids=["0"])["runs"]
        if small_disk.is_mounted:
            check_that_room_can_be_made(server, doomed)
        small_disk.free(pids(server))
        wait_until(lambda: server.ask("GET", "/ready").status_code == 200)
        server.post("runs/set-tag", run_id=run_id, key="after", value="x")
        found = server.get("runs/get", run_id=run_id)["run"]["data"]["tags"]
        assert {*kept, "after"} <= {tag["key"] for tag in found}
        assert server.stop() == 0, server.log
        with sqlite3.connect(server.home / "trackyard.db") as conn:
            assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    finally:
        server.kill()


def check_that_room_can_be_made(server: TrackingServer, doomed: str) -> None:
    """Deleting and collecting garbage go on in the space kept back for them; nothing else does."""
    assert server.ask("POST", "runs/delete", json={"run_id": doomed}).status_code == 200
    answer = server.ask("POST", "/api/v1/admin/gc", json={"purge_days": 0})
    assert answer.status_code == 200, answer.text
    assert answer.json()["purged_runs"] == 1
    refused = server.ask("POST", "runs/create", json={"experiment_id": "0"})
    assert refused.status_code == 507, refused.text
    # A proof from the start is good for a moment, so on a quick machine the word comes later.
    wait_until(lambda: "disk" in server.ask("GET", "/ready").text)


def test_a_disk_that_fails_to_flush_ends_writing(new_server: NewServer) -> None:
    """A commit the disk did not keep is not acknowledged, nor any later one; reads go on."""
    server = new_server(YARD_CRASH_POINT="sync-fault:30")
    server.start()
    run_id = server.post("runs/create", experiment_id="0")["run"]["info"]["run_id"]
    answers = []
    for step in range(45):
        point = {"run_id": run_id, "key": "m", "value": step, "timestamp": step, "step": step}
        answers.append(server.ask("POST", "runs/log-metric", json=point))
    statuses = [answer.status_code for answer in answers]
    acked = statuses.index(503)
    assert set(statuses[:acked]) == {200}
    assert set(statuses[acked:]) == {503}
    assert "check the disk" in answers[acked].json()["message"]
    assert "check the disk" in server.ask("GET", "/ready").json()["message"]
    assert len(server.history(run_id, "m")) == acked
    server.kill()
    server.environment = {}
    server.start()
    assert len(server.history(run_id, "m")) == acked


def test_bit_rot_is_named_and_the_rest_is_served(new_server: NewServer) -> None:
    """A flipped bit in points or in a page: readers are told, others served, `verify` names."""
    server = new_server()
    server.start()
    rotten, sound = (
        server.post("runs/create", experiment_id="0")["run"]["info"]["run_id"] for _ in range(2)
    )
    for run_id in (rotten, sound):
        points = [
            {"key": "loss", "value": step**0.5, "timestamp": step, "step": step}
            for step in range(200)
        ]
        server.post("runs/log-batch", run_id=run_id, metrics=points)
    server.post("registered-models/create", name="resnet")
    assert server.ask("POST", "/api/v1/admin/gc", json={}).status_code == 200
    assert server.stop() == 0
    path = server.home / "trackyard.db"
    damage_points(path, rotten)
    damage_table(path, "models")
    server.start()
    ask = {"run_id": rotten, "metric_key": "loss"}
    answer = server.ask("GET", "metrics/get-history", params=ask)
    assert (answer.status_code, answer.json()["error_code"]) == (500, "INTERNAL_ERROR")
    assert "points of this metric are damaged" in answer.json()["message"]
    answer = server.ask("GET", "registered-models/search")
    assert answer.status_code == 500
    assert "the database file is damaged" in answer.json()["message"]
    assert len(server.history(sound, "loss")) == 200
    found = server.get("/api/v1/admin/verify/database")["damaged"]
    assert any(line.startswith(f"run {rotten}, metric loss: ") for line in found)
    assert any(line.startswith("the database file: ") for line in found)
    assert server.stop() == 0
    damage_table(path, "events")
    with pytest.raises(AssertionError, match=r"(?s)is damaged .*hint: put it aside.*yard restore"):
        server.start()


def damage_points(path: Path, run_id: str) -> None:
    """Flip a bit in the stored points of a run."""
    with contextlib.closing(sqlite3.connect(path)) as conn:
        [(block, data)] = conn.execute(
            "SELECT b.id, b.data FROM metric_blocks b JOIN runs r ON r.id = b.run_id"
            " WHERE r.uuid = ?",
            (run_id,),
        ).fetchall()
        flipped = data[:-20] + bytes([data[-20] ^ 4]) + data[-19:]
        conn.execute("UPDATE metric_blocks SET data = ? WHERE id = ?", (flipped, block))
        conn.commit()


def damage_table(path: Path, table: str) -> None:
    """Flip a bit in the first page of a table."""
    with contextlib.closing(sqlite3.connect(path)) as conn:
        [(page,)] = conn.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)
        ).fetchall()
        [(size,)] = conn.execute("PRAGMA page_size").fetchall()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        kind = file.read(1)
        file.seek((page - 1) * size)
        file.write(bytes([kind[0] ^ 16]))


# -- the process ------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["before-commit", "after-commit"])
def test_a_create_that_died_before_its_reply_makes_one(new_server: NewServer, point: str) -> None:
    """Killed before or after the commit and before the reply, a repeated create makes one run."""
    server = new_server(YARD_CRASH_POINT=f"{point}=run.created")
    server.start()
    wish = {"experiment_id": "0", "start_time": 1_700_000_000_000, "run_name": "once"}
    with pytest.raises(httpx.HTTPError):
        server.post("runs/create", **wish)
    assert server.process is not None
    assert server.process.wait(60) == -signal.SIGKILL
    server.environment = {}
    server.start()
    made = server.post("runs/create", **wish)["run"]["info"]["run_id"]
    found = server.post("runs/search", experiment_ids=["0"])["runs"]
    assert [run["info"]["run_id"] for run in found] == [made]


def test_a_second_server_on_a_home_is_refused(new_server: NewServer) -> None:
    """The second start names the first one's pid; after kill -9 the home is free again."""
    server = new_server()
    server.start()
    assert server.process is not None
    second = subprocess.run(
        [*server.command()[:-1], str(free_port())],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert second.returncode == 2
    assert f"(pid {server.process.pid})" in second.stderr
    assert "hint:" in second.stderr
    assert "Traceback" not in second.stderr
    server.kill()
    server.start()
    assert server.ask("GET", "/ready").status_code == 200


def test_told_to_end_it_ends_soon_with_streams_open(new_server: NewServer) -> None:
    """SIGTERM under load and with live streams: out within seconds, all acknowledged there."""
    server = new_server()
    server.start()
    streams = [threading.Thread(target=_follow, args=(server,), daemon=True) for _ in range(5)]
    for stream in streams:
        stream.start()
    with load(server) as book:
        wait_until(lambda: len(book.acked) > 100)
        # The streams themselves would last for minutes.
        assert server.stop() == 0, server.log
        # A start on a home that is up to date runs no statement of a migration: it would die.
        server.environment = {"YARD_CRASH_POINT": "migration-statement"}
        server.start()
        before = len(book.acked)
        wait_until(lambda: len(book.acked) > before + 50)
    book.check(server)


def _follow(server: TrackingServer) -> None:
    with (
        contextlib.suppress(httpx.HTTPError),
        httpx.stream(
            "GET", f"{server.url}/api/v1/stream", headers=server.headers, timeout=600
        ) as answer,
    ):
        for _ in answer.iter_raw():
            pass
