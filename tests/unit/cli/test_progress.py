"""The bar that long work draws."""

import io
import sys

import pytest

from trackyard.cli.progress import ProgressBar


class Terminal(io.StringIO):
    """A stderr that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_each_phase_is_drawn_with_its_size_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Phases stay on screen as they end; bytes are said in units."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with ProgressBar() as bar:
        bar.show("digest", 1_000_000, 2_000_000)
        bar.show("digest", 2_000_000, 2_000_000)
        bar.show("send", 500_000, 2_000_000)
    drawn = screen.getvalue()
    assert "digest" in drawn
    assert "send" in drawn
    assert "2.0/2.0 MB" in drawn
    assert "0.5/2.0 MB" in drawn


@pytest.mark.parametrize("is_quiet", [True, False])
def test_nothing_is_drawn_in_a_pipe_or_when_told_to_be_quiet(
    monkeypatch: pytest.MonkeyPatch, is_quiet: bool
) -> None:
    """What scripts read stays clean."""
    screen = Terminal() if is_quiet else io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    with ProgressBar(is_quiet=is_quiet) as bar:
        bar.show("send", 1, 2)
    assert screen.getvalue() == ""
