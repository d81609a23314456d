"""MLflow's routes of traces: logging and reading them, tags, assessments, and OpenTelemetry's
spans over OTLP/HTTP.
"""

from __future__ import annotations

import asyncio
import zlib
from functools import partial
from typing import Any

from trackyard.artifacts.service import forget_owner
from trackyard.core.errors import InvalidInput, TooLarge
from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.routes.mlflow.shared import PREFIXES, Arguments, missing, mlflow_routes
from trackyard.server.routing import Handler, Permission, Route
from trackyard.server.services import Services
from trackyard.store.database import ReadConnection
from trackyard.store.transaction import FEW_ROWS
from trackyard.tracking.experiments import inner_experiment_id
from trackyard.tracking.search.traces import TRACES_DEFAULT, find_traces
from trackyard.tracking.traces import assessments, statistics, traces
from trackyard.tracking.traces.spans import read_export
from trackyard.tracking.traces.wire import read_info

PREFIXES_3 = ("/api/3.0/mlflow/", "/ajax-api/3.0/mlflow/")
MAX_BATCH = 100
OTLP_BYTES = 32 * 1024 * 1024
#: Traces that one commit deletes.
DELETED_AT_ONCE = 25
_EMPTY: dict[str, Any] = {}


class TraceRoutes:
    """Handlers of traces."""

    def __init__(self, services: Services) -> None:
        self._db = services.database

    async def start(self, request: Request) -> Response:
        """POST traces: a trace as its client describes it, which is at its end."""
        args, principal = await Arguments.of(request), request.principal
        trace = args.raw("trace")
        if not isinstance(trace, dict):
            raise missing("trace")
        info = read_info(trace.get("trace_info"))
        rows = len(info.tags) + len(info.metadata)
        made = await self._db.write(
            lambda tx: traces.log(tx, principal, info), is_long=rows > FEW_ROWS
        )
        return JSONResponse({"trace": {"trace_info": made}})

    async def info(self, request: Request) -> Response:
        """GET traces/{trace_id}: a trace without its spans."""
        trace_id, principal = request.params["trace_id"], request.principal

        def query(reader: ReadConnection) -> dict[str, Any]:
            traces.find(reader, principal, trace_id)
            return traces.load(reader, principal, [trace_id])[0]

        return JSONResponse({"trace": {"trace_info": await self._db.peek(query)}})

    async def get(self, request: Request) -> Response:
        """GET traces/get: a trace with its spans."""
        args = await Arguments.of(request)
        trace_id = args.need("trace_id")
        found = await self._whole(request, [trace_id], must_exist=True)
        return JSONResponse({"trace": found[0]})

    async def batch_get(self, request: Request) -> Response:
        """GET traces/batchGet: some traces with their spans."""
        found = await self._whole(request, await self._ids(request))
        return JSONResponse({"traces": found} if found else _EMPTY)

    async def batch_infos(self, request: Request) -> Response:
        """GET traces/batchGetInfos: some traces without their spans."""
        ids, principal = await self._ids(request), request.principal
        found = await self._db.read(lambda reader: traces.load(reader, principal, ids))
        return JSONResponse({"trace_infos": found} if found else _EMPTY)

    async def _ids(self, request: Request) -> list[str]:
        ids = (await Arguments.of(request)).texts("trace_ids")
        if len(ids) > MAX_BATCH:
            raise InvalidInput(f"at most {MAX_BATCH} traces are read at once, not {len(ids)}")
        return ids

    async def _whole(
        self, request: Request, ids: list[str], *, must_exist: bool = False
    ) -> list[dict[str, Any]]:
        principal = request.principal

        def query(reader: ReadConnection) -> list[dict[str, Any]]:
            if must_exist:
                traces.find(reader, principal, ids[0])
            found = traces.load(reader, principal, ids)
            whole = []
            for info in found:
                spans = traces.load_spans(reader, info["trace_id"])
                whole.append({"trace_info": info, **({"spans": spans} if spans else {})})
            return whole

        return await self._db.read(query)

    async def search(self, request: Request) -> Response:
        """POST traces/search."""
        args, principal = await Arguments.of(request), request.principal
        experiments = [
            inner_experiment_id(principal, _experiment_of(place))
            for place in args.objects("locations")
        ] or [inner_experiment_id(principal, one) for one in args.texts("experiment_ids")]
        limit = args.integer("max_results")

        def query(reader: ReadConnection) -> dict[str, Any]:
            ids, token = find_traces(
                reader,
                principal.team_id,
                experiments=experiments,
                filter_text=args.text("filter"),
                order_by=args.texts("order_by"),
                max_results=TRACES_DEFAULT if limit is None else limit,
                page_token=args.text("page_token"),
            )
            found = traces.load(reader, principal, ids)
            answer: dict[str, Any] = {"traces": found} if found else {}
            return {**answer, "next_page_token": token} if token else answer

        return JSONResponse(await self._db.read(query))

    async def correlation(self, request: Request) -> Response:
        """POST traces/calculate-filter-correlation: how far two filters go together."""
        args, principal = await Arguments.of(request), request.principal
        chosen = [inner_experiment_id(principal, one) for one in args.texts("experiment_ids")]
        filters = (args.need("filter_string1"), args.need("filter_string2"))
        found = await self._db.read(
            lambda reader: statistics.correlate(
                reader, principal.team_id, chosen, filters, args.text("base_filter")
            )
        )
        return JSONResponse(found)

    async def metrics(self, request: Request) -> Response:
        """POST traces/metrics: counts, latencies and tokens by group and by time."""
        args, principal = await Arguments.of(request), request.principal
        chosen = [inner_experiment_id(principal, one) for one in args.texts("experiment_ids")]
        question = statistics.read_question(
            view=args.raw("view_type"),
            metric=args.need("metric_name"),
            aggregations=args.objects("aggregations"),
            dimensions=args.texts("dimensions"),
            filters=args.texts("filters"),
            interval_seconds=args.integer("time_interval_seconds"),
            start_ms=args.integer("start_time_ms"),
            end_ms=args.integer("end_time_ms"),
        )
        most = statistics.MOST_POINTS
        limit = min(args.integer("max_results", most) or most, most)
        start = args.integer("page_token", 0) or 0
        points = await self._db.read(
            lambda reader: statistics.query(reader, principal.team_id, chosen, question)
        )
        answer: dict[str, Any] = {"data_points": points[start : start + limit]}
        if start + limit < len(points):
            answer["next_page_token"] = str(start + limit)
        return JSONResponse(answer)

    async def delete(self, request: Request) -> Response:
        """POST traces/delete-traces."""
        args, principal = await Arguments.of(request), request.principal
        experiment = inner_experiment_id(principal, args.need("experiment_id"))
        found = await self._db.read(
            partial(
                traces.find_deleted,
                principal=principal,
                experiment=experiment,
                trace_ids=args.texts("request_ids"),
                until_ms=args.integer("max_timestamp_millis"),
                most=args.integer("max_traces"),
            )
        )
        count = 0
        # Their spans go with them, thousands perhaps: each part has a commit of its own.
        for at in range(0, len(found), DELETED_AT_ONCE):
            count += await self._db.write(
                partial(
                    traces.delete,
                    principal=principal,
                    experiment=experiment,
                    trace_ids=found[at : at + DELETED_AT_ONCE],
                    forget=forget_owner,
                ),
                frees=True,
                is_long=True,
            )
        return JSONResponse({"traces_deleted": count})

    async def set_tag(self, request: Request) -> Response:
        """PATCH traces/{trace_id}/tags."""
        args, principal = await Arguments.of(request), request.principal
        trace_id, key, value = request.params["trace_id"], args.need("key"), args.text("value")
        await self._db.write(lambda tx: traces.set_tag(tx, principal, trace_id, key, value or ""))
        return JSONResponse(_EMPTY)

    async def delete_tag(self, request: Request) -> Response:
        """DELETE traces/{trace_id}/tags."""
        args, principal = await Arguments.of(request), request.principal
        trace_id, key = request.params["trace_id"], args.need("key")
        await self._db.write(lambda tx: traces.delete_tag(tx, principal, trace_id, key))
        return JSONResponse(_EMPTY)

    async def link_to_run(self, request: Request) -> Response:
        """POST traces/link-to-run."""
        args, principal = await Arguments.of(request), request.principal
        ids, run_id = args.texts("trace_ids"), args.need("run_id")
        await self._db.write(
            lambda tx: traces.link_to_run(tx, principal, ids, run_id), is_long=len(ids) > FEW_ROWS
        )
        return JSONResponse(_EMPTY)

    # -- OpenTelemetry ----------------------------------------------------------------------

    async def export(self, request: Request) -> Response:
        """POST /v1/traces: spans over OTLP, into the experiment that a header names."""
        kind = (request.header("content-type") or "").split(";", 1)[0].strip().lower()
        if kind not in ("application/x-protobuf", "application/json"):
            raise InvalidInput(
                f"Invalid Content-Type: {kind[:80]}. Expected: application/x-protobuf or"
                " application/json"
            )
        principal = request.principal
        text = request.header("x-mlflow-experiment-id")
        if not text:
            raise InvalidInput("send the header x-mlflow-experiment-id with an experiment's id")
        experiment = inner_experiment_id(principal, text)
        run_id = (request.header("x-mlflow-run-id") or "")[:1000]
        body = await request.body(may_be_packed=True)
        found = await asyncio.get_running_loop().run_in_executor(
            None, partial(_read, body, request.header("content-encoding"), kind)
        )
        # A span that is sent again replaces itself, so that each part may have its own commit.
        for part in traces.in_parts(found) or [[]]:
            await self._db.write(
                partial(
                    traces.add_spans,
                    principal=principal,
                    experiment=experiment,
                    traces=part,
                    run_id=run_id,
                ),
                is_long=sum(len(one.spans) for one in part) > FEW_ROWS,
            )
        if kind == "application/json":
            return JSONResponse(_EMPTY)
        return Response(content_type=kind)


