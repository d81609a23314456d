"""Search as plain Python over plain objects: the oracle the SQL is held to, and random data."""

import functools
import math
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from trackyard.store.connection import DatabaseConnection
from trackyard.tracking.search.grammar import All, Clause, Either, Expression, Key, Not, SortKey

TEXTS = ["", "a", "A", "b%", "a_b", "Resnet", "resnet-50", "zé", "x" * 250, "it's", "*?[x]", "\\"]
NUMBERS = [-2.5, -1.0, 0.0, 0.5, 0.5, 1.0, 1e300, 7.25]
PARAMS = ["lr", "batch size", "model"]
TAGS = ["team", "mlflow.note", "a/b"]
METRICS = ["loss", "val acc", "steps"]
CONTEXTS = [None, "train", "eval"]


@dataclass(kw_only=True)
class ModelRun:
    """A run as the model sees it."""

    id: int
    uuid: str
    experiment_id: int
    team_id: int
    name: str
    user: str
    status: str
    start_ms: int | None
    end_ms: int | None
    lifecycle: str = "active"
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    #: latest (which may be NaN), least and most
    metrics: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    #: name, digest, context
    datasets: list[tuple[str, str, str | None]] = field(default_factory=list)

    @property
    def artifact_uri(self) -> str:
        return f"mlflow-artifacts:/{self.experiment_id}/{self.uuid}/artifacts"


def random_runs(source: random.Random, count: int, experiments: dict[int, int]) -> list[ModelRun]:
    """Runs with many equal values, so that ties and edges are met often."""
    return [_random_run(source, number + 1, experiments) for number in range(count)]


def _random_run(source: random.Random, number: int, experiments: dict[int, int]) -> ModelRun:
    experiment = source.choice(list(experiments))
    run = ModelRun(
        id=number,
        uuid=f"{source.getrandbits(128):032x}",
        experiment_id=experiment,
        team_id=experiments[experiment],
        name=source.choice(["alpha", "Beta", "gamma-1", "delta"]),
        user=source.choice(["ann", "bob"]),
        status=source.choice(["RUNNING", "FINISHED", "FAILED"]),
        start_ms=source.choice([None, 1000, 1000, 2000, source.randrange(5000)]),
        end_ms=source.choice([None, 3000, source.randrange(5000)]),
        lifecycle=source.choice(["active", "active", "active", "deleted"]),
    )
    run.params = {name: source.choice(TEXTS) for name in PARAMS if source.random() < 0.7}
    run.tags = {name: source.choice(TEXTS) for name in TAGS if source.random() < 0.7}
    for name in METRICS:
        if source.random() < 0.75:
            low, high = sorted((source.choice(NUMBERS), source.choice(NUMBERS)))
            latest = math.nan if source.random() < 0.2 else source.choice(NUMBERS)
            gone = source.random() < 0.1
            run.metrics[name] = (latest, math.nan if gone else low, math.nan if gone else high)
    for name, digest in [("imagenet", "d1"), ("imagenet", "d2"), ("coco", "d1")]:
        if source.random() < 0.25:
            run.datasets.append((name, digest, source.choice(CONTEXTS)))
    return run


def insert(
    conn: DatabaseConnection, runs: Iterable[ModelRun], experiments: dict[int, int]
) -> None:
    """Write the runs to a prepared, empty database."""
    conn.begin()
    for team in sorted(set(experiments.values())):
        conn.run(
            "INSERT INTO teams (id, name, created_ms, settings) VALUES (?, ?, 0, '{}')",
            (team, f"team-{team}"),
        )
    for experiment, team in experiments.items():
        conn.run(
            "INSERT INTO experiments (id, team_id, name, artifact_location, lifecycle, created_ms,"
            " updated_ms) VALUES (?, ?, ?, '', 'active', 0, 0)",
            (experiment, team, f"experiment-{experiment}"),
        )
    names = {name: number + 1 for number, name in enumerate(PARAMS + TAGS + METRICS)}
    conn.many("INSERT INTO names (id, name) VALUES (?, ?)", [(i, n) for n, i in names.items()])
    for run in runs:
        insert_run(conn, run, names)
    conn.commit()


def insert_run(conn: DatabaseConnection, run: ModelRun, names: dict[str, int]) -> None:
    conn.run(
        "INSERT INTO runs (id, uuid, experiment_id, team_id, name, user_name, status, start_ms,"
        " end_ms, lifecycle, artifact_uri) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (run.id, run.uuid, run.experiment_id, run.team_id, run.name, run.user, run.status,
         run.start_ms, run.end_ms, run.lifecycle, run.artifact_uri),
    )  # fmt: skip
    for table, values in (("params", run.params), ("tags", run.tags)):
        rows = [(run.id, names[key], value) for key, value in values.items()]
        conn.many(f"INSERT INTO {table} VALUES (?, ?, ?)", rows)
    conn.many(
        "INSERT INTO metric_latest (run_id, name_id, step, time_ms, value, least, most)"
        " VALUES (?, ?, 0, 0, ?, ?, ?)",
        [
            (run.id, names[key], *(None if math.isnan(one) else one for one in values))
            for key, values in run.metrics.items()
        ],
    )
    for name, digest, context in run.datasets:
        _insert_dataset(conn, run, (name, digest, context))


