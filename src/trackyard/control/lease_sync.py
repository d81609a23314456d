"""Where leases meet the queue: drains before a lease begins and ends, lending, and the engine.

Owns who is asked to make room and when, and what the engine is told of leases. The calendar
decides about leases (`leases.upkeep`), the scheduler about jobs; this module carries facts from
one to the other, as load, process, apply.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from trackyard.control.loop import LastPass, SchedulingLoop
from trackyard.core.errors import Conflict, NotFound
from trackyard.core.job import Job
from trackyard.core.lease import Lease, LeaseState
from trackyard.core.ports import EngineError, EngineNotice, ExitCause, LeaseHold, NoticeKind
from trackyard.core.reasons import Tier
from trackyard.leases import life
from trackyard.leases.plan.calendar import RunningJob
from trackyard.leases.plan.world import LeaseWorld, usable_until
from trackyard.leases.records import LeaseRecord, find_lease, load_leases, scheduler_leases
from trackyard.leases.service import Leases
from trackyard.leases.upkeep import Activity, apply, due
from trackyard.leases.wording import spoken
from trackyard.queue.records import JobRow, job_by_inner, load_specs
from trackyard.queue.transitions import ask_stop
from trackyard.scheduling import ActiveJob
from trackyard.store.database import Database, ReadConnection, Tx

log = logging.getLogger(__name__)

#: Steps of life that one tick may take, so that a lease missed altogether is caught up with.
ROUNDS = 6
#: Between a job's grace and the edge, for what a stop itself takes.
SLACK_MS = 2_000
#: Grace that leaves room for nothing else: a lease never waits longer for a job.
MOST_GRACE_MS = 30 * 60_000
#: Grace of a job that began when its own grace would have had it stop already.
LATE_GRACE_MS = 30_000
_HOPELESS = (Tier.MISCONFIGURED, Tier.INFEASIBLE, Tier.DEPENDENCY, Tier.OVER_QUOTA)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseDrain:
    """A job that must make room."""

    row: JobRow
    grace_seconds: float
    sentence: str


class LeaseSync:
    """Keeps leases and the queue in step, while this server leads."""

    def __init__(self, database: Database, leases: Leases, scheduler: SchedulingLoop) -> None:
        self._db = database
        self._leases = leases
        self._scheduler = scheduler
        #: what this server told the engine, which may forget with it, of each lease
        self._told: dict[str, str] = {}
        #: what the engine said of leases and is not written yet
        self._heard: list[EngineNotice] = []
        scheduler.on_lease_notice = self._hear
        leases.on_change = scheduler.wake
        leases.occupants = self.occupants
        scheduler.keep_leases = self.tick

    async def tick(self) -> bool:
        """Do what is due; tell whether the queue should be looked at again."""
        held = await self._db.read(_are_there_any)
        if not held:
            return False
        changed = False
        for _ in range(ROUNDS):
            if not await self._keep():
                break
            changed = True
            # What was seen of the queue rests on the leases as they were.
            self._scheduler.wake()
        changed |= await self._drain()
        await self._tell_engine()
        await self._write_heard()
        return changed

    async def _keep(self) -> bool:
        looked = await self._scheduler.view()
        occupants = await self.occupants()
        now_ms = self._db.clock.time_ms()
        world = await self._db.read(lambda reader: self._leases.world(reader, now_ms, occupants))
        todo = due(world, activities(world, looked))
        if not todo:
            return False

        def change(tx: Tx) -> int:
            self._scheduler.leadership.prove(tx)
            return apply(tx, todo, world)

        return bool(await self._db.write(change))

    # -- jobs -------------------------------------------------------------------------------

    async def occupants(self) -> list[RunningJob]:
        """Return what runs now, as the calendar sees it."""
        looked = await self._scheduler.view()
        graces = await self._graces(looked)
        ends = {lease.id: lease.ends_at for lease in looked.loaded.snapshot.leases}
        return [_occupant(one, graces, ends) for one in looked.loaded.snapshot.running]

    async def _drain(self) -> bool:
        """Ask those to save and stop whose time on their nodes is up."""
        looked = await self._scheduler.view()
        if not looked.loaded.snapshot.running:
            return False
        graces = await self._graces(looked)
        now_ms = self._db.clock.time_ms()
        world = await self._db.read(lambda reader: self._leases.world(reader, now_ms))
        drains = list(_drains(world, looked, graces))
        if not drains:
            return False
        asked = await self._db.write(lambda tx: self._ask(tx, drains))
        if asked:
            self._scheduler.wake()
        return bool(asked)

    def _ask(self, tx: Tx, drains: Sequence[LeaseDrain]) -> int:
        self._scheduler.leadership.prove(tx)
        asked = 0
        for one in drains:
            job = job_by_inner(tx, one.row.id, lock=True)
            if job.version != one.row.version:
                continue
            with contextlib.suppress(Conflict):
                ask_stop(
                    tx,
                    job,
                    reason=ExitCause.PREEMPTED,
                    grace_seconds=one.grace_seconds,
                    actor="system",
                    sentence=one.sentence,
                )
                asked += 1
        return asked

    async def _graces(self, looked: LastPass) -> dict[str, int]:
        rows = {job: row.spec_id for job, (row, _) in looked.loaded.running.items()}
        if not rows:
            return {}
        specs = await self._db.read(lambda reader: load_specs(reader, set(rows.values())))
        return {
            job: min(int(specs[spec].grace_seconds * 1000), MOST_GRACE_MS)
            for job, spec in rows.items()
        }

    # -- the engine -------------------------------------------------------------------------

    async def _tell_engine(self) -> None:
        """Tell the engine which nodes are held for whom, where that changed."""
        records = await self._db.read(_to_tell)
        for record in records:
            wanted = _fingerprint(record)
            if not wanted == record.row.hold == self._told.get(record.row.lease_id, ""):
                await self._tell(record, wanted)
        # Another server may have led, and dropped them, since.
        gone = self._told.keys() - {record.row.lease_id for record in records}
        for lease_id in sorted(gone):
            if await self._call_engine(lease_id, None):
                del self._told[lease_id]

    async def _tell(self, record: LeaseRecord, wanted: str) -> None:
        lease_id = record.row.lease_id
        if not await self._call_engine(lease_id, hold_of(record) if wanted else None):
            return
        if wanted:
            self._told[lease_id] = wanted
        else:
            self._told.pop(lease_id, None)
        if wanted != record.row.hold:
            await self._db.write(lambda tx: _note_hold(tx, lease_id, wanted))

    async def _call_engine(self, lease_id: str, hold: LeaseHold | None) -> bool:
        """Have the engine hold a lease, or drop it; tell whether it was told."""
        dispatcher = self._scheduler.dispatcher
        try:
            if hold is not None:
                await dispatcher.call(lambda: dispatcher.engine.hold_lease(hold))
            else:
                await dispatcher.call(lambda: dispatcher.engine.drop_lease(lease_id))
        except EngineError as fault:
            log.warning("the engine was not told of lease %s: %s", lease_id, fault)
            return False
        return True

    def _hear(self, notice: EngineNotice) -> None:
        self._heard.append(notice)
        self._scheduler.wake()

    async def _write_heard(self) -> None:
        """Write what the engine said of leases into their history."""
        heard, self._heard = self._heard, []
        if heard:
            await self._db.write(lambda tx: self._note_heard(tx, heard))

    def _note_heard(self, tx: Tx, heard: Sequence[EngineNotice]) -> None:
        self._scheduler.leadership.prove(tx)
        for notice in heard:
            with contextlib.suppress(NotFound):
                record = find_lease(tx, notice.subject, None)
                is_crossed = notice.kind is NoticeKind.LEASE_CROSSED
                kind = "lease.crossed" if is_crossed else "lease.shaken"
                life.step(tx, record, event=kind, sentence=notice.detail)


def activities(world: LeaseWorld, looked: LastPass) -> dict[str, Activity]:
    """Say for each lease what goes on at its nodes."""
    snapshot = looked.loaded.snapshot
    pieces: dict[str, list[Lease]] = {}
    for lease in scheduler_leases(world.records):
        pieces.setdefault(lease.part_of or lease.id, []).append(lease)
    found = {}
    for record in world.records:
        lease_id = record.row.lease_id
        parts = [
            part
            for part in pieces.get(lease_id, ())
            if part.overlaps(start=world.now_ms / 1000, end=world.now_ms / 1000 + 1)
        ]
        nodes = {node for part in parts for node in part.nodes} or set(record.nodes)
        there = [one.job for one in snapshot.running if nodes & set(one.placement.nodes)]
        own = [job for job in there if _is_own(record, job)]
        found[lease_id] = Activity(
            own=len(own),
            foreign=len(there) - len(own),
            named=sum(one.job.lease == lease_id for one in snapshot.running),
            wanted=_is_wanted(record, looked),
        )
    return found


def hold_of(record: LeaseRecord) -> LeaseHold:
    """Say a lease in the engine's words."""
    row = record.row
    return LeaseHold(
        lease_id=row.lease_id,
        node_ids=record.nodes,
        starts_at=datetime.fromtimestamp(row.starts_ms / 1000, UTC),
        ends_at=datetime.fromtimestamp(row.ends_ms / 1000, UTC),
        users=(record.only_user,) if record.only_user else (),
    )


