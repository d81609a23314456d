"""The node's cache of data sets: room, use, eviction, damage."""

import os
from pathlib import Path

import pytest

from trackyard.runner.data.cache import CHECKED_NS, Cache

A, B, C = "a" * 64, "b" * 64, "c" * 64


class Waiting(Exception):
    """There is no room now."""


def refuse(_seconds: float) -> None:
    raise Waiting


def hold(cache: Cache, *wanted: tuple[str, int]) -> None:
    cache.reserve(list(wanted), refuse, lambda _sentence: None)


def fill(cache: Cache, digest: str, size: int) -> None:
    path = cache.part(digest) / "file"
    path.write_bytes(b"x" * size)
    path.chmod(0o444)
    os.utime(path, ns=(CHECKED_NS, CHECKED_NS))
    cache.publish(digest)


def opened(folder: Path, limit: int = 100) -> Cache:
    cache = Cache(folder / "data", limit_bytes=limit)
    cache.make()
    return cache


def release(cache: Cache) -> None:
    """Do what the end of a process does."""
    for descriptor in cache._held:
        os.close(descriptor)
    cache._held.clear()


def test_the_least_recently_used_copy_goes_first(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    for digest, age in ((A, 10), (B, 20)):
        hold(cache, (digest, 40))
        fill(cache, digest, 40)
        release(cache)
        os.utime(cache.folder / ".meta" / f"{digest}.size", (1e9 + age, 1e9 + age))
    hold(cache, (C, 40))
    assert cache.held() == [B]


def test_a_copy_in_use_is_never_removed(tmp_path: Path) -> None:
    user, other = opened(tmp_path), opened(tmp_path)
    hold(user, (A, 60))
    fill(user, A, 60)
    with pytest.raises(Waiting):
        hold(other, (B, 60))
    assert other.held() == [A]
    release(user)
    hold(other, (B, 60))
    assert other.held() == []


def test_room_is_kept_for_all_of_a_jobs_data_or_for_none(tmp_path: Path) -> None:
    user, other = opened(tmp_path), opened(tmp_path)
    hold(user, (A, 60))
    with pytest.raises(Waiting):
        hold(other, (B, 30), (C, 30))
    # Nothing is held while waiting: the first may go on with more.
    hold(user, (B, 30))


def test_a_file_that_was_written_to_is_noticed(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    hold(cache, (A, 5))
    fill(cache, A, 5)
    assert cache.is_sound(A, [("file", 5)])
    (cache.whole(A) / "file").chmod(0o644)
    (cache.whole(A) / "file").write_bytes(b"other")
    assert not cache.is_sound(A, [("file", 5)])
    cache.reopen(A)
    assert cache.held() == []
    assert (cache.part(A) / "file").exists()
