"""Sweeps over HTTP: create, list, show, stop, extend, and what follows of their best trial."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import msgspec

from trackyard.core.errors import AlreadyExists, InvalidInput
from trackyard.queue.views import JobView
from trackyard.registry.versions import VersionDraft
from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.routes.body import decode
from trackyard.server.routes.jobs.jobs import SUBMISSION_LIMIT
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.store.bounds import Int64, Word
from trackyard.sweeps.service import Created, SearchAround, TrainRequest
from trackyard.sweeps.views import MAX_LISTED, SweepDetail, SweepList, SweepView
from trackyard.sweeps.wishes import SweepBudget, SweepRequest

#: The file that makes a folder of artifacts a model of MLflow.
MODEL_FILE = "MLmodel"
#: Artifacts of a run that are looked through for a model.
MAX_FILES = 2000


class EmptyRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Nothing to say."""


class RegisterRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Which trial becomes a version of which model."""

    model: Word
    #: folder among the run's artifacts; empty: the one that holds a model
    path: Word = ""
    #: null for the best
    trial: Int64 | None = None


class Registered(msgspec.Struct):
    """A version that was made of a trial."""

    model: str
    version: str
    source: str
    trial: int
    run_id: str


class SweepRoutes:
    """Handlers of sweeps."""

    def __init__(self, services: Services) -> None:
        self._sweeps = services.sweeps
        self._registry = services.registry
        self._artifacts = services.artifacts

    async def list(self, request: Request) -> Response:
        """GET /api/v1/sweeps: those of the team, the newest first."""
        limit = request.number("limit", 100)
        if not 1 <= limit <= MAX_LISTED:
            raise InvalidInput(f"limit must be between 1 and {MAX_LISTED}")
        return JSONResponse(await self._sweeps.listing(request.principal, limit))

    async def create(self, request: Request) -> Response:
        """POST /api/v1/sweeps: begin a sweep, or with dry_run see what its trials would be."""
        wish = await decode(request, SweepRequest)
        return JSONResponse(await self._sweeps.create(request.principal, wish))

    async def show(self, request: Request) -> Response:
        """GET /api/v1/sweeps/{sweep}: all about a sweep; the id may be its name."""
        found = await self._sweeps.detail(request.principal, request.params["sweep"])
        loop = asyncio.get_running_loop()
        # Thousands of trials take longer to write than the loop may be held.
        raw = await loop.run_in_executor(None, msgspec.json.encode, found)
        return Response(raw, content_type="application/json")

    async def stop(self, request: Request) -> Response:
        """POST /api/v1/sweeps/{sweep}/stop: with its running trials."""
        await decode(request, EmptyRequest)
        return JSONResponse(await self._sweeps.stop(request.principal, request.params["sweep"]))

    async def extend(self, request: Request) -> Response:
        """POST /api/v1/sweeps/{sweep}/extend: add to its budget; an ended one goes on."""
        more = await decode(request, SweepBudget)
        return JSONResponse(
            await self._sweeps.extend(request.principal, request.params["sweep"], more)
        )

    async def around(self, request: Request) -> Response:
        """POST /api/v1/sweeps/{sweep}/around: a new sweep where the best trials lie."""
        wish = await decode(request, SearchAround)
        return JSONResponse(
            await self._sweeps.around(request.principal, request.params["sweep"], wish)
        )

    async def train(self, request: Request) -> Response:
        """POST /api/v1/sweeps/{sweep}/train: a job with the best values, to its end."""
        wish = await decode(request, TrainRequest)
        return JSONResponse(
            await self._sweeps.train(request.principal, request.params["sweep"], wish)
        )

    async def register(self, request: Request) -> Response:
        """POST /api/v1/sweeps/{sweep}/register: the best trial's model as the next version."""
        wish = await decode(request, RegisterRequest)
        sweep_id, trial, run_id = await self._sweeps.chosen_run(
            request.principal, request.params["sweep"], wish.trial
        )
        path = wish.path.strip("/") or await self._model_path(run_id, trial)
        with contextlib.suppress(AlreadyExists):
            await self._registry.create(request.principal, wish.model)
        source = f"runs:/{run_id}/{path}"
        tags = (("yard.sweep", sweep_id), ("yard.trial", str(trial)))
        made = await self._registry.versions.create(
            request.principal, VersionDraft(wish.model, source, run_id=run_id, tags=tags)
        )
        return JSONResponse(Registered(wish.model, str(made["version"]), source, trial, run_id))

    async def _model_path(self, run_id: str, trial: int) -> str:
        """Return the folder of a run's artifacts that holds a model, if there is just one."""
        files = await self._artifacts.files(run_id, "", MAX_FILES)
        found = [
            one.path.rpartition("/")[0]
            for one in files
            if one.path.rpartition("/")[2] == MODEL_FILE and "/" in one.path
        ]
        if len(found) == 1:
            return found[0]
        if found:
            raise InvalidInput(
                f"trial {trial} logged several models: name one of them with `path`:"
                f" {', '.join(found[:10])}"
            )
        top = sorted({one.path.partition("/")[0] for one in files})
        has = f"it has {', '.join(top[:10])}" if top else "it has no artifacts"
        raise InvalidInput(
            f"the run of trial {trial} holds no MLflow model: name its folder with `path`; {has}"
        )


def routes(services: Services) -> list[Route]:
    """Return the routes of sweeps."""
    do = SweepRoutes(services)
    read, log = Permission.READ, Permission.LOG

    def act(verb: str, handler: Any, takes: Any, gives: Any) -> Route:
        return Route(
            method="POST",
            path=f"/api/v1/sweeps/{{sweep}}/{verb}",
            handler=handler,
            permission=log,
            takes=takes,
            gives=gives,
        )

    return [
        Route(
            method="GET",
            path="/api/v1/sweeps",
            handler=do.list,
            permission=read,
            gives=SweepList,
            query={"limit": f"at most {MAX_LISTED}, default 100"},
        ),
        Route(
            method="POST",
            path="/api/v1/sweeps",
            handler=do.create,
            permission=log,
            takes=SweepRequest,
            gives=Created,
            body_limit=SUBMISSION_LIMIT,
        ),
        Route(
            method="GET",
            path="/api/v1/sweeps/{sweep}",
            handler=do.show,
            permission=read,
            gives=SweepDetail,
        ),
        act("stop", do.stop, EmptyRequest, SweepView),
        act("extend", do.extend, SweepBudget, SweepView),
        act("around", do.around, SearchAround, Created),
        act("train", do.train, TrainRequest, JobView),
        act("register", do.register, RegisterRequest, Registered),
    ]
