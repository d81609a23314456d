"""Space kept back: taken where there is plenty, given up once, taken again when there is room."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from trackyard.store.sqlite import reserve
from trackyard.store.sqlite.reserve import Reserve


class Disk:
    """What a disk says it has left."""

    def __init__(self) -> None:
        self.free = 600_000


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(reserve.shutil, "disk_usage", lambda _: disk)
    return disk


@pytest.fixture
def now() -> Iterator[float]:
    return iter(range(0, 1000, 2))


def test_it_is_a_share_of_a_small_disk(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "reserve"
    assert Reserve(path).hold()
    assert path.stat().st_size == 100_000
    assert path.stat().st_mode & 0o777 == 0o600


def test_it_is_given_up_once_and_taken_again_when_there_is_twice_the_room(
    tmp_path: Path, disk: Disk, now: Iterator[float]
) -> None:
    path = tmp_path / "reserve"
    kept = Reserve(path, clock=lambda: next(now))
    kept.hold()
    assert kept.spend()
    assert not path.exists()
    assert kept.is_spent
    assert not kept.spend()
    disk.free = 199_999
    assert not kept.is_back()
    disk.free = 200_000
    assert kept.is_back()
    assert not kept.is_spent
    assert path.stat().st_size == 100_000


def test_the_disk_is_looked_at_once_a_second(tmp_path: Path, disk: Disk) -> None:
    time = 0.0
    kept = Reserve(tmp_path / "reserve", clock=lambda: time)
    kept.hold()
    kept.spend()
    assert not kept.is_back()
    time = 1.0
    assert kept.is_back()


def test_one_that_an_earlier_process_left_is_held(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "reserve"
    Reserve(path).hold()
    disk.free = 0
    assert Reserve(path).hold()


def test_without_a_file_there_is_nothing_to_give(tmp_path: Path) -> None:
    assert not Reserve(None).hold()
    assert not Reserve(None).spend()
