"""MLflow's routes of evaluation data sets and scorers."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from trackyard.core.errors import InvalidInput
from trackyard.server.http.messages import JSONResponse, Request, Response, read_json
from trackyard.server.routes.mlflow.shared import Arguments, mlflow_routes
from trackyard.server.routes.mlflow.traces import PREFIXES_3
from trackyard.server.routing import Handler, Permission, Route
from trackyard.server.services import Services
from trackyard.store.database import ReadConnection
from trackyard.store.transaction import FEW_ROWS
from trackyard.tracking.experiments import inner_experiment_id
from trackyard.tracking.traces import eval_datasets, scorers

_PAGE = 1000
#: Records that one commit writes.
PART = 500
_EMPTY: dict[str, Any] = {}


class EvalDatasetRoutes:
    """Handlers of evaluation data sets."""

    def __init__(self, services: Services) -> None:
        self._db = services.database

    async def create(self, request: Request) -> Response:
        """POST datasets/create."""
        args, principal = await Arguments.of(request), request.principal
        name, experiments = args.need("name"), args.texts("experiment_ids")
        tags = await _document(args.text("tags"), "tags")
        made = await self._db.write(
            lambda tx: eval_datasets.create(tx, principal, name, experiments, tags)
        )
        return JSONResponse({"dataset": made})

    async def get(self, request: Request) -> Response:
        """GET datasets/{dataset_id}."""
        wanted = request.params["dataset_id"]
        found = await self._db.peek(
            lambda reader: eval_datasets.get(reader, request.principal, wanted)
        )
        return JSONResponse({"dataset": found})

    async def delete(self, request: Request) -> Response:
        """DELETE datasets/{dataset_id}."""
        wanted, principal = request.params["dataset_id"], request.principal
        await self._db.write(
            lambda tx: eval_datasets.delete(tx, principal, wanted), frees=True, is_long=True
        )
        return JSONResponse(_EMPTY)

    async def search(self, request: Request) -> Response:
        """POST datasets/search."""
        args, principal = await Arguments.of(request), request.principal
        limit = args.integer("max_results")
        found, token = await self._db.read(
            lambda reader: eval_datasets.search(
                reader,
                principal,
                experiments=args.texts("experiment_ids"),
                filter_text=args.text("filter_string"),
                order_by=args.texts("order_by"),
                max_results=_PAGE if limit is None else limit,
                page_token=args.text("page_token"),
            )
        )
        answer: dict[str, Any] = {"datasets": found} if found else {}
        return JSONResponse({**answer, "next_page_token": token} if token else answer)

    async def upsert_records(self, request: Request) -> Response:
        """POST datasets/{dataset_id}/records."""
        args, principal = await Arguments.of(request), request.principal
        wanted = request.params["dataset_id"]
        records = await _document(args.need("records"), "records")
        eval_datasets.check_records(records)
        added = merged = 0
        # What was merged already is merged again by a client that repeats the call, so that each
        # part may have a commit of its own: others write in between.
        for part in [records[at : at + PART] for at in range(0, len(records), PART)] or [[]]:
            new, old = await self._db.write(
                partial(
                    eval_datasets.upsert_records,
                    principal=principal,
                    dataset_id=wanted,
                    records=part,
                ),
                is_long=len(part) > FEW_ROWS,
            )
            added, merged = added + new, merged + old
        return JSONResponse({"inserted_count": added, "updated_count": merged})

    async def records(self, request: Request) -> Response:
        """GET datasets/{dataset_id}/records."""
        args, wanted = await Arguments.of(request), request.params["dataset_id"]
        limit = args.integer("max_results")
        found, token = await self._db.read(
            lambda reader: eval_datasets.records(
                reader,
                request.principal,
                wanted,
                max_results=_PAGE if limit is None else limit,
                page_token=args.text("page_token"),
            )
        )
        answer = {"records": msgspec.json.encode(found).decode()}
        return JSONResponse({**answer, "next_page_token": token} if token else answer)

    async def delete_records(self, request: Request) -> Response:
        """DELETE datasets/{dataset_id}/records."""
        args, principal = await Arguments.of(request), request.principal
        wanted, ids = request.params["dataset_id"], args.texts("dataset_record_ids")
        gone = await self._db.write(
            lambda tx: eval_datasets.delete_records(tx, principal, wanted, ids),
            is_long=len(ids) > FEW_ROWS,
        )
        return JSONResponse({"deleted_count": gone})

    async def set_tags(self, request: Request) -> Response:
        """PATCH datasets/{dataset_id}/tags."""
        args, principal = await Arguments.of(request), request.principal
        wanted, tags = request.params["dataset_id"], await _document(args.need("tags"), "tags")
        await self._db.write(lambda tx: eval_datasets.set_tags(tx, principal, wanted, tags))
        return JSONResponse(_EMPTY)

    async def delete_tag(self, request: Request) -> Response:
        """DELETE datasets/{dataset_id}/tags/{key}."""
        principal, wanted = request.principal, request.params["dataset_id"]
        key = request.params["key"]
        await self._db.write(lambda tx: eval_datasets.delete_tag(tx, principal, wanted, key))
        return JSONResponse(_EMPTY)

    async def experiment_ids(self, request: Request) -> Response:
        """GET datasets/{dataset_id}/experiment-ids."""
        wanted = request.params["dataset_id"]

        def query(reader: ReadConnection) -> list[str]:
            eval_datasets.get(reader, request.principal, wanted)
            return eval_datasets.experiment_ids(reader, request.principal, wanted)

        return JSONResponse({"experiment_ids": await self._db.peek(query)})

    async def add_experiments(self, request: Request) -> Response:
        """POST datasets/{dataset_id}/add-experiments."""
        return await self._change_experiments(request, add=True)

    async def remove_experiments(self, request: Request) -> Response:
        """POST datasets/{dataset_id}/remove-experiments."""
        return await self._change_experiments(request, add=False)

    async def _change_experiments(self, request: Request, *, add: bool) -> Response:
        args, principal = await Arguments.of(request), request.principal
        wanted, experiments = request.params["dataset_id"], args.texts("experiment_ids")
        found = await self._db.write(
            lambda tx: eval_datasets.change_experiments(
                tx, principal, wanted, experiments, add=add
            )
        )
        return JSONResponse({"dataset": found})


class ScorerRoutes:
    """Handlers of scorers."""

    def __init__(self, services: Services) -> None:
        self._db = services.database

    async def register(self, request: Request) -> Response:
        """POST scorers/register."""
        args, principal = await Arguments.of(request), request.principal
        experiment = inner_experiment_id(principal, args.need("experiment_id"))
        name, serialized = args.need("name"), args.need("serialized_scorer")
        made = await self._db.write(
            lambda tx: scorers.register(tx, principal, experiment, name, serialized)
        )
        return JSONResponse(made)

    async def list(self, request: Request) -> Response:
        """GET scorers/list: the newest version of each."""
        args, principal = await Arguments.of(request), request.principal
        experiment = inner_experiment_id(principal, args.need("experiment_id"))
        found = await self._db.read(lambda reader: scorers.versions(reader, principal, experiment))
        return JSONResponse({"scorers": found} if found else _EMPTY)

    async def versions(self, request: Request) -> Response:
        """GET scorers/versions: every version of one."""
        args, principal = await Arguments.of(request), request.principal
        experiment = inner_experiment_id(principal, args.need("experiment_id"))
        name = args.need("name")
        found = await self._db.read(
            lambda reader: scorers.versions(reader, principal, experiment, name)
        )
        return JSONResponse({"scorers": found})

    async def get(self, request: Request) -> Response:
        """GET scorers/get."""
        args, principal = await Arguments.of(request), request.principal
        experiment = inner_experiment_id(principal, args.need("experiment_id"))
        name, version = args.need("name"), args.integer("version")
        found = await self._db.read(
            lambda reader: scorers.get(reader, principal, experiment, name, version)
        )
        return JSONResponse({"scorer": found})

    async def delete(self, request: Request) -> Response:
        """DELETE scorers/delete."""
        args, principal = await Arguments.of(request), request.principal
        experiment = inner_experiment_id(principal, args.need("experiment_id"))
        name, version = args.need("name"), args.integer("version")
        await self._db.write(lambda tx: scorers.delete(tx, principal, experiment, name, version))
        return JSONResponse(_EMPTY)

    async def online_configs(self, request: Request) -> Response:
        """GET scorers/online-configs: none, as no scorer is run here."""
        await Arguments.of(request)
        return JSONResponse({"configs": []})


async def _document(text: str | None, name: str) -> Any:
    """Read an argument that is JSON within JSON."""
    if not text:
        return None
    found = await read_json(text.encode("utf-8", "replace"))
    if not isinstance(found, dict | list):
        raise InvalidInput(f"`{name}` is an object or a list as JSON text")
    return found


def routes(services: Services) -> list[Route]:
    """Return the routes of evaluation data sets and scorers."""
    data, score = EvalDatasetRoutes(services), ScorerRoutes(services)
    read, log, curate = Permission.READ, Permission.LOG, Permission.CURATE
    one = "datasets/{dataset_id}"
    table: list[tuple[str, str, Handler, Permission]] = [
        ("POST", "datasets/create", data.create, log),
        ("POST", "datasets/search", data.search, read),
        ("GET", one, data.get, read),
        ("DELETE", one, data.delete, curate),
        ("GET", one + "/records", data.records, read),
        ("POST", one + "/records", data.upsert_records, log),
        ("DELETE", one + "/records", data.delete_records, log),
        ("PATCH", one + "/tags", data.set_tags, log),
        ("DELETE", one + "/tags/{key...}", data.delete_tag, log),
        ("GET", one + "/experiment-ids", data.experiment_ids, read),
        ("POST", one + "/add-experiments", data.add_experiments, log),
        ("POST", one + "/remove-experiments", data.remove_experiments, log),
        ("POST", "scorers/register", score.register, log),
        ("GET", "scorers/list", score.list, read),
        ("GET", "scorers/versions", score.versions, read),
        ("GET", "scorers/get", score.get, read),
        ("DELETE", "scorers/delete", score.delete, log),
        ("GET", "scorers/online-configs", score.online_configs, read),
    ]
    return [
        route
        for method, path, handler, permission in table
        for route in mlflow_routes(method, path, handler, permission, prefixes=PREFIXES_3)
    ]
