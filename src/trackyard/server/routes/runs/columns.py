"""What pages ask beyond the table: further columns, and fresh cells, of runs they show already."""

from __future__ import annotations

import msgspec

from trackyard.core.errors import InvalidInput
from trackyard.server.http.messages import RawJSON, Request, Response
from trackyard.server.routes.body import decode
from trackyard.server.routes.runs.runs import MAX_COLUMNS, MAX_ROWS
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.store.bounds import Rows, Words
from trackyard.store.database import ReadConnection
from trackyard.tracking.table import RunsTable, inner_ids, read_table


class ColumnsQuery(msgspec.Struct):
    """Which columns of which runs."""

    run_ids: Rows
    metrics: Words = []
    params: Words = []
    tags: Words = []


class PageRoutes:
    """Handlers of the pages' own reads."""

    def __init__(self, services: Services) -> None:
        self._db = services.database
        self._names = services.tracking.names

    async def columns(self, request: Request) -> Response:
        """POST /api/v1/runs/columns: columns of known runs, in the order asked.

        Ids that the team does not have are left out.
        """
        query = await decode(request, ColumnsQuery)
        if len(query.run_ids) > MAX_ROWS:
            raise InvalidInput(f"at most {MAX_ROWS} runs can be read at once")
        if len(query.metrics) + len(query.params) + len(query.tags) > MAX_COLUMNS:
            raise InvalidInput(f"at most {MAX_COLUMNS} columns can be read at once")
        principal = request.principal

        def load(reader: ReadConnection) -> bytes:
            found = read_table(
                reader,
                self._names,
                principal,
                inner_ids(reader, principal.team_id, query.run_ids),
                metrics=query.metrics,
                params=query.params,
                tags=query.tags,
            )
            return msgspec.json.encode(found)

        return RawJSON(await self._db.read(load))


def routes(services: Services) -> list[Route]:
    """Return the pages' own routes."""
    do = PageRoutes(services)
    return [
        Route(
            method="POST",
            path="/api/v1/runs/columns",
            handler=do.columns,
            permission=Permission.READ,
            takes=ColumnsQuery,
            gives=RunsTable,
        )
    ]
