"""MLflow's experiment and run routes, without logging and metrics."""

from __future__ import annotations

from typing import Any

import msgspec

from trackyard.access.principal import Role
from trackyard.access.reach import own_experiment
from trackyard.core.errors import InvalidInput
from trackyard.datasets.uses import note_inputs
from trackyard.queue.attempts.run_claims import claim_own_run, note_taken_up
from trackyard.server.http.creates import create_once
from trackyard.server.http.messages import JSONResponse, RawJSON, Request, Response
from trackyard.server.routes.mlflow.shared import Arguments, mlflow_routes, one_run
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.store.database import ReadConnection, Tx
from trackyard.store.idempotency.rule import Create
from trackyard.store.transaction import FEW_ROWS
from trackyard.tracking import experiments, inputs, runs
from trackyard.tracking.experiments import inner_experiment_id, outer_experiment_id
from trackyard.tracking.search.experiments import find_experiments
from trackyard.tracking.search.runs import find_runs

MAX_RUNS = 50_000
MAX_EXPERIMENTS = 50_000
#: Items of a page that are put into words in one step.
PART_ITEMS = 500
MAX_DATASET_EXPERIMENTS = 20
VIEWS = ("ACTIVE_ONLY", "DELETED_ONLY", "ALL")
_STATUS_NUMBERS = dict(enumerate(runs.STATUSES, start=1))
_EMPTY: dict[str, Any] = {}


