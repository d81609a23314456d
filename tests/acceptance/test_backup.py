"""A backup of a live server holds all that was acknowledged before it, and comes back whole."""

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.loading import load
from tests.acceptance.serving import ROOT, TrackingServer

NewServer = Callable[..., TrackingServer]


def yard(server: TrackingServer | None, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user would."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    if server is not None:
        environment |= {"YARD_URL": server.url, "YARD_TOKEN": server.token}
    return subprocess.run(
        [sys.executable, "-m", "trackyard.cli.main", *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def new_run(server: TrackingServer) -> tuple[str, str]:
    """Return a run's id and where its files go."""
    info = server.post("runs/create", experiment_id="0")["run"]["info"]
    inside = info["artifact_uri"].removeprefix("mlflow-artifacts:/")
    return info["run_id"], f"/api/2.0/mlflow-artifacts/artifacts/{inside}"


def test_a_backup_under_load_comes_back_whole(new_server: NewServer, tmp_path: Path) -> None:
    """Taken while callers log and files are replaced: all acknowledged before is there."""
    server = new_server()
    server.start()
    run_id, place = new_run(server)
    large = os.urandom(5_000_000)
    assert server.ask("PUT", f"{place}/model.bin", content=large).status_code == 200
    server.post("registered-models/create", name="food")
    made = server.post("model-versions/create", name="food", source=f"runs:/{run_id}/model.bin")
    assert made["model_version"]["version"] == "1"
    stop = threading.Event()
    written: list[int] = []

    def replace() -> None:
        number = 0
        while not stop.is_set():
            body = f"version {number} ".encode() * 20_000
            assert server.ask("PUT", f"{place}/latest.txt", content=body).status_code == 200
            written.append(number)
            number += 1

    replacing = threading.Thread(target=replace)
    with load(server) as book:
        replacing.start()
        while len(book.acked) < 100 or len(written) < 3:
            stop.wait(0.02)
        before, last = set(book.acked), written[-1]
        done = yard(server, "backup", str(tmp_path / "backup"), "--json")
        after = set(book.tried)
        assert done.returncode == 0, done.stderr
    stop.set()
    replacing.join()
    report = json.loads(done.stdout)
    assert report["files"] >= 3
    assert list((tmp_path / "backup").rglob("*.partial")) == []
    server.kill()

    restored = new_server()
    answer = yard(None, "restore", str(tmp_path / "backup"), "--home", str(restored.home))
    assert answer.returncode == 0, answer.stderr
    for path in restored.home.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    restored.start()
    book.acked, book.tried = before, after
    book.check(restored)
    assert restored.ask("GET", f"{place}/model.bin").content == large
    text = restored.ask("GET", f"{place}/latest.txt").text
    assert int(text.split()[1]) >= last
    found = restored.get("model-versions/search", filter="name = 'food'")["model_versions"]
    assert [version["version"] for version in found] == ["1"]
    drill = yard(restored, "verify", "--against", str(tmp_path / "backup"), "--json")
    assert drill.returncode == 0, drill.stdout
    # The old token is in the copy, so whoever had access still has it.
    restored.token = server.token
    assert restored.get("/api/v1/session")["user"] == "admin"


@pytest.fixture
def backup(tracking: TrackingServer, tmp_path: Path) -> Path:
    """A backup of the shared server, with at least one file in it."""
    _, place = new_run(tracking)
    assert tracking.ask("PUT", f"{place}/f.txt", content=b"some bytes").status_code == 200
    folder = tmp_path / "backup"
    done = yard(tracking, "backup", str(folder))
    assert done.returncode == 0, done.stderr
    assert "up to event" in done.stdout
    return folder


def test_a_damaged_backup_is_not_restored(backup: Path, tmp_path: Path) -> None:
    """A flipped byte, a missing file, a cut backup or a used home is refused with a sentence."""
    assert yard(None, "restore", str(backup), "--check").returncode == 0
    used = tmp_path / "used"
    used.mkdir()
    (used / "x").touch()
    answer = yard(None, "restore", str(backup), "--home", str(used))
    assert (answer.returncode, "is not empty" in answer.stderr) == (2, True)
    answer = yard(None, "restore", str(backup))
    assert (answer.returncode, "--home DIR" in answer.stderr) == (2, True)
    (blob, *_) = [path for path in (backup / "artifacts").rglob("*") if path.is_file()]
    whole = blob.read_bytes()
    blob.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    for words in (["--check"], ["--home", str(tmp_path / "new")]):
        answer = yard(None, "restore", str(backup), *words)
        assert answer.returncode == 2
        assert "the backup is damaged" in answer.stderr
    blob.unlink()
    answer = yard(None, "restore", str(backup), "--check")
    assert (answer.returncode, "cannot be read" in answer.stderr) == (2, True)
    manifest = backup / "manifest.json"
    shaped = json.loads(manifest.read_text())
    shaped["entries"][0]["path"] = "../outside"
    manifest.write_text(json.dumps(shaped))
    answer = yard(None, "restore", str(backup), "--home", str(tmp_path / "new2"))
    assert "lies outside the backup" in answer.stderr
    manifest.unlink()
    answer = yard(None, "restore", str(backup), "--check")
    assert (answer.returncode, "holds no backup" in answer.stderr) == (2, True)
    shutil.rmtree(backup)


def test_a_backup_is_for_admins_and_for_new_folders(
    tracking: TrackingServer, tmp_path: Path
) -> None:
    """A member's token gets no backup, and a folder that is in use is not written to."""
    made = tracking.post("/api/v1/tokens", role="member", label="x")
    words = [sys.executable, "-m", "trackyard.cli.main", "backup", str(tmp_path / "b")]
    environment = {**os.environ, "YARD_URL": tracking.url, "YARD_TOKEN": made["token"]}
    environment["PYTHONPATH"] = str(ROOT / "src")
    refused = subprocess.run(
        words, env=environment, capture_output=True, text=True, timeout=180, check=False
    )
    assert refused.returncode == 4
    assert "admins" in refused.stderr
    (tmp_path / "b").mkdir(exist_ok=True)
    (tmp_path / "b" / "x").touch()
    assert yard(tracking, "backup", str(tmp_path / "b")).returncode == 2
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == ["x"]
