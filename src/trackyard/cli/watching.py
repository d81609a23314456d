"""Looking once, or again and again: `-w`, and with `--json` one object a line.

Owns when something is fetched and printed anew; knows neither what is shown nor the server.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from trackyard.cli.output import add_json, emit_json, say
from trackyard.client.api import Unreachable

INTERVAL_SECONDS = 2.0
#: fields that change by themselves; a line is due when something else does
TICKING = frozenset(("wait_seconds", "wall_seconds", "gpu_hours", "now_ms", "seen_ms", "eta"))
_CLEAR = "\x1b[H\x1b[2J"

Fetch = Callable[[], Any]
Draw = Callable[[Any], None]


def add_watch(parser: argparse.ArgumentParser) -> None:
    """Give a read command --json, --watch and --interval."""
    add_json(parser)
    parser.add_argument(
        "-w",
        "--watch",
        action="store_true",
        help="go on showing it; with --json one object a line, when it changes",
    )
    parser.add_argument(
        "--interval",
        type=float,
        default=INTERVAL_SECONDS,
        metavar="SECONDS",
        help=f"how often to look (default {INTERVAL_SECONDS:g})",
    )


def present(
    args: argparse.Namespace,
    fetch: Fetch,
    draw: Draw,
    *,
    each: Callable[[Any], Iterable[tuple[str, Any]]] = lambda data: [("", data)],
    done: Callable[[Any], bool] = lambda _: False,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Print what `fetch` returns, once or until it is done; `each` splits it into objects."""
    if not args.watch:
        data = fetch()
        if args.json:
            emit_json(data)
        else:
            draw(data)
        return 0
    show = _Lines(each) if args.json else _Screen(draw)
    is_away = False
    while True:
        try:
            data = fetch()
        except Unreachable as fault:
            if not is_away:
                say(f"{fault}; trying again")
            is_away = True
        else:
            is_away = False
            show(data)
            if done(data):
                return 0
        sleep(max(0.1, args.interval))


class _Lines:
    """One JSON object a line: all at first, then what changed."""

    def __init__(self, each: Callable[[Any], Iterable[tuple[str, Any]]]) -> None:
        self._each = each
        self._seen: dict[str, Any] = {}

    def __call__(self, data: Any) -> None:
        for name, value in self._each(data):
            steady = _steady(value)
            if self._seen.get(name) != steady:
                self._seen[name] = steady
                print(json.dumps(value, ensure_ascii=False), flush=True)


class _Screen:
    """The whole picture: redrawn in a terminal, printed when it changes in a pipe."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._seen: Any = None
        self._is_first = True

    def __call__(self, data: Any) -> None:
        if sys.stdout.isatty():
            sys.stdout.write(_CLEAR)
            self._draw(data)
            sys.stdout.flush()
            return
        steady = _steady(data)
        if steady == self._seen:
            return
        if not self._is_first:
            print()
        self._is_first, self._seen = False, steady
        self._draw(data)
        sys.stdout.flush()


def _steady(value: Any) -> Any:
    """Leave out what ticks."""
    if isinstance(value, dict):
        return {key: _steady(inner) for key, inner in value.items() if key not in TICKING}
    if isinstance(value, list):
        return [_steady(inner) for inner in value]
    return value
