"""Bit rot, restore drills and artifact stores that are not the database's own: each is named, and
nothing else suffers.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.postgres import Postgres
from tests.acceptance.serving import ROOT, TrackingServer
from tests.acceptance.test_backup import new_run, yard

NewServer = Callable[..., TrackingServer]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrackingServer]:
    """A server with sound and rotten files."""
    made = TrackingServer(tmp_path_factory.mktemp("rot") / "home")
    made.start()
    yield made
    made.stop()


def put(server: TrackingServer, place: str, name: str, data: bytes) -> Path:
    """Upload a file and return where its bytes lie."""
    before = set(blobs(server))
    assert server.ask("PUT", f"{place}/{name}", content=data).status_code == 200
    (found,) = set(blobs(server)) - before
    return found


def blobs(server: TrackingServer) -> list[Path]:
    return [path for path in (server.home / "artifacts" / "blobs").rglob("*") if path.is_file()]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def test_rotten_files_are_named_left_out_of_the_backup_and_told_by_the_restore(
    server: TrackingServer, tmp_path: Path
) -> None:
    """Changed, cut and lost files of every size: each is named with its run and path by `verify`,
    skipped by `backup`, excused by `restore`; all others are copied and restored.
    """
    run_id, place = new_run(server)
    sound = os.urandom(3_000_000)
    put(server, place, "sound.bin", sound)
    put(server, place, "empty.txt", b"")
    flip(put(server, place, "small changed.txt", b"some bytes"))
    flip(put(server, place, "large/changed.bin", os.urandom(5_000_000)))
    cut = put(server, place, "large/cut.bin", os.urandom(5_000_000))
    os.truncate(cut, 4_000_000)
    put(server, place, "lost.txt", b"soon gone").unlink()
    rotten = {"small changed.txt", "large/changed.bin", "large/cut.bin", "lost.txt"}

    found = yard(server, "verify", "--json")
    assert found.returncode == 1, found.stderr
    shaped = json.loads(found.stdout)
    assert {(one["owner"], one["path"]) for one in shaped["damaged"]} == {
        (run_id, path) for path in rotten
    }
    assert all(one["what"] and one["kind"] == "artifact" for one in shaped["damaged"])
    assert (shaped["files"] >= 6, shaped["database_damage"]) == (True, [])
    told = yard(server, "verify")
    assert told.returncode == 1
    assert all(f"damaged file: {run_id}/{path}" in told.stderr for path in rotten)
    assert "hint:" in told.stderr
    assert yard(server, "verify", "--database-only").returncode == 0

    folder = tmp_path / "backup"
    done = yard(server, "backup", str(folder), "--json")
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert {(one["owner"], one["name"]) for one in report["damaged"]} == {
        (run_id, path) for path in rotten
    }
    assert list(folder.rglob("*.partial")) == []
    checked = yard(None, "restore", str(folder), "--check")
    assert checked.returncode == 1
    assert f"{run_id}/lost.txt" in checked.stderr
    restored = TrackingServer(tmp_path / "restored")
    answer = yard(None, "restore", str(folder), "--home", str(restored.home))
    assert answer.returncode == 0, answer.stderr
    assert all(f"{run_id}/{path}" in answer.stderr for path in rotten)
    restored.start()
    try:
        assert restored.ask("GET", f"{place}/sound.bin").content == sound
        assert restored.ask("GET", f"{place}/empty.txt").content == b""
        assert restored.ask("GET", f"{place}/lost.txt").status_code == 500
        damaged = json.loads(yard(restored, "verify", "--json").stdout)["damaged"]
        assert {one["path"] for one in damaged} == rotten
    finally:
        restored.kill()


def test_a_drill_compares_the_restored_server_with_the_backup(
    new_server: NewServer, tmp_path: Path
) -> None:
    """All that the backup holds is there, new work aside; what is lost afterwards is named."""
    server = new_server()
    server.start()
    run_id, place = new_run(server)
    put(server, place, "model.bin", b"weights")
    server.post("runs/log-parameter", run_id=run_id, key="lr", value="0.1")
    points = [{"key": "loss", "value": 1.0, "timestamp": 1, "step": n} for n in range(50)]
    server.post("runs/log-batch", run_id=run_id, metrics=points)
    folder = tmp_path / "backup"
    assert yard(server, "backup", str(folder)).returncode == 0
    assert yard(None, "restore", str(folder), "--check").returncode == 0
    restored = new_server()
    assert yard(None, "restore", str(folder), "--home", str(restored.home)).returncode == 0
    restored.start()
    new_run(restored)
    restored.ask("POST", "/api/v1/admin/gc", json={})
    drill = yard(restored, "verify", "--against", str(folder), "--json")
    assert drill.returncode == 0, drill.stdout + drill.stderr
    assert json.loads(drill.stdout)["missing"] == []
    assert restored.ask("DELETE", f"{place}/model.bin").status_code < 300
    lost = yard(restored, "verify", "--against", str(folder), "--json")
    assert lost.returncode == 1
    (missing,) = json.loads(lost.stdout)["missing"]
    assert missing["table"] == "artifacts"
    assert "model.bin" in missing["row"]
    # A server that never held it is no drill at all.
    other = new_server()
    other.start()
    refused = yard(other, "verify", "--against", str(folder))
    assert refused.returncode == 2
    assert "before the backup's" in refused.stderr


def refuse(server: TrackingServer) -> str:
    """Start a server that must not come up; return what it said."""
    with pytest.raises(AssertionError, match="the server ended at start"):
        server.start()
    assert server.process is not None
    assert server.process.returncode == 2, server.log
    assert "Traceback" not in server.log
    return server.log


def test_a_store_of_another_database_is_refused(new_server: NewServer, tmp_path: Path) -> None:
    """Another home's folder, an emptied one or a marker that was changed: a sentence each, and
    nothing is written; the right folder serves again.
    """
    first = new_server()
    first.start()
    _run_id, place = new_run(first)
    put(first, place, "f.txt", b"kept")
    assert first.stop() == 0
    marker = first.home / "artifacts" / "store.id"
    name = marker.read_text().strip()
    stranger = new_server()
    shutil.copytree(first.home / "artifacts", stranger.home / "artifacts")
    log = refuse(stranger)
    assert f"belong to another database (store {name})" in log
    marker.rename(tmp_path / "kept.id")
    log = refuse(first)
    assert "is not the store of this database's artifacts" in log
    assert f"with the text {name}" in log
    marker.write_text("0" * 32 + "\n")
    assert f"is store {'0' * 32}; this database's artifacts are in store {name}" in refuse(first)
    (tmp_path / "kept.id").replace(marker)
    first.start()
    assert first.ask("GET", f"{place}/f.txt").content == b"kept"


def test_two_servers_with_different_folders_on_one_database_are_refused(
    new_server: NewServer, postgres: Postgres, tmp_path: Path
) -> None:
    """The second is told which store to name; with that one it starts and serves its files."""
    first, second = new_server(), new_server()
    first.database = second.database = postgres.new_database()
    first.start()
    _, place = new_run(first)
    put(first, place, "f.txt", b"kept")
    log = refuse(second)
    assert "is not the store of this database's artifacts" in log
    assert "--artifacts" in log
    second.artifacts = str(first.home / "artifacts")
    second.start()
    second.token = first.token
    assert second.ask("GET", f"{place}/f.txt").content == b"kept"
    assert yard(second, "verify").returncode == 0
    check_a_dump(first, postgres, tmp_path)


def check_a_dump(server: TrackingServer, postgres: Postgres, tmp_path: Path) -> None:
    """`yard backup` names PostgreSQL's own tool, and a drill with it works."""
    refused = yard(server, "backup", str(tmp_path / "b"))
    assert (refused.returncode, "pg_dump" in refused.stderr) == (2, True)
    copy = postgres.copy_of(server.database, tmp_path / "trackyard.dump")
    restored = TrackingServer(tmp_path / "restored", database=copy)
    restored.home.mkdir()
    subprocess.run(
        ["cp", "-r", str(server.home / "artifacts"), str(restored.home)], check=True, cwd=ROOT
    )
    restored.start()
    try:
        assert yard(restored, "verify").returncode == 0
    finally:
        restored.kill()
