"""Small disks that a test fills and frees."""

import contextlib
import os
import resource
import subprocess
from collections.abc import Sequence
from pathlib import Path

#: Bytes that stay free on a full disk: nothing large fits, and nobody breaks for want of a line.
LEFT = 300_000


class SmallDisk:
    """A small tmpfs or, without the right to mount, a limit on the files of some processes."""

    def __init__(self, folder: Path, *, megabytes: int = 24) -> None:
        self.folder = folder
        folder.mkdir()
        options = f"size={megabytes}m,mode=755"
        mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        self.is_mounted = subprocess.run(mount, check=False, capture_output=True).returncode == 0
        self._filler = folder / "filler"

    def fill(self, processes: Sequence[int]) -> None:
        """Leave hardly any room to those who write here."""
        if not self.is_mounted:
            files = (path for path in self.folder.rglob("*") if path.is_file())
            # A log of PostgreSQL is made at its full length; tables grow.
            longest = max(path.stat().st_size for path in files if "wal" not in str(path))
            _limit(processes, longest + 100_000)
            return
        with contextlib.suppress(OSError), self._filler.open("wb") as file:
            while True:
                file.write(b"x" * 65_536)
                file.flush()
        os.truncate(self._filler, max(self._filler.stat().st_size - LEFT, 0))

    def free(self, processes: Sequence[int]) -> None:
        """Give the room back."""
        if not self.is_mounted:
            _limit(processes, resource.RLIM_INFINITY)
        self._filler.unlink(missing_ok=True)

    def close(self) -> None:
        if self.is_mounted:
            subprocess.run(["umount", "-l", str(self.folder)], check=True)


def _limit(processes: Sequence[int], length: int) -> None:
    for pid in processes:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (length, resource.RLIM_INFINITY))
