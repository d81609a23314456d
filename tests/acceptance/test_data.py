"""Data sets as people use them: by `yard data` and by jobs, through kills and restores."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.serving import ENVS, ROOT, TrackingServer

NewServer = Callable[..., TrackingServer]
EXAMPLE = ROOT / "docs" / "examples" / "food11"
SECONDS = 240


def environment(server: TrackingServer, folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "YARD_URL": server.url,
        "YARD_TOKEN": server.token,
        "XDG_CACHE_HOME": str(folder / "cache"),
        "XDG_CONFIG_HOME": str(folder / "config"),
    }


def start(server: TrackingServer, folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "trackyard.cli.main", *words],
        env=environment(server, folder),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def yard(server: TrackingServer, folder: Path, *words: str, code: int = 0) -> str:
    process = start(server, folder, *words)
    out, talk = process.communicate(timeout=SECONDS)
    assert process.returncode == code, out + talk
    return out if code == 0 else talk


def yard_json(server: TrackingServer, folder: Path, *words: str) -> Any:
    return json.loads(yard(server, folder, *words, "--json"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrackingServer]:
    found = TrackingServer(tmp_path_factory.mktemp("data") / "home")
    found.start()
    yield found
    found.stop()


def test_the_food11_example_does_what_its_page_says(
    server: TrackingServer, tmp_path: Path
) -> None:
    """Three folders, eleven classes, a job that counts them, and a run that says what it read."""
    for name in ("make_food11.py", "count.py"):
        (tmp_path / name).write_text((EXAMPLE / name).read_text())
    page = (EXAMPLE / "README.md").read_text()
    lines = [line.split() for line in page.split("```")[1].strip().splitlines()]
    subprocess.run([sys.executable, *lines[0][1:]], cwd=tmp_path, check=True)
    assert yard(server, tmp_path, *lines[1][1:]).strip() == "food11@v1"
    shown = yard_json(server, tmp_path, *lines[2][1:])["shown"]
    assert {split: len(counts) for split, counts in shown["classes"].items()} == {
        "training": 11,
        "validation": 11,
        "evaluation": 11,
    }
    said = yard(server, tmp_path, *lines[3][1:])
    assert "training: 11 classes, 66 pictures" in said
    assert "fetching data set food11@v1: 132 files" in said
    (use,) = yard_json(server, tmp_path, "data", "users", "food11")["uses"]
    run = server.get("runs/get", run_id=use["run_id"])["run"]
    assert run["inputs"]["dataset_inputs"][0]["dataset"]["name"] == "food11"
    job = server.get(f"/api/v1/jobs/{use['job_id']}")
    assert "fetched in" in " ".join(job["attempts"][-1]["notes"])


def test_a_second_job_finds_the_copy_and_damage_is_mended(
    server: TrackingServer, tmp_path: Path
) -> None:
    folder = tmp_path / "small"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "one.txt").write_text("whole")
    (folder / "large.bin").write_bytes(os.urandom(40 * 1024**2))
    yard(server, tmp_path, "data", "add", "small", str(folder))
    submit = ("submit", "--no-working-dir", "--follow", "--data", "small@v1", "--")
    script = (
        "cat $YARD_DATA_SMALL/sub/one.txt; stat -c %a $YARD_DATA_SMALL $YARD_DATA_DIR/large.bin;"
    )
    first = yard(server, tmp_path, *submit, "sh", "-c", script)
    assert "whole" in first
    assert "555" in first
    assert "444" in first
    damage = "chmod u+w $YARD_DATA_SMALL/sub/one.txt; echo other > $YARD_DATA_SMALL/sub/one.txt"
    second = yard(server, tmp_path, *submit, "sh", "-c", damage)
    assert "was in the node's cache" in second
    third = yard(server, tmp_path, *submit, "sh", "-c", script)
    assert "was changed on this node" in third
    assert "whole" in third
    kept = yard_json(server, tmp_path, "data", "users", "small")
    assert kept["nodes"]
    yard(server, tmp_path, "data", "get", "small", str(tmp_path / "got"))
    digest = hashlib.sha256((folder / "large.bin").read_bytes()).hexdigest()
    assert hashlib.sha256((tmp_path / "got" / "large.bin").read_bytes()).hexdigest() == digest


def test_stock_mlflow_links_a_run_by_the_path_it_read(
    server: TrackingServer, tmp_path: Path
) -> None:
    folder = tmp_path / "numbers"
    folder.mkdir()
    (folder / "n.txt").write_text("1 2 3")
    added = yard_json(server, tmp_path, "data", "add", "numbers", str(folder))
    copy = tmp_path / "data" / added["version"]["digest"]
    copy.mkdir(parents=True)
    script = (
        "import sys, mlflow, numpy\n"
        "data = mlflow.data.from_numpy(numpy.zeros(3), source=sys.argv[1])\n"
        "with mlflow.start_run(run_name='by path'):\n"
        "    mlflow.log_input(data, context='training')\n"
    )
    done = subprocess.run(
        [str(ENVS / "mlflow3" / "bin" / "python"), "-c", script, str(copy)],
        env={
            **os.environ,
            "MLFLOW_TRACKING_URI": server.url,
            "MLFLOW_TRACKING_TOKEN": server.token,
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    uses = yard_json(server, tmp_path, "data", "users", "numbers")["uses"]
    assert [use["run_name"] for use in uses] == ["by path"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("add", "bad name", "."), "is not a valid data set name"),
        (("add", "x", "nowhere"), "neither a folder nor a file"),
        (("add", "x", "ftp://host/x"), "cannot be fetched by ftp"),
        (("show", "nothing"), "no data set"),
        (("get", "nothing@v0", "x"), "is not a version"),
        (("rm", "nothing"), "which version"),
    ],
)
def test_bad_input_has_its_sentence(
    server: TrackingServer, tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    process = start(server, tmp_path, "data", *words)
    _, talk = process.communicate(timeout=SECONDS)
    assert process.returncode in (2, 3)
    assert says in talk
    assert "Traceback" not in talk


def big_folder(tmp_path: Path) -> tuple[Path, list[str]]:
    """Make data of several packs; return it with the digests of its files."""
    folder = tmp_path / "big"
    folder.mkdir()
    digests = []
    for number in range(16):
        data = os.urandom(4 * 1024**2)
        (folder / f"{number}.bin").write_bytes(data)
        digests.append(hashlib.sha256(data).hexdigest())
    return folder, digests


def wait_until_sending(server: TrackingServer, digests: list[str], client: Any) -> None:
    """Wait until some of the contents are stored, or the client is done."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until and client.poll() is None:
        answer = server.ask("POST", "/api/v1/data/missing", json={"contents": digests})
        if len(answer.json()["missing"]) < len(digests):
            return
        time.sleep(0.02)


