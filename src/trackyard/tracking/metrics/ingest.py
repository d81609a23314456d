"""Metric, parameter and tag ingest: from request bytes to rows in one pass. The hot path of
the platform.

Owns MLflow's batch rules. A batch is one write: parameters are checked first, then all of it
lands or none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from math import isnan
from operator import itemgetter
from typing import Annotated, Any, NamedTuple, TypeGuard

import msgspec

from trackyard.access.principal import Principal
from trackyard.core.errors import InvalidInput
from trackyard.core.strict_json import MAX_VALUES, check_twins, count_values, too_deep
from trackyard.store.bounds import Int64, Line, Text, Word
from trackyard.store.database import Tx
from trackyard.store.sqlite.journal import INSERT_POINTS, UPSERT_LATEST
from trackyard.tracking.job_runs import MACHINE_ATTEMPT, note_resume
from trackyard.tracking.metrics.log_rows import pack_log
from trackyard.tracking.names import Names
from trackyard.tracking.runs import (
    RUN_NAME_TAG,
    Metric,
    RunRow,
    find_active_run,
    record,
    write_tags,
)
from trackyard.tracking.validation import (
    MAX_ENTITIES_PER_BATCH,
    MAX_METRICS_PER_BATCH,
    MAX_PARAM,
    MAX_PARAMS_PER_BATCH,
    MAX_TAGS_PER_BATCH,
    check_name,
    check_run_name,
    clip,
    integer,
    is_known_name,
    number,
)

#: name -> steps, times, values of one batch
Series = dict[str, tuple[Sequence[int], Sequence[int], Sequence[float]]]
#: name id, steps, times, values
Stretch = tuple[int, Sequence[int], Sequence[int], Sequence[float]]


class MetricIn(msgspec.Struct, gc=False):
    """A metric point as a client sends it."""

    key: Line
    value: float | Word
    timestamp: Int64
    step: Int64 = 0
    model_id: Word | None = None
    dataset_name: Line | None = None
    dataset_digest: Word | None = None


class KeyValue(msgspec.Struct, gc=False):
    """A parameter or tag as a client sends it."""

    key: Line
    value: Text = ""


class LogBatch(msgspec.Struct):
    """The body of log-batch; how many it may hold is MLflow's to say, and `check_limits` does."""

    run_id: Word = ""
    run_uuid: Word = ""
    metrics: Annotated[list[MetricIn], msgspec.Meta(max_length=MAX_VALUES)] = []
    params: Annotated[list[KeyValue], msgspec.Meta(max_length=MAX_VALUES)] = []
    tags: Annotated[list[KeyValue], msgspec.Meta(max_length=MAX_VALUES)] = []


class SingleMetric(MetricIn, gc=False):
    """The body of log-metric."""

    run_id: Word = ""
    run_uuid: Word = ""


_encode = msgspec.json.Encoder().encode
_batch_decoder = msgspec.json.Decoder(LogBatch)
_single_decoder = msgspec.json.Decoder(SingleMetric)


def decode_batch(raw: bytes) -> LogBatch:
    """Read log-batch's body; the careful path runs only for what the quick one refuses."""
    count_values(raw)
    try:
        batch = _batch_decoder.decode(raw)
    except RecursionError:
        raise too_deep() from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _careful_batch(_loose_json(raw))
    _check_named_once(raw)
    return batch


def decode_single(raw: bytes) -> SingleMetric:
    """Read log-metric's body."""
    try:
        single = _single_decoder.decode(raw)
    except RecursionError:
        raise too_deep() from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        body = _loose_json(raw)
        metric = _careful_metric(body, "")
        return SingleMetric(
            key=metric.key,
            value=metric.value,
            timestamp=metric.timestamp,
            step=metric.step,
            model_id=metric.model_id,
            dataset_name=metric.dataset_name,
            dataset_digest=metric.dataset_digest,
            run_id=_text(body, "run_id"),
            run_uuid=_text(body, "run_uuid"),
        )
    _check_named_once(raw)
    return single


def _check_named_once(raw: bytes) -> None:
    """Refuse a body that names two runs; a full look is taken only where one might hide."""
    if raw.count(b'"run_id"') > 1 or b"\\u" in raw:
        check_twins(raw)


