"""Plans for fine-tuning over HTTP: what can be planned for, and the plans themselves.

Owns the request's bounds, and reading how good earlier plans were from the caller's runs. Planning
lies in `finetune.planning`; here it works by closed form, on built-in shapes or a config that is
sent along: no path of a caller is opened.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from trackyard.access.principal import Principal
from trackyard.core.errors import InvalidInput, SetupError
from trackyard.finetune.planning import calibration
from trackyard.finetune.planning.answers import answers
from trackyard.finetune.planning.gpus import find_gpu, gpu_table, price_note, with_price
from trackyard.finetune.planning.report import as_json
from trackyard.finetune.planning.search import PlanRequest, search
from trackyard.finetune.planning.speed import MFU_CONVENTION
from trackyard.finetune.setup import CHOICES, suggestion
from trackyard.finetune.shapes import BUILT_IN, ModelShape, shape_of
from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.routes.body import decode
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.store.bounds import Free, Word
from trackyard.store.database import ReadConnection
from trackyard.tracking.search.experiments import find_experiments
from trackyard.tracking.search.runs import find_runs
from trackyard.tracking.table import read_table

Count = Annotated[int, Meta(ge=1, le=1024)]
Tokens = Annotated[float, Meta(ge=1, le=1e15)]
#: Runs whose plans are compared with what came of them.
COMPARED_RUNS = 1000
CLOSED_FORM = "memory by closed form; `yard plan` traces the real model where torch is installed"


class PlanBody(msgspec.Struct, forbid_unknown_fields=True):
    """What to plan for. Choices that are left out are searched."""

    #: a built-in model, or a name for `config`
    model: Word
    #: a Hugging Face config.json, for a model that is not built in
    config: Free | None = None
    gpu: Word = "H200"
    gpus: Annotated[int, Meta(ge=1, le=64)] = 1
    nodes: Count = 1
    seq: Annotated[int, Meta(ge=1, le=10_000_000)] = 2048
    global_batch: Annotated[int, Meta(ge=1, le=8192)] = 16
    tokens: Tokens = 100e6
    method: Word | None = None
    precision: Word | None = None
    checkpointing: Word | None = None
    optimizer: Word | None = None
    loss: Word | None = None
    sharding: Word | None = None
    packing: bool = False
    #: dollars for a GPU and hour, instead of the table's price
    price: Annotated[float, Meta(ge=0, le=1e6)] | None = None
    rank_by: Literal["gpu-hours", "price"] = "gpu-hours"


class PlannableModel(msgspec.Struct):
    """A built-in model."""

    name: str
    params: int
    max_seq: int


class PlannableGpu(msgspec.Struct):
    """A GPU of the table."""

    name: str
    memory_bytes: int
    price: float | None
    #: whose price it is
    offer: str


class PlanOptions(msgspec.Struct):
    """What a plan can be asked for."""

    models: list[PlannableModel]
    gpus: list[PlannableGpu]
    choices: dict[str, list[str]]
    price_note: str


class PlanReply(msgspec.Struct):
    """Plans for one type of GPU, best first, and what was rejected."""

    model: dict[str, Any]
    tokens: float
    #: how memory was predicted
    note: str
    mfu_convention: str
    #: how good the plans of the team's finished runs were
    so_far: str
    #: as in `yard plan --json`
    plans: dict[str, Any]


class PlanRoutes:
    """Handlers of plans."""

    def __init__(self, services: Services) -> None:
        self._db = services.database
        self._names = services.tracking.names

    async def options(self, request: Request) -> Response:
        """GET /api/v1/plans/options."""
        models = [PlannableModel(one.name, one.params(), one.max_seq) for one in BUILT_IN.values()]
        gpus = [
            PlannableGpu(one.name, one.memory_bytes, one.price, one.offer)
            for one in gpu_table().values()
        ]
        choices = {name: list(values) for name, values in CHOICES.items()}
        found = PlanOptions(models=models, gpus=gpus, choices=choices, price_note=price_note())
        return JSONResponse(found)

    async def plan(self, request: Request) -> Response:
        """POST /api/v1/plans: nothing is kept."""
        body = await decode(request, PlanBody)
        pairs = await self._db.read(lambda reader: self._pairs(reader, request.principal))
        # A fifth of a second of arithmetic: not on the loop.
        return JSONResponse(await asyncio.to_thread(planned, body, pairs))

    def _pairs(
        self, reader: ReadConnection, principal: Principal
    ) -> list[calibration.PlanOutcome]:
        """Read what the team's finished runs predicted, and what came of it."""
        experiments, _ = find_experiments(
            reader, team_id=principal.team_id, max_results=COMPARED_RUNS
        )
        ids, _ = find_runs(
            reader,
            names=self._names,
            team_id=principal.team_id,
            experiment_ids=experiments,
            filter=f"metrics.`{calibration.ACTUAL_PEAK}` > 0",
            max_results=COMPARED_RUNS,
        )
        if not ids:
            return []
        table = read_table(
            reader,
            self._names,
            principal,
            ids,
            metrics=calibration.METRICS,
            params=calibration.PARAMS,
            tags=(),
        )
        return calibration.pairs_of(msgspec.to_builtins(table))


