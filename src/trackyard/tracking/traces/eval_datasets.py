"""Evaluation data sets: records of inputs with what is expected of them. Owns their state
changes. A record is told from others by its inputs; one that comes again is merged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from trackyard.access.principal import Principal
from trackyard.core.errors import InvalidInput, NotFound
from trackyard.core.ids import new_run_id
from trackyard.store.database import ReadConnection, Tx
from trackyard.tracking.experiments import inner_experiment_id, outer_experiment_id, require
from trackyard.tracking.search.grammar import parse_filter, parse_order
from trackyard.tracking.search.language import EVAL_DATASETS
from trackyard.tracking.search.paging import Term, binding, check_page_size, find_page
from trackyard.tracking.search.sql import (
    Column,
    Fragment,
    Rows,
    SearchColumns,
    compile_where,
    join,
)
from trackyard.tracking.traces.wire import read_pairs

MAX_NAME, MAX_RECORDS, MAX_RECORD = 500, 10_000, 1_000_000
_COLUMNS = "id, name, schema, profile, digest, created_by, updated_by, created_ms, updated_ms"
_PLACES = {
    "name": Term("d.name", ascending=True, kind="text"),
    "created_by": Term("d.created_by", ascending=True, kind="text"),
    "last_updated_by": Term("d.updated_by", ascending=True, kind="text"),
    "created_time": Term("d.created_ms", ascending=True, kind="whole"),
    "last_update_time": Term("d.updated_ms", ascending=True, kind="whole"),
}
_USER = "mlflow.user"
_encode = msgspec.json.Encoder(order="sorted").encode
#: Experiments that one data set belongs to.
MAX_EXPERIMENTS = 100


def create(
    tx: Tx, principal: Principal, name: str, experiments: Sequence[str], tags: Any
) -> dict[str, Any]:
    """Create a data set and return it."""
    if not name or len(name) > MAX_NAME:
        raise InvalidInput(f"a data set's name has 1 to {MAX_NAME} characters, not {len(name)}")
    tagged = read_pairs(tags, "tags")
    inner = _experiments(tx, principal, experiments)
    dataset_id = f"d-{new_run_id()}"
    user = tagged.get(_USER) or principal.name
    tx.run(
        f"INSERT INTO eval_datasets (team_id, {_COLUMNS})"
        " VALUES (?, ?, ?, NULL, NULL, ?, ?, ?, ?, ?)",
        (
            principal.team_id,
            dataset_id,
            name,
            _digest(name, tx.now_ms),
            user,
            user,
            tx.now_ms,
            tx.now_ms,
        ),
    )
    _write_tags(tx, dataset_id, tagged)
    _link(tx, dataset_id, inner)
    _event(tx, "eval_dataset.created", principal, dataset_id, name=name)
    return get(tx, principal, dataset_id)


def get(reader: Tx | ReadConnection, principal: Principal, dataset_id: str) -> dict[str, Any]:
    """Return a data set without its records."""
    row = reader.one(
        f"SELECT {_COLUMNS} FROM eval_datasets WHERE id = ? AND team_id = ?",
        (dataset_id, principal.team_id),
    )
    if row is None:
        raise NotFound(f"Evaluation dataset with id '{dataset_id[:80]}' not found")
    pairs = reader.all(
        "SELECT key, value FROM eval_dataset_tags WHERE dataset_id = ? ORDER BY key",
        (dataset_id,),
    )
    tags: dict[str, str] = dict(pairs)
    found: dict[str, Any] = {
        "dataset_id": row[0],
        "name": row[1],
        "tags": msgspec.json.encode(tags).decode(),
        "digest": row[4],
        "created_time": row[7],
        "last_update_time": row[8],
        "created_by": row[5],
        "last_updated_by": row[6],
        "experiment_ids": experiment_ids(reader, principal, dataset_id),
    }
    more = {"schema": row[2], "profile": row[3]}
    return {**found, **{name: value for name, value in more.items() if value is not None}}


def experiment_ids(
    reader: Tx | ReadConnection, principal: Principal, dataset_id: str
) -> list[str]:
    """Return the experiments that a data set belongs to."""
    rows = reader.all(
        "SELECT x.experiment_id FROM eval_dataset_experiments x JOIN eval_datasets d"
        " ON d.id = x.dataset_id WHERE d.id = ? AND d.team_id = ? ORDER BY x.experiment_id",
        (dataset_id, principal.team_id),
    )
    return [outer_experiment_id(principal, row[0]) for row in rows]


def delete(tx: Tx, principal: Principal, dataset_id: str) -> None:
    """Delete a data set with its records."""
    _require(tx, principal, dataset_id)
    tx.run("DELETE FROM eval_datasets WHERE id = ?", (dataset_id,))
    _event(tx, "eval_dataset.deleted", principal, dataset_id)


def search(
    reader: ReadConnection,
    principal: Principal,
    *,
    experiments: Sequence[str],
    filter_text: str | None,
    order_by: Sequence[str],
    max_results: int,
    page_token: str | None,
) -> tuple[list[dict[str, Any]], str | None]:
    """Return a page of data sets, the newest first unless told otherwise."""
    check_page_size(max_results, 1000)
    inner = [inner_experiment_id(principal, one) for one in experiments]
    tree = parse_filter(filter_text, EVAL_DATASETS)
    columns = SearchColumns(
        attributes={name: Column(term.sql) for name, term in _PLACES.items()},
        rows={"tag": Rows(table="eval_dataset_tags", owner="dataset_id", parent="d.id")},
    )
    parts = [
        Fragment("d.team_id = ?", (principal.team_id,)),
        compile_where(reader.dialect, tree, columns),
    ]
    if inner:
        marks = ",".join("?" * len(inner))
        parts.append(
            Fragment(
                "EXISTS (SELECT 1 FROM eval_dataset_experiments x WHERE x.dataset_id = d.id"
                f" AND x.experiment_id IN ({marks}))",
                tuple(inner),
            )
        )
    orders = parse_order(order_by or ("created_time DESC",), EVAL_DATASETS)
    terms = [
        Term(_PLACES[order.key.name].sql, order.ascending, _PLACES[order.key.name].kind)
        for order in orders
    ]
    ids, token = find_page(
        reader,
        key="d.id",
        source=Fragment("eval_datasets d"),
        where=join("AND", parts),
        terms=[*terms, Term("d.id", ascending=True, kind="text")],
        query=binding("eval", principal.team_id, inner, filter_text, list(order_by)),
        max_results=max_results,
        page_token=page_token,
    )
    return [get(reader, principal, one) for one in ids], token


# -- records ----------------------------------------------------------------------------------


def check_records(records: Any) -> None:
    """Refuse what is no list of records, before any of them is written."""
    if not isinstance(records, list) or not all(isinstance(one, dict) for one in records):
        raise InvalidInput("`records` is a list of objects as JSON text")
    if len(records) > MAX_RECORDS:
        raise InvalidInput(f"at most {MAX_RECORDS} records are taken at once, not {len(records)}")
    for record in records:
        read_pairs(record.get("tags"), "tags")


def upsert_records(
    tx: Tx, principal: Principal, dataset_id: str, records: Sequence[dict[str, Any]]
) -> tuple[int, int]:
    """Add records, or merge them into those with the same inputs; return how many of each."""
    _require(tx, principal, dataset_id)
    added = merged = 0
    user = principal.name
    for record in records:
        user = read_pairs(record.get("tags"), "tags").get(_USER) or user
        digest = hashlib.sha256(_encode(record.get("inputs") or {})).hexdigest()
        row = tx.one(
            "SELECT id, data FROM eval_records WHERE dataset_id = ? AND input_digest = ?",
            (dataset_id, digest),
        )
        if row is None:
            added += 1
            tx.run(
                "INSERT INTO eval_records (id, dataset_id, input_digest, data, created_ms,"
                " updated_ms) VALUES (?, ?, ?, ?, ?, ?)",
                (
                    f"dr-{new_run_id()}",
                    dataset_id,
                    digest,
                    _pack(_new(record, user)),
                    tx.now_ms,
                    tx.now_ms,
                ),
            )
        else:
            merged += 1
            tx.run(
                "UPDATE eval_records SET data = ?, updated_ms = ? WHERE id = ?",
                (_pack(_merge(msgspec.json.decode(row[1]), record, user)), tx.now_ms, row[0]),
            )
    _describe(tx, dataset_id, records, user)
    _event(tx, "eval_dataset.updated", principal, dataset_id, added=added, merged=merged)
    return added, merged


def delete_records(tx: Tx, principal: Principal, dataset_id: str, ids: Sequence[str]) -> int:
    """Delete records; return how many were there."""
    _require(tx, principal, dataset_id)
    gone = 0
    for record_id in dict.fromkeys(ids):
        gone += tx.run(
            "DELETE FROM eval_records WHERE id = ? AND dataset_id = ?", (record_id, dataset_id)
        )
    _describe(tx, dataset_id, [], principal.name)
    _event(tx, "eval_dataset.updated", principal, dataset_id, removed=gone)
    return gone


def records(
    reader: ReadConnection,
    principal: Principal,
    dataset_id: str,
    *,
    max_results: int,
    page_token: str | None,
) -> tuple[list[dict[str, Any]], str | None]:
    """Return a page of records."""
    check_page_size(max_results, 1000)
    _require(reader, principal, dataset_id)
    ids, token = find_page(
        reader,
        key="r.id",
        source=Fragment("eval_records r"),
        where=Fragment("r.dataset_id = ?", (dataset_id,)),
        terms=[
            Term("r.created_ms", ascending=True, kind="whole"),
            Term("r.id", ascending=True, kind="text"),
        ],
        query=binding("eval-records", dataset_id),
        max_results=max_results,
        page_token=page_token,
    )
    found = {}
    for at in range(0, len(ids), 500):
        chunk = ids[at : at + 500]
        marks = ",".join("?" * len(chunk))
        for row in reader.all(
            f"SELECT id, data, created_ms, updated_ms FROM eval_records WHERE id IN ({marks})",
            chunk,
        ):
            found[row[0]] = {
                "dataset_record_id": row[0],
                "dataset_id": dataset_id,
                **msgspec.json.decode(row[1]),
                "created_time": row[2],
                "last_update_time": row[3],
            }
    return [found[one] for one in ids if one in found], token


def _new(record: dict[str, Any], user: str) -> dict[str, Any]:
    source = record.get("source")
    kept = {
        "inputs": record.get("inputs") or {},
        "outputs": record.get("outputs"),
        "expectations": record.get("expectations"),
        "tags": record.get("tags"),
        "source": source,
        "source_type": source.get("source_type") if isinstance(source, dict) else None,
        "created_by": user,
        "last_updated_by": user,
    }
    return {name: value for name, value in kept.items() if value is not None}


def _merge(old: dict[str, Any], record: dict[str, Any], user: str) -> dict[str, Any]:
    merged = dict(old)
    if record.get("outputs") is not None:
        merged["outputs"] = record["outputs"]
    for name in ("expectations", "tags"):
        if isinstance(record.get(name), dict):
            merged[name] = {**(old.get(name) or {}), **record[name]}
    return {**merged, "last_updated_by": user}


def _pack(record: dict[str, Any]) -> str:
    packed = msgspec.json.encode(record)
    if len(packed) > MAX_RECORD:
        raise InvalidInput(f"a record has at most {MAX_RECORD} bytes of JSON, not {len(packed)}")
    return packed.decode()


def _describe(tx: Tx, dataset_id: str, records: Sequence[dict[str, Any]], user: str) -> None:
    """Bring a data set's own facts up to date with its records."""
    row = tx.one("SELECT name, schema FROM eval_datasets WHERE id = ?", (dataset_id,))
    count = tx.one("SELECT count(*) FROM eval_records WHERE dataset_id = ?", (dataset_id,))
    assert row is not None
    assert count is not None
    schema = msgspec.json.decode(row[1]) if row[1] else {"version": "1.0"}
    for record in records:
        for name in ("inputs", "outputs", "expectations"):
            value = record.get(name)
            if isinstance(value, dict):
                known = schema.get(name)
                fields = known if isinstance(known, dict) else {}
                schema[name] = {**fields, **{key: _kind(one) for key, one in value.items()}}
            elif value is not None:
                schema[name] = _kind(value)
    tx.run(
        "UPDATE eval_datasets SET schema = ?, profile = ?, digest = ?, updated_by = ?,"
        " updated_ms = ? WHERE id = ?",
        (
            msgspec.json.encode(schema).decode(),
            msgspec.json.encode({"num_records": count[0]}).decode(),
            _digest(row[0], tx.now_ms),
            user,
            tx.now_ms,
            dataset_id,
        ),
    )


