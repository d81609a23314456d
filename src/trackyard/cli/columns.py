"""Lays rows out in columns for a terminal. Pure; owns widths, folding and colour, no words.

Written here because drawing a table must not cost more than asking the server for it.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Mapping, Sequence

GAP = "  "
#: A column is not folded below this width.
NARROWEST = 8
#: The colours that states have, by their names.
_CODES = {"blue": "34", "yellow": "33", "green": "32", "red": "31", "bright_black": "90"}
_RESET = "\x1b[0m"


def lay_out(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int,
    colours: Mapping[str, str] | None = None,
) -> list[str]:
    """Return the lines of a table; cells too long for the terminal go on below.

    `colours` names the colour of a cell by its text; None draws without any.
    """
    names = [header.upper() for header in headers]
    widths = _fit(
        [max(_width(row[at]) for row in [names, *rows]) for at in range(len(names))], width
    )
    codes = {text: _CODES.get(name, "") for text, name in (colours or {}).items()}
    lines = _lines(names, widths, dict.fromkeys(names, "" if colours is None else "1"))
    for row in rows:
        lines += _lines(row, widths, codes)
    return lines


def _fit(widths: list[int], room: int) -> list[int]:
    """Narrow the widest columns until all of them fit, as far as that makes sense."""
    left = room - len(GAP) * (len(widths) - 1)
    while sum(widths) > left and max(widths) > NARROWEST:
        widths[widths.index(max(widths))] -= 1
    return widths


def _lines(row: Sequence[str], widths: Sequence[int], codes: Mapping[str, str]) -> list[str]:
    folded = [_fold(text, width) for text, width in zip(row, widths, strict=True)]
    lines = []
    for number in range(max((len(cell) for cell in folded), default=1)):
        parts = []
        for cell, text, width in zip(folded, row, widths, strict=True):
            part = cell[number] if number < len(cell) else ""
            padding = " " * (width - _width(part))
            code = codes.get(text, "") if part else ""
            parts.append((f"\x1b[{code}m{part}{_RESET}" if code else part) + padding)
        lines.append(GAP.join(parts).rstrip())
    return lines


def _fold(text: str, width: int) -> list[str]:
    if _width(text) <= width:
        return [text]
    return textwrap.wrap(text, width, break_long_words=True) or [""]


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1
        for one in text
    )