def planned(body: PlanBody, pairs: list[calibration.PlanOutcome]) -> PlanReply:
    """Plan what a body asks for; what cannot be planned is refused with what to do."""
    try:
        shape = _shape(body)
        kind = with_price(find_gpu(body.gpu), body.price)
        asked = PlanRequest(
            shape,
            kind,
            gpus=body.gpus,
            nodes=body.nodes,
            seq=body.seq,
            global_batch=body.global_batch,
            given=_given(body),
            tokens=body.tokens,
            by_price=body.rank_by == "price",
            factors=calibration.factors(kind.name, pairs),
        )
        plans = search(asked)
        found = as_json(plans, answers(plans))
    except SetupError as fault:
        hint = f"; {fault.hint}" if fault.hint else ""
        raise InvalidInput(f"{fault.message}{hint}") from fault
    return PlanReply(
        model=shape.json(),
        tokens=body.tokens,
        note=CLOSED_FORM,
        mfu_convention=MFU_CONVENTION,
        so_far=calibration.accuracy(pairs).sentence(),
        plans=found,
    )


def _shape(body: PlanBody) -> ModelShape:
    if body.config is None:
        shape = BUILT_IN.get(body.model.lower())
        if shape is None:
            raise SetupError(
                f"{body.model[:80]!r} is not a built-in model",
                hint="choose one of the list, or send the model's config.json as `config`",
            )
        return shape
    try:
        shape = shape_of(body.config, body.model[:80])
    except (TypeError, ValueError, OverflowError, ZeroDivisionError, AttributeError) as fault:
        raise SetupError(f"the config cannot be read: {fault}") from fault
    return checked(shape)


def checked(shape: ModelShape) -> ModelShape:
    """Refuse sizes that no model has, so that arithmetic over them ends."""
    sizes = (shape.hidden, shape.heads, shape.kv_heads, shape.head_dim, shape.intermediate)
    is_sane = all(0 < size <= 10_000_000 for size in (*sizes, shape.vocab))
    if not is_sane or not 0 < shape.layers <= 1000:
        raise SetupError("the config has a size below 1, above 10,000,000, or over 1,000 layers")
    return shape


def _given(body: PlanBody) -> dict[str, Any]:
    given = {name: getattr(body, name) for name in CHOICES}
    for name, value in given.items():
        if value is not None and value not in CHOICES[name]:
            hint = suggestion(value, CHOICES[name]) or f"one of {', '.join(CHOICES[name])}"
            raise SetupError(f"{name} cannot be {value[:80]!r}", hint=hint)
    return {name: value for name, value in given.items() if value is not None} | (
        {"packing": True} if body.packing else {}
    )


def routes(services: Services) -> list[Route]:
    """Return the routes of plans."""
    do = PlanRoutes(services)
    return [
        Route(
            method="GET",
            path="/api/v1/plans/options",
            handler=do.options,
            permission=Permission.READ,
            gives=PlanOptions,
        ),
        Route(
            method="POST",
            path="/api/v1/plans",
            handler=do.plan,
            permission=Permission.READ,
            takes=PlanBody,
            gives=PlanReply,
        ),
    ]