def _kind(value: Any) -> str:
    for kind, name in (
        (bool, "boolean"),
        (int, "integer"),
        (float, "float"),
        (str, "string"),
        (list, "array"),
        (dict, "object"),
    ):
        if isinstance(value, kind):
            return name
    return "null"


# -- tags and experiments ---------------------------------------------------------------------


def set_tags(tx: Tx, principal: Principal, dataset_id: str, tags: Any) -> None:
    """Set tags of a data set; one without a value is removed."""
    _require(tx, principal, dataset_id)
    if not isinstance(tags, dict):
        raise InvalidInput("`tags` is an object as JSON text")
    for key in [key for key, value in tags.items() if value is None]:
        tx.run("DELETE FROM eval_dataset_tags WHERE dataset_id = ? AND key = ?", (dataset_id, key))
    kept = {key: value for key, value in tags.items() if value is not None}
    _write_tags(tx, dataset_id, read_pairs(kept, "tags"))
    _event(tx, "eval_dataset.updated", principal, dataset_id, tags=sorted(tags))


def delete_tag(tx: Tx, principal: Principal, dataset_id: str, key: str) -> None:
    """Remove a tag of a data set; one that is not there is no error."""
    _require(tx, principal, dataset_id)
    tx.run("DELETE FROM eval_dataset_tags WHERE dataset_id = ? AND key = ?", (dataset_id, key))
    _event(tx, "eval_dataset.updated", principal, dataset_id, tag_removed=key)