def _is_own(record: LeaseRecord, job: Job) -> bool:
    if job.lease:
        return job.lease == record.row.lease_id
    return job.team == record.team and record.only_user in ("", job.user)


def _is_wanted(record: LeaseRecord, looked: LastPass) -> bool:
    """Say whether a job of the holder waits that could run on the lease's nodes."""
    snapshot = looked.loaded.snapshot
    if record.state is not LeaseState.ACTIVE:
        return False
    nodes = [node for node in snapshot.nodes if node.id in record.nodes]
    for one in snapshot.waiting:
        job, request = one.job, one.job.request
        if not _is_own(record, job) or job.held or job.not_before > snapshot.now:
            continue
        reasons = looked.decisions.reasons.get(job.id, ())
        if reasons and reasons[0].tier in _HOPELESS:
            continue
        if any(
            len(node.gpus) >= request.gpus
            and (not request.gpu_types or node.gpu_type in request.gpu_types)
            for node in nodes
        ):
            return True
    return False


def _drains(
    world: LeaseWorld, looked: LastPass, graces: Mapping[str, int]
) -> Iterable[LeaseDrain]:
    now_ms = world.now_ms
    records = {record.row.lease_id: record for record in world.records}
    leases = scheduler_leases(world.records)
    for one in looked.loaded.snapshot.running:
        rows = looked.loaded.running.get(one.job.id)
        if one.stops_at is not None or rows is None:
            continue
        grace = _grace(one, leases, graces.get(one.job.id, 30_000))
        words = _for_others(one, leases, records, now_ms, grace)
        words = words or _for_end(one, records, world, grace)
        if words:
            yield LeaseDrain(row=rows[0], grace_seconds=grace / 1000, sentence=words)


