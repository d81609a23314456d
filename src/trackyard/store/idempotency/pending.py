"""Create calls that are not answered yet, in a file that outlives the process. Owns that file.

An entry is written before its commit and cleared right before its answer leaves, so that what a
killed process left here was answered to nobody. Nothing is flushed: the kernel keeps the pages of
a process that dies, and an entry from before the machine itself went down proves nothing and is
dropped. Knows no database and no rule.
"""

from __future__ import annotations

import logging
import os
import zlib
from pathlib import Path
from typing import NamedTuple

import msgspec

log = logging.getLogger(__name__)

#: Bytes of the head of the file, and of an entry; what does not fit is not kept.
HEAD_BYTES, SLOT_BYTES = 64, 512
_MAGIC = b"trackyard pending 1\n"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_FREE = b"\0"


class PendingCreate(NamedTuple):
    """A create call whose answer has not left yet."""

    digest: str
    result: str


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PendingCreate).decode


def machine_boot() -> bytes:
    """Return what names this run of the machine, or nothing where the system does not say."""
    try:
        return _BOOT_ID.read_bytes().strip()[: HEAD_BYTES - len(_MAGIC)]
    except OSError:
        return b""


class PendingFile:
    """Numbered slots, each with one entry or none; without a path nothing is kept."""

    def __init__(self, path: Path | None = None, *, boot: bytes | None = None) -> None:
        self._path = path
        self._boot = machine_boot() if boot is None else boot
        self._file = -1
        self._free: list[int] = []
        self._slots = 0

    def recover(self) -> list[PendingCreate]:
        """Return what an earlier process of this path left, and forget it."""
        found: list[PendingCreate] = []
        if self._path is not None:
            try:
                found = _entries(self._path.read_bytes(), self._boot)
            except FileNotFoundError:
                pass
            except OSError as fault:
                log.warning("cannot read %s: %s", self._path, fault.strerror)
            # Forgotten before it is used: what is used twice could give one run to two callers.
            self._open()
        return found

    def put(self, slot: int | None, entry: PendingCreate) -> int | None:
        """Write an entry over the one in a slot, or into a free one; return its slot, if any."""
        data = _encode(entry)
        if self._path is None or len(data) > SLOT_BYTES - 8:
            return slot
        if self._file < 0:
            self._open()
        if self._file < 0:
            return slot
        if slot is None:
            slot = self._free.pop() if self._free else self._slots
            self._slots = max(self._slots, slot + 1)
        frame = b"\1" + len(data).to_bytes(3) + zlib.crc32(data).to_bytes(4) + data
        try:
            os.pwrite(self._file, frame, HEAD_BYTES + slot * SLOT_BYTES)
        except OSError as fault:
            log.warning("cannot note a create call in %s: %s", self._path, fault.strerror)
        return slot

    def clear(self, slot: int | None) -> None:
        """Free a slot."""
        if slot is not None and self._file >= 0:
            os.pwrite(self._file, _FREE, HEAD_BYTES + slot * SLOT_BYTES)
            self._free.append(slot)

    def close(self) -> None:
        """Let the file go; what is in it stays."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _open(self) -> None:
        """Begin an empty file."""
        assert self._path is not None
        self.close()
        self._free, self._slots = [], 0
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            os.pwrite(self._file, (_MAGIC + self._boot).ljust(HEAD_BYTES, b"\0"), 0)
        except OSError as fault:
            log.warning("cannot keep %s: %s", self._path, fault.strerror)


def _entries(data: bytes, boot: bytes) -> list[PendingCreate]:
    """Return the entries of a file that this run of the machine has written."""
    if not boot or data[:HEAD_BYTES].rstrip(b"\0") != _MAGIC + boot:
        return []
    found = []
    for start in range(HEAD_BYTES, len(data), SLOT_BYTES):
        frame = data[start : start + SLOT_BYTES]
        length = int.from_bytes(frame[1:4])
        body = frame[8 : 8 + length]
        if frame[:1] != b"\1" or int.from_bytes(frame[4:8]) != zlib.crc32(body):
            continue
        try:
            found.append(_decode(body))
        except msgspec.DecodeError:
            continue
    return found
