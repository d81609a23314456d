"""Previews of files: the first rows of a table, the first lines of a text. Pure; knows neither
storage nor presentation.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from trackyard.datasets.layouts import kind_of

#: Bytes of a file that are looked at.
HEAD_BYTES = 64 * 1024
MAX_ROWS = 50
MAX_COLUMNS = 100
MAX_CELL = 500
MAX_TEXT = 20_000


@dataclass(slots=True)
class FilePreview:
    """A preview of a file."""

    #: `image`, `audio`, `table`, `text` or `binary`
    kind: str
    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    text: str = ""
    #: whether the file has more
    is_cut: bool = False


def look(path: str, head: bytes, size: int) -> FilePreview:
    """Return a preview made from the first bytes of a file."""
    kind = kind_of(path)
    is_cut = size > len(head)
    if kind in ("image", "audio"):
        return FilePreview(kind)
    if b"\0" in head:
        return FilePreview("binary", is_cut=is_cut)
    text = head.decode("utf-8", "replace")
    if kind == "binary" and "\ufffd" in text[:1000]:
        return FilePreview("binary", is_cut=is_cut)
    if is_cut and "\n" in text:
        text = text[: text.rindex("\n") + 1]
    if kind == "table":
        ending = PurePosixPath(path).suffix.lower()
        table = _records(text) if ending in (".jsonl", ".ndjson") else _cells(text, ending)
        if table is not None:
            table.is_cut = table.is_cut or is_cut
            return table
    return FilePreview("text", text=text[:MAX_TEXT], is_cut=is_cut or len(text) > MAX_TEXT)


def _cells(text: str, ending: str) -> FilePreview | None:
    reader = csv.reader(io.StringIO(text), delimiter="\t" if ending == ".tsv" else ",")
    try:
        lines = [line[:MAX_COLUMNS] for line, _ in zip(reader, range(MAX_ROWS + 2), strict=False)]
    except csv.Error:
        return None
    if not lines:
        return None
    rows = [[cell[:MAX_CELL] for cell in line] for line in lines]
    return FilePreview(
        "table", columns=rows[0], rows=rows[1 : MAX_ROWS + 1], is_cut=len(rows) > MAX_ROWS + 1
    )


def _records(text: str) -> FilePreview | None:
    records: list[dict[str, Any]] = []
    lines = [line for line in text.splitlines() if line.strip()]
    for line in lines[:MAX_ROWS]:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not isinstance(record, dict):
            return None
        records.append(record)
    if not records:
        return None
    columns = list(dict.fromkeys(str(key) for record in records for key in record))[:MAX_COLUMNS]
    rows = [[_cell(record.get(column)) for column in columns] for record in records]
    return FilePreview("table", columns=columns, rows=rows, is_cut=len(lines) > MAX_ROWS)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[:MAX_CELL]
