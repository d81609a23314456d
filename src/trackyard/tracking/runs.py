"""Runs: create, change state, delete, restore, and load whole ones fast. Metric points are
ingest's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from trackyard.access.principal import Principal
from trackyard.access.reach import check_reach
from trackyard.core.errors import Denied, InvalidInput, NotFound
from trackyard.core.ids import RUN_ID, new_name, new_run_id
from trackyard.store.database import ReadConnection, Tx
from trackyard.store.sqlite.journal import INSERT_RUN, UPSERT_TAG
from trackyard.tracking.experiments import outer_experiment_id, require_active
from trackyard.tracking.names import Names
from trackyard.tracking.validation import MAX_TAG, check_name, check_run_name, clip

if TYPE_CHECKING:
    from trackyard.tracking.run_cache import RunCache

STATUSES = ("RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED")
ENDED = frozenset(("FINISHED", "FAILED", "KILLED"))
RUN_NAME_TAG = "mlflow.runName"
USER_TAG = "mlflow.user"
_INSERT_RUNS = (
    "INSERT INTO runs (id, uuid, experiment_id, team_id, name, user_name, status, start_ms,"
    " artifact_uri, lifecycle) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'active')"
)
_INSERT_TAGS = "INSERT INTO tags (run_id, name_id, value) VALUES (?, ?, ?)"


class RunRow(NamedTuple):
    """What a write needs to know of a run."""

    id: int
    experiment_id: int
    lifecycle: str
    status: str


class Metric(msgspec.Struct, gc=False):
    """A metric's latest point on the wire."""

    key: str
    value: float | str
    timestamp: int
    step: int


class RunInfo(msgspec.Struct):
    """A run's own facts on the wire."""

    run_uuid: str
    experiment_id: str
    run_name: str
    user_id: str
    status: str
    start_time: int | None
    end_time: int | msgspec.UnsetType | None
    artifact_uri: str
    lifecycle_stage: str
    run_id: str


class RunData(msgspec.Struct, omit_defaults=True):
    """What was logged to a run on the wire."""

    metrics: msgspec.Raw | list[Any] = []
    params: msgspec.Raw | list[Any] = []
    tags: msgspec.Raw | list[Any] = []


class RunInputsView(msgspec.Struct, omit_defaults=True):
    """Data sets and models a run read."""

    dataset_inputs: list[dict[str, Any]] = []
    model_inputs: list[dict[str, Any]] = []


class RunOutputs(msgspec.Struct, omit_defaults=True):
    """Models a run made."""

    model_outputs: list[dict[str, Any]] = []


class RunView(msgspec.Struct, omit_defaults=True):
    """A whole run on the wire."""

    info: RunInfo
    data: RunData
    inputs: RunInputsView = msgspec.field(default_factory=RunInputsView)
    outputs: RunOutputs | None = None


def find_run(tx: Tx | ReadConnection, principal: Principal, run_id: str) -> RunRow:
    """Return a run of the caller's team by its id."""
    if RUN_ID.match(run_id) is None:
        raise run_not_found(run_id)
    if principal.scope is not None:
        check_reach(tx, principal, run_id)
    row = tx.one(
        "SELECT id, experiment_id, lifecycle, status FROM runs WHERE uuid = ? AND team_id = ?",
        (run_id, principal.team_id),
    )
    if row is None:
        raise run_not_found(run_id)
    return RunRow(*row)


def run_not_found(run_id: str) -> NotFound:
    """Return MLflow's complaint about an unknown run."""
    shown = run_id if RUN_ID.match(run_id) else ascii(run_id[:80])
    return NotFound(f"Run with id={shown} not found")


def find_active_run(tx: Tx, principal: Principal, run_id: str) -> RunRow:
    """Return a run that takes new data, or refuse."""
    run = find_run(tx, principal, run_id)
    if run.lifecycle != "active":
        raise InvalidInput(
            f"The run {run_id} must be in the 'active' state. Current state is {run.lifecycle}."
        )
    return run


