"""Reads Trackio's databases, one SQLite file a project, without its package. Never writes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from trackyard.core.errors import SetupError
from trackyard.moving.flat import FlatRun, FlatSource
from trackyard.moving.records import SourceRun


class TrackioFolder(FlatSource):
    """A source of records: Trackio's folder, or one project's database."""

    def __init__(self, root: Path) -> None:
        databases = [root] if root.is_file() else sorted(root.glob("*.db"))
        if not databases:
            raise SetupError(
                f"{root} holds no projects of Trackio (*.db)",
                hint="it is ~/.cache/huggingface/trackio unless TRACKIO_DIR says otherwise",
            )
        self._skipped = 0
        super().__init__("trackio", [run for path in databases for run in self._project(path)])
        if self._skipped:
            why = "values that are no numbers (media, tables, texts) are not brought"
            self.left["logged values"] = (self._skipped, why)

    def _project(self, path: Path) -> Iterator[FlatRun]:
        conn = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        columns = {row[1] for row in conn.execute("PRAGMA table_info(metrics)")}
        if not {"run_name", "step", "metrics"} <= columns:
            raise SetupError(f"{path} is no project of Trackio: it has no table of metrics")
        # Runs had no ids in Trackio's first releases.
        run = "run_id" if "run_id" in columns else "run_name"
        runs: dict[str, FlatRun] = {}
        sql = f"SELECT {run}, run_name, step, timestamp, metrics FROM metrics ORDER BY id"
        for key, name, step, at, values in conn.execute(sql):
            one = runs.setdefault(key, FlatRun(path.stem, key, SourceRun(run_id="", name=name)))
            self._add(one, step, at, values, "")
        tables = {row[0] for row in conn.execute("SELECT name FROM sqlite_master")}
        if "system_metrics" in tables:
            sql = f"SELECT {run}, timestamp, metrics FROM system_metrics ORDER BY id"
            for key, at, values in conn.execute(sql):
                if key in runs:
                    self._add(runs[key], 0, at, values, "system/")
        if "configs" in tables:
            for key, config in conn.execute(f"SELECT {run}, config FROM configs"):
                if key in runs:
                    _configure(runs[key], json.loads(config))
        conn.close()
        yield from runs.values()

    def _add(self, one: FlatRun, step: int, at: str, values: Any, prefix: str) -> None:
        time_ms = _time(at)
        one.run.start_ms = min(time_ms, one.run.start_ms or time_ms)
        one.run.end_ms = max(time_ms, one.run.end_ms or time_ms)
        for key, value in json.loads(values).items():
            if not one.add(f"{prefix}{key}", step, time_ms, value):
                self._skipped += 1


def _configure(one: FlatRun, config: dict[str, Any]) -> None:
    one.run.user = str(config.get("_Username") or "")
    if config.get("_Group"):
        one.run.tags["trackio.group"] = str(config["_Group"])
    if config.get("_Created"):
        one.run.start_ms = _time(config["_Created"])
    one.add_params({key: value for key, value in config.items() if not key.startswith("_")})


def _time(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)