def collect(metrics: Sequence[MetricIn], *, prefix: str = "metrics[{}].") -> Series:
    """Group a batch's points by name, checking each name and value.

    Columns are taken whole and split by position: a loop that appends point by point costs twice.
    """
    sent = [metric.value for metric in metrics]
    values = (
        sent
        if _all_floats(sent)
        else [number(value, prefix.format(at) + "value") for at, value in enumerate(sent)]
    )
    steps = [metric.step for metric in metrics]
    times = [metric.timestamp for metric in metrics]
    keys = [metric.key for metric in metrics]
    names = list(dict.fromkeys(keys))
    new = [key for key in names if not is_known_name(key)]
    if new:
        first = {key: at for at, key in reversed(list(enumerate(keys)))}
        for key in new:
            check_name(key, prefix.format(first[key]) + "key")
    if len(names) < 2:
        return dict.fromkeys(names, (steps, times, values))
    return _evenly(names, keys, steps, times, values) or _by_place(keys, steps, times, values)


def _evenly(
    names: list[str], keys: list[str], steps: list[int], times: list[int], values: list[float]
) -> Series | None:
    """Split a batch in which every name has as many points, one after the other or in turns."""
    count = len(names)
    length, rest = divmod(len(keys), count)
    if rest:
        return None
    if length == 1 or keys == names * length:
        cuts = [slice(at, None, count) for at in range(count)]
    elif keys == [name for name in names for _ in range(length)]:
        cuts = [slice(at, at + length) for at in range(0, len(keys), length)]
    else:
        return None
    return {
        name: (steps[cut], times[cut], values[cut]) for name, cut in zip(names, cuts, strict=True)
    }


def _by_place(keys: list[str], steps: list[int], times: list[int], values: list[float]) -> Series:
    """Split a batch in any order."""
    places: dict[str, list[int]] = {}
    for position, key in enumerate(keys):
        found = places.get(key)
        if found is None:
            places[key] = [position]
        else:
            found.append(position)
    series: Series = {}
    for key, chosen in places.items():
        if len(chosen) == 1:
            at = chosen[0]
            series[key] = ((steps[at],), (times[at],), (values[at],))
        else:
            pick = itemgetter(*chosen)
            series[key] = (pick(steps), pick(times), pick(values))
    return series


def _all_floats(values: list[float | str]) -> TypeGuard[list[float]]:
    """Tell whether nothing needs a second look: JSON numbers are finite once they were decoded."""
    return set(map(type, values)) <= {float}


def check_limits(batch: LogBatch) -> None:
    """Refuse a batch over MLflow's limits."""
    counts = (
        ("metrics", len(batch.metrics), MAX_METRICS_PER_BATCH),
        ("params", len(batch.params), MAX_PARAMS_PER_BATCH),
        ("tags", len(batch.tags), MAX_TAGS_PER_BATCH),
    )
    for what, count, limit in counts:
        if count > limit:
            raise InvalidInput(
                f"A batch logging request can contain at most {limit} {what}. Got {count} {what}."
                f" Please split up {what} across multiple requests and try again."
            )
    total = sum(count for _, count, _ in counts)
    if total > MAX_ENTITIES_PER_BATCH:
        raise InvalidInput(
            f"A batch logging request can contain at most {MAX_ENTITIES_PER_BATCH} entities"
            f" (metrics, params and tags together). Got {total}."
        )


def write_batch(
    tx: Tx,
    names: Names,
    principal: Principal,
    run_id: str,
    *,
    series: Series,
    params: Sequence[tuple[str, str]] = (),
    tags: Sequence[tuple[str, str]] = (),
) -> RunRow:
    """Write a checked batch to a run; return what was known of the run."""
    run = find_active_run(tx, principal, run_id)
    fresh = _new_params(tx, names, run.id, run_id, params) if params else []
    if fresh:
        tx.many("INSERT INTO params (run_id, name_id, value) VALUES (?, ?, ?)", fresh)
    if series:
        _write_points(tx, names, principal, run.id, series)
    if tags:
        write_tags(tx, names, run.id, tags)
        for key, value in tags:
            if key == RUN_NAME_TAG:
                tx.run("UPDATE runs SET name = ? WHERE id = ?", (check_run_name(value), run.id))
    if fresh or tags:
        record_logged(tx, principal, run_id, run.experiment_id, params=params, tags=tags)
    return run


