"""The native read API of runs: table, names, series, experiments. What the web UI and the CLI
draw from.
"""

from __future__ import annotations

from typing import Any

import msgspec

from trackyard.core.errors import InvalidInput
from trackyard.server.http.messages import (
    JSONResponse,
    RawJSON,
    Request,
    Response,
    whole_number,
)
from trackyard.server.routes.body import bounded, decode
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.store.bounds import Int64, Line, Word, Words
from trackyard.store.database import ReadConnection
from trackyard.tracking.experiments import (
    experiment_name,
    inner_experiment_id,
    outer_experiment_id,
    summarize_experiments,
)
from trackyard.tracking.metrics import history
from trackyard.tracking.runs import find_run, load_runs
from trackyard.tracking.search.runs import find_runs
from trackyard.tracking.table import (
    KeyNames,
    MetricSeries,
    RunsTable,
    read_names,
    read_table,
    shape_series,
)
from trackyard.tracking.watched import latest_values

MAX_ROWS = 20_000
MAX_COLUMNS = 300
MAX_SERIES = 500
MAX_POINTS = 5000
DEFAULT_POINTS = 500


class TableQuery(msgspec.Struct):
    """Which runs and which of their columns."""

    experiment_ids: Words = []
    filter: Line = ""
    order_by: Words = []
    view: Word = "ACTIVE_ONLY"
    limit: Int64 = 1000
    page_token: Line | None = None
    metrics: Words = []
    params: Words = []
    tags: Words = []


class SeriesQuery(msgspec.Struct):
    """Which metrics of which runs, and how finely."""

    run_ids: Words
    keys: Words
    points: Int64 = DEFAULT_POINTS
    first_step: Int64 | None = None
    last_step: Int64 | None = None
    #: draw what was rolled back instead of what counts
    orphans: bool = False


class SeriesReply(msgspec.Struct):
    """Series in the order runs x keys; a metric a run lacks is left out."""

    series: list[MetricSeries]


class ExperimentSummary(msgspec.Struct):
    """An experiment with the number of its runs."""

    experiment_id: str
    name: str
    lifecycle: str
    created_ms: int
    updated_ms: int
    runs: int
    running: int
    last_start_ms: int | None


class ExperimentList(msgspec.Struct):
    """The experiments of a team."""

    experiments: list[ExperimentSummary]


class RunMetrics(msgspec.Struct):
    """A metric of a run in figures."""

    key: str
    last: float | str | None
    min: float | None
    max: float | None
    step: int
    time_ms: int