def create_run(
    tx: Tx,
    names: Names,
    principal: Principal,
    *,
    experiment_id: int,
    run_name: str | None,
    user: str | None,
    start_ms: int | None,
    tags: Sequence[tuple[str, str]],
) -> str:
    """Create a run and return its id."""
    location = require_active(tx, principal, experiment_id)[2]
    tagged = dict(tags)
    name = agree_on_name(run_name, tagged.get(RUN_NAME_TAG))
    tagged[RUN_NAME_TAG] = name
    run_id = new_run_id()
    user_name = user or tagged.get(USER_TAG) or principal.name
    row = (
        run_id,
        experiment_id,
        principal.team_id,
        name,
        user_name,
        tx.now_ms if start_ms is None else start_ms,
        f"{location}/{run_id}/artifacts",
    )
    if tx.dialect.name == "sqlite":
        # Quick writes give out keys as well, before the table has their rows.
        inner = tx.new_id("runs")
        tx.run(INSERT_RUN, (inner, *row))
    else:
        inner = tx.insert(
            "INSERT INTO runs (uuid, experiment_id, team_id, name, user_name, status, start_ms,"
            " lifecycle, artifact_uri) VALUES (?, ?, ?, ?, ?, 'RUNNING', ?, 'active', ?)",
            row,
        )
    write_tags(tx, names, inner, list(tagged.items()))
    record(tx, "run.created", principal, run_id, experiment_id, name=name)
    return run_id


class RunDraft(NamedTuple):
    """One of several runs that are made at once."""

    name: str
    tags: Sequence[tuple[str, str]]


def create_runs(
    tx: Tx,
    names: Names,
    principal: Principal,
    wanted: Sequence[RunDraft],
    *,
    experiment_id: int,
    status: str,
    location: str,
) -> list[str]:
    """Create runs that have not begun yet, and return their ids; a few statements for all.

    The caller has asked whether the experiment takes runs, and where their files lie.
    """
    runs, tags, made = [], [], []
    for inner, one in zip(new_keys(tx, len(wanted)), wanted, strict=True):
        run_id = new_run_id()
        name = check_run_name(one.name)
        where = f"{location}/{run_id}/artifacts"
        facts = (principal.team_id, name, principal.name, status, tx.now_ms, where)
        runs.append((inner, run_id, experiment_id, *facts))
        tags += _tag_rows(tx, names, inner, list({**dict(one.tags), RUN_NAME_TAG: name}.items()))
        record(tx, "run.created", principal, run_id, experiment_id, name=name)
        made.append(run_id)
    tx.many(_INSERT_RUNS, runs)
    tx.many(_INSERT_TAGS, tags)
    return made


def new_keys(tx: Tx, count: int) -> list[int]:
    """Return keys of runs that nobody else is given."""
    if tx.dialect.name == "sqlite":
        return [tx.new_id("runs") for _ in range(count)]
    sql = "SELECT nextval(pg_get_serial_sequence('runs', 'id')) FROM generate_series(1, ?)"
    return [int(row[0]) for row in tx.all(sql, (count,))]


def is_untouched(tx: Tx, run_id: str) -> bool:
    """Tell whether nothing was done to a run since it was created."""
    row = tx.one(
        "SELECT 1 FROM runs r WHERE r.uuid = ?"
        " AND NOT EXISTS (SELECT 1 FROM metric_latest m WHERE m.run_id = r.id)"
        " AND NOT EXISTS (SELECT 1 FROM artifacts a WHERE a.owner = r.uuid)"
        " AND NOT EXISTS (SELECT 1 FROM events e WHERE e.subject = 'run' AND e.subject_id = r.uuid"
        " AND e.kind <> 'run.created')",
        (run_id,),
    )
    return row is not None


def agree_on_name(given: str | None, tagged: str | None) -> str:
    """Return a new run's name from its two places, or make one up."""
    if given and tagged and given != tagged:
        raise InvalidInput(
            "Both 'run_name' argument and 'mlflow.runName' tag are specified, but with different"
            f" values (run_name='{given}', mlflow.runName='{tagged}')."
        )
    return check_run_name(given or tagged or new_name())