def _insert_dataset(
    conn: DatabaseConnection, run: ModelRun, dataset: tuple[str, str, str | None]
) -> None:
    name, digest, context = dataset
    conn.run(
        "INSERT INTO datasets (experiment_id, name, digest, source_type, source)"
        " VALUES (?, ?, ?, 'local', '') ON CONFLICT DO NOTHING",
        (run.experiment_id, name, digest),
    )
    row = conn.one(
        "SELECT id FROM datasets WHERE experiment_id = ? AND name = ? AND digest = ?",
        (run.experiment_id, name, digest),
    )
    assert row is not None
    tags = [{"key": "other", "value": "train"}]
    if context is not None:
        tags.append({"key": "mlflow.data.context", "value": context})
    conn.run(
        "INSERT INTO run_datasets (run_id, dataset_id, tags) VALUES (?, ?, ?)",
        (run.id, row[0], msgspec.json.encode(tags).decode()),
    )


# -- what a search answers ---------------------------------------------------------------------


def search(
    runs: Iterable[ModelRun],
    *,
    team_id: int,
    experiment_ids: Sequence[int],
    expression: Expression | None,
    orders: Sequence[SortKey],
    view: str,
) -> list[int]:
    """The ids of all runs that match, in order."""
    stages = {"ACTIVE_ONLY": ["active"], "DELETED_ONLY": ["deleted"]}.get(
        view, ["active", "deleted"]
    )
    found = [
        run
        for run in runs
        if run.team_id == team_id
        and run.experiment_id in experiment_ids
        and run.lifecycle in stages
        and (expression is None or holds(run, expression))
    ]
    every = [
        *orders,
        SortKey(Key("attribute", "start_time"), ascending=False),
        SortKey(Key("attribute", "run_id")),
    ]
    seen: set[Key] = set()
    kept = [order for order in every if not (order.key in seen or seen.add(order.key))]  # type: ignore[func-returns-value]
    return [run.id for run in sorted(found, key=functools.cmp_to_key(_comparer(kept)))]


def holds(run: ModelRun, expression: Expression) -> bool:
    if isinstance(expression, Not):
        return not holds(run, expression.part)
    if isinstance(expression, All):
        return all(holds(run, part) for part in expression.parts)
    if isinstance(expression, Either):
        return any(holds(run, part) for part in expression.parts)
    return any(_meets(value, expression) for value in values(run, expression.key))


def values(run: ModelRun, key: Key) -> list[Any]:
    """The values a clause on a key may be met by; None where the key is absent."""
    if key.entity == "dataset":
        place = ["name", "digest", "context"].index(key.name)
        return [dataset[place] for dataset in run.datasets if dataset[place] is not None]
    return [value_of(run, key)]


def value_of(run: ModelRun, key: Key) -> Any:
    if key.entity == "parameter":
        return run.params.get(key.name)
    if key.entity == "tag":
        return run.tags.get(key.name)
    if key.entity == "metric":
        found = run.metrics.get(key.name)
        return found[["latest", "min", "max"].index(key.aggregate)] if found else None
    return {
        "run_id": run.uuid,
        "run_name": run.name,
        "user_id": run.user,
        "status": run.status,
        "artifact_uri": run.artifact_uri,
        "start_time": run.start_ms,
        "end_time": run.end_ms,
    }[key.name]


def _meets(value: Any, clause: Clause) -> bool:
    operator, wanted = clause.operator, clause.value
    if operator in ("IS NULL", "IS NOT NULL"):
        return (value is None) == (operator == "IS NULL")
    if value is None:
        return False
    if isinstance(wanted, tuple):
        return (value in wanted) == (operator == "IN")
    if operator in ("LIKE", "ILIKE"):
        pattern = re.escape(str(wanted)).replace("%", ".*").replace("_", ".")
        flags = re.DOTALL | (re.IGNORECASE | re.ASCII if operator == "ILIKE" else 0)
        return re.fullmatch(pattern, value, flags) is not None
    return bool(
        {
            "=": value == wanted,
            "!=": value != wanted,
            ">": operator == ">" and value > wanted,
            ">=": operator == ">=" and value >= wanted,
            "<": operator == "<" and value < wanted,
            "<=": operator == "<=" and value <= wanted,
        }[operator]
    )


def _comparer(orders: Sequence[SortKey]) -> Any:
    def compare(left: ModelRun, right: ModelRun) -> int:
        for order in orders:
            mine, other = _sortable(left, order.key), _sortable(right, order.key)
            if mine[0] != other[0]:
                return int(mine[0]) - int(other[0])
            if mine[1] != other[1]:
                return (1 if mine[1] > other[1] else -1) * (1 if order.ascending else -1)
        return 0

    return compare


def _sortable(run: ModelRun, key: Key) -> tuple[int, Any]:
    """Values first, then NaN, then those that lack one."""
    value = value_of(run, key)
    if value is None:
        return 2, 0
    if isinstance(value, float) and math.isnan(value):
        return 1, 0
    return 0, value
