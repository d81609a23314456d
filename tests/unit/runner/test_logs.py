"""The log keeps one stream with stable offsets, whatever the disk does."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from trackyard.runner import logs
from trackyard.runner.logs import LogSpool


class Disk:
    """A disk with so much room, put under os.pwrite."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.room = room
        self._real = os.pwrite
        monkeypatch.setattr(logs.os, "pwrite", self._write)

    def _write(self, descriptor: int, data: memoryview, offset: int) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, "no space left on device")
        taken = data[: self.room]
        self.room -= len(taken)
        return self._real(descriptor, taken, offset)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


def everything(spool: LogSpool) -> bytes:
    found = b""
    while chunk := spool.read(len(found), 7):
        found += chunk
    return found


def test_offsets_are_those_of_the_file(path: Path) -> None:
    spool = LogSpool(path)
    spool.append(b"one\n")
    spool.append(b"two\n")
    assert spool.end == 8
    assert spool.read(4, 100) == b"two\n"
    assert path.read_bytes() == b"one\ntwo\n"


def test_a_full_disk_keeps_bytes_in_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Disk(monkeypatch, room=6)
    spool = LogSpool(path, memory_bytes=100)
    spool.append(b"0123456789")
    spool.append(b"abcdef")
    assert everything(spool) == b"0123456789abcdef"
    assert path.read_bytes() == b"012345"
    assert (spool.lost_bytes, spool.disk_full) == (0, True)


def test_room_that_comes_back_is_used_in_order(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch, room=6)
    spool = LogSpool(path, memory_bytes=100)
    spool.append(b"0123456789")
    disk.room = 1000
    spool.append(b"abc")
    assert path.read_bytes() == b"0123456789abc"


def test_what_the_server_holds_makes_room(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Disk(monkeypatch, room=0)
    spool = LogSpool(path, memory_bytes=10)
    spool.append(b"0123456789")
    spool.acknowledge(10)
    spool.append(b"abcdefghij")
    assert spool.lost_bytes == 0
    assert spool.read(10, 100) == b"abcdefghij"


def test_what_fits_nowhere_is_counted_and_stated_where_it_was_lost(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch, room=4)
    spool = LogSpool(path, memory_bytes=4)
    spool.append(b"01234567")
    spool.append(b"lost!")
    spool.append(b"more")
    assert spool.lost_bytes == 9
    disk.room = 1000
    spool.append(b"after\n")
    spool.finish()
    text = path.read_bytes()
    assert text.startswith(b"01234567\n[yard] 9 bytes of log were lost here")
    assert text.endswith(b"in time\nafter\n")
    assert len(text) == spool.end


def test_a_loss_at_the_very_end_is_stated_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Disk(monkeypatch, room=0)
    spool = LogSpool(path, memory_bytes=4)
    spool.append(b"01234567")
    spool.finish()
    assert b"4 bytes of log were lost" in everything(spool)


def test_the_tail_is_kept_for_judging(path: Path) -> None:
    spool = LogSpool(path)
    spool.append(b"x" * logs.TAIL_BYTES)
    spool.append(b"MemoryError\n")
    assert spool.tail.endswith(b"MemoryError\n")
    assert len(spool.tail) == logs.TAIL_BYTES