def record_logged(
    tx: Tx,
    principal: Principal,
    run_id: str,
    experiment_id: int,
    *,
    params: Sequence[tuple[str, str]],
    tags: Sequence[tuple[str, str]],
) -> None:
    """Append the event of logged parameters and tags, by name alone."""
    named = [key for key, _ in params]
    tagged = [key for key, _ in tags]
    record(tx, "run.logged", principal, run_id, experiment_id, params=named, tags=tagged)


class PointRows(NamedTuple):
    """A batch's points as rows: packed for the log, and the latest of each metric."""

    packed: list[Stretch]
    latest: list[tuple[Any, ...]]
    points: int


def point_rows(inner: int, series: Series, name_ids: Sequence[int]) -> PointRows:
    """Return the rows of a checked batch; `name_ids` follow the order of its names."""
    packed, latest, count = [], [], 0
    for (name, (steps, times, values)), name_id in zip(series.items(), name_ids, strict=True):
        packed.append((name_id, steps, times, values))
        count += len(steps)
        summary = _summary(steps, times, values)
        latest.append((inner, name_id, *summary, wire_form(name, *summary[:3])))
    if len(latest) > 1:
        latest.sort()
    return PointRows(packed, latest, count)


def _write_points(tx: Tx, names: Names, principal: Principal, inner: int, series: Series) -> None:
    scope = principal.scope
    attempt, rank = (scope.attempt, scope.rank) if scope is not None else (0, 0)
    rows = point_rows(inner, series, names.ids(tx, series))
    if 1 < attempt < MACHINE_ATTEMPT:
        first = [
            (number, name, min(steps))
            for (number, steps, _, _), name in zip(rows.packed, series, strict=True)
        ]
        note_resume(tx, inner, attempt, first, actor=principal.name)
    tx.insert(INSERT_POINTS, (inner, attempt, rank, rows.points, pack_log(rows.packed)))
    tx.many(UPSERT_LATEST, rows.latest)


def wire_form(name: str, step: int, time_ms: int, value: float | None) -> str:
    """Return a metric's latest point as the JSON that clients get."""
    shown = "NaN" if value is None else value
    return _encode(Metric(name, shown, time_ms, step)).decode()


def _summary(
    steps: Sequence[int], times: Sequence[int], values: Sequence[float]
) -> tuple[int, int, float | None, float | None, float | None]:
    """Return the latest point of a stretch with its least and greatest value; None is NaN."""
    if len(steps) == 1:
        value = values[0]
        if isnan(value):
            return steps[0], times[0], None, None, None
        return steps[0], times[0], value, value, value
    least, most = min(values), max(values)
    if isnan(sum(values)) or isnan(least) or isnan(most):
        return _summary_with_nan(steps, times, values)
    top = max(steps)
    if steps[-1] == top and steps.count(top) == 1:
        return top, times[-1], values[-1], least, most
    step, time_ms, last = max(zip(steps, times, values, strict=True))
    return step, time_ms, last, least, most


def _summary_with_nan(
    steps: Sequence[int], times: Sequence[int], values: Sequence[float]
) -> tuple[int, int, float | None, float | None, float | None]:
    """Return the same where NaN is among the values; it compares as 0 and has no extremes."""
    real = [value for value in values if not isnan(value)]
    step, time_ms, _, position = max(
        (step, time_ms, 0.0 if isnan(value) else value, position)
        for position, (step, time_ms, value) in enumerate(zip(steps, times, values, strict=True))
    )
    value = values[position]
    shown = None if isnan(value) else value
    if not real:
        return step, time_ms, shown, None, None
    return step, time_ms, shown, min(real), max(real)


def _new_params(
    tx: Tx, names: Names, inner: int, run_id: str, params: Sequence[tuple[str, str]]
) -> list[tuple[int, int, str]]:
    """Return the parameters that are not there yet; one with another value is refused."""
    wanted = checked_params(params)
    rows = {names.id(tx, key): (key, value) for key, value in wanted.items()}
    marks = ",".join("?" * len(rows))
    stored = tx.all(
        f"SELECT name_id, value FROM params WHERE run_id = ? AND name_id IN ({marks})",
        (inner, *rows),
    )
    return [(inner, name_id, value) for name_id, value in fresh_params(run_id, rows, stored)]


