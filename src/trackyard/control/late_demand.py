"""Where running attempts ask for nodes and wait until the queue gives them.

Owns the waiting. What a claim is, and how it is placed, is told by `demand` and the queue itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING

import msgspec

from trackyard.access.principal import Principal
from trackyard.core.errors import Conflict
from trackyard.core.reasons import EVALUATING
from trackyard.core.resources import WHOLE, Placement
from trackyard.queue.attempts import demand as claims
from trackyard.queue.attempts.demand import ClaimStatus, DemandRequest
from trackyard.queue.attempts.trials import TrialReply, TrialReport, report
from trackyard.queue.records import job_by_inner, load_attempts, load_spec
from trackyard.queue.submit.gang_shapes import (
    GangChoice,
    WorkerRequest,
    ask_of,
    check_ask,
    choose,
    parse_gang,
    words,
)
from trackyard.scheduling import ActiveJob, Snapshot
from trackyard.store.database import Database, ReadConnection, Tx

if TYPE_CHECKING:
    from trackyard.control.loop import LastPass, SchedulingLoop

#: Longest that one call waits for its answer; whoever still waits asks again.
MAX_WAIT_SECONDS = 30.0
LOOK_SECONDS = 0.2
#: How often a waiting claim tries the other ways in which its workers could sit.
RESHAPE_SECONDS = 2.0
#: the label by which an engine tells what its cluster calls a node
ENGINE_ID = "ray-node-id"


class GrantedNode(msgspec.Struct):
    """A node that was given, and how much of it."""

    node: str
    #: what the cluster itself calls this node
    engine_id: str
    gpus: float
    cpus: float


class DemandReply(msgspec.Struct):
    """How a demand stands."""

    #: granted or waiting
    state: str
    #: how many workers it may start; 0 while it waits
    workers: int
    nodes: list[GrantedNode]
    #: the job by which it stands in the queue; empty where the job's own gang holds it
    claim: str
    sentence: str
    position: int | None = None
    reason: str = ""


class ReleaseReply(msgspec.Struct):
    """Whether there was anything to give back."""

    released: bool


class DemandService:
    """The desk itself."""

    def __init__(self, database: Database, scheduler: SchedulingLoop) -> None:
        self._db = database
        self._scheduler = scheduler
        #: workers that declared gangs hold already, by attempt and key
        self._covered: dict[str, dict[str, int]] = {}

    async def ask(self, principal: Principal, demand: DemandRequest) -> DemandReply:
        """Take a demand and wait a while for its grant; asking again goes on waiting."""
        claims.check_demand(demand)
        wants = ask_of(demand.resources, demand.strategy, demand.labels)
        check_ask(demand.workers, wants)
        names = await self._names()
        within = await self._db.peek(
            lambda reader: self._declared(reader, principal, demand, wants, names)
        )
        if within is not None:
            return within
        if demand.probe:
            return await self._probe(principal, demand, wants)
        chosen = await self._choose(principal, demand, wants)

        def change(tx: Tx) -> ClaimStatus:
            attempt = claims.speaker(tx, principal, lock=True)
            return claims.ask(tx, attempt, demand, wants, chosen)

        found = await self._db.write(change)
        self._scheduler.wake()
        found = await self._wait(principal, demand, wants, found)
        return await self._reply(found)

    async def release(self, principal: Principal, key: str) -> ReleaseReply:
        """Give back what was claimed under a key."""

        def change(tx: Tx) -> bool:
            return claims.release(tx, claims.speaker(tx, principal, lock=True), key)

        done = await self._db.write(change)
        assert principal.scope is not None
        mine = self._covered.get(principal.scope.attempt_id, {})
        done |= mine.pop(key, None) is not None
        self._scheduler.wake()
        return ReleaseReply(done)

    async def tell_trials(self, principal: Principal, told: TrialReport) -> TrialReply:
        """Keep what a search tells of its trials."""
        return await self._db.write(lambda tx: report(tx, principal, told))

    # -- within the declaration -------------------------------------------------------------

    def _declared(
        self,
        reader: ReadConnection,
        principal: Principal,
        demand: DemandRequest,
        wants: WorkerRequest,
        names: Mapping[str, str],
    ) -> DemandReply | None:
        """Answer from what the job declared and holds already, where that is enough."""
        attempt = claims.speaker(reader, principal)
        spec = load_spec(reader, job_by_inner(reader, attempt.job).spec_id)
        if not spec.gang:
            return None
        gang = parse_gang(spec.gang)
        self._forget_ended(reader)
        mine = self._covered.setdefault(attempt.attempt_id, {})
        taken = sum(count for key, count in mine.items() if key != demand.key)
        left = gang.workers - taken
        count = min(demand.workers, left)
        if not wants.fits_into(gang.ask) or count < (demand.least or demand.workers):
            return None
        mine[demand.key] = count
        return DemandReply(
            state="granted",
            workers=count,
            nodes=_nodes(attempt.where, names),
            claim="",
            sentence=f"{words(count, wants)} lie within the declared gang {spec.gang}.",
        )

    def _forget_ended(self, reader: ReadConnection) -> None:
        if len(self._covered) > 1000:
            rows = load_attempts(reader, "state IN ('starting', 'running', 'stopping')")
            live = {row.attempt_id for row in rows}
            self._covered = {key: one for key, one in self._covered.items() if key in live}

    async def _names(self) -> dict[str, str]:
        """What the cluster calls each node."""
        nodes = (await self._scheduler.view()).loaded.snapshot.nodes
        return {node.id: node.label(ENGINE_ID) or node.id for node in nodes}

    # -- through the queue ------------------------------------------------------------------

    async def _choose(
        self, principal: Principal, demand: DemandRequest, wants: WorkerRequest
    ) -> GangChoice:
        """Choose how it is asked for; what the demand holds already counts as free to it."""
        seen = (await self._scheduler.view()).loaded.snapshot
        known = await self._db.peek(lambda reader: _known(reader, principal, demand.key))
        mine = "" if known is None else known.job.job_id
        running = [held for held in seen.running if held.job.id != mine]
        least = demand.least or demand.workers
        most = headroom(seen, principal.team, running) if least < demand.workers else inf
        return choose(demand.workers, least, wants, seen.nodes, running, most_gpus=most)

    async def _probe(
        self, principal: Principal, demand: DemandRequest, wants: WorkerRequest
    ) -> DemandReply:
        """Tell whether more than the demand has would be given now."""
        known = await self._db.peek(lambda reader: _known(reader, principal, demand.key))
        has = 0 if known is None or not known.is_granted else known.claim.granted or 0
        chosen = await self._choose(principal, demand, wants)
        more = chosen.fits_now and chosen.workers > has
        return DemandReply(
            state="granted" if more else "waiting",
            workers=chosen.workers if more else has,
            nodes=[],
            claim="" if known is None else known.job.job_id,
            sentence="There is room for more." if more else "There is no room for more now.",
        )

    async def _wait(
        self, principal: Principal, demand: DemandRequest, wants: WorkerRequest, found: ClaimStatus
    ) -> ClaimStatus:
        clock = self._db.clock
        deadline = clock.monotonic() + min(demand.wait_seconds, MAX_WAIT_SECONDS)
        again = clock.monotonic() + RESHAPE_SECONDS
        while not found.is_granted:
            left = deadline - clock.monotonic()
            if left <= 0 or self._scheduler.is_stopping:
                return found
            await asyncio.sleep(min(LOOK_SECONDS, left))
            if clock.monotonic() >= again:
                again = clock.monotonic() + RESHAPE_SECONDS
                await self._reshape(principal, found, demand, wants)
            found = await self._db.peek(lambda reader: _look(reader, principal, demand.key))
        return found

    async def _reshape(
        self, principal: Principal, found: ClaimStatus, demand: DemandRequest, wants: WorkerRequest
    ) -> None:
        chosen = await self._choose(principal, demand, wants)
        spec = await self._db.peek(lambda reader: load_spec(reader, found.job.spec_id))
        if not chosen.fits_now or spec.request == chosen.request:
            return
        await self._db.write(
            lambda tx: claims.reshape(tx, claims.standing(tx, found.claim), chosen)
        )
        self._scheduler.wake()

    async def _reply(self, found: ClaimStatus) -> DemandReply:
        count = found.claim.granted or found.claim.workers
        if found.placement is not None:
            return DemandReply(
                state="granted",
                workers=count,
                nodes=_nodes(found.placement, await self._names()),
                claim=found.job.job_id,
                sentence=f"{words(count, found.claim.wants)} given on"
                f" {', '.join(found.placement.nodes)}.",
            )
        looked: LastPass = await self._scheduler.view()
        reasons = looked.decisions.reasons.get(found.job.job_id) or (EVALUATING,)
        return DemandReply(
            state="waiting",
            workers=0,
            nodes=[],
            claim=found.job.job_id,
            sentence=f"{words(count, found.claim.wants)} waits: {reasons[0].sentence}.",
            position=looked.positions.get(found.job.job_id),
            reason=reasons[0].code.value,
        )


def headroom(seen: Snapshot, team: str, running: Sequence[ActiveJob]) -> float:
    """How many GPUs a team may still take by its own limit."""
    limit = next((one.limit_gpus for one in seen.teams if one.id == team), None)
    if limit is None:
        return inf
    held = sum(one.placement.gpu_milli_total for one in running if one.job.team == team)
    return max(0.0, limit - held / WHOLE)


def _known(reader: ReadConnection, principal: Principal, key: str) -> ClaimStatus | None:
    return claims.find(reader, claims.speaker(reader, principal), key)


def _look(reader: ReadConnection, principal: Principal, key: str) -> ClaimStatus:
    found = _known(reader, principal, key)
    if found is None:
        raise Conflict("this demand was taken back meanwhile")
    return found


def _nodes(placement: Placement, names: Mapping[str, str]) -> list[GrantedNode]:
    return [
        GrantedNode(
            node=share.node,
            engine_id=names.get(share.node, share.node),
            gpus=len(share.gpus) * share.gpu_milli / WHOLE,
            cpus=share.cpu_milli / WHOLE,
        )
        for share in placement.shares
    ]
