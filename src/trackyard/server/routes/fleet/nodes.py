"""Nodes and the cluster as a whole over HTTP: who holds what, and what cannot be met."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from trackyard.access.principal import Principal
from trackyard.control.foreign import is_foreign
from trackyard.control.loop import LastPass
from trackyard.core.errors import InvalidInput, NotFound
from trackyard.core.node import NodeState
from trackyard.core.reasons import Tier
from trackyard.core.resources import WHOLE
from trackyard.fleet import nodes as fleet_nodes
from trackyard.fleet.nodes import NodeProperties, NodeRow
from trackyard.fleet.verdicts import (
    CheckRow,
    VerdictRow,
    load_checks,
    load_verdicts,
    overall,
)
from trackyard.queue.views import ReasonView, reason_view
from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.routes.body import decode
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.server.startup.engines import shared_rights
from trackyard.store.bounds import Int64, Labels, Line, Word, Words
from trackyard.store.database import ReadConnection

#: Reasons that more or other hardware would lift.
_DEMAND = (Tier.INFEASIBLE, Tier.CAPACITY, Tier.PRIORITY, Tier.UNHEALTHY)


class GpuHolder(msgspec.Struct):
    """A job on a GPU or node; of other teams' jobs, as in the queue, the team and no more."""

    #: empty where the job is another team's
    job_id: str
    name: str
    user: str
    team: str
    #: share of the GPU, or of the node's CPUs
    share: float


class GpuView(msgspec.Struct):
    """A GPU and who is on it."""

    index: int
    type: str
    memory_bytes: int
    vendor: str
    free: float
    holders: list[GpuHolder]


class CheckView(msgspec.Struct):
    """How one health check of a node stands."""

    #: gpus, ecc, remap, xid, temperature, throttle, disk, processes, clock or jobs
    name: str
    #: ok, warn or fail
    verdict: str
    sentence: str
    number: float | None
    unit: str
    #: who looked: engine, runner or server
    source: str
    at_ms: int
    since_ms: int
    #: looks in a row that failed, and that did not
    failed: int
    passed: int


class VerdictView(msgspec.Struct):
    """One line of a node's log of verdicts."""

    id: int
    name: str
    verdict: str
    sentence: str
    number: float | None
    unit: str
    source: str
    #: the attempt around which it was seen; empty for none
    attempt_id: str
    at_ms: int


class VerdictList(msgspec.Struct):
    """A node's verdicts, newest first."""

    verdicts: list[VerdictView]


class NodeView(msgspec.Struct):
    """A node and what runs there."""

    node_id: str
    hostname: str
    #: ready, drained, quarantined or down
    state: str
    note: str
    actor: str
    cpus: float
    free_cpus: float
    memory_bytes: int
    free_memory_bytes: int
    gpus: list[GpuView]
    labels: dict[str, str]
    notes: list[str]
    #: jobs of the caller's team there
    jobs: list[str]
    job_count: int
    joined_ms: int
    changed_ms: int
    #: ok, warn, fail, or unknown where nobody looked
    health: str
    checks: list[CheckView]
    properties: NodeProperties
    #: labels that an operator set; `labels` holds them, too
    own_labels: dict[str, str]
    #: when a drain ends by itself
    until_ms: int | None
    #: operator or health
    state_by: str
    state_ms: int
    #: GPUs it has when it is whole
    expected_gpus: int


class NodeList(msgspec.Struct):
    """Every node."""

    nodes: list[NodeView]


class UnmetDemand(msgspec.Struct):
    """Waiting jobs of one kind that the hardware cannot meet now, and why."""

    gpus: float
    nodes: int
    gpu_types: list[str]
    jobs: int
    #: first few, of the caller's team
    job_ids: list[str]
    reason: ReasonView


class Totals(msgspec.Struct):
    """The yard in a few numbers."""

    nodes: int
    nodes_ready: int
    gpus: int
    gpus_free: float
    gpus_held: float
    cpus: float
    jobs_queued: int
    jobs_running: int
    #: GPUs that waiting jobs ask for
    gpus_wanted: float


class FleetView(msgspec.Struct):
    """The cluster now."""

    engine: str
    leader: bool
    #: when the queue was last looked at, and how long that took
    pass_ms: int
    pass_seconds: float
    totals: Totals
    nodes: list[NodeView]
    demand: list[UnmetDemand]


class DrainRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Why a node is drained."""

    note: Line = ""
    #: drained, or quarantined by a failed check
    state: Word = "drained"
    #: when it takes work again by itself; milliseconds since the epoch
    until_ms: Int64 | None = None


class QuarantineRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Why a node is taken out of service."""

    why: Line


class LabelRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Labels to set and to remove."""

    set: Labels = {}
    remove: Words = []


class NodeRoutes:
    """Handlers of nodes."""

    def __init__(self, services: Services) -> None:
        self._db = services.database
        self._jobs = services.jobs
        self._settings = services.settings
        self._engine = services.settings.engine

    async def nodes(self, request: Request) -> Response:
        """GET /api/v1/nodes."""
        return JSONResponse(NodeList(await self._views(request.principal)))

    async def node(self, request: Request) -> Response:
        """GET /api/v1/nodes/{node}."""
        for view in await self._views(request.principal):
            if view.node_id == request.params["node"]:
                return JSONResponse(view)
        raise NotFound(f"no node {request.params['node'][:80]!r}; `yard nodes` lists the nodes")

    async def cluster(self, request: Request) -> Response:
        """GET /api/v1/cluster: nodes, GPUs with holders, and demand that cannot be met."""
        looked = await self._jobs.scheduler.view()
        views = await self._views(request.principal)

        def sums() -> FleetView:
            return FleetView(
                engine=self._engine,
                leader=self._jobs.scheduler.is_leader,
                pass_ms=looked.at_ms,
                pass_seconds=round(looked.took_seconds, 4),
                totals=_totals(looked, views),
                nodes=views,
                demand=_demand(looked, request.principal),
            )

        # Ten thousand jobs may be waiting.
        return JSONResponse(await asyncio.get_running_loop().run_in_executor(None, sums))

    async def drain(self, request: Request) -> Response:
        """POST /api/v1/nodes/{node}/drain: what runs there ends by itself, nothing new starts."""
        wish = await decode(request, DrainRequest)
        if wish.state not in (NodeState.DRAINED, NodeState.QUARANTINED):
            raise InvalidInput(f"state is drained or quarantined, not {wish.state[:40]!r}")
        state = NodeState(wish.state)
        return await self._set(request, state, wish.note, wish.until_ms)

    async def quarantine(self, request: Request) -> Response:
        """POST /api/v1/nodes/{node}/quarantine: out of service until someone gives it back."""
        wish = await decode(request, QuarantineRequest)
        if not wish.why.strip():
            raise InvalidInput("a quarantine needs a reason: say why the node is not to be used")
        return await self._set(request, NodeState.QUARANTINED, wish.why)

    async def undrain(self, request: Request) -> Response:
        """POST /api/v1/nodes/{node}/undrain: it takes work again."""
        return await self._set(request, NodeState.READY, "")

    async def label(self, request: Request) -> Response:
        """PUT /api/v1/nodes/{node}/labels: set and remove labels; they outlive restarts."""
        wish = await decode(request, LabelRequest)
        node, actor = request.params["node"], request.principal.name
        await self._db.write(
            lambda tx: fleet_nodes.set_labels(tx, node, wish.set, wish.remove, actor=actor)
        )
        self._jobs.scheduler.wake()
        return await self.node(request)

    async def verdicts(self, request: Request) -> Response:
        """GET /api/v1/nodes/{node}/verdicts: what health checks found, newest first."""
        node = request.params["node"]
        limit = min(max(request.number("limit", 100), 1), 1000)
        name = request.arg("check") or ""

        def load(reader: ReadConnection) -> list[VerdictView]:
            fleet_nodes.find(reader, node)
            rows = load_verdicts(reader, node, limit=limit, name=name)
            return [_verdict(row, request.principal) for row in rows]

        return JSONResponse(VerdictList(await self._db.read(load)))

    async def _set(
        self, request: Request, state: NodeState, note: str, until_ms: int | None = None
    ) -> Response:
        node, actor = request.params["node"], request.principal.name
        fleet = self._jobs.scheduler.fleet
        await self._db.write(
            lambda tx: fleet.set_state(tx, node, state, note=note, actor=actor, until_ms=until_ms)
        )
        self._jobs.scheduler.wake()
        return await self.node(request)

    async def _views(self, principal: Principal) -> list[NodeView]:
        looked = await self._jobs.scheduler.view()
        rows, checks, warning = await self._db.read(
            lambda reader: (
                fleet_nodes.load(reader),
                load_checks(reader),
                shared_rights(self._settings, reader),
            )
        )
        views = [_view(row, checks.get(row.id, []), looked, principal) for row in rows]
        if warning and principal.is_admin:
            for view in views:
                view.notes = [*view.notes, warning]
        return views


def _verdict(row: VerdictRow, principal: Principal) -> VerdictView:
    """Return a line of the log; what another team's attempt said is told without its words."""
    view = VerdictView(**{key: getattr(row, key) for key in VerdictView.__struct_fields__})
    if row.attempt_id and row.team_id != principal.team_id and not principal.is_admin:
        view.sentence, view.attempt_id, view.unit = "An attempt of another team said so.", "", ""
    return view