def checked_params(params: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return a batch's parameters, each named once and with a value of lawful length."""
    wanted: dict[str, str] = {}
    for position, (key, value) in enumerate(params):
        check_name(key, f"params[{position}].key")
        if key in wanted and wanted[key] != value:
            raise InvalidInput(
                f"Duplicate parameter keys have been submitted: {key!r}. Please ensure the request"
                " contains only one param value per param key."
            )
        wanted[key] = clip(value, MAX_PARAM)
    if len(wanted) != len(params):
        doubled = sorted({key for key, _ in params if sum(k == key for k, _ in params) > 1})
        raise InvalidInput(
            f"Duplicate parameter keys have been submitted: {doubled}. Please ensure the request"
            " contains only one param value per param key."
        )
    return wanted


def fresh_params(
    run_id: str, rows: dict[int, tuple[str, str]], stored: Iterable[tuple[int, str]]
) -> list[tuple[int, str]]:
    """Return id and value of the parameters that are new; `stored` are those already there."""
    changed = []
    for name_id, before in stored:
        key, value = rows.pop(name_id)
        if before != value:
            changed.append({"key": key, "old_value": before, "new_value": value})
    if changed:
        raise InvalidInput(
            "Changing param values is not allowed. Param"
            + (
                f" with key='{changed[0]['key']}' was already logged with"
                f" value='{changed[0]['old_value']}' for run ID='{run_id}'. Attempted logging new"
                f" value '{changed[0]['new_value']}'."
                if len(changed) == 1
                else f"s were already logged='{changed}' for run ID='{run_id}'."
            )
        )
    return [(name_id, value) for name_id, (_, value) in rows.items()]


# -- the careful path -------------------------------------------------------------------------


def _loose_json(raw: bytes) -> dict[str, Any]:
    """Read JSON as Python does: NaN and Infinity literals allowed, as clients send them."""
    body = check_twins(raw) if raw else {}
    if isinstance(body, str):
        body = check_twins(body.encode())
    if not isinstance(body, dict):
        raise InvalidInput("the body must be a JSON object")
    return body


def _careful_batch(body: dict[str, Any]) -> LogBatch:
    return LogBatch(
        run_id=_text(body, "run_id"),
        run_uuid=_text(body, "run_uuid"),
        metrics=[
            _careful_metric(item, f"metrics[{position}].")
            for position, item in enumerate(_list(body, "metrics"))
        ],
        params=_pairs(body, "params"),
        tags=_pairs(body, "tags"),
    )


def _careful_metric(item: dict[str, Any], prefix: str) -> MetricIn:
    for field in ("key", "value", "timestamp"):
        if item.get(field) is None:
            raise InvalidInput(
                f"Missing value for required parameter '{prefix}{field}'. See the API docs for"
                f" more"
                " information about request parameters."
            )
    if not isinstance(item["key"], str):
        raise InvalidInput(
            f"Invalid value {json.dumps(item['key'])[:200]} for parameter '{prefix}key' supplied:"
            " a metric's name is a string"
        )
    step = item.get("step")
    return MetricIn(
        key=item["key"],
        value=number(item["value"], f"{prefix}value"),
        timestamp=integer(item["timestamp"], f"{prefix}timestamp"),
        step=0 if step is None else integer(step, f"{prefix}step"),
        model_id=_text(item, "model_id") or None,
        dataset_name=_text(item, "dataset_name") or None,
        dataset_digest=_text(item, "dataset_digest") or None,
    )


def _pairs(body: dict[str, Any], name: str) -> list[KeyValue]:
    found = []
    for position, item in enumerate(_list(body, name)):
        key, value = item.get("key"), item.get("value")
        if not isinstance(key, str):
            raise InvalidInput(
                f"Missing value for required parameter '{name}[{position}].key'. See the API docs"
                " for more information about request parameters."
            )
        if value is not None and not isinstance(value, str):
            raise InvalidInput(
                f"Invalid value {json.dumps(value)[:200]} for parameter '{name}[{position}].value'"
                " supplied. See the API docs for more information about request parameters."
            )
        found.append(KeyValue(key=key, value=value or ""))
    return found


def _list(body: dict[str, Any], name: str) -> list[dict[str, Any]]:
    value = body.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise InvalidInput(
            f"Invalid value {json.dumps(value)[:200]} for parameter '{name}' supplied. See the API"
            " docs for more information about request parameters."
        )
    return value


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidInput(
            f"Invalid value {json.dumps(value)[:200]} for parameter '{name}' supplied. See the API"
            " docs for more information about request parameters."
        )
    return value
