"""Logged models as clients see them, and searching them. Owns loading whole ones and where the
search language's keys lie; changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from trackyard.access.principal import Principal
from trackyard.core.errors import InvalidInput
from trackyard.registry.rules import STAGE_DELETED
from trackyard.registry.views import chunks
from trackyard.store.database import ReadConnection, Tx
from trackyard.tracking.experiments import outer_experiment_id
from trackyard.tracking.search.grammar import (
    All,
    Clause,
    Either,
    Expression,
    Not,
    parse_filter,
)
from trackyard.tracking.search.language import LOGGED_MODELS
from trackyard.tracking.search.paging import Term, binding, check_page_size, find_page, nulls_last
from trackyard.tracking.search.sql import (
    Column,
    Fragment,
    Rows,
    SearchColumns,
    compile_where,
    join,
)

LOGGED_DEFAULT = 100
LOGGED_MOST = 50_000
MAX_DATASETS = 64
WIRE_PREFIX = "LOGGED_MODEL_"

_COLUMNS = (
    "id, experiment_id, name, artifact_uri, status, status_message, model_type, source_run,"
    " created_ms, updated_ms"
)
_ATTRIBUTES: dict[str, tuple[str, Literal["text", "whole"]]] = {
    "name": ("m.name", "text"),
    "model_id": ("m.id", "text"),
    "model_type": ("m.model_type", "text"),
    "status": ("m.status", "text"),
    "source_run_id": ("m.source_run", "text"),
    "creation_timestamp": ("m.created_ms", "whole"),
    "last_updated_timestamp": ("m.updated_ms", "whole"),
}


class DatasetFilter(NamedTuple):
    """A data set that metrics must have been measured on."""

    name: str
    digest: str | None = None

    def condition(self, alias: str) -> Fragment:
        """Return the condition on a metric's row."""
        named = Fragment(f"{alias}.dataset_name = ?", (self.name,))
        if not self.digest:
            return named
        return join("AND", [named, Fragment(f"{alias}.dataset_digest = ?", (self.digest,))])


class LoggedSortKey(NamedTuple):
    """One key to sort logged models by."""

    field: str
    ascending: bool = True
    dataset_name: str | None = None
    dataset_digest: str | None = None


def load_logged(
    reader: Tx | ReadConnection, principal: Principal, ids: Sequence[str]
) -> list[dict[str, Any]]:
    """Return logged models in MLflow's form, in the order of their ids."""
    shaped: dict[str, dict[str, Any]] = {}
    for chunk in chunks(ids):
        marks = ",".join("?" * len(chunk))
        for row in reader.all(
            f"SELECT {_COLUMNS} FROM logged_models WHERE id IN ({marks})", chunk
        ):
            shaped[row[0]] = _shape(principal, row)
        for table, part, name in (
            ("logged_model_tags", "info", "tags"),
            ("logged_model_params", "data", "params"),
        ):
            for model_id, key, value in reader.all(
                f"SELECT model_id, key, value FROM {table} WHERE model_id IN ({marks})"
                " ORDER BY key",
                chunk,
            ):
                shaped[model_id][part].setdefault(name, []).append({"key": key, "value": value})
        _add_metrics(reader, marks, chunk, shaped)
        _add_registrations(reader, marks, chunk, shaped)
    return [shaped[model_id] for model_id in ids if model_id in shaped]


def _shape(principal: Principal, row: tuple[Any, ...]) -> dict[str, Any]:
    info: dict[str, Any] = {
        "model_id": row[0],
        "experiment_id": outer_experiment_id(principal, row[1]),
        "name": row[2],
        "creation_timestamp_ms": row[8],
        "last_updated_timestamp_ms": row[9],
        "artifact_uri": row[3],
        "status": WIRE_PREFIX + row[4],
        "model_type": row[6],
        "source_run_id": row[7],
    }
    if row[5]:
        info["status_message"] = row[5]
    return {"info": info, "data": {}}


def _add_metrics(
    reader: Tx | ReadConnection,
    marks: str,
    chunk: Sequence[str],
    shaped: dict[str, dict[str, Any]],
) -> None:
    for model_id, key, value, time_ms, step, run_id, dataset, digest in reader.all(
        "SELECT model_id, key, value, time_ms, step, run_uuid, dataset_name, dataset_digest"
        f" FROM logged_model_metrics WHERE model_id IN ({marks}) ORDER BY id",
        chunk,
    ):
        metric: dict[str, Any] = {
            "key": key,
            "value": "NaN" if value is None else value,
            "timestamp": time_ms,
            "step": step,
            "model_id": model_id,
            "run_id": run_id,
        }
        if dataset:
            metric["dataset_name"] = dataset
        if digest:
            metric["dataset_digest"] = digest
        shaped[model_id]["data"].setdefault("metrics", []).append(metric)


def _add_registrations(
    reader: Tx | ReadConnection,
    marks: str,
    chunk: Sequence[str],
    shaped: dict[str, dict[str, Any]],
) -> None:
    for model_id, name, version in reader.all(
        "SELECT v.logged_model_id, m.name, v.version FROM model_versions v"
        f" JOIN models m ON m.id = v.model_id WHERE v.logged_model_id IN ({marks})"
        " AND v.stage <> ? ORDER BY m.name, v.version",
        (*chunk, STAGE_DELETED),
    ):
        registered = shaped[model_id]["info"].setdefault("registrations", [])
        registered.append({"name": name, "version": str(version)})