class RunRoutes:
    """Handlers of the run pages."""

    def __init__(self, services: Services) -> None:
        self._db = services.database
        self._tracking = services.tracking

    async def table(self, request: Request) -> Response:
        """POST /api/v1/runs/table."""
        return await self._table(request, await decode(request, TableQuery))

    async def table_by_address(self, request: Request) -> Response:
        """GET /api/v1/runs/table: the same by query string, which a page can ask for at once."""
        given = request.query
        values = {
            "experiment_ids": given.get("experiment_id", []),
            "filter": request.arg("filter", "") or "",
            "order_by": given.get("order_by", []),
            "view": request.arg("view", "ACTIVE_ONLY") or "ACTIVE_ONLY",
            "limit": request.number("limit", 1000),
            "page_token": request.arg("page_token"),
            "metrics": given.get("metric", []),
            "params": given.get("param", []),
            "tags": given.get("tag", []),
        }
        return await self._table(request, bounded(TableQuery, values))

    async def _table(self, request: Request, query: TableQuery) -> Response:
        principal = request.principal
        if not 1 <= query.limit <= MAX_ROWS:
            raise InvalidInput(f"limit must be between 1 and {MAX_ROWS}")
        if len(query.metrics) + len(query.params) + len(query.tags) > MAX_COLUMNS:
            raise InvalidInput(f"at most {MAX_COLUMNS} columns can be read at once")
        chosen = [inner_experiment_id(principal, one) for one in query.experiment_ids]

        def load(reader: ReadConnection) -> bytes:
            ids, token = find_runs(
                reader,
                names=self._tracking.names,
                team_id=principal.team_id,
                experiment_ids=chosen,
                filter=query.filter,
                view=query.view,
                order_by=query.order_by,
                max_results=query.limit,
                page_token=query.page_token,
            )
            found = read_table(
                reader,
                self._tracking.names,
                principal,
                ids,
                metrics=query.metrics,
                params=query.params,
                tags=query.tags,
            )
            found.next_page_token = token
            return msgspec.json.encode(found)

        return RawJSON(await self._db.read(load))

    async def names(self, request: Request) -> Response:
        """GET /api/v1/runs/names: metric, parameter and tag names in some experiments."""
        principal = request.principal
        given = request.query.get("experiment_id", [])
        chosen = [inner_experiment_id(principal, one) for one in given]
        found = await self._db.read(lambda reader: read_names(reader, principal, chosen))
        return JSONResponse(found)

    async def series(self, request: Request) -> Response:
        """POST /api/v1/series."""
        return await self._series(request, await decode(request, SeriesQuery))

    async def one_series(self, request: Request) -> Response:
        """GET /api/v1/series: the same by query string, for one link or a curl."""
        keys, runs = request.query.get("key", []), request.query.get("run_id", [])
        values: dict[str, Any] = {"run_ids": runs, "keys": keys}
        for name in ("points", "first_step", "last_step"):
            text = request.arg(name)
            if text is not None:
                number = whole_number(text.removeprefix("-"))
                if number is None:
                    raise InvalidInput(f"{name} must be a whole number")
                values[name] = -number if text.startswith("-") else number
        values["orphans"] = request.arg("orphans") in ("1", "true")
        return await self._series(request, bounded(SeriesQuery, values))

    async def _series(self, request: Request, query: SeriesQuery) -> Response:
        principal, names = request.principal, self._tracking.names
        pace = self._tracking.pace
        if not 1 <= query.points <= MAX_POINTS:
            raise InvalidInput(f"points must be between 1 and {MAX_POINTS}")
        # Each run and each metric is read once, however often it is named.
        run_ids, keys = list(dict.fromkeys(query.run_ids)), list(dict.fromkeys(query.keys))
        if max(len(run_ids), len(run_ids) * len(keys)) > MAX_SERIES:
            raise InvalidInput(f"at most {MAX_SERIES} series can be read at once")
        span = None
        if query.first_step is not None or query.last_step is not None:
            first = -(2**62) if query.first_step is None else query.first_step
            span = (first, 2**62 if query.last_step is None else query.last_step)

        def load(reader: ReadConnection) -> bytes:
            found = []
            ids = ((names.find(reader, key), key) for key in keys)
            known = {name_id: key for name_id, key in ids if name_id is not None}
            for run_id in run_ids:
                run = find_run(reader, principal, run_id)
                fresh = history.tails(reader, run.id, known)
                pace.look_at(run.id)
                for name_id, key in known.items():
                    buckets = history.chart(
                        reader,
                        run.id,
                        name_id,
                        fresh[name_id],
                        buckets=query.points,
                        span=span,
                        orphans=query.orphans,
                    )
                    if buckets is not None:
                        found.append(shape_series(run_id, key, buckets))
            return msgspec.json.encode(SeriesReply(found))

        return RawJSON(await self._db.read(load))

    async def experiments(self, request: Request) -> Response:
        """GET /api/v1/experiments."""
        principal = request.principal
        deleted = request.arg("deleted") in ("1", "true")
        rows = await self._db.read(
            lambda reader: summarize_experiments(reader, principal.team_id, deleted=deleted)
        )
        found = [
            ExperimentSummary(
                experiment_id=outer_experiment_id(principal, row[0]),
                name=row[1],
                lifecycle=row[2],
                created_ms=row[3],
                updated_ms=row[4],
                runs=row[5],
                running=int(row[6] or 0),
                last_start_ms=row[7],
            )
            for row in rows
        ]
        return JSONResponse(ExperimentList(found))

    async def run(self, request: Request) -> Response:
        """GET /api/v1/runs/{run_id}: the whole run, with least and greatest value per metric."""
        principal, run_id = request.principal, request.params["run_id"]

        def load(reader: ReadConnection) -> dict[str, Any]:
            inner = find_run(reader, principal, run_id).id
            rows = latest_values(reader, inner)
            return {
                "run": load_runs(reader, principal, [inner])[0],
                "experiment_name": experiment_name(reader, inner),
                "metrics": [
                    RunMetrics(row[0], "NaN" if row[1] is None else row[1], *row[2:])
                    for row in rows
                ],
            }

        return JSONResponse(await self._db.read(load))


def routes(services: Services) -> list[Route]:
    """Return the run routes of the native API."""
    do, read = RunRoutes(services), Permission.READ
    return [
        Route(
            method="POST",
            path="/api/v1/runs/table",
            handler=do.table,
            permission=read,
            takes=TableQuery,
            gives=RunsTable,
        ),
        Route(
            method="GET",
            path="/api/v1/runs/table",
            handler=do.table_by_address,
            permission=read,
            gives=RunsTable,
            query={
                "experiment_id": "experiment whose runs are wanted; may be repeated",
                "filter": "a filter in MLflow's search language",
                "order_by": "an order, such as `metrics.loss ASC`; may be repeated",
                "view": "ACTIVE_ONLY (default), DELETED_ONLY or ALL",
                "limit": f"rows at most, 1000 unless told, {MAX_ROWS} at most",
                "page_token": "where the page before ended",
                "metric": "metric to read; may be repeated",
                "param": "parameter to read; may be repeated",
                "tag": "tag to read; may be repeated",
            },
        ),
        Route(
            method="GET",
            path="/api/v1/runs/names",
            handler=do.names,
            permission=read,
            gives=KeyNames,
            query={"experiment_id": "experiment whose names are wanted; may be repeated"},
        ),
        Route(
            method="POST",
            path="/api/v1/series",
            handler=do.series,
            permission=read,
            takes=SeriesQuery,
            gives=SeriesReply,
        ),
        Route(
            method="GET",
            path="/api/v1/series",
            handler=do.one_series,
            permission=read,
            gives=SeriesReply,
            query={
                "run_id": "run; may be repeated",
                "key": "metric; may be repeated",
                "points": f"buckets at most, default {DEFAULT_POINTS}",
                "first_step": "first step of the range",
                "last_step": "last step of the range",
                "orphans": "1 for what was rolled back",
            },
        ),
        Route(
            method="GET",
            path="/api/v1/experiments",
            handler=do.experiments,
            permission=read,
            gives=ExperimentList,
            query={"deleted": "1 for deleted experiments"},
        ),
        Route(
            method="GET",
            path="/api/v1/runs/{run_id}",
            handler=do.run,
            permission=read,
            gives=dict[str, Any],
        ),
    ]
