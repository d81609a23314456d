"""Rows of training data as they lie in files: JSONL, JSON, CSV, Parquet, Arrow, plain text.

Owns finding the files, reading them one row at a time, and recognising what a row means. Knows
no tokenizer. Parquet and Arrow need pyarrow, imported when such a file is met.
"""

from __future__ import annotations

import csv
import hashlib
import importlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trackyard.core.errors import SetupError
from trackyard.finetune.recipe import DataPart

KINDS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".csv": "csv", ".tsv": "csv"}
KINDS |= {".parquet": "parquet", ".arrow": "arrow", ".txt": "text", ".md": "text"}
_ROLES = {"human": "user", "gpt": "assistant", "bot": "assistant", "model": "assistant"}
_CHUNK = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """What one side says, and whether the model is to learn saying it."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class DataRow:
    """One row, understood: a conversation, or text by itself."""

    turns: tuple[ChatTurn, ...] = ()
    text: str = ""


def files(source: str) -> list[Path]:
    """Return the data files that a path names, in a fixed order."""
    path = Path(source).expanduser()
    if path.is_file():
        return [path]
    found = sorted(one for one in path.rglob("*") if one.suffix in KINDS) if path.is_dir() else []
    if not found:
        raise SetupError(
            f"there is no training data at {source!r}",
            hint=f"name a file, or a folder with files of {', '.join(KINDS)}",
        )
    return found


def digest(source: str) -> str:
    """Return the SHA-256 over the content of all files of a source."""
    total = hashlib.sha256()
    for path in files(source):
        total.update(path.name.encode() + b"\0")
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                total.update(chunk)
    return total.hexdigest()


def read(part: DataPart, source: str) -> Iterator[DataRow]:
    """Yield the rows of a source, understood."""
    for path in files(source):
        kind = KINDS.get(path.suffix)
        if kind is None:
            raise SetupError(
                f"{path.name} is of no kind that can be read",
                hint=f"use one of {', '.join(KINDS)}",
            )
        if kind == "text":
            yield from (DataRow(text=text) for text in _paragraphs(path))
            continue
        for number, values in enumerate(_RAW[kind](path), start=1):
            yield understand(values, part, f"{path.name}, row {number}")


def understand(values: Any, part: DataPart, where: str) -> DataRow:
    """Return what a row means, in the format named or in the first that fits."""
    if not isinstance(values, Mapping):
        raise SetupError(f"{where} is no object", hint="each row holds named values")
    if part.format != "auto":
        row = _FORMATS[part.format](values, part)
        if row is None:
            raise SetupError(
                f"{where} does not fit data.format {part.format}: it has {', '.join(values)}",
                hint="set the column names, or data.format: auto",
            )
        return row
    for reader in _FORMATS.values():
        row = reader(values, part)
        if row is not None:
            return row
    raise SetupError(
        f"{where} fits no known format: it has {', '.join(map(str, values))}",
        hint="known are messages, prompt and completion, instruction and output, text",
    )


def _messages(values: Mapping[str, Any], part: DataPart) -> DataRow | None:
    said = values.get(part.messages_column) or values.get("conversations")
    if not isinstance(said, list):
        return None
    turns = []
    for one in said:
        if not isinstance(one, Mapping):
            return None
        role = str(one.get("role") or one.get("from") or "user")
        text = one.get("content") if "content" in one else one.get("value")
        turns.append(ChatTurn(_ROLES.get(role, role), str(text or "")))
    return DataRow(turns=tuple(turns))


def _pair(values: Mapping[str, Any], part: DataPart) -> DataRow | None:
    prompt, completion = values.get(part.prompt_column), values.get(part.completion_column)
    if prompt is None or completion is None:
        return None
    return DataRow(turns=(ChatTurn("user", str(prompt)), ChatTurn("assistant", str(completion))))


def _alpaca(values: Mapping[str, Any], _part: DataPart) -> DataRow | None:
    if "instruction" not in values or not ("output" in values or "response" in values):
        return None
    prompt, more = str(values["instruction"]), str(values.get("input") or "")
    said = values["output"] if "output" in values else values["response"]
    turns = (ChatTurn("user", prompt), ChatTurn("input", more), ChatTurn("assistant", str(said)))
    return DataRow(turns=tuple(turn for turn in turns if turn.text or turn.role != "input"))


def _plain(values: Mapping[str, Any], part: DataPart) -> DataRow | None:
    text = values.get(part.text_column)
    return None if text is None else DataRow(text=str(text))


_FORMATS = {
    "messages": _messages,
    "prompt-completion": _pair,
    "alpaca": _alpaca,
    "text": _plain,
}


def _jsonl(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                yield json.loads(line)
            except ValueError as fault:
                raise SetupError(
                    f"{path.name}, line {number} is not JSON: {fault}",
                    hint="JSONL holds one object a line",
                ) from fault


def _json(path: Path) -> Iterator[Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as fault:
        raise SetupError(f"{path.name} is not JSON: {fault}", hint="is it JSONL?") from fault
    yield from found if isinstance(found, list) else [found]


def _csv(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ",")


def _parquet(path: Path) -> Iterator[Any]:
    parquet = _pyarrow("parquet")
    for batch in parquet.ParquetFile(path).iter_batches(batch_size=1024):
        yield from batch.to_pylist()


def _arrow(path: Path) -> Iterator[Any]:
    """Read what Hugging Face's datasets keep on disk."""
    with path.open("rb") as file, _pyarrow("ipc").open_stream(file) as batches:
        for batch in batches:
            yield from batch.to_pylist()


def _pyarrow(part: str) -> Any:
    try:
        return importlib.import_module(f"pyarrow.{part}")
    except ModuleNotFoundError as fault:
        raise SetupError(
            "Parquet and Arrow files need pyarrow", hint="pip install 'trackyard[train]'"
        ) from fault


def _paragraphs(path: Path) -> Iterator[str]:
    """Yield the parts of a text that empty lines divide."""
    lines: list[str] = []
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.strip():
                lines.append(line)
            elif lines:
                yield "".join(lines).strip()
                lines = []
    if lines:
        yield "".join(lines).strip()


_RAW = {"jsonl": _jsonl, "json": _json, "csv": _csv, "parquet": _parquet, "arrow": _arrow}