class TrackingRoutes:
    """Handlers of experiments and runs."""

    def __init__(self, services: Services) -> None:
        self._tracking = services.tracking
        self._db = services.database
        #: kinds of stores in which clients may keep an experiment's files
        self._schemes = services.settings.artifact_schemes
        self._creates = services.creates

    # -- experiments ------------------------------------------------------------------------

    async def create_experiment(self, request: Request) -> Response:
        """POST experiments/create."""
        args, principal = await Arguments.of(request), request.principal
        tags = args.pairs("tags")
        bound = await self._db.peek(lambda reader: own_experiment(reader, principal))
        if bound is not None:
            return JSONResponse({"experiment_id": outer_experiment_id(principal, bound)})

        async def make(create: Create) -> Any:
            def change(tx: Tx) -> str:
                first = create.retried(
                    tx, lambda inner: experiments.is_active(tx, principal, int(inner))
                )
                if first is not None:
                    return first
                inner = experiments.create_experiment(
                    tx,
                    principal,
                    name=args.text("name"),
                    artifact_location=args.text("artifact_location"),
                    tags=tags,
                    schemes=self._schemes,
                )
                create.made(str(inner))
                return str(inner)

            made = await self._db.write(change, is_long=len(tags) > FEW_ROWS)
            return {"experiment_id": made}

        return await create_once(self._creates, request, "experiments", args.values, make)

    async def get_experiment(self, request: Request) -> Response:
        """GET experiments/get."""
        args, principal = await Arguments.of(request), request.principal
        inner = inner_experiment_id(principal, args.need("experiment_id"))
        found = await self._db.peek(
            lambda reader: experiments.get_experiment(reader, principal, inner)
        )
        return JSONResponse({"experiment": found})

    async def get_experiment_by_name(self, request: Request) -> Response:
        """GET experiments/get-by-name."""
        args, principal = await Arguments.of(request), request.principal
        name = args.need("experiment_name")

        def load(reader: ReadConnection) -> dict[str, Any]:
            # Whatever experiment a script sets, a job's runs stay in the job's own: so a script
            # that chooses one by name still logs to the run it was given.
            bound = own_experiment(reader, principal)
            if bound is not None:
                return experiments.get_experiment(reader, principal, bound)
            return experiments.get_experiment_by_name(reader, principal, name)

        found = await self._db.peek(load)
        return JSONResponse({"experiment": found})

    async def search_experiments(self, request: Request) -> Response:
        """POST and GET experiments/search."""
        args, principal = await Arguments.of(request), request.principal
        limit = page_size(args, MAX_EXPERIMENTS, default=1000)
        view = view_of(args, "view_type")

        def load(reader: ReadConnection) -> dict[str, Any]:
            ids, token = find_experiments(
                reader,
                team_id=principal.team_id,
                default_experiment=principal.default_experiment,
                filter=args.text("filter") or "",
                view=view,
                order_by=args.texts("order_by"),
                max_results=limit,
                page_token=args.text("page_token"),
            )
            found = experiments.load_experiments(reader, principal, ids)
            return page("experiments", found, token)

        return JSONResponse(await self._db.read(load))

    async def update_experiment(self, request: Request) -> Response:
        """POST experiments/update."""
        args, principal = await Arguments.of(request), request.principal
        inner = inner_experiment_id(principal, args.need("experiment_id"))
        name = args.text("new_name")
        await self._db.write(lambda tx: experiments.rename_experiment(tx, principal, inner, name))
        return JSONResponse(_EMPTY)

    async def delete_experiment(self, request: Request) -> Response:
        """POST experiments/delete."""
        args, principal = await Arguments.of(request), request.principal
        inner = inner_experiment_id(principal, args.need("experiment_id"))
        # It changes all of the experiment's runs, however many there are.
        await self._db.write(
            lambda tx: experiments.delete_experiment(tx, principal, inner),
            frees=True,
            is_long=True,
        )
        return JSONResponse(_EMPTY)

    async def restore_experiment(self, request: Request) -> Response:
        """POST experiments/restore."""
        args, principal = await Arguments.of(request), request.principal
        inner = inner_experiment_id(principal, args.need("experiment_id"))
        await self._db.write(
            lambda tx: experiments.restore_experiment(tx, principal, inner), is_long=True
        )
        return JSONResponse(_EMPTY)

    async def set_experiment_tag(self, request: Request) -> Response:
        """POST experiments/set-experiment-tag."""
        args, principal = await Arguments.of(request), request.principal
        inner = inner_experiment_id(principal, args.need("experiment_id"))
        key, value = args.need("key"), args.text("value", "") or ""
        await self._db.write(
            lambda tx: experiments.set_experiment_tag(tx, principal, inner, key, value)
        )
        return JSONResponse(_EMPTY)

    async def delete_experiment_tag(self, request: Request) -> Response:
        """POST experiments/delete-experiment-tag."""
        args, principal = await Arguments.of(request), request.principal
        inner = inner_experiment_id(principal, args.need("experiment_id"))
        key = args.need("key")
        await self._db.write(
            lambda tx: experiments.delete_experiment_tag(tx, principal, inner, key)
        )
        return JSONResponse(_EMPTY)

    # -- runs -------------------------------------------------------------------------------

    async def create_run(self, request: Request) -> Response:
        """POST runs/create."""
        args, principal = await Arguments.of(request), request.principal
        experiment = inner_experiment_id(principal, args.text("experiment_id") or "0")
        start_ms, tags = args.integer("start_time"), args.pairs("tags")

        async def make(create: Create) -> Any:
            made = await self._tracking.writes.create(
                principal,
                create,
                experiment_id=experiment,
                run_name=args.text("run_name"),
                user=args.text("user_id"),
                start_ms=start_ms,
                tags=tags,
                claim=lambda tx: claim_own_run(tx, self._tracking.names, principal, tags),
            )
            whole = await self._tracking.run(principal, made) if isinstance(made, str) else made
            return {"run": whole}

        return await create_once(self._creates, request, "runs", args.values, make)

    async def get_run(self, request: Request) -> Response:
        """GET runs/get."""
        run_id = run_id_of(await Arguments.of(request))
        return JSONResponse({"run": await self._tracking.run(request.principal, run_id)})

    async def update_run(self, request: Request) -> Response:
        """POST runs/update."""
        args, principal = await Arguments.of(request), request.principal
        run_id = run_id_of(args)
        status = status_of(args.raw("status"))
        end_ms, name = args.integer("end_time"), args.text("run_name")

        info = await self._tracking.writes.update(
            principal,
            run_id,
            status=status,
            end_ms=end_ms,
            run_name=name,
            also=lambda tx: note_taken_up(tx, principal, run_id),
        )
        if info is None:
            info = (await self._tracking.run(principal, run_id)).info
        return JSONResponse({"run_info": info})

    async def delete_run(self, request: Request) -> Response:
        """POST runs/delete: one's own runs as a member, any as a maintainer."""
        args, principal = await Arguments.of(request), request.principal
        run_id = run_id_of(args)

        def change(tx: Tx) -> None:
            if not principal.may(Role.maintainer):
                runs.check_own(tx, principal, run_id)
            runs.delete_run(tx, principal, run_id)

        await self._db.write(change, frees=True)
        return JSONResponse(_EMPTY)

    async def restore_run(self, request: Request) -> Response:
        """POST runs/restore."""
        args, principal = await Arguments.of(request), request.principal
        run_id = run_id_of(args)
        await self._db.write(lambda tx: runs.restore_run(tx, principal, run_id))
        return JSONResponse(_EMPTY)

    async def search_runs(self, request: Request) -> Response:
        """POST runs/search."""
        args, principal = await Arguments.of(request), request.principal
        limit = page_size(args, MAX_RUNS, default=1000)
        view = view_of(args, "run_view_type")
        named = dict.fromkeys(args.texts("experiment_ids"))
        chosen = [inner_experiment_id(principal, one) for one in named]

        def load(reader: ReadConnection) -> bytes:
            ids, token = find_runs(
                reader,
                names=self._tracking.names,
                team_id=principal.team_id,
                experiment_ids=chosen,
                filter=args.text("filter") or "",
                view=view,
                order_by=args.texts("order_by"),
                max_results=limit,
                page_token=args.text("page_token"),
            )
            found = runs.load_runs(reader, principal, ids, self._tracking.cache)
            return long_page("runs", found, token)

        return RawJSON(await self._db.read(load))

    # -- inputs and outputs -----------------------------------------------------------------

    async def log_inputs(self, request: Request) -> Response:
        """POST runs/log-inputs."""
        args, principal = await Arguments.of(request), request.principal
        run_id = run_id_of(args)
        datasets, models = args.objects("datasets"), args.objects("models")

        def change(tx: Tx) -> None:
            inputs.log_inputs(tx, principal, run_id, datasets=datasets, models=models)
            note_inputs(tx, principal.team_id, run_id, datasets)

        await self._db.write(
            change,
            is_long=len(datasets) + len(models) > FEW_ROWS,
        )
        return JSONResponse(_EMPTY)

    async def log_outputs(self, request: Request) -> Response:
        """POST runs/outputs."""
        args, principal = await Arguments.of(request), request.principal
        run_id, models = run_id_of(args), args.objects("models")
        await self._db.write(
            lambda tx: inputs.log_outputs(tx, principal, run_id, models),
            is_long=len(models) > FEW_ROWS,
        )
        return JSONResponse(_EMPTY)

    async def search_datasets(self, request: Request) -> Response:
        """POST experiments/search-datasets."""
        args, principal = await Arguments.of(request), request.principal
        given = args.texts("experiment_ids")
        if not given:
            raise InvalidInput("SearchDatasets request must specify at least one experiment_id.")
        if len(given) > MAX_DATASET_EXPERIMENTS:
            raise InvalidInput(
                f"SearchDatasets request cannot specify more than {MAX_DATASET_EXPERIMENTS}"
                f" experiment_ids. Received {len(given)} experiment_ids."
            )
        chosen = [inner_experiment_id(principal, one) for one in given]
        found = await self._db.read(
            lambda reader: inputs.search_datasets(reader, principal, chosen)
        )
        return JSONResponse({"dataset_summaries": found})


