"""MLflow's logging and metric-history routes: the hot path. Bodies are decoded straight into
typed columns.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from itertools import repeat
from math import isnan
from typing import Any

import msgspec
import numpy as np

from trackyard.access.principal import Principal
from trackyard.core.errors import InvalidInput, NotFound, YardError
from trackyard.core.strict_json import count_values
from trackyard.server.http.messages import RawJSON, Request, Response, read_json
from trackyard.server.routes.mlflow.shared import (
    Arguments,
    check_address,
    missing,
    mlflow_routes,
    one_run,
    require_json,
)
from trackyard.server.routes.mlflow.tracking import run_id_of
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.store.database import ReadConnection
from trackyard.tracking.metrics import history
from trackyard.tracking.metrics.ingest import (
    LogBatch,
    MetricIn,
    SingleMetric,
    check_limits,
    collect,
    decode_batch,
    decode_single,
)
from trackyard.tracking.metrics.model_metrics import (
    ModelPoint,
)
from trackyard.tracking.metrics.points import EMPTY, Points, by_step
from trackyard.tracking.runs import Metric, find_run

MAX_HISTORY = 25_000
MAX_BULK_RUNS = 100
MAX_INTERVAL = 2500
_OK = b"{}"
#: What a batch within MLflow's limits stays below: a thousand points of eight values.
ORDINARY_BYTES, ORDINARY_VALUES = 32 * 1024, 8000


class RunMetricPoint(msgspec.Struct, gc=False):
    """A point of one of several runs on the wire."""

    key: str
    value: float | str
    timestamp: int
    step: int
    run_id: str


class MetricRoutes:
    """Handlers of logging and histories."""

    def __init__(self, services: Services) -> None:
        self._tracking = services.tracking
        self._db = services.database

    # -- writing ----------------------------------------------------------------------------

    async def log_batch(self, request: Request) -> Response:
        """POST runs/log-batch."""
        require_json(request)
        batch = await _decoded(await request.body())
        run_id = one_run(batch.run_id, batch.run_uuid)
        check_address(request, {"run_id": run_id, "run_uuid": run_id})
        if not run_id:
            raise missing("run_id")
        check_limits(batch)
        await self._tracking.writes.log(
            request.principal,
            run_id,
            series=collect(batch.metrics),
            points=len(batch.metrics),
            params=[(pair.key, pair.value) for pair in batch.params],
            tags=[(pair.key, pair.value) for pair in batch.tags],
            model_points=_model_points(batch.metrics),
        )
        return RawJSON(_OK)

    async def log_metric(self, request: Request) -> Response:
        """POST runs/log-metric."""
        require_json(request)
        metric = decode_single(await request.body())
        run_id = one_run(metric.run_id, metric.run_uuid)
        check_address(request, {"run_id": run_id, "run_uuid": run_id})
        if not run_id:
            raise missing("run_id")
        await self._tracking.writes.log(
            request.principal,
            run_id,
            series=collect((metric,), prefix=""),
            points=1,
            model_points=_model_points([metric]),
        )
        return RawJSON(_OK)

    async def log_param(self, request: Request) -> Response:
        """POST runs/log-parameter."""
        args = await Arguments.of(request)
        run_id, key, value = run_id_of(args), args.need("key"), args.text("value", "") or ""
        await self._tracking.writes.log(request.principal, run_id, params=[(key, value)])
        return RawJSON(_OK)

    async def set_tag(self, request: Request) -> Response:
        """POST runs/set-tag."""
        args = await Arguments.of(request)
        run_id, key, value = run_id_of(args), args.need("key"), args.text("value", "") or ""
        await self._tracking.writes.log(request.principal, run_id, tags=[(key, value)])
        return RawJSON(_OK)

    async def delete_tag(self, request: Request) -> Response:
        """POST runs/delete-tag."""
        args = await Arguments.of(request)
        await self._tracking.writes.delete_tag(
            request.principal, run_id_of(args), args.need("key")
        )
        return RawJSON(_OK)

    async def log_model(self, request: Request) -> Response:
        """POST runs/log-model: a 2.x client's note of a model, kept as a list in a tag."""
        args = await Arguments.of(request)
        run_id, model_json = run_id_of(args), args.need("model_json")
        try:
            model = await read_json(model_json.encode("utf-8", "replace"))
        except YardError:
            model = None
        if not isinstance(model, dict):
            raise InvalidInput(
                f"Malformed model info. \n {model_json[:200]} \n is not a valid JSON."
            )
        missing_fields = {"artifact_path", "flavors", "utc_time_created", "run_id"} - set(model)
        if missing_fields:
            raise InvalidInput(f"Model json is missing mandatory fields: {sorted(missing_fields)}")
        await self._tracking.writes.note_model(request.principal, run_id, model)
        return RawJSON(_OK)

    # -- reading ----------------------------------------------------------------------------

    async def get_history(self, request: Request) -> Response:
        """GET metrics/get-history."""
        args, principal = await Arguments.of(request), request.principal
        run_id, key = run_id_of(args), args.need("metric_key")
        limit = args.integer("max_results")
        if limit is not None and limit < 1:
            raise InvalidInput("max_results must be 1 or more")
        offset = _offset_of(args.text("page_token"))

        def load(reader: ReadConnection) -> bytes:
            points = self._points(reader, principal, run_id, key)
            end = len(points) if limit is None else min(offset + limit, len(points))
            shaped: dict[str, Any] = {}
            if end > offset:
                shaped["metrics"] = _metrics(key, points.take(slice(offset, end)))
            if end < len(points):
                shaped["next_page_token"] = _token_at(end)
            return msgspec.json.encode(shaped)

        return RawJSON(await self._db.read(load))

    async def get_history_bulk(self, request: Request) -> Response:
        """GET metrics/get-history-bulk: one metric of many runs, sorted by run."""
        args, principal = await Arguments.of(request), request.principal
        run_ids, key = args.texts("run_id"), args.text("metric_key")
        if not run_ids:
            raise InvalidInput("GetMetricHistoryBulk request must specify at least one run_id.")
        if len(run_ids) > MAX_BULK_RUNS:
            raise InvalidInput(
                f"GetMetricHistoryBulk request cannot specify more than {MAX_BULK_RUNS} run_ids."
                f" Received {len(run_ids)} run_ids."
            )
        if not key:
            raise InvalidInput("GetMetricHistoryBulk request must specify a metric_key.")
        limit = min(args.integer("max_results", MAX_HISTORY) or MAX_HISTORY, MAX_HISTORY)

        def load(reader: ReadConnection) -> bytes:
            found: list[RunMetricPoint] = []
            for run_id in sorted(set(run_ids)):
                room = limit - len(found)
                if room <= 0:
                    break
                points = self._points(reader, principal, run_id, key)
                found.extend(_run_metrics(run_id, key, points.take(slice(0, room))))
            return msgspec.json.encode({"metrics": found})

        return RawJSON(await self._db.read(load))

    async def get_history_interval(self, request: Request) -> Response:
        """GET metrics/get-history-bulk-interval: samples of one metric of many runs."""
        args, principal = await Arguments.of(request), request.principal
        run_ids, key = args.texts("run_ids"), args.need("metric_key")
        if not run_ids:
            raise missing("run_ids")
        if len(run_ids) > MAX_BULK_RUNS:
            raise InvalidInput(
                f"GetMetricHistoryBulkInterval request must specify at most {MAX_BULK_RUNS}"
                f" run_ids. Received {len(run_ids)} run_ids."
            )
        limit = args.integer("max_results", MAX_INTERVAL)
        if limit is None or not 1 <= limit <= MAX_INTERVAL:
            raise InvalidInput(f"max_results must be between 1 and {MAX_INTERVAL}.")
        span = _span_of(args)

        def load(reader: ReadConnection) -> bytes:
            found: list[RunMetricPoint] = []
            for run_id in run_ids:
                points = self._points(reader, principal, run_id, key, span=span, in_steps=True)
                found.extend(_run_metrics(run_id, key, history.sample(points, limit)))
            return msgspec.json.encode({"metrics": found})

        return RawJSON(await self._db.read(load))

    def _points(
        self,
        reader: ReadConnection,
        principal: Principal,
        run_id: str,
        key: str,
        *,
        span: tuple[int, int] | None = None,
        in_steps: bool = False,
    ) -> Points:
        try:
            run = find_run(reader, principal, run_id)
        except NotFound:
            # MLflow answers a history of an unknown run with no points, and clients rely on it.
            return EMPTY
        name_id = self._tracking.names.find(reader, key)
        if name_id is None:
            return EMPTY
        if in_steps:
            return by_step(history.load(reader, run.id, name_id, span=span))
        return history.history(reader, run.id, name_id)


