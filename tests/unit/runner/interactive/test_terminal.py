"""What a terminal keeps for those who attach later, and how it tells of its time limit."""

import fcntl
import os
import struct
import termios
from collections.abc import Iterator

import pytest

from trackyard.runner.interactive import terminal
from trackyard.runner.interactive.terminal import Terminal


@pytest.fixture
def screen() -> Iterator[Terminal]:
    made = Terminal(lambda: None)
    yield made
    made.close()


def test_who_comes_later_is_shown_the_last_lines_whole(screen: Terminal) -> None:
    """Replay begins at a line; what was dropped is skipped by who lags behind."""
    for number in range(40_000):
        screen.feed(b"line %d\n" % number)
    start = screen.replay_from()
    data, after = screen.read(start, 1 << 20)
    assert data.startswith(b"line ")
    assert data.endswith(b"line 39999\n")
    assert len(data) <= terminal.REPLAY_BYTES
    late, end = screen.read(0, 10)
    assert (len(late), end < after) == (10, True)
    assert screen.read(after, 10) == (b"", after)


def test_sizes_are_kept_within_reason(screen: Terminal) -> None:
    """A size of nothing or of millions is cut to what programs can take."""
    _, slave = ends = screen.take()
    screen.resize(0, 10**9)
    rows, columns, _, _ = struct.unpack("HHHH", fcntl.ioctl(slave, termios.TIOCGWINSZ, b"\0" * 8))
    assert (columns, rows) == (1, terminal.MOST_CELLS)
    for end in ends:
        os.close(end)


def test_warnings_come_once_each(screen: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five minutes and one minute before the end; for a short session, at its last quarter."""
    clock = {"now": 1000.0}
    monkeypatch.setattr(terminal.time, "monotonic", lambda: clock["now"])
    screen.ends_in(600)
    said = []
    for clock["now"] in (1000.0, 1299.0, 1301.0, 1302.0, 1545.0, 1546.0):
        before = screen.read(0, 1 << 20)[1]
        screen.warn_if_due()
        said.append(screen.read(before, 1 << 20)[0].count(b"this session ends in"))
    assert said == [0, 0, 1, 0, 1, 0]
    clock["now"] = 0.0
    screen.ends_in(8)
    clock["now"] = 6.5
    screen.warn_if_due()
    assert b"ends in 2 seconds" in screen.read(0, 1 << 20)[0]
