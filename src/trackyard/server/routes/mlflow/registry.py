"""MLflow's routes of the model registry: registered models, versions, aliases and tags."""

from __future__ import annotations

from typing import Any

from trackyard.registry.search import MODELS_DEFAULT, VERSIONS_DEFAULT
from trackyard.registry.versions import VersionDraft
from trackyard.server.http.creates import create_once
from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.routes.mlflow.shared import Arguments, mlflow_routes
from trackyard.server.routing import Handler, Permission, Route
from trackyard.server.services import Services
from trackyard.store.idempotency.rule import Create

_EMPTY: dict[str, Any] = {}


class ModelRoutes:
    """Handlers of registered models and their aliases."""

    def __init__(self, services: Services) -> None:
        self._registry = services.registry
        self._creates = services.creates

    async def create(self, request: Request) -> Response:
        """POST registered-models/create."""
        args = await Arguments.of(request)
        name, tags = args.need("name"), args.pairs("tags")
        description = args.text("description") or ""

        async def make(create: Create) -> Any:
            model = await self._registry.create(
                request.principal, name, tags=tags, description=description, create=create
            )
            return {"registered_model": model}

        return await create_once(self._creates, request, "models", args.values, make)

    async def get(self, request: Request) -> Response:
        """GET registered-models/get."""
        args = await Arguments.of(request)
        model = await self._registry.get(request.principal, args.need("name"))
        return JSONResponse({"registered_model": model})

    async def update(self, request: Request) -> Response:
        """PATCH registered-models/update."""
        args = await Arguments.of(request)
        model = await self._registry.update(
            request.principal, args.need("name"), args.text("description") or ""
        )
        return JSONResponse({"registered_model": model})

    async def rename(self, request: Request) -> Response:
        """POST registered-models/rename."""
        args = await Arguments.of(request)
        model = await self._registry.rename(
            request.principal, args.need("name"), args.need("new_name")
        )
        return JSONResponse({"registered_model": model})

    async def delete(self, request: Request) -> Response:
        """DELETE registered-models/delete."""
        args = await Arguments.of(request)
        await self._registry.delete(request.principal, args.need("name"))
        return JSONResponse(_EMPTY)

    async def search(self, request: Request) -> Response:
        """GET registered-models/search."""
        args = await Arguments.of(request)
        limit = args.integer("max_results")
        found, token = await self._registry.search(
            request.principal,
            filter_text=args.text("filter"),
            order_by=args.texts("order_by"),
            max_results=MODELS_DEFAULT if limit is None else limit,
            page_token=args.text("page_token"),
        )
        return page("registered_models", found, token)

    async def latest_versions(self, request: Request) -> Response:
        """POST and GET registered-models/get-latest-versions."""
        args = await Arguments.of(request)
        found = await self._registry.versions.latest(
            request.principal, args.need("name"), args.texts("stages")
        )
        return page("model_versions", found, None)

    async def set_tag(self, request: Request) -> Response:
        """POST registered-models/set-tag."""
        args = await Arguments.of(request)
        await self._registry.set_tag(
            request.principal, args.need("name"), args.need("key"), args.text("value") or ""
        )
        return JSONResponse(_EMPTY)

    async def delete_tag(self, request: Request) -> Response:
        """DELETE registered-models/delete-tag."""
        args = await Arguments.of(request)
        await self._registry.delete_tag(request.principal, args.need("name"), args.need("key"))
        return JSONResponse(_EMPTY)

    async def set_alias(self, request: Request) -> Response:
        """POST registered-models/alias."""
        args = await Arguments.of(request)
        await self._registry.set_alias(
            request.principal, args.need("name"), args.need("alias"), args.need("version")
        )
        return JSONResponse(_EMPTY)

    async def delete_alias(self, request: Request) -> Response:
        """DELETE registered-models/alias."""
        args = await Arguments.of(request)
        await self._registry.delete_alias(request.principal, args.need("name"), args.need("alias"))
        return JSONResponse(_EMPTY)

    async def get_by_alias(self, request: Request) -> Response:
        """GET registered-models/alias."""
        args = await Arguments.of(request)
        version = await self._registry.versions.by_alias(
            request.principal, args.need("name"), args.need("alias")
        )
        return JSONResponse({"model_version": version})