async def _decoded(raw: bytes) -> LogBatch:
    """Decode a batch; one that holds more than MLflow allows is not looked at on the loop."""
    if len(raw) <= ORDINARY_BYTES or count_values(raw) <= ORDINARY_VALUES:
        return decode_batch(raw)
    return await asyncio.get_running_loop().run_in_executor(None, decode_batch, raw)


def _model_points(metrics: list[Any] | list[MetricIn]) -> list[ModelPoint]:
    """Return the points that name a logged model."""
    return [
        ModelPoint(
            metric.model_id,
            metric.key,
            metric.step,
            metric.timestamp,
            float(metric.value),
            metric.dataset_name,
            metric.dataset_digest,
        )
        for metric in metrics
        if metric.model_id
    ]


def _metrics(key: str, points: Points) -> list[Metric]:
    values: list[Any] = points.values.tolist()
    if np.isnan(points.values).any():
        values = ["NaN" if isnan(value) else value for value in values]
    keys = repeat(key, len(points))
    return list(map(Metric, keys, values, points.times.tolist(), points.steps.tolist()))


def _run_metrics(run_id: str, key: str, points: Points) -> list[RunMetricPoint]:
    return [
        RunMetricPoint(m.key, m.value, m.timestamp, m.step, run_id) for m in _metrics(key, points)
    ]


