"""Reads the folders that Weights & Biases writes, offline or not, without its package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trackyard.core.errors import SetupError
from trackyard.moving.flat import FlatRun, FlatSource
from trackyard.moving.records import NOTE_TAG, SourceRun
from trackyard.moving.wire_format import integer, leveldb_records, message, part, text

_MAGIC, _HEADER = b":W&B", 7
#: Fields of a record.
_HISTORY, _SUMMARY, _CONFIG, _STATS, _RUN, _EXIT = 2, 3, 5, 7, 17, 18
_SECONDS, _NANOS = 1, 2


class WandbFolder(FlatSource):
    """A source of records: a folder `wandb`, or one run's folder, or a file `*.wandb`."""

    def __init__(self, root: Path) -> None:
        logs = [root] if root.is_file() else sorted(root.rglob("*.wandb"))
        # `latest-run` and the like are links to folders that are there themselves.
        logs = sorted({path.resolve() for path in logs})
        if not logs:
            raise SetupError(
                f"{root} holds no runs of Weights & Biases (*.wandb)",
                hint="name the folder `wandb` that a run wrote",
            )
        self._skipped = 0
        super().__init__("wandb", [self._run(path) for path in logs])
        if self._skipped:
            why = "values that are no numbers (media, tables, texts) stay in the run's files"
            self.left["history values"] = (self._skipped, why)

    def _run(self, path: Path) -> FlatRun:
        data = path.read_bytes()
        if not data.startswith(_MAGIC):
            raise SetupError(f"{path} is no log of Weights & Biases")
        key = path.stem.removeprefix("run-")
        one = FlatRun("wandb", key, SourceRun(run_id="", name=key, status="KILLED"))
        files = path.parent / "files"
        one.folder = files if files.is_dir() else None
        for raw in leveldb_records(data, _HEADER):
            self._record(one, message(raw))
        times = [point[1] for found in one.points.values() for point in found]
        one.run.end_ms = max(times, default=one.run.start_ms)
        return one

    def _record(self, one: FlatRun, record: dict[int, Any]) -> None:
        if _RUN in record:
            _read_run(one, message(part(record, _RUN)))
        elif _HISTORY in record:
            self._history(one, message(part(record, _HISTORY)))
        elif _CONFIG in record:
            one.add_params(_items(message(part(record, _CONFIG))))
        elif _SUMMARY in record:
            _read_summary(one, _items(message(part(record, _SUMMARY))))
        elif _EXIT in record:
            code = integer(message(part(record, _EXIT)), 1)
            one.run.status = "FAILED" if code else "FINISHED"
        elif _STATS in record:
            _read_stats(one, message(part(record, _STATS)))

    def _history(self, one: FlatRun, history: dict[int, Any]) -> None:
        values = _items(history)
        step = integer(message(part(history, 2)), 1) or int(values.get("_step") or 0)
        time_ms = round(float(values.get("_timestamp") or 0) * 1000) or (one.run.start_ms or 0)
        for key, value in _flat(values):
            if not key.startswith("_") and not one.add(key, step, time_ms, value):
                self._skipped += 1


def _read_run(one: FlatRun, run: dict[int, Any]) -> None:
    one.project = text(run, 3) or one.project
    one.key = text(run, 1) or one.key
    one.run.name = (text(run, 8) or one.key)[:250]
    started = message(part(run, 17))
    if started:
        one.run.start_ms = 1000 * integer(started, _SECONDS) + integer(started, _NANOS) // 10**6
    one.add_params(_items(message(part(run, 4))))
    facts = {
        NOTE_TAG: text(run, 9),
        "wandb.run_id": text(run, 1),
        "wandb.entity": text(run, 2),
        "wandb.group": text(run, 6),
        "wandb.job_type": text(run, 7),
        "wandb.sweep": text(run, 12),
        "wandb.tags": ", ".join(tag.decode(errors="replace") for tag in run.get(10, [])),
    }
    one.run.tags |= {key: value for key, value in facts.items() if value}


def _read_summary(one: FlatRun, values: dict[str, Any]) -> None:
    """Keep what a script put into its summary by itself; the rest are last values of metrics."""
    for key, value in _flat(values):
        if not key.startswith("_") and key not in one.points:
            one.run.tags[f"wandb.summary.{key}"[:250]] = str(value)[:5000]


def _read_stats(one: FlatRun, stats: dict[int, Any]) -> None:
    moment = message(part(stats, 2))
    time_ms = 1000 * integer(moment, _SECONDS) + integer(moment, _NANOS) // 10**6
    for key, value in _items(stats, field=3).items():
        one.add(f"system/{key}", 0, time_ms, value)


def _items(found: dict[int, Any], field: int = 1) -> dict[str, Any]:
    """Return the items of a record: name and JSON of each; internal ones are left out."""
    values: dict[str, Any] = {}
    for raw in found.get(field, []):
        item = message(raw)
        nested = [key for key in item.get(2, []) if isinstance(key, bytes)]
        name = text(item, 1) or b".".join(nested).decode(errors="replace")
        try:
            value = json.loads(text(item, 16))
        except ValueError:
            continue
        if name and name != "_wandb":
            values[name] = value
    return values


def _flat(values: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Return nested values under names with dots; media are left whole."""
    found: list[tuple[str, Any]] = []
    for key, value in values.items():
        if isinstance(value, dict) and "_type" not in value:
            found += _flat(value, f"{prefix}{key}.")
        else:
            found.append((f"{prefix}{key}", value))
    return found