def _view(
    row: NodeRow, checks: list[CheckRow], looked: LastPass, principal: Principal
) -> NodeView:
    facts = row.facts
    gpus = {
        gpu.index: GpuView(gpu.index, gpu.model, gpu.memory_bytes, gpu.vendor, 1.0, [])
        for gpu in facts.gpus
    }
    cpus, memory, mine, count = facts.cpus, facts.memory_bytes, [], 0
    for running in looked.loaded.snapshot.running:
        for share in running.placement.shares:
            if share.node != row.id:
                continue
            count += 1
            cpus -= share.cpu_milli / WHOLE
            memory -= share.memory_bytes
            holder = _holder(looked, running.job.id, principal, share.gpu_milli / WHOLE)
            if holder.job_id:
                mine.append(holder.job_id)
            for index in share.gpus:
                if index in gpus:
                    gpus[index].holders.append(holder)
                    gpus[index].free = round(gpus[index].free - holder.share, 3)
    return NodeView(
        node_id=row.id,
        hostname=facts.hostname,
        state=row.in_force.value,
        note=row.note,
        actor=row.actor,
        cpus=facts.cpus,
        free_cpus=round(max(0.0, cpus), 3),
        memory_bytes=facts.memory_bytes,
        free_memory_bytes=max(0, memory),
        gpus=list(gpus.values()),
        labels=row.labels,
        notes=facts.notes,
        jobs=mine,
        job_count=count,
        joined_ms=row.joined_ms,
        changed_ms=row.changed_ms,
        health=overall(checks),
        checks=[
            CheckView(**{key: getattr(check, key) for key in CheckView.__struct_fields__})
            for check in checks
        ],
        properties=row.properties,
        own_labels=row.own_labels,
        until_ms=row.until_ms,
        state_by=row.state_by,
        state_ms=row.state_ms,
        expected_gpus=row.expected_gpus,
    )


def _holder(looked: LastPass, job_id: str, principal: Principal, share: float) -> GpuHolder:
    if is_foreign(job_id):
        return GpuHolder("", job_id, "", "past the queue", share)
    row, _ = looked.loaded.running[job_id]
    if row.team_id != principal.team_id and not principal.is_admin:
        return GpuHolder("", "", "", _team(looked, job_id), share)
    running = looked.loaded.running[job_id][0]
    return GpuHolder(job_id, running.name, running.user_name, _team(looked, job_id), share)


def _team(looked: LastPass, job_id: str) -> str:
    return next((r.job.team for r in looked.loaded.snapshot.running if r.job.id == job_id), "")


def _totals(looked: LastPass, views: list[NodeView]) -> Totals:
    ready = [view for view in views if view.state == "ready"]
    snapshot = looked.loaded.snapshot
    gpus = sum(len(view.gpus) for view in ready)
    free = sum(gpu.free for view in ready for gpu in view.gpus)
    return Totals(
        nodes=len(views),
        nodes_ready=len(ready),
        gpus=gpus,
        gpus_free=round(free, 3),
        gpus_held=round(gpus - free, 3),
        cpus=sum(view.cpus for view in ready),
        jobs_queued=len(snapshot.waiting),
        jobs_running=len(snapshot.running),
        gpus_wanted=sum(one.job.request.total_gpus for one in snapshot.waiting),
    )


def _demand(looked: LastPass, principal: Principal) -> list[UnmetDemand]:
    """Group what waits for hardware by what it asks for."""
    found: dict[Any, UnmetDemand] = {}
    for one in looked.loaded.snapshot.waiting:
        reasons = looked.decisions.reasons.get(one.job.id)
        if not reasons or reasons[0].tier not in _DEMAND:
            continue
        request = one.job.request
        key = (request, reasons[0].code)
        row = looked.loaded.waiting[one.job.id]
        if key not in found:
            found[key] = UnmetDemand(
                gpus=request.total_gpus,
                nodes=request.nodes,
                gpu_types=list(request.gpu_types),
                jobs=0,
                job_ids=[],
                reason=reason_view(reasons[0]),
            )
        found[key].jobs += 1
        if len(found[key].job_ids) < 5 and row.team_id == principal.team_id:
            found[key].job_ids.append(one.job.id)
    worst = {tier.value: tier.rank for tier in Tier}
    return sorted(found.values(), key=lambda one: (worst[one.reason.tier], -one.jobs))[:50]


def routes(services: Services) -> list[Route]:
    """Return the routes of nodes."""
    do, read, admin = NodeRoutes(services), Permission.READ, Permission.ADMIN

    def route(method: str, path: str, handler: Any, permission: Permission, **types: Any) -> Route:
        return Route(
            method=method, path=f"/api/v1/{path}", handler=handler, permission=permission, **types
        )

    return [
        route("GET", "nodes", do.nodes, read, gives=NodeList),
        route("GET", "nodes/{node}", do.node, read, gives=NodeView),
        route("POST", "nodes/{node}/drain", do.drain, admin, takes=DrainRequest, gives=NodeView),
        route("POST", "nodes/{node}/undrain", do.undrain, admin, gives=NodeView),
        route(
            "POST",
            "nodes/{node}/quarantine",
            do.quarantine,
            admin,
            takes=QuarantineRequest,
            gives=NodeView,
        ),
        route("PUT", "nodes/{node}/labels", do.label, admin, takes=LabelRequest, gives=NodeView),
        route(
            "GET",
            "nodes/{node}/verdicts",
            do.verdicts,
            read,
            gives=VerdictList,
            query={"limit": "how many, at most 1000", "check": "of one check alone"},
        ),
        route("GET", "cluster", do.cluster, read, gives=FleetView),
    ]
