"""MLflow's routes of logged models, which its third generation of clients calls with every
log_model.
"""

from __future__ import annotations

from typing import Any

from trackyard.artifacts.paths import check_folder, check_path
from trackyard.artifacts.tree import TreeEntry
from trackyard.core.errors import InvalidInput
from trackyard.registry.logged import STATUSES
from trackyard.registry.logged_search import (
    LOGGED_DEFAULT,
    WIRE_PREFIX,
    DatasetFilter,
    LoggedSortKey,
)
from trackyard.server.http.creates import create_once
from trackyard.server.http.downloads import attachment
from trackyard.server.http.messages import JSONResponse, Request, Response, whole_number
from trackyard.server.routes.mlflow.shared import Arguments, missing, mlflow_routes
from trackyard.server.routing import Handler, Permission, Route
from trackyard.server.services import Services
from trackyard.store.idempotency.rule import Create
from trackyard.tracking.experiments import inner_experiment_id

_EMPTY: dict[str, Any] = {}
#: MLflow's protocol numbers the states from one.
_NUMBERED = dict(enumerate(STATUSES, start=1))


class LoggedModelRoutes:
    """Handlers of logged models."""

    def __init__(self, services: Services) -> None:
        self._models = services.logged_models
        self._artifacts = services.artifacts
        self._creates = services.creates

    async def create(self, request: Request) -> Response:
        """POST logged-models."""
        args, principal = await Arguments.of(request), request.principal
        experiment = inner_experiment_id(principal, args.need("experiment_id"))
        tags, params = args.pairs("tags"), args.pairs("params")

        async def make(create: Create) -> Any:
            model = await self._models.create(
                principal,
                experiment_id=experiment,
                name=args.text("name"),
                model_type=args.text("model_type") or "",
                source_run=args.text("source_run_id") or "",
                tags=tags,
                params=params,
                create=create,
            )
            return {"model": model}

        return await create_once(self._creates, request, "logged-models", args.values, make)

    async def get(self, request: Request) -> Response:
        """GET logged-models/{id}."""
        args = await Arguments.of(request)
        model = await self._models.get(
            request.principal,
            request.params["model_id"],
            allow_deleted=args.flag("allow_deleted"),
        )
        return JSONResponse({"model": model})

    async def finalize(self, request: Request) -> Response:
        """PATCH logged-models/{id}."""
        args = await Arguments.of(request)
        model = await self._models.finalize(
            request.principal, request.params["model_id"], _status(args.raw("status"))
        )
        return JSONResponse({"model": model})

    async def delete(self, request: Request) -> Response:
        """DELETE logged-models/{id}."""
        await self._models.delete(request.principal, request.params["model_id"])
        return JSONResponse(_EMPTY)

    async def search(self, request: Request) -> Response:
        """POST logged-models/search."""
        args, principal = await Arguments.of(request), request.principal
        if args.raw("experiment_ids") is None:
            raise missing("experiment_ids")
        found, token = await self._models.search(
            principal,
            experiment_ids=[
                inner_experiment_id(principal, text) for text in args.texts("experiment_ids")
            ],
            filter_text=args.text("filter"),
            datasets=[_dataset(item) for item in args.objects("datasets")],
            order_by=[_order(item) for item in args.objects("order_by")],
            max_results=args.integer("max_results") or LOGGED_DEFAULT,
            page_token=args.text("page_token"),
        )
        answer: dict[str, Any] = {"models": found} if found else {}
        if token:
            answer["next_page_token"] = token
        return JSONResponse(answer)

    async def set_tags(self, request: Request) -> Response:
        """PATCH logged-models/{id}/tags."""
        args = await Arguments.of(request)
        await self._models.set_tags(
            request.principal, request.params["model_id"], args.pairs("tags")
        )
        return JSONResponse(_EMPTY)

    async def delete_tag(self, request: Request) -> Response:
        """DELETE logged-models/{id}/tags/{key}."""
        await self._models.delete_tag(
            request.principal, request.params["model_id"], request.params["key"]
        )
        return JSONResponse(_EMPTY)

    async def log_params(self, request: Request) -> Response:
        """POST logged-models/{id}/params."""
        args = await Arguments.of(request)
        await self._models.log_params(
            request.principal, request.params["model_id"], args.pairs("params")
        )
        return JSONResponse(_EMPTY)

    async def list_artifacts(self, request: Request) -> Response:
        """GET logged-models/{id}/artifacts/directories."""
        args = await Arguments.of(request)
        folder = check_folder(args.text("artifact_directory_path"))
        model_id = request.params["model_id"]
        root = await self._models.root(request.principal, model_id)
        entries = await self._artifacts.list(model_id, folder)
        answer: dict[str, Any] = {"root_uri": root}
        if entries:
            answer["files"] = [_file(entry) for entry in entries]
        return JSONResponse(answer)

    async def get_artifact(self, request: Request) -> Response:
        """GET logged-models/{id}/artifacts/files: a file, as the web UI asks for it."""
        args, model_id = await Arguments.of(request), request.params["model_id"]
        path = check_path(args.need("artifact_file_path"))
        await self._models.root(request.principal, model_id)
        artifact = await self._artifacts.find(model_id, path)
        return await attachment(request, self._artifacts, artifact)


