"""MLflow's routes of traces as 2.x clients call them: a trace is started, then ended, and its
spans are a file of the trace. What they log is the same trace that 3.x clients read.
"""

from __future__ import annotations

from typing import Any

from trackyard.artifacts.paths import check_path
from trackyard.artifacts.service import Artifacts
from trackyard.core.errors import InvalidInput, NotFound
from trackyard.core.ids import new_trace_id
from trackyard.core.span_file import file_span
from trackyard.server.http.downloads import attachment, disposition
from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.routes.mlflow.shared import Arguments, missing, mlflow_routes
from trackyard.server.routes.mlflow.types import OldTrace
from trackyard.server.routing import Handler, Permission, Route
from trackyard.server.services import Services
from trackyard.store.database import ReadConnection, Tx
from trackyard.tracking.experiments import inner_experiment_id
from trackyard.tracking.search.traces import TRACES_DEFAULT, find_traces
from trackyard.tracking.traces import traces
from trackyard.tracking.traces.wire import TraceInfo, read_pairs, read_status, shape_v2

DATA_FILE = "traces.json"


class OldTraceRoutes:
    """Handlers of traces for 2.x clients."""

    def __init__(self, services: Services) -> None:
        self._db = services.database
        self._artifacts: Artifacts = services.artifacts

    async def start(self, request: Request) -> Response:
        """POST traces: begin a trace; the server names it."""
        args, principal = await Arguments.of(request), request.principal
        time_ms = args.integer("timestamp_ms")
        if time_ms is None:
            raise missing("timestamp_ms")
        info = TraceInfo(
            id=new_trace_id(),
            experiment=args.need("experiment_id"),
            time_ms=time_ms,
            duration_ms=None,
            state="IN_PROGRESS",
            metadata=read_pairs(dict(args.pairs("request_metadata")), "request_metadata"),
            tags=read_pairs(dict(args.pairs("tags")), "tags"),
        )

        def change(tx: Tx) -> dict[str, Any]:
            traces.start(tx, principal, info)
            return traces.load(tx, principal, [info.id], shape_v2)[0]

        return JSONResponse({"trace_info": await self._db.write(change)})

    async def end(self, request: Request) -> Response:
        """PATCH traces/{trace_id}: end a trace."""
        args, principal = await Arguments.of(request), request.principal
        trace_id, time_ms = request.params["trace_id"], args.integer("timestamp_ms")
        if time_ms is None:
            raise missing("timestamp_ms")
        state = read_status(args.raw("status"))
        metadata = read_pairs(dict(args.pairs("request_metadata")), "request_metadata")
        tags = read_pairs(dict(args.pairs("tags")), "tags")

        def change(tx: Tx) -> dict[str, Any]:
            traces.end(
                tx,
                principal,
                trace_id,
                time_ms=time_ms,
                state=state,
                metadata=metadata,
                tags=tags,
            )
            return traces.load(tx, principal, [trace_id], shape_v2)[0]

        return JSONResponse({"trace_info": await self._db.write(change)})

    async def info(self, request: Request) -> Response:
        """GET traces/{trace_id}/info: a trace without its spans."""
        trace_id, principal = request.params["trace_id"], request.principal

        def query(reader: ReadConnection) -> dict[str, Any]:
            traces.find(reader, principal, trace_id)
            return traces.load(reader, principal, [trace_id], shape_v2)[0]

        return JSONResponse({"trace_info": await self._db.peek(query)})

    async def search(self, request: Request) -> Response:
        """GET traces: a page of traces of some experiments."""
        args, principal = await Arguments.of(request), request.principal
        experiments = [inner_experiment_id(principal, one) for one in args.texts("experiment_ids")]
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
            found = traces.load(reader, principal, ids, shape_v2)
            answer: dict[str, Any] = {"traces": found} if found else {}
            return {**answer, "next_page_token": token} if token else answer

        return JSONResponse(await self._db.read(query))

    async def artifact(self, request: Request) -> Response:
        """GET get-trace-artifact: a trace's spans as a file, or a file attached to it."""
        trace_id, path = request.arg("request_id"), request.arg("path")
        if not trace_id:
            raise InvalidInput('Request must include the "request_id" query parameter.')
        owner = await self._artifacts.owner(request.principal, trace_id)
        wanted = check_path(path, is_stored=False) if path else DATA_FILE
        try:
            found = await self._artifacts.find(owner.id, wanted)
        except NotFound:
            if path:
                raise
            return await self._spans(trace_id)
        return await attachment(request, self._artifacts, found)

    async def _spans(self, trace_id: str) -> Response:
        """Answer with spans that came over OpenTelemetry in the form of the file."""
        spans = await self._db.read(lambda reader: traces.load_spans(reader, trace_id))
        if not spans:
            raise NotFound(f"the spans of trace {trace_id} were not uploaded")
        answer = JSONResponse({"spans": [file_span(span) for span in spans]})
        answer.headers = [*answer.headers, ("content-disposition", disposition(DATA_FILE))]
        return answer


def routes(services: Services) -> list[Route]:
    """Return the routes of traces for 2.x clients."""
    do = OldTraceRoutes(services)
    read, log = Permission.READ, Permission.LOG
    table: list[tuple[str, str, Handler, Permission]] = [
        ("POST", "traces", do.start, log),
        ("GET", "traces", do.search, read),
        ("PATCH", "traces/{trace_id}", do.end, log),
        ("GET", "traces/{trace_id}/info", do.info, read),
        ("GET", "get-trace-artifact", do.artifact, read),
    ]
    return [
        route
        for method, path, handler, permission in table
        for route in mlflow_routes(
            method, path, handler, permission, attempts=True, takes=OldTrace
        )
    ]