def update_run(
    tx: Tx,
    names: Names,
    principal: Principal,
    run_id: str,
    *,
    status: str | None,
    end_ms: int | None,
    run_name: str | None,
) -> None:
    """Change a run's state, end or name."""
    run = find_active_run(tx, principal, run_id)
    changes: list[tuple[str, Any]] = []
    if status is not None:
        changes.append(("status", status))
    if end_ms is not None:
        changes.append(("end_ms", end_ms))
    if run_name:
        changes.append(("name", check_run_name(run_name)))
        write_tags(tx, names, run.id, [(RUN_NAME_TAG, run_name)])
    if not changes:
        return
    assignments = ", ".join(f"{column} = ?" for column, _ in changes)
    tx.run(
        f"UPDATE runs SET {assignments} WHERE id = ?", [value for _, value in changes] + [run.id]
    )
    ended = status in ENDED and run.status not in ENDED
    kind = "run.finished" if ended else "run.updated"
    record(tx, kind, principal, run_id, run.experiment_id, **dict(changes))


def check_own(tx: Tx, principal: Principal, run_id: str) -> None:
    """Refuse a run that another user of the team created."""
    row = tx.one(
        "SELECT user_name FROM runs WHERE uuid = ? AND team_id = ?", (run_id, principal.team_id)
    )
    if row is not None and row[0] != principal.name:
        raise Denied(f"run {run_id} is {row[0]}'s; deleting it needs the role maintainer")


def delete_run(tx: Tx, principal: Principal, run_id: str) -> None:
    """Delete a run; it can be restored."""
    run = find_run(tx, principal, run_id)
    if run.lifecycle != "active":
        raise InvalidInput(
            f"The run {run_id} must be in the 'active' state. Current state is {run.lifecycle}."
        )
    tx.run(
        "UPDATE runs SET lifecycle = 'deleted', deleted_ms = ? WHERE id = ?", (tx.now_ms, run.id)
    )
    record(tx, "run.deleted", principal, run_id, run.experiment_id)


def restore_run(tx: Tx, principal: Principal, run_id: str) -> None:
    """Bring a deleted run back."""
    run = find_run(tx, principal, run_id)
    if run.lifecycle != "deleted":
        raise InvalidInput(
            f"The run {run_id} must be in the 'deleted' state. Current state is {run.lifecycle}."
        )
    tx.run("UPDATE runs SET lifecycle = 'active', deleted_ms = NULL WHERE id = ?", (run.id,))
    record(tx, "run.restored", principal, run_id, run.experiment_id)


def record(
    tx: Tx, kind: str, principal: Principal, run_id: str, experiment_id: int, **facts: Any
) -> None:
    """Append the event of a change to a run."""
    tx.event(
        kind,
        team_id=principal.team_id,
        actor=principal.name,
        subject="run",
        subject_id=run_id,
        experiment_id=str(experiment_id),
        **facts,
    )


def write_tags(tx: Tx, names: Names, inner: int, tags: Sequence[tuple[str, str]]) -> None:
    """Set tags of a run inside a transaction."""
    tx.many(UPSERT_TAG, _tag_rows(tx, names, inner, tags))


def _tag_rows(
    tx: Tx, names: Names, inner: int, tags: Sequence[tuple[str, str]]
) -> list[tuple[int, int, str]]:
    return [
        (inner, names.id(tx, check_name(key, f"tags[{position}].key")), clip(value, MAX_TAG))
        for position, (key, value) in enumerate(tags)
    ]


# -- loading ----------------------------------------------------------------------------------


def load_runs(
    reader: ReadConnection,
    principal: Principal,
    inner_ids: Sequence[int],
    cache: RunCache | None = None,
) -> list[RunView]:
    """Return whole runs in the order of their inner ids; from the cache where it has them."""
    if cache is None:
        found = _load(reader, principal, inner_ids)
        return [found[inner] for inner in inner_ids if inner in found]
    mark, team_id = cache.mark(), principal.team_id
    kept = {inner: cache.get(inner, team_id) for inner in inner_ids}
    fresh = _load(reader, principal, [inner for inner, run in kept.items() if run is None])
    for inner, run in fresh.items():
        cache.put(inner, team_id, run, size=_size(run), mark=mark)
    wanted = ((fresh.get(inner) or kept[inner]) for inner in inner_ids)
    return [run for run in wanted if run is not None]