def _file(entry: TreeEntry) -> dict[str, Any]:
    """Return a file or folder on the wire; its path starts at the model's root."""
    if entry.is_dir:
        return {"path": entry.path, "is_dir": True}
    return {"path": entry.path, "is_dir": False, "file_size": entry.size}


def _status(value: Any) -> str:
    """Read a state, by its name with or without MLflow's prefix or by its number."""
    if value is None or value == "":
        raise missing("status")
    text = str(value).upper().removeprefix(WIRE_PREFIX)
    number = whole_number(text)
    return text if number is None else _NUMBERED.get(number, text)


def _dataset(item: dict[str, Any]) -> DatasetFilter:
    name, digest = item.get("dataset_name"), item.get("dataset_digest")
    if not isinstance(name, str) or not name or not isinstance(digest, str | None):
        raise InvalidInput("`dataset_name` in the `datasets` clause must be specified.")
    return DatasetFilter(name, digest or None)


def _order(item: dict[str, Any]) -> LoggedSortKey:
    field, ascending = item.get("field_name"), item.get("ascending", True)
    name, digest = item.get("dataset_name"), item.get("dataset_digest")
    if not isinstance(field, str) or not field or not isinstance(ascending, bool):
        raise InvalidInput(
            "each entry of `order_by` is an object with a `field_name` and, if wanted, a true or"
            " false `ascending`"
        )
    if not isinstance(name, str | None) or not isinstance(digest, str | None):
        raise InvalidInput("`dataset_name` and `dataset_digest` of `order_by` are strings")
    return LoggedSortKey(field, ascending, name or None, digest or None)


def routes(services: Services) -> list[Route]:
    """Return the routes of logged models."""
    models = LoggedModelRoutes(services)
    read, log, curate = Permission.READ, Permission.LOG, Permission.CURATE
    one = "logged-models/{model_id}"
    table: list[tuple[str, str, Handler, Permission, bool]] = [
        ("POST", "logged-models", models.create, log, True),
        ("POST", "logged-models/search", models.search, read, True),
        ("GET", one, models.get, read, True),
        ("PATCH", one, models.finalize, log, True),
        ("DELETE", one, models.delete, curate, False),
        ("PATCH", one + "/tags", models.set_tags, log, True),
        ("DELETE", one + "/tags/{key...}", models.delete_tag, log, True),
        ("GET", one + "/artifacts/directories", models.list_artifacts, read, True),
        ("GET", one + "/artifacts/files", models.get_artifact, read, True),
        ("POST", one + "/params", models.log_params, log, True),
    ]
    return [
        route
        for method, path, handler, permission, attempts in table
        for route in mlflow_routes(method, path, handler, permission, attempts=attempts)
    ]
