"""How commands print: a table for people, JSON for programs, plain lines for pipes. stdout is
data,
stderr is talk.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from trackyard.cli.columns import lay_out

#: What a name could steer a terminal with, or begin a line of its own.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
STATE_COLOURS = {
    "RUNNING": "blue",
    "SCHEDULED": "yellow",
    "FINISHED": "green",
    "FAILED": "red",
    "KILLED": "bright_black",
    "READY": "green",
    "queued": "yellow",
    "starting": "blue",
    "running": "blue",
    "succeeded": "green",
    "failed": "red",
    "stopped": "bright_black",
}


def add_json(parser: argparse.ArgumentParser) -> None:
    """Give a read command its --json flag."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def emit_json(data: Any) -> None:
    """Print a value as JSON."""
    # Made whole and then written: piece by piece takes ten times as long.
    text = json.dumps(data, indent=2 if sys.stdout.isatty() else None, ensure_ascii=False)
    sys.stdout.write(text + "\n")


def table(headers: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str = "") -> None:
    """Print rows under headers; state words are coloured as well as spelled."""
    shown = [[_cell(value) for value in row] for row in rows]
    if not shown:
        if empty:
            say(empty)
        return
    if not sys.stdout.isatty():
        for row in [[header.upper() for header in headers], *shown]:
            print("\t".join(row))
        return
    width = shutil.get_terminal_size().columns
    colours = None if os.environ.get("NO_COLOR") or _is_dumb() else STATE_COLOURS
    print("\n".join(lay_out(headers, shown, width=width, colours=colours)))


def _is_dumb() -> bool:
    return os.environ.get("TERM", "dumb") == "dumb"


def say(text: str) -> None:
    """Print a remark where it does not disturb a pipe."""
    print(text, file=sys.stderr)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return _CONTROL.sub(" ", str(value))


def printable(text: str) -> str:
    """Return a line that cannot steer a terminal."""
    return _CONTROL.sub(" ", text)


def ago(time_ms: int | None) -> str:
    """Return how long ago something was, as people say it."""
    if time_ms is None:
        return "-"
    seconds = datetime.now(UTC).timestamp() - time_ms / 1000
    return "just now" if seconds < 5 else f"{duration(seconds)} ago"


def duration(seconds: float | None) -> str:
    """Return a length of time in two units at most."""
    if seconds is None:
        return "-"
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"