def run_id_of(args: Arguments) -> str:
    """Return the run a call is about, by its present or its legacy name."""
    found = one_run(args.text("run_id") or "", args.text("run_uuid") or "")
    return found or args.need("run_id")


def status_of(value: Any) -> str | None:
    """Read a run status by name or number."""
    if value is None:
        return None
    name = _STATUS_NUMBERS.get(value, value) if isinstance(value, int) else value
    if not isinstance(name, str) or name not in runs.STATUSES:
        raise InvalidInput(
            f"Invalid value {str(value)[:80]!r} for parameter 'status' supplied: it is one of"
            f" {', '.join(runs.STATUSES)}"
        )
    return str(name)


def view_of(args: Arguments, field: str) -> str:
    """Read which life-cycle stages a search covers."""
    value = args.raw(field)
    if value is None or value == "":
        return "ACTIVE_ONLY"
    view = dict(enumerate(VIEWS, start=1)).get(value, value) if isinstance(value, int) else value
    if view not in VIEWS:
        raise InvalidInput(
            f"Invalid value {str(value)[:80]!r} for parameter '{field}' supplied: it is one of"
            f" {', '.join(VIEWS)}"
        )
    return str(view)


def page_size(args: Arguments, most: int, *, default: int) -> int:
    """Read max_results within MLflow's bounds."""
    limit = args.integer("max_results", default)
    assert limit is not None
    if not 1 <= limit <= most:
        raise InvalidInput(
            f"Invalid value {limit} for parameter 'max_results' supplied: it must be between 1 and"
            f" {most}"
        )
    return limit


