"""A full disk under the log: the command goes on, and what was lost is stated."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.runner.conftest import Start, wait_until
from tests.integration.runner.server import AttemptServer

LINE = "x" * 99 + "\n"
CHATTY = f"import sys\nfor _ in range({{count}}): sys.stdout.write({LINE!r})\n"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB, or a file-size limit where mounting is not allowed."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        # Every write to this special file answers ENOSPC.
        (place / "state").mkdir()
        (place / "state" / "log").symlink_to("/dev/full")
    yield place
    with contextlib.suppress(OSError):
        subprocess.run(["umount", str(place)], capture_output=True, check=False)


def test_with_the_server_there_nothing_is_lost(
    start: Start, server: AttemptServer, small_disk: Path
) -> None:
    runner = start(CHATTY.format(count=30_000), to=server, state_dir=str(small_disk / "state"))
    record = runner.wait()
    assert (record["cause"], record["exit_code"]) == ("succeeded", 0)
    assert server.log() == LINE.encode() * 30_000
    assert record["log_lost_bytes"] == 0
    assert "the disk under the log was full for a time" in record["notes"]


def test_with_the_server_away_the_loss_is_counted_and_stated(
    start: Start, server: AttemptServer, small_disk: Path
) -> None:
    server.stop()
    runner = start(CHATTY.format(count=100_000), to=server, state_dir=str(small_disk / "state"))
    wait_until((small_disk / "state" / "exit.json").exists, "the command never ended")
    server.start()
    record = runner.wait()
    assert record["cause"] == "succeeded"
    assert record["log_lost_bytes"] > 1_000_000
    stated = f"{record['log_lost_bytes']} bytes of log were lost here"
    assert stated.encode() in server.log()
    assert len(server.log()) == record["log_bytes"]