def _token_at(offset: int) -> str:
    return base64.b64encode(msgspec.json.encode({"offset": offset})).decode()


def _offset_of(token: str | None) -> int:
    if not token:
        return 0
    try:
        offset = msgspec.json.decode(base64.b64decode(token, validate=True))["offset"]
    except (binascii.Error, msgspec.DecodeError, KeyError, TypeError, ValueError, RecursionError):
        offset = None
    if not isinstance(offset, int) or offset < 0:
        raise InvalidInput(
            "Invalid page token: pass the next_page_token of the page before, unchanged"
        )
    return offset


def _span_of(args: Arguments) -> tuple[int, int] | None:
    start, end = args.integer("start_step"), args.integer("end_step")
    if (start is None) != (end is None):
        raise InvalidInput(
            "If either start step or end step are specified, both must be specified."
        )
    if start is None or end is None:
        return None
    if start > end:
        raise InvalidInput(
            f"end_step must be greater than start_step. Found start_step={start} and"
            f" end_step={end}."
        )
    return start, end


def routes(services: Services) -> list[Route]:
    """Return MLflow's logging and history routes."""
    do = MetricRoutes(services)
    read, write = Permission.READ, Permission.LOG
    table = [
        ("POST", "runs/log-batch", do.log_batch, write),
        ("POST", "runs/log-metric", do.log_metric, write),
        ("POST", "runs/log-parameter", do.log_param, write),
        ("POST", "runs/set-tag", do.set_tag, write),
        ("POST", "runs/delete-tag", do.delete_tag, write),
        ("POST", "runs/log-model", do.log_model, write),
        ("GET", "metrics/get-history", do.get_history, read),
        ("GET", "metrics/get-history-bulk", do.get_history_bulk, read),
        ("GET", "metrics/get-history-bulk-interval", do.get_history_interval, read),
    ]
    typed = {"runs/log-batch": LogBatch, "runs/log-metric": SingleMetric}
    return [
        route
        for method, path, handler, permission in table
        for route in mlflow_routes(
            method, path, handler, permission, attempts=True, takes=typed.get(path)
        )
    ]
