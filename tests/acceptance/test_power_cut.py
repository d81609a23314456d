"""The power goes at some instant: all that was acknowledged before it is there afterwards.

The home lies on a file system in an image file whose own journal is flushed once in five minutes,
so what nobody synced is in memory alone. A copy of the image is the disk after a power cut.
"""

import contextlib
import random
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.loading import load
from tests.acceptance.serving import TrackingServer
from tests.acceptance.test_faults import wait_until

INSTANTS = 2
IMAGE_BYTES = 192 << 20


def mount(image: Path, folder: Path) -> bool:
    folder.mkdir(exist_ok=True)
    command = ["mount", "-o", "loop,commit=300", str(image), str(folder)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


class Disk:
    """A disk that can be looked at as it would be if the power went now."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._image = folder / "disk.img"
        self._mounted: list[Path] = []
        self.root = folder / "disk"
        with self._image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        made = shutil.which("mkfs.ext4") is not None and (
            subprocess.run(["mkfs.ext4", "-q", "-F", self._image], check=False).returncode == 0
        )
        # Without the right to mount, the files are copied as they are: that is kill -9 alone.
        self.is_image = made and mount(self._image, self.root)
        if self.is_image:
            self._mounted.append(self.root)
        self.root.mkdir(exist_ok=True)

    def after_a_cut(self, number: int) -> Path:
        """Return the root of a disk that lost its power now."""
        root = self._folder / f"cut-{number}"
        if not self.is_image:
            shutil.copytree(self.root, root)
            return root
        image = self._folder / f"cut-{number}.img"
        subprocess.run(["cp", "--sparse=always", self._image, image], check=True)
        assert mount(image, root)
        self._mounted.append(root)
        return root

    def close(self) -> None:
        for root in self._mounted:
            subprocess.run(["umount", "-l", str(root)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path)
    with contextlib.closing(disk):
        yield disk


def upload(server: TrackingServer, run_id: str, name: str, content: bytes) -> str:
    """Put a file into a run and return its address."""
    info = server.get("runs/get", run_id=run_id)["run"]["info"]
    inside = info["artifact_uri"].removeprefix("mlflow-artifacts:/")
    path = f"/api/2.0/mlflow-artifacts/artifacts/{inside}/{name}"
    assert server.ask("PUT", path, content=content).status_code == 200
    return path


def test_what_was_acknowledged_survives_a_power_cut(disk: Disk) -> None:
    """Points and files that were answered with 200 are there, whole, at every instant."""
    chance = random.Random(6)
    server = TrackingServer(disk.root / "home")
    server.start()
    try:
        with load(server, 3, pace=0.05) as book:
            for number in range(INSTANTS):
                before = len(book.acked)
                wait_until(lambda before=before: len(book.acked) > before + 12)
                content = chance.randbytes(chance.randrange(1, 300_000))
                path = upload(server, book.run_id, f"file-{number}", content)
                acked = set(book.acked)
                # The disk stands still while it is copied, as it does when the power is gone.
                assert server.process is not None
                server.process.send_signal(signal.SIGSTOP)
                root = disk.after_a_cut(number)
                server.process.send_signal(signal.SIGCONT)
                check(root / "home", server.token, book.run_id, acked, path, content)
    finally:
        server.kill()


def check(
    home: Path,
    token: str,
    run_id: str,
    acked: set[tuple[int, int]],
    path: str,
    content: bytes,
) -> None:
    """Start a server on what the cut left, and look for what was acknowledged before it."""
    again = TrackingServer(home, token=token)
    again.start()
    try:
        there = {
            (caller, int(point["step"]))
            for caller in {caller for caller, _ in acked}
            for point in again.history(run_id, f"m{caller}")
        }
        lost = acked - there
        assert lost == set(), f"{len(lost)} of {len(acked)} acknowledged are lost"
        assert again.ask("GET", path).content == content
    finally:
        again.kill()
