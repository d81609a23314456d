"""Space kept back beside the database, for the writes that make room when the disk is full.

Owns one file, and when it is given up and taken again. Knows no transaction. While it is spent,
only what frees space, or shows what was acknowledged, may be written: all else would use it up.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger(__name__)

#: The most that is kept back, and the share of the free space that is on a small disk.
RESERVE_BYTES = 32 << 20
_SHARE = 6
#: Seconds between two looks at the disk while the reserve is spent.
_LOOK_SECONDS = 1.0


class Reserve:
    """A file that holds a place on the disk until the place is needed; without one, nothing."""

    def __init__(self, path: Path | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._bytes = 0
        self._next_look = 0.0
        #: whether it was given up, and there has been no room to take it again
        self.is_spent = False

    def hold(self) -> bool:
        """Take the place if the disk has twice as much; tell whether it is held."""
        if self._path is None:
            return False
        try:
            if not self._path.exists():
                free = shutil.disk_usage(self._path.parent).free
                self._bytes = self._bytes or min(RESERVE_BYTES, free // _SHARE)
                if free < 2 * self._bytes:
                    return False
                _allocate(self._path, self._bytes)
        except OSError as fault:
            log.warning("cannot keep space back beside the database: %s", fault)
            return False
        self.is_spent = False
        return True

    def spend(self) -> bool:
        """Give the place up; tell whether there was any to give."""
        if self._path is None:
            return False
        try:
            self._path.unlink()
        except OSError:
            return False
        log.error("the disk is full; until there is room, only what frees space is written")
        self.is_spent = True
        self._next_look = self._clock() + _LOOK_SECONDS
        return True

    def is_back(self) -> bool:
        """Look, now and then, whether there is room again for what was given up."""
        if self._clock() < self._next_look:
            return False
        self._next_look = self._clock() + _LOOK_SECONDS
        return self.hold()


def _allocate(path: Path, size: int) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, max(size, 1))
        else:
            # Holes would hold no place, so it is written out.
            for at in range(0, size, 1 << 20):
                os.write(descriptor, bytes(min(1 << 20, size - at)))
    except OSError:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