def change_experiments(
    tx: Tx, principal: Principal, dataset_id: str, experiments: Sequence[str], *, add: bool
) -> dict[str, Any]:
    """Add a data set to experiments, or take it out of them, and return it."""
    _require(tx, principal, dataset_id)
    inner = _experiments(tx, principal, experiments)
    if add:
        _link(tx, dataset_id, inner)
    else:
        tx.many(
            "DELETE FROM eval_dataset_experiments WHERE dataset_id = ? AND experiment_id = ?",
            [(dataset_id, one) for one in inner],
        )
    tx.run("UPDATE eval_datasets SET updated_ms = ? WHERE id = ?", (tx.now_ms, dataset_id))
    _event(tx, "eval_dataset.updated", principal, dataset_id, experiments=list(experiments))
    return get(tx, principal, dataset_id)


def _require(reader: Tx | ReadConnection, principal: Principal, dataset_id: str) -> None:
    row = reader.one(
        "SELECT 1 FROM eval_datasets WHERE id = ? AND team_id = ?",
        (dataset_id, principal.team_id),
    )
    if row is None:
        raise NotFound(f"Evaluation dataset with id '{dataset_id[:80]}' not found")


def _experiment(tx: Tx, principal: Principal, text: str) -> int:
    inner = inner_experiment_id(principal, text)
    require(tx, principal, inner)
    return inner