def test_a_killed_client_leaves_nothing_half_and_goes_on(
    server: TrackingServer, tmp_path: Path
) -> None:
    folder, digests = big_folder(tmp_path)
    client = start(server, tmp_path, "data", "add", "killed", str(folder))
    wait_until_sending(server, digests, client)
    client.send_signal(signal.SIGKILL)
    client.communicate(timeout=SECONDS)
    seen = server.ask("GET", "/api/v1/data/killed")
    assert seen.status_code == 404 or seen.json()["versions"][0]["files"] == 16
    again = yard_json(server, tmp_path, "data", "add", "killed", str(folder))
    assert again["version"]["files"] == 16
    assert again["sent_bytes"] < 16 * 4 * 1024**2
    yard(server, tmp_path, "data", "get", "killed", str(tmp_path / "out"))
    for path in folder.iterdir():
        assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()


def test_a_killed_server_is_waited_for(new_server: NewServer, tmp_path: Path) -> None:
    server = new_server()
    server.start()
    folder, digests = big_folder(tmp_path)
    client = start(server, tmp_path, "data", "add", "restarted", str(folder), "--json")
    wait_until_sending(server, digests, client)
    server.kill()
    server.start()
    out, talk = client.communicate(timeout=SECONDS)
    assert client.returncode == 0, talk
    assert json.loads(out)["version"]["files"] == 16
    assert "verified the database" in yard_verify(server, tmp_path)
    backup, home = tmp_path / "backup", tmp_path / "restored"
    yard(server, tmp_path, "backup", str(backup))
    yard(server, tmp_path, "restore", str(backup), "--home", str(home))
    other = TrackingServer(home)
    other.start()
    try:
        yard(other, tmp_path, "data", "get", "restarted", str(tmp_path / "out"))
        for path in folder.iterdir():
            assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()
    finally:
        other.stop()


def yard_verify(server: TrackingServer, folder: Path) -> str:
    process = start(server, folder, "verify")
    out, talk = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, out + talk
    return out + talk
