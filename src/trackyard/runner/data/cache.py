"""The node's copies of data sets: one folder per version, read only, shared by jobs.

Owns the size limit, the locks between processes and which copy goes when room is needed: the
least recently used, never one in use. Knows neither the server nor how bytes arrive.

Below the cache folder: `<digest>/` is a whole version, `.part/<digest>/` one on its way,
`.meta/<digest>.*` its manifest and locks. Files that were checked bear one fixed time of change,
so that a file somebody wrote to is noticed and fetched again.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple

#: Modification time that marks checked files: 1 January 2000.
CHECKED_NS = 946_684_800 * 10**9
#: Kept free on the disk regardless of the limit.
SPARE_BYTES = 256 * 1024**2
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
Pause = Callable[[float], None]


class Cache:
    """Copies of data sets below one folder."""

    def __init__(self, folder: Path, *, limit_bytes: int) -> None:
        self.folder = folder
        self._limit = limit_bytes
        self._held: List[int] = []

    def make(self) -> None:
        """Make the cache's folders."""
        for name in (".meta", ".part"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)

    def whole(self, digest: str) -> Path:
        """Return the folder of a whole version."""
        return self.folder / digest

    def part(self, digest: str) -> Path:
        """Return the folder of a version being fetched."""
        return self.folder / ".part" / digest

    def manifest(self, digest: str) -> Path:
        """Return the file that holds a version's manifest."""
        return self.folder / ".meta" / f"{digest}.manifest"

    def held(self) -> List[str]:
        """Return the digests of all whole versions."""
        return sorted(path.name for path in self.folder.iterdir() if len(path.name) == 64)

    def reserve(
        self, wanted: Sequence[Tuple[str, int]], pause: Pause, say: Callable[[str], None]
    ) -> None:
        """Hold versions for as long as this process lives, with room for those not here.

        Waits while other jobs' copies leave no room. Nothing is held while waiting, so that two
        jobs cannot wait for each other.
        """
        told = ""
        while True:
            with self._lock("cache.lock", pause):
                fault = self._try_reserve(wanted)
            if not fault:
                return
            if fault != told:
                say(fault)
                told = fault
            pause(1.0)

    def _try_reserve(self, wanted: Sequence[Tuple[str, int]]) -> str:
        mine = {digest for digest, _ in wanted}
        sizes = self._sizes()
        need = sum(size for digest, size in wanted if digest not in sizes)
        for digest in self._oldest(set(sizes) - mine):
            if not self._lacking(need, sum(sizes.values())):
                break
            if self._evict(digest):
                del sizes[digest]
        lacking = self._lacking(need, sum(sizes.values()))
        if lacking:
            return lacking
        for digest, size in wanted:
            self._hold(digest)
            if digest not in sizes:
                self.part(digest).mkdir(exist_ok=True)
                self._size_file(digest).write_text(str(size))
        return ""

    def _lacking(self, need: int, used: int) -> str:
        if not need:
            return ""
        if self._limit and used + need > self._limit:
            return (
                f"waiting for room: data sets in use take {_gib(used)} of the {_gib(self._limit)}"
                f" that the node's cache may hold, and {_gib(need)} are needed"
            )
        free = shutil.disk_usage(self.folder).free
        if need + SPARE_BYTES > free:
            return f"waiting for room: {_gib(need)} are needed and the disk has {_gib(free)} free"
        return ""

    def _sizes(self) -> Dict[str, int]:
        found = {}
        for path in (self.folder / ".meta").glob("*.size"):
            digest = path.name[: -len(".size")]
            if self.whole(digest).is_dir() or self.part(digest).is_dir():
                with contextlib.suppress(OSError, ValueError):
                    found[digest] = int(path.read_text())
        return found

    def _oldest(self, digests: set[str]) -> List[str]:
        def used(digest: str) -> float:
            try:
                return self._size_file(digest).stat().st_mtime
            except OSError:
                return 0.0

        return sorted(digests, key=used)

    def _evict(self, digest: str) -> bool:
        """Remove a copy that is not in use; return whether it is gone."""
        descriptor = self._open(f"{digest}.use")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        try:
            whole = self.whole(digest)
            if whole.exists():
                # Renamed first: a half-removed copy must not be found.
                gone = self.folder / ".part" / f".gone-{digest}"
                remove(gone)
                whole.chmod(0o755)
                whole.rename(gone)
                remove(gone)
            remove(self.part(digest))
            for path in (self.manifest(digest), self._size_file(digest)):
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()
            return True
        finally:
            os.close(descriptor)

    def _hold(self, digest: str) -> None:
        descriptor = self._open(f"{digest}.use")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        except OSError as fault:
            if fault.errno not in _NO_LOCKS:
                raise
        self._held.append(descriptor)
        with contextlib.suppress(OSError):
            os.utime(self._size_file(digest))

    @contextlib.contextmanager
    def fetching(self, digest: str, pause: Pause) -> Iterator[None]:
        """Let one process at a time fetch a version."""
        with self._lock(f"{digest}.fetch", pause):
            yield

    def is_fetching(self, digest: str) -> bool:
        """Return whether a process is fetching a version now."""
        descriptor = self._open(f"{digest}.fetch")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(descriptor)
        return False

    def note_fault(self, digest: str, sentence: str) -> None:
        """Record for others why a version cannot be fetched; an empty sentence clears it."""
        place = self.folder / ".meta" / f"{digest}.fault"
        if sentence:
            place.write_text(sentence)
        elif place.exists():
            place.unlink()

    def fault(self, digest: str) -> str:
        """Return why a version cannot be fetched, if that was recorded."""
        try:
            return (self.folder / ".meta" / f"{digest}.fault").read_text()
        except OSError:
            return ""

    def is_sound(self, digest: str, files: Sequence[Tuple[str, int]]) -> bool:
        """Return whether a version is complete and its files unmodified."""
        root = self.whole(digest)
        return root.is_dir() and all(is_checked(root / path, size) for path, size in files)

    def reopen(self, digest: str) -> None:
        """Turn a damaged copy back into one being fetched, keeping its intact files."""
        whole, part = self.whole(digest), self.part(digest)
        remove(part)
        whole.chmod(0o755)
        whole.rename(part)
        for folder, _, _ in os.walk(part):
            os.chmod(folder, 0o755)  # noqa: PTH101, S103

    def publish(self, digest: str) -> Path:
        """Publish a complete version, read only."""
        part, whole = self.part(digest), self.whole(digest)
        for folder, _, _ in os.walk(part, topdown=False):
            if folder != str(part):
                os.chmod(folder, 0o555)  # noqa: PTH101, S103
        part.rename(whole)
        whole.chmod(0o555)
        return whole

    def _size_file(self, digest: str) -> Path:
        return self.folder / ".meta" / f"{digest}.size"

    def _open(self, name: str) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        return os.open(self.folder / ".meta" / name, flags, 0o600)

    @contextlib.contextmanager
    def _lock(self, name: str, pause: Pause) -> Iterator[None]:
        descriptor = self._open(name)
        try:
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    pause(0.1)
                except OSError as fault:
                    # Some shared file systems have no locks; each job then does its own work.
                    if fault.errno not in _NO_LOCKS:
                        raise
                    break
            yield
        finally:
            os.close(descriptor)


def is_checked(path: Path, size: int) -> bool:
    """Return whether size and time say that a file is still the one that was checked."""
    facts = look(path)
    return facts is not None and facts.st_size == size and facts.st_mtime_ns == CHECKED_NS


def look(path: Path) -> Optional[os.stat_result]:
    """Return the facts of a plain file, or None."""
    try:
        facts = path.lstat()
    except OSError:
        return None
    return facts if stat.S_ISREG(facts.st_mode) else None


def remove(folder: Path) -> None:
    """Remove a folder whose subfolders may be read only."""
    if not folder.exists():
        return
    for path, _, _ in os.walk(folder):
        with contextlib.suppress(OSError):
            os.chmod(path, 0o755)  # noqa: PTH101, S103
    shutil.rmtree(folder, ignore_errors=True)


def _gib(count: int) -> str:
    return f"{count / 1024**3:.1f} GiB" if count >= 1024**3 else f"{count / 1024**2:.1f} MiB"