def _experiments(tx: Tx, principal: Principal, wanted: Sequence[str]) -> list[int]:
    """Find experiments, each once; a data set belongs to a few of them."""
    once = list(dict.fromkeys(wanted))
    if len(once) > MAX_EXPERIMENTS:
        raise InvalidInput(
            f"a data set belongs to at most {MAX_EXPERIMENTS} experiments, not {len(once)};"
            " make one for each group of them"
        )
    return [_experiment(tx, principal, one) for one in once]


def _link(tx: Tx, dataset_id: str, experiments: Sequence[int]) -> None:
    tx.many(
        "INSERT INTO eval_dataset_experiments (dataset_id, experiment_id) VALUES (?, ?)"
        " ON CONFLICT (dataset_id, experiment_id) DO NOTHING",
        [(dataset_id, one) for one in experiments],
    )


def _write_tags(tx: Tx, dataset_id: str, tags: dict[str, str]) -> None:
    tx.many(
        "INSERT INTO eval_dataset_tags (dataset_id, key, value) VALUES (?, ?, ?)"
        " ON CONFLICT (dataset_id, key) DO UPDATE SET value = excluded.value",
        [(dataset_id, key, value) for key, value in tags.items()],
    )


def _digest(name: str, now_ms: int) -> str:
    return hashlib.sha256(f"{name}:{now_ms}".encode()).hexdigest()[:8]


def _event(tx: Tx, kind: str, principal: Principal, dataset_id: str, **data: Any) -> None:
    tx.event(
        kind,
        team_id=principal.team_id,
        actor=principal.name,
        subject="eval_dataset",
        subject_id=dataset_id,
        **data,
    )