def _size(run: RunView) -> int:
    """Return about how many bytes a run takes."""
    data = run.data
    texts = (data.metrics, data.params, data.tags)
    return 1000 + sum(len(bytes(text)) for text in texts if isinstance(text, msgspec.Raw))


def _load(
    reader: ReadConnection, principal: Principal, inner_ids: Sequence[int]
) -> dict[int, RunView]:
    """Load whole runs in three queries, however many they are."""
    if not inner_ids:
        return {}
    dialect = reader.dialect
    chosen = ",".join(str(int(inner)) for inner in inner_ids)

    def pairs(table: str) -> str:
        return (
            f"(SELECT {dialect.json_list}({dialect.json_object}('key', n.name, 'value', p.value))"
            f"{dialect.as_text} FROM {table} p JOIN names n ON n.id = p.name_id"
            " WHERE p.run_id = r.id)"
        )

    rows = reader.all(
        "SELECT r.id, r.uuid, r.experiment_id, r.name, r.user_name, r.status, r.start_ms,"
        f" r.end_ms, r.artifact_uri, r.lifecycle, {pairs('params')}, {pairs('tags')},"
        f" (SELECT {dialect.text_list.format('m.wire')} FROM metric_latest m"
        " WHERE m.run_id = r.id)"
        f" FROM runs r WHERE r.id IN ({chosen}) AND r.team_id = ?",
        (principal.team_id,),
    )
    shaped = {row[0]: _shape(principal, row) for row in rows}
    _add_inputs(reader, chosen, shaped)
    return shaped


def _shape(principal: Principal, row: tuple[Any, ...]) -> RunView:
    params, tags, metrics = row[10:]
    info = RunInfo(
        row[1],
        outer_experiment_id(principal, row[2]),
        row[3],
        row[4],
        row[5],
        row[6],
        msgspec.UNSET if row[7] is None else row[7],
        row[8],
        row[9],
        row[1],
    )
    data = RunData(
        metrics=msgspec.Raw(f"[{metrics}]".encode()) if metrics else [],
        params=msgspec.Raw(params.encode()) if params and params != "[]" else [],
        tags=msgspec.Raw(tags.encode()) if tags and tags != "[]" else [],
    )
    return RunView(info, data)


def _add_inputs(reader: ReadConnection, chosen: str, shaped: dict[int, RunView]) -> None:
    datasets = reader.all(
        "SELECT l.run_id, l.tags, d.name, d.digest, d.source_type, d.source, d.schema, d.profile"
        " FROM run_datasets l JOIN datasets d ON d.id = l.dataset_id"
        f" WHERE l.run_id IN ({chosen}) ORDER BY l.id"
    )
    keys = ("name", "digest", "source_type", "source", "schema", "profile")
    filled: dict[int, RunInputsView] = {}
    for inner, tags, *facts in datasets:
        if inner in shaped:
            inputs = filled.setdefault(inner, RunInputsView([], []))
            dataset = {k: v for k, v in zip(keys, facts, strict=True) if v is not None}
            inputs.dataset_inputs.append({"tags": msgspec.Raw(tags.encode()), "dataset": dataset})
    for inner, model_id, direction, step in reader.all(
        f"SELECT run_id, model_id, direction, step FROM run_models WHERE run_id IN ({chosen})"
        " ORDER BY step, model_id"
    ):
        if inner not in shaped:
            continue
        if direction == "input":
            inputs = filled.setdefault(inner, RunInputsView([], []))
            inputs.model_inputs.append({"model_id": model_id})
        else:
            run = shaped[inner]
            if run.outputs is None:
                run.outputs = RunOutputs([])
            run.outputs.model_outputs.append({"model_id": model_id, "step": step})
    for inner, inputs in filled.items():
        shaped[inner].inputs = inputs
