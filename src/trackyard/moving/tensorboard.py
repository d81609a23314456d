"""Reads TensorBoard's event files: scalars, texts and hyperparameters, without TensorBoard."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trackyard.core.errors import SetupError
from trackyard.moving.flat import FlatRun, FlatSource
from trackyard.moving.records import SourceRun
from trackyard.moving.wire_format import (
    double,
    integer,
    message,
    part,
    tensorflow_records,
    text,
)

_EVENTS = "*tfevents*"
#: Numbers of the element types of a tensor, and how one is read.
_FLOAT, _DOUBLE = 1, 2


class TensorBoard(FlatSource):
    """A source of records: a folder of event files; each folder that holds some is a run."""

    def __init__(self, root: Path) -> None:
        folders = sorted({path.parent for path in root.rglob(_EVENTS) if path.is_file()})
        if not folders:
            raise SetupError(f"{root} holds no event files of TensorBoard")
        self._skipped = 0
        super().__init__("tensorboard", [self._run(root.resolve(), one) for one in folders])
        if self._skipped:
            why = "images, sounds and histograms stay in the event files, which are copied"
            self.left["summaries"] = (self._skipped, why)

    def _run(self, root: Path, folder: Path) -> FlatRun:
        name = folder.resolve().relative_to(root).as_posix()
        name = root.name if name == "." else name
        one = FlatRun(root.name, name, SourceRun(run_id="", name=name[:250]), folder=folder)
        times = [
            self._event(one, record)
            for path in sorted(folder.glob(_EVENTS))
            for record in tensorflow_records(path.read_bytes())
        ]
        one.run.start_ms, one.run.end_ms = min(times, default=None), max(times, default=None)
        return one

    def _event(self, one: FlatRun, record: bytes) -> int:
        """Read an event, and return its time."""
        event = message(record)
        time_ms, step = round(double(event, 1) * 1000), integer(event, 2)
        for value in message(part(event, 5)).get(1, []):
            if isinstance(value, bytes):
                self._value(one, message(value), step, time_ms)
        return time_ms

    def _value(self, one: FlatRun, value: dict[int, Any], step: int, time_ms: int) -> None:
        tag = text(value, 1)
        plugin = message(part(message(part(value, 9)), 1))
        name = text(plugin, 1)
        if name == "hparams":
            one.add_params(dict(_hyperparameters(part(plugin, 2))))
        elif 2 in value:
            one.add(tag, step, time_ms, struct.unpack("<f", part(value, 2))[0])
        elif name == "text":
            shown = b"".join(_bytes(message(part(value, 8)).get(8, [])))
            one.run.tags[tag.removesuffix("/text_summary")[:250]] = shown.decode(errors="replace")
        else:
            number = _scalar(part(value, 8)) if name == "scalars" else None
            if number is None or not one.add(tag, step, time_ms, number):
                self._skipped += 1


def _bytes(values: list[Any]) -> list[bytes]:
    return [one for one in values if isinstance(one, bytes)]


def _scalar(tensor: bytes) -> float | None:
    """Return the number of a tensor of one element."""
    found = message(tensor)
    kind = integer(found, 1)
    raw = part(found, 4) or part(found, 5 if kind == _FLOAT else 6)
    if kind == _FLOAT and len(raw) == 4:
        return float(struct.unpack("<f", raw)[0])
    if kind == _DOUBLE and len(raw) == 8:
        return float(struct.unpack("<d", raw)[0])
    return None


def _hyperparameters(content: bytes) -> Iterator[tuple[str, Any]]:
    """Yield what a session began with."""
    session = message(part(message(content), 3))
    for pair in _bytes(session.get(1, [])):
        entry = message(pair)
        value = message(part(entry, 2))
        if 2 in value:
            yield text(entry, 1), double(value, 2)
        elif 3 in value:
            yield text(entry, 1), text(value, 3)
        elif 4 in value:
            yield text(entry, 1), bool(integer(value, 4))