def page(name: str, items: list[Any], token: str | None) -> dict[str, Any]:
    """Return a page in MLflow's form: empty parts are left out."""
    shaped: dict[str, Any] = {name: items} if items else {}
    if token is not None:
        shaped["next_page_token"] = token
    return shaped


def long_page(name: str, items: list[Any], token: str | None) -> bytes:
    """Return the text of such a page, made in parts: one long step keeps every thread waiting."""
    if len(items) <= PART_ITEMS:
        return msgspec.json.encode(page(name, items, token))
    parts = [
        msgspec.json.encode(items[at : at + PART_ITEMS])[1:-1]
        for at in range(0, len(items), PART_ITEMS)
    ]
    rest = b"" if token is None else b',"next_page_token":' + msgspec.json.encode(token)
    return b'{"%b":[%b]%b}' % (name.encode(), b",".join(parts), rest)


def routes(services: Services) -> list[Route]:
    """Return MLflow's experiment and run routes."""
    do = TrackingRoutes(services)
    read, write, curate = Permission.READ, Permission.LOG, Permission.CURATE
    table = [
        ("POST", "experiments/create", do.create_experiment, write, True),
        ("GET", "experiments/get", do.get_experiment, read, True),
        ("GET", "experiments/get-by-name", do.get_experiment_by_name, read, True),
        ("POST", "experiments/search", do.search_experiments, read, False),
        ("GET", "experiments/search", do.search_experiments, read, False),
        ("POST", "experiments/update", do.update_experiment, write, False),
        ("POST", "experiments/delete", do.delete_experiment, curate, False),
        ("POST", "experiments/restore", do.restore_experiment, curate, False),
        ("POST", "experiments/set-experiment-tag", do.set_experiment_tag, write, False),
        ("POST", "experiments/delete-experiment-tag", do.delete_experiment_tag, write, False),
        ("POST", "experiments/search-datasets", do.search_datasets, read, False),
        ("POST", "runs/create", do.create_run, write, True),
        ("GET", "runs/get", do.get_run, read, True),
        ("POST", "runs/update", do.update_run, write, True),
        ("POST", "runs/delete", do.delete_run, write, False),
        ("POST", "runs/restore", do.restore_run, write, False),
        ("POST", "runs/search", do.search_runs, read, False),
        ("POST", "runs/log-inputs", do.log_inputs, write, True),
        ("POST", "runs/outputs", do.log_outputs, write, True),
    ]
    return [
        route
        for method, path, handler, permission, attempts in table
        for route in mlflow_routes(method, path, handler, permission, attempts=attempts)
    ]