class AssessmentRoutes:
    """Handlers of assessments."""

    def __init__(self, services: Services) -> None:
        self._db = services.database

    async def create(self, request: Request) -> Response:
        """POST traces/{trace_id}/assessments."""
        args, principal = await Arguments.of(request), request.principal
        trace_id, given = request.params["trace_id"], args.raw("assessment")
        made = await self._db.write(lambda tx: assessments.create(tx, principal, trace_id, given))
        return JSONResponse({"assessment": made})

    async def get(self, request: Request) -> Response:
        """GET traces/{trace_id}/assessments/{assessment_id}."""
        trace_id, wanted = request.params["trace_id"], request.params["assessment_id"]
        found = await self._db.peek(
            lambda reader: assessments.get(reader, request.principal, trace_id, wanted)
        )
        return JSONResponse({"assessment": found})

    async def update(self, request: Request) -> Response:
        """PATCH traces/{trace_id}/assessments/{assessment_id}."""
        args, principal = await Arguments.of(request), request.principal
        fields = [name for name in (args.text("update_mask") or "").split(",") if name]
        trace_id, wanted = request.params["trace_id"], request.params["assessment_id"]
        given = args.raw("assessment")
        found = await self._db.write(
            lambda tx: assessments.update(
                tx, principal, trace_id, wanted, given=given, fields=fields
            )
        )
        return JSONResponse({"assessment": found})

    async def delete(self, request: Request) -> Response:
        """DELETE traces/{trace_id}/assessments/{assessment_id}."""
        trace_id, wanted = request.params["trace_id"], request.params["assessment_id"]
        principal = request.principal
        await self._db.write(lambda tx: assessments.delete(tx, principal, trace_id, wanted))
        return JSONResponse(_EMPTY)