class VersionRoutes:
    """Handlers of model versions."""

    def __init__(self, services: Services) -> None:
        self._versions = services.registry.versions
        self._creates = services.creates

    async def create(self, request: Request) -> Response:
        """POST model-versions/create."""
        args = await Arguments.of(request)
        new = VersionDraft(
            name=args.need("name"),
            source=args.need("source"),
            run_id=args.text("run_id") or "",
            model_id=args.text("model_id") or "",
            tags=args.pairs("tags"),
            run_link=args.text("run_link") or "",
            description=args.text("description") or "",
        )

        async def make(create: Create) -> Any:
            return {"model_version": await self._versions.create(request.principal, new, create)}

        return await create_once(self._creates, request, "model-versions", args.values, make)

    async def get(self, request: Request) -> Response:
        """GET model-versions/get."""
        args = await Arguments.of(request)
        version = await self._versions.get(
            request.principal, args.need("name"), args.need("version")
        )
        return JSONResponse({"model_version": version})

    async def update(self, request: Request) -> Response:
        """PATCH model-versions/update."""
        args = await Arguments.of(request)
        version = await self._versions.update(
            request.principal,
            args.need("name"),
            args.need("version"),
            args.text("description") or "",
        )
        return JSONResponse({"model_version": version})

    async def delete(self, request: Request) -> Response:
        """DELETE model-versions/delete."""
        args = await Arguments.of(request)
        await self._versions.delete(request.principal, args.need("name"), args.need("version"))
        return JSONResponse(_EMPTY)

    async def search(self, request: Request) -> Response:
        """GET model-versions/search."""
        args = await Arguments.of(request)
        limit = args.integer("max_results")
        found, token = await self._versions.search(
            request.principal,
            filter_text=args.text("filter"),
            order_by=args.texts("order_by"),
            max_results=VERSIONS_DEFAULT if limit is None else limit,
            page_token=args.text("page_token"),
        )
        return page("model_versions", found, token)

    async def download_uri(self, request: Request) -> Response:
        """GET model-versions/get-download-uri."""
        args = await Arguments.of(request)
        uri = await self._versions.download_uri(
            request.principal, args.need("name"), args.need("version")
        )
        return JSONResponse({"artifact_uri": uri})

    async def transition(self, request: Request) -> Response:
        """POST model-versions/transition-stage."""
        args = await Arguments.of(request)
        version = await self._versions.transition(
            request.principal,
            args.need("name"),
            args.need("version"),
            args.need("stage"),
            archive=args.flag("archive_existing_versions"),
        )
        return JSONResponse({"model_version": version})

    async def set_tag(self, request: Request) -> Response:
        """POST model-versions/set-tag."""
        args = await Arguments.of(request)
        await self._versions.set_tag(
            request.principal,
            args.need("name"),
            args.need("version"),
            args.need("key"),
            args.text("value") or "",
        )
        return JSONResponse(_EMPTY)

    async def delete_tag(self, request: Request) -> Response:
        """DELETE model-versions/delete-tag."""
        args = await Arguments.of(request)
        await self._versions.delete_tag(
            request.principal, args.need("name"), args.need("version"), args.need("key")
        )
        return JSONResponse(_EMPTY)


def page(name: str, found: list[dict[str, Any]], token: str | None) -> Response:
    """Answer a page; what is empty is left out, as MLflow does."""
    answer: dict[str, Any] = {name: found} if found else {}
    if token:
        answer["next_page_token"] = token
    return JSONResponse(answer)


def routes(services: Services) -> list[Route]:
    """Return the routes of the model registry."""
    models, versions = ModelRoutes(services), VersionRoutes(services)
    read, log, curate = Permission.READ, Permission.LOG, Permission.CURATE
    table: list[tuple[str, str, Handler, Permission, bool]] = [
        ("POST", "registered-models/create", models.create, log, True),
        ("GET", "registered-models/get", models.get, read, True),
        ("PATCH", "registered-models/update", models.update, log, False),
        ("POST", "registered-models/rename", models.rename, curate, False),
        ("DELETE", "registered-models/delete", models.delete, curate, False),
        ("GET", "registered-models/search", models.search, read, True),
        ("POST", "registered-models/get-latest-versions", models.latest_versions, read, True),
        ("GET", "registered-models/get-latest-versions", models.latest_versions, read, True),
        ("POST", "registered-models/set-tag", models.set_tag, log, False),
        ("DELETE", "registered-models/delete-tag", models.delete_tag, log, False),
        ("POST", "registered-models/alias", models.set_alias, curate, False),
        ("GET", "registered-models/alias", models.get_by_alias, read, True),
        ("DELETE", "registered-models/alias", models.delete_alias, curate, False),
        ("POST", "model-versions/create", versions.create, log, True),
        ("GET", "model-versions/get", versions.get, read, True),
        ("PATCH", "model-versions/update", versions.update, log, False),
        ("DELETE", "model-versions/delete", versions.delete, curate, False),
        ("GET", "model-versions/search", versions.search, read, True),
        ("GET", "model-versions/get-download-uri", versions.download_uri, read, True),
        ("POST", "model-versions/transition-stage", versions.transition, curate, False),
        ("POST", "model-versions/set-tag", versions.set_tag, log, False),
        ("DELETE", "model-versions/delete-tag", versions.delete_tag, log, False),
    ]
    return [
        route
        for method, path, handler, permission, attempts in table
        for route in mlflow_routes(method, path, handler, permission, attempts=attempts)
    ]