def search_logged(
    reader: ReadConnection,
    principal: Principal,
    *,
    experiment_ids: Sequence[int],
    filter_text: str | None,
    datasets: Sequence[DatasetFilter],
    order_by: Sequence[LoggedSortKey],
    max_results: int,
    page_token: str | None,
) -> tuple[list[dict[str, Any]], str | None]:
    """Return a page of the team's logged models, the newest first unless told otherwise."""
    check_page_size(max_results, LOGGED_MOST)
    if len(datasets) > MAX_DATASETS or len(order_by) > MAX_DATASETS:
        raise InvalidInput(f"`datasets` and `order_by` take at most {MAX_DATASETS} entries each")
    tree = parse_filter(filter_text, LOGGED_MODELS)
    source, terms = _order(order_by)
    if not experiment_ids:
        return [], None
    ids, token = find_page(
        reader,
        key="m.id",
        source=source,
        where=_where(reader, principal, experiment_ids, tree, datasets),
        terms=terms,
        query=binding(
            "logged",
            principal.team_id,
            list(experiment_ids),
            filter_text,
            [list(dataset) for dataset in datasets],
            [list(order) for order in order_by],
        ),
        max_results=max_results,
        page_token=page_token,
    )
    return load_logged(reader, principal, ids), token


def _where(
    reader: ReadConnection,
    principal: Principal,
    experiment_ids: Sequence[int],
    tree: Expression | None,
    datasets: Sequence[DatasetFilter],
) -> Fragment:
    measured = join("OR", [dataset.condition("x") for dataset in datasets]) if datasets else None
    columns = SearchColumns(
        attributes={
            name: Column(sql, convert=_stored_status if name == "status" else None)
            for name, (sql, _) in _ATTRIBUTES.items()
        },
        rows={
            "metric": Rows(
                table="logged_model_metrics",
                owner="model_id",
                parent="m.id",
                is_number=True,
                also=measured and Fragment(f"({measured.sql})", measured.params),
            ),
            "parameter": Rows(table="logged_model_params", owner="model_id", parent="m.id"),
            "tag": Rows(table="logged_model_tags", owner="model_id", parent="m.id"),
        },
    )
    marks = ",".join("?" * len(experiment_ids))
    parts = [
        Fragment("m.team_id = ?", (principal.team_id,)),
        Fragment(f"m.experiment_id IN ({marks})", tuple(experiment_ids)),
        Fragment("m.lifecycle = 'active'"),
        compile_where(reader.dialect, tree, columns),
    ]
    if measured is not None and not _names_a_metric(tree):
        parts.append(
            Fragment(
                "EXISTS (SELECT 1 FROM logged_model_metrics x WHERE x.model_id = m.id"
                f" AND ({measured.sql}))",
                measured.params,
            )
        )
    return join("AND", parts)


def _stored_status(text: str) -> str:
    return text.upper().removeprefix(WIRE_PREFIX)


def _names_a_metric(tree: Expression | None) -> bool:
    if isinstance(tree, Clause):
        return tree.key.entity == "metric"
    if isinstance(tree, Not):
        return _names_a_metric(tree.part)
    if isinstance(tree, All | Either):
        return any(_names_a_metric(part) for part in tree.parts)
    return False


def _order(order_by: Sequence[LoggedSortKey]) -> tuple[Fragment, list[Term]]:
    """Return what to select from and what to sort by; each metric joins its latest point."""
    sql = "logged_models m"
    params: list[Any] = []
    terms: list[Term] = []
    named: set[str] = set()
    for place, order in enumerate(order_by):
        entity, dot, name = order.field.partition(".")
        if not dot:
            field = LOGGED_MODELS.orders["attribute"].get(order.field)
            if field is None:
                raise InvalidInput(f"Invalid order by field name: {order.field[:80]}")
            name = field.name or order.field
            named.add(name)
            column, kind = _ATTRIBUTES[name]
            terms.append(Term(column, ascending=order.ascending, kind=kind))
            continue
        if LOGGED_MODELS.entities.get(entity) != "metric" or not name:
            raise InvalidInput(
                f"Invalid order by field name: {order.field[:80]}. Only metrics are supported."
            )
        found = _latest_point(f"o{place}", name.strip("`"), order)
        sql, params = sql + found.sql, [*params, *found.params]
        terms += nulls_last(f"o{place}.value", ascending=order.ascending, kind="number")
    for name, ascending in (("creation_timestamp", False), ("model_id", True)):
        if name not in named:
            column, kind = _ATTRIBUTES[name]
            terms.append(Term(column, ascending=ascending, kind=kind))
    return Fragment(sql, tuple(params)), terms


def _latest_point(alias: str, key: str, order: LoggedSortKey) -> Fragment:
    parts = [Fragment("x.model_id = m.id"), Fragment("x.key = ?", (key,))]
    if order.dataset_name:
        parts.append(Fragment("x.dataset_name = ?", (order.dataset_name,)))
    if order.dataset_digest:
        parts.append(Fragment("x.dataset_digest = ?", (order.dataset_digest,)))
    where = join("AND", parts)
    return Fragment(
        f" LEFT JOIN logged_model_metrics {alias} ON {alias}.id = (SELECT x.id"
        f" FROM logged_model_metrics x WHERE {where.sql}"
        " ORDER BY x.time_ms DESC, x.step DESC, x.run_uuid LIMIT 1)",
        where.params,
    )
