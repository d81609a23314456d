"""Reads the runs that Neptune's client keeps on disk (`.neptune/offline`, `async`), without it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from trackyard.core.errors import SetupError
from trackyard.moving.flat import FlatRun, FlatSource
from trackyard.moving.records import NOTE_TAG, SourceRun

_ASSIGNED = frozenset(("AssignFloat", "AssignInt", "AssignBool", "AssignString", "AssignDatetime"))


class NeptuneFolder(FlatSource):
    """A source of records: a folder `.neptune`, or one of its runs."""

    def __init__(self, root: Path) -> None:
        logs = sorted({path.parent for path in root.rglob("data-*.log")})
        if not logs:
            raise SetupError(
                f"{root} holds no runs of Neptune",
                hint="name the folder `.neptune` that runs in offline mode wrote",
            )
        self._skipped = 0
        super().__init__("neptune", [self._run(folder) for folder in logs])
        if self._skipped:
            why = "files and artifacts are named in the log and not in it; upload them by hand"
            self.left["operations"] = (self._skipped, why)

    def _run(self, folder: Path) -> FlatRun:
        facts: dict[str, Any] = {}
        for parent in (folder, folder.parent):
            if (parent / "metadata.json").is_file():
                facts = json.loads((parent / "metadata.json").read_text())
                break
        key = str(facts.get("containerId") or folder.name)
        one = FlatRun("neptune", key, SourceRun(run_id="", name=key, tags={"neptune.id": key}))
        if facts.get("createdAt"):
            created = datetime.fromisoformat(facts["createdAt"])
            one.run.start_ms = round(created.timestamp() * 1000)
        for path in sorted(folder.glob("data-*.log"), key=lambda log: int(log.stem[5:])):
            for operation in _operations(path.read_text()):
                self._apply(one, operation)
        times = [point[1] for found in one.points.values() for point in found]
        one.run.end_ms = max(times, default=one.run.start_ms)
        return one

    def _apply(self, one: FlatRun, operation: dict[str, Any]) -> None:
        kind, path = operation.get("type", ""), operation.get("path", [])
        name = "/".join(path)
        if kind in _ASSIGNED:
            _assign(one, path, operation.get("value"))
        elif kind == "LogFloats":
            for at, point in enumerate(operation["values"]):
                step = point.get("step")
                count = len(one.points.get(name, []))
                whole = int(step) if step is not None else count + at
                one.add(name, whole, round(point["ts"] * 1000), point["value"])
        elif kind == "AddStrings":
            known = [one.run.tags[name]] if name in one.run.tags else []
            one.run.tags[name] = ", ".join([*known, *operation["values"]])
        elif kind != "LogStrings":
            self._skipped += 1


def _assign(one: FlatRun, path: list[str], value: Any) -> None:
    if path == ["sys", "name"]:
        one.run.name = str(value)[:250]
    elif path == ["sys", "description"]:
        if value:
            one.run.tags[NOTE_TAG] = str(value)
    elif path == ["sys", "failed"]:
        one.run.status = "FAILED" if value else "FINISHED"
    elif path[0] in ("sys", "source_code", "monitoring"):
        one.run.tags["/".join(path)[:250]] = str(value)
    else:
        one.add_params({"/".join(path): value})


def _operations(text: str) -> Iterator[dict[str, Any]]:
    """Yield the operations of a log; one that was cut short ends it."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        while at < len(text) and text[at].isspace():
            at += 1
        try:
            found, at = decoder.raw_decode(text, at)
        except ValueError:
            return
        operation = found.get("obj")
        if isinstance(operation, dict):
            yield operation