def _grace(one: ActiveJob, leases: Sequence[Lease], grace_ms: int) -> int:
    """Return the grace of a job; one that began shortly before a lease has little to save.

    Otherwise a long grace would have it stopped as soon as it starts, and start again.
    """
    started = one.started_at * 1000
    edges = [
        lease.starts_at * 1000
        for lease in leases
        if set(lease.nodes) & set(one.placement.nodes) and lease.starts_at > one.started_at
    ]
    is_late = any(edge - grace_ms - 2 * SLACK_MS < started for edge in edges)
    return min(grace_ms, LATE_GRACE_MS) if is_late else grace_ms


def _for_others(
    one: ActiveJob,
    leases: Sequence[Lease],
    records: Mapping[str, LeaseRecord],
    now_ms: int,
    grace_ms: int,
) -> str:
    """Say which lease of others a job must make room for now; empty: none."""
    job = one.job
    for lease in leases:
        if not set(lease.nodes) & set(one.placement.nodes):
            continue
        if lease.admits(
            team=job.team, user=job.user, lease=job.lease, preemptible=job.preemptible
        ):
            continue
        begin = lease.starts_at * 1000 - grace_ms - SLACK_MS
        if begin <= now_ms < lease.ends_at * 1000:
            row = records[lease.part_of or lease.id].row
            when = spoken(row.starts_ms)
            back = row.starts_ms <= now_ms and row.state == LeaseState.ACTIVE.value
            verb = "needs its nodes back" if back else f"begins at {when}"
            return f"Lease {row.name} of {row.user_name} {verb}."
    return ""


def _for_end(
    one: ActiveJob, records: Mapping[str, LeaseRecord], world: LeaseWorld, grace_ms: int
) -> str:
    """Say whether a job's own lease is about to end; empty: it is not, or the job has none."""
    if not one.job.lease:
        return ""
    record = records.get(one.job.lease)
    if record is None or record.state is LeaseState.TERMINATING:
        return f"Its lease {record.row.name if record else one.job.lease} is over."
    row = record.row
    until, follower = usable_until(record.promise, world.calendar, world.rules)
    if row.before_end == "drain" and not follower:
        until = row.ends_ms - grace_ms - SLACK_MS
    elif row.before_end == "notify":
        until = row.ends_ms
    started = int(one.started_at * 1000)
    # A job with a long grace is not stopped before it has begun.
    if world.now_ms >= max(until, min(started + grace_ms, row.ends_ms)):
        return f"Its lease {row.name} ends at {spoken(row.ends_ms)}."
    return ""


def _occupant(one: ActiveJob, graces: Mapping[str, int], ends: Mapping[str, float]) -> RunningJob:
    job = one.job
    known = [ends[job.lease]] if job.lease in ends else []
    if one.stops_at is not None:
        known.append(one.stops_at)
    elif job.time_limit_seconds is not None:
        known.append(one.started_at + job.time_limit_seconds)
    return RunningJob(
        job_id=job.id,
        name=job.name,
        user=job.user,
        team=job.team,
        nodes=one.placement.nodes,
        ends_ms=int(min(known) * 1000) if known else None,
        preemptible=job.preemptible,
        grace_ms=graces.get(job.id, 30_000),
        lease=job.lease,
    )


def _are_there_any(reader: ReadConnection) -> bool:
    row = reader.one(
        "SELECT 1 FROM leases WHERE state IN ('creating', 'pending', 'starting', 'active',"
        " 'updating', 'terminating', 'error', 'deleting') LIMIT 1"
    )
    return (
        row is not None or reader.one("SELECT 1 FROM leases WHERE hold <> '' LIMIT 1") is not None
    )


def _to_tell(reader: ReadConnection) -> list[LeaseRecord]:
    return load_leases(reader, "l.state NOT IN ('terminated', 'deleted') OR l.hold <> ''")


def _fingerprint(record: LeaseRecord) -> str:
    if record.state.is_over or record.state is LeaseState.TERMINATING:
        return ""
    row = record.row
    return f"{row.starts_ms}-{row.ends_ms} {record.only_user} {' '.join(record.nodes)}"


def _note_hold(tx: Tx, lease_id: str, hold: str) -> None:
    life.note(tx, find_lease(tx, lease_id, None), hold=hold)