def _experiment_of(place: dict[str, Any]) -> str:
    inner = place.get("mlflow_experiment")
    found = inner.get("experiment_id") if isinstance(inner, dict) else None
    if not isinstance(found, str):
        raise InvalidInput("each of `locations` names an `mlflow_experiment` by its id")
    return found


def _read(body: bytes, packing: str | None, kind: str) -> Any:
    """Unpack and decode an export; off the event loop, as it may be long."""
    if packing and packing.lower() != "identity":
        if packing.lower() not in ("gzip", "deflate"):
            raise InvalidInput(f"Unsupported Content-Encoding: {packing[:40]}")
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
        try:
            body = unpacker.decompress(body, OTLP_BYTES)
        except zlib.error:
            raise InvalidInput(f"Failed to decompress {packing[:40]} payload") from None
        if unpacker.unconsumed_tail:
            raise TooLarge(f"the body unpacks to more than {OTLP_BYTES} bytes")
    return read_export(body, is_json=kind == "application/json")


def routes(services: Services) -> list[Route]:
    """Return the routes of traces."""
    do, judge = TraceRoutes(services), AssessmentRoutes(services)
    read, log, curate = Permission.READ, Permission.LOG, Permission.CURATE
    both = (*PREFIXES, *PREFIXES_3)
    one = "traces/{trace_id}"
    table: list[tuple[str, str, Handler, Permission, bool, tuple[str, ...]]] = [
        ("POST", "traces", do.start, log, True, PREFIXES_3),
        ("GET", "traces/get", do.get, read, True, PREFIXES_3),
        ("GET", "traces/batchGet", do.batch_get, read, True, PREFIXES_3),
        ("GET", "traces/batchGetInfos", do.batch_infos, read, True, PREFIXES_3),
        ("POST", "traces/search", do.search, read, True, PREFIXES_3),
        ("POST", "traces/metrics", do.metrics, read, True, PREFIXES_3),
        ("POST", "traces/calculate-filter-correlation", do.correlation, read, True, PREFIXES_3),
        ("POST", "traces/delete-traces", do.delete, curate, False, both),
        ("POST", "traces/link-to-run", do.link_to_run, log, True, both),
        ("GET", one, do.info, read, True, PREFIXES_3),
        ("PATCH", one + "/tags", do.set_tag, log, True, both),
        ("DELETE", one + "/tags", do.delete_tag, log, True, both),
        ("POST", one + "/assessments", judge.create, log, True, PREFIXES_3),
        ("GET", one + "/assessments/{assessment_id}", judge.get, read, True, PREFIXES_3),
        ("PATCH", one + "/assessments/{assessment_id}", judge.update, log, True, PREFIXES_3),
        ("DELETE", one + "/assessments/{assessment_id}", judge.delete, log, True, PREFIXES_3),
    ]
    found = [
        route
        for method, path, handler, permission, attempts, prefixes in table
        for route in mlflow_routes(
            method, path, handler, permission, attempts=attempts, prefixes=prefixes
        )
    ]
    found.append(
        Route(
            method="POST",
            path="/v1/traces",
            handler=do.export,
            permission=log,
            attempts=True,
            body_limit=OTLP_BYTES,
        )
    )
    return found
