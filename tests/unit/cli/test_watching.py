"""Looking once, and again and again."""

import argparse
import json
from collections.abc import Iterator
from typing import Any

import pytest

from trackyard.cli import watching
from trackyard.client.api import Unreachable


class Enough(Exception):
    """The test has seen what it wanted."""


def args(*, as_json: bool = False, watch: bool = False) -> argparse.Namespace:
    return argparse.Namespace(json=as_json, watch=watch, interval=2.0)


def sequence(*pages: Any):
    """Return a fetch that gives these in turn, then ends the test."""
    left: Iterator[Any] = iter(pages)

    def fetch() -> Any:
        try:
            page = next(left)
        except StopIteration:
            raise Enough from None
        if isinstance(page, Exception):
            raise page
        return page

    return fetch


def watch(fetch, draw=print, *, as_json: bool = False, **how: Any) -> list[float]:
    slept: list[float] = []
    how.setdefault("each", lambda page: [(str(row["id"]), row) for row in page])
    with pytest.raises(Enough):
        watching.present(args(as_json=as_json, watch=True), fetch, draw, sleep=slept.append, **how)
    return slept


def test_without_watch_it_is_fetched_and_drawn_once(capsys) -> None:
    assert watching.present(args(), sequence("page"), print) == 0
    assert capsys.readouterr().out == "page\n"


def test_json_without_watch_is_one_document(capsys) -> None:
    watching.present(args(as_json=True), sequence([{"id": 1}]), print)
    assert json.loads(capsys.readouterr().out) == [{"id": 1}]


def test_json_with_watch_prints_a_line_for_each_object_that_changed(capsys) -> None:
    first = [{"id": 1, "state": "queued"}, {"id": 2, "state": "running"}]
    second = [{"id": 1, "state": "running"}, {"id": 2, "state": "running"}]
    slept = watch(sequence(first, second, second), as_json=True)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [*first, second[0]]
    assert slept == [2.0, 2.0, 2.0]


def test_a_clock_that_ticks_is_no_change(capsys) -> None:
    pages = [[{"id": 1, "job": {"wait_seconds": second}}] for second in range(5)]
    watch(sequence(*pages), as_json=True)
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_in_a_pipe_the_picture_is_printed_when_it_changes(capsys) -> None:
    watch(sequence("a", "a", "b"))
    assert capsys.readouterr().out == "a\n\nb\n"


def test_a_server_that_is_away_is_waited_for_and_told_once(capsys) -> None:
    gone = Unreachable("no server answers at http://x")
    watch(sequence("a", gone, gone, "b"))
    said = capsys.readouterr()
    assert said.out == "a\n\nb\n"
    assert said.err == "no server answers at http://x; trying again\n"


def test_it_ends_when_there_is_nothing_more_to_see(capsys) -> None:
    code = watching.present(
        args(watch=True),
        sequence("queued", "succeeded", "never fetched"),
        print,
        done=lambda page: page == "succeeded",
        sleep=lambda _: None,
    )
    assert code == 0
    assert capsys.readouterr().out == "queued\n\nsucceeded\n"


def test_in_a_terminal_the_screen_is_cleared_between_pictures(capsys, monkeypatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    watch(sequence("a", "a"))
    assert capsys.readouterr().out == "\x1b[H\x1b[2Ja\n\x1b[H\x1b[2Ja\n"
