"""The admission loop: load, decide, apply. `trackyard.scheduling` decides and nothing else does.

Owns when a pass happens and that its result is applied once, by the elected server. A pass is
woken by submissions, ends, node changes and timers; results of a pass that someone overtook are
dropped row by row.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from trackyard.access.attempt_tokens import drop_old_tokens
from trackyard.control.dispatch import Dispatcher
from trackyard.control.isolation import Weigher
from trackyard.control.launching import environment_of
from trackyard.control.leader import RENEW_SECONDS, Superseded
from trackyard.control.snapshot import LoadedSnapshot, SnapshotLoader
from trackyard.core.errors import Conflict, YardError
from trackyard.core.lease import Lease
from trackyard.core.ports import EngineNotice, ExitCause, NoticeKind
from trackyard.core.reasons import Tier, stands_in_line
from trackyard.queue.attempts.node_load import roll_up
from trackyard.queue.records import (
    FEW_JOBS,
    AttemptRow,
    job_by_inner,
    load_attempts,
    load_spec,
)
from trackyard.queue.retention import Retention, clean
from trackyard.queue.transitions import (
    Admitted,
    admit,
    ask_stop,
    claimant,
    grant,
    job_event,
)
from trackyard.scheduling import Admission, Decisions, Policy, Snapshot, Stop
from trackyard.scheduling.preemption.proof import Fault
from trackyard.store.database import Database, ReadConnection, Tx

log = logging.getLogger(__name__)

#: A pass happens at least this often, whatever wakes it.
PASS_SECONDS = 15.0
TICK_SECONDS = 1.0
#: How often another server's writes are looked for, where there can be any.
POLL_SECONDS = 0.5
RECONCILE_SECONDS = 5.0
#: A look that takes longer is shared by those who ask within two seconds.
LONG_LOOK_SECONDS = 0.02
NODES_SECONDS = 10.0
CLEAN_SECONDS = 3600.0
#: How often the engine is asked what its jobs really hold, where it can tell.
WATCH_SECONDS = 3.0
#: An attempt that was not heard of for so long is lost; after a start everyone gets it anew.
SILENCE_SECONDS = 60.0
#: A leader that took no turn for so long is in trouble; nodes and engines may take their time.
STILL_SECONDS = 120.0
#: How long its tasks, and the word that another may lead, are waited for at the end.
STOP_SECONDS = 2.0
#: A gap between two ticks above this means that the process was frozen or starved.
FROZEN_SECONDS = 5.0
_GRAVE = (Tier.MISCONFIGURED, Tier.INFEASIBLE)


async def _no_watch() -> None:
    """Look at nothing: this server was given no watch."""


async def _no_leases() -> bool:
    return False


@dataclass(frozen=True, kw_only=True)
class LastPass:
    """The last look at the queue: what was seen and what was decided."""

    at_ms: int
    loaded: LoadedSnapshot = field(
        default_factory=lambda: LoadedSnapshot(snapshot=Snapshot(now=0.0, nodes=()))
    )
    decisions: Decisions = field(default_factory=lambda: Decisions(reasons={}))
    #: decisions that broke a rule and were dropped
    faults: Sequence[Fault] = ()
    took_seconds: float = 0.0

    @cached_property
    def positions(self) -> dict[str, int]:
        """Place in the line by job, 1 is next; only of jobs that start when their turn comes."""
        reasons = self.decisions.reasons
        line = (job for job in self.decisions.line if stands_in_line(reasons.get(job)))
        return {job: at for at, job in enumerate(line, start=1)}


class SchedulingLoop:
    """Runs passes while this server leads."""

    def __init__(
        self,
        database: Database,
        dispatcher: Dispatcher,
        policy: Policy,
        *,
        leases: Callable[[ReadConnection], Sequence[Lease]] = lambda _reader: (),
        silence_seconds: float = SILENCE_SECONDS,
        retention: Retention | None = None,
        on_fence: Callable[[], None] = lambda: None,
    ) -> None:
        self._db = database
        self._clock = database.clock
        self.dispatcher = dispatcher
        dispatcher.on_change = self.wake
        self.fleet = dispatcher.fleet
        self.board, self._side_board = SnapshotLoader(policy), SnapshotLoader(policy)
        self._weigher = Weigher()
        #: whether the last turn of the loop failed, and when one last did not
        self._failed, self._attended = False, self._clock.monotonic()
        self._leases = leases
        self._silence_ms = int(silence_seconds * 1000)
        self.leadership = dispatcher.leadership
        self.last: LastPass | None = None
        #: the look that callers are shown, and how many changes there were when it began
        self._shown: LastPass | None = None
        self._shown_at = -1
        self._changes = 0
        #: set once this server, if it leads, has seen the engine's nodes
        self.has_looked = asyncio.Event()
        self.is_leader = False
        self.is_stopping = False
        self._led_since_ms = 0
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._main: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        self._ticked = self._clock.monotonic()
        self._ticked_wall = self._clock.time_ms() / 1000
        self._due = dict.fromkeys(
            ("claim", "reconcile", "nodes", "pass", "clean", "health", "watch"), 0.0
        )
        self._last_event = 0
        self._fencing: set[str] = set()
        self._looking = asyncio.Lock()
        #: brings leases up to the present moment; tells whether something changed
        self.keep_leases: Callable[[], Awaitable[bool]] = _no_leases
        #: hears what the engine says of a lease
        self.on_lease_notice: Callable[[EngineNotice], None] = lambda _notice: None
        #: looks at what jobs really hold
        self.keep_watch: Callable[[], Awaitable[None]] = _no_watch
        #: called when an earlier attempt's credential ended, so that caches forget it
        self._on_fence = on_fence
        #: how long logs and keys are kept
        self.retention = retention or Retention()
        #: what was wrong with the last pass's decisions
        self._refused = ""
        #: grave reasons that were told already, by job
        self._told: dict[str, str] = {}

    # -- life -------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to schedule whenever this server leads."""
        self._loop = asyncio.get_running_loop()
        self._main = self._loop.create_task(self._run(), name="yard-scheduler")

    async def stop(self) -> None:
        """Stop scheduling and let another server take over; jobs run on."""
        self.is_stopping = True
        self._unsubscribe()
        tasks = [task for task in (self._main, *self._tasks) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_SECONDS)
        if self.is_leader:
            with contextlib.suppress(YardError, TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await self._db.write(self.leadership.resign)
        self.is_leader = False
        await self.dispatcher.close()

    def wake(self) -> None:
        """Have a pass soon: something changed."""
        self._changes += 1
        self._wake.set()

    def _noticed(self, notice: EngineNotice) -> None:
        """Take a hint from the engine, on any thread."""
        if self._loop is not None and not self._loop.is_closed():
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._take_hint, notice)

    def _take_hint(self, notice: EngineNotice) -> None:
        if notice.kind is NoticeKind.ATTEMPT_ENDED:
            self._spawn(self.dispatcher.look(notice.subject))
        elif notice.kind in (NoticeKind.LEASE_CROSSED, NoticeKind.LEASE_SHAKEN):
            self.on_lease_notice(notice)
        elif notice.kind in (NoticeKind.ENGINE_SILENT, NoticeKind.ENGINE_ANSWERS):
            self._spawn(self._note_engine(notice))
        elif notice.kind is not NoticeKind.ATTEMPT_STARTED:
            self._due["nodes"] = 0.0
            self.wake()

    async def _note_engine(self, notice: EngineNotice) -> None:
        kind = "engine.silent" if notice.kind is NoticeKind.ENGINE_SILENT else "engine.answers"

        def change(tx: Tx) -> None:
            tx.event(
                kind,
                team_id=None,
                actor="system",
                subject="engine",
                subject_id=notice.subject,
                sentence=notice.detail,
            )

        await self._db.write(change)

    def _spawn(self, work: object) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self) -> None:
        if not await self.open():
            return
        while True:
            await self.attend()
            if self._failed:
                await asyncio.sleep(TICK_SECONDS)
            # A pass over a long queue must leave the server time for its callers.
            took = self.last.took_seconds if self.last is not None else 0.0
            if took > 0.02:
                await asyncio.sleep(min(took, 0.5))
            wait = TICK_SECONDS if self._db.is_sqlite else POLL_SECONDS
            # Not wait_for: before Python 3.12 it loses a cancellation that comes with a wake.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wake.wait()

    async def attend(self) -> None:
        """Take one turn of the loop; what fails is told, and the next turn tries again."""
        try:
            await self.tick()
        except Superseded:
            self.is_leader = False
        except Exception:
            log.exception("scheduling failed; it goes on")
            self._failed = True
        else:
            self._failed, self._attended = False, self._clock.monotonic()

    def trouble(self) -> str:
        """Say what is wrong with scheduling on this server, to anyone; empty: nothing is."""
        if self._failed:
            return (
                "the last scheduling pass failed; it is tried again every second, and the server's"
                " log tells why"
            )
        still = self._clock.monotonic() - self._attended
        if self.is_leader and not self.is_stopping and still > STILL_SECONDS:
            return f"no scheduling pass has ended for {still:.0f} s: the server's log tells why"
        return ""

    def warning(self) -> str:
        """Say what an admin should look at although scheduling goes on; empty: nothing."""
        if not self._refused:
            return ""
        return (
            "decisions of the last scheduling pass broke a rule and were dropped; nobody is"
            f" stopped for others meanwhile, please report this: {self._refused}"
        )

    async def open(self) -> bool:
        """Open the engine and listen to it; return whether this server can schedule."""
        if not await self.dispatcher.open():
            return False
        self._loop = asyncio.get_running_loop()
        self._unsubscribe = self.dispatcher.engine.subscribe(self._noticed)
        return True

    async def tick(self) -> None:
        """Do what is due: lead, look at nodes and attempts, and decide if something changed."""
        woken = self._wake.is_set()
        self._wake.clear()
        self._notice_a_freeze()
        if self._is_due("claim", RENEW_SECONDS):
            await self._claim()
        if not self.is_leader:
            return
        every = self.fleet.policy.every_seconds
        if self._is_due("nodes", min(NODES_SECONDS, every)):
            woken |= await self.look_at_nodes()
        if self._is_due("health", every):
            woken |= await self._db.write(self.fleet.tick)
        if self._is_due("reconcile", RECONCILE_SECONDS):
            await self.dispatcher.reconcile()
            await self.expire()
            await self.dispatcher.settle()
        if self._is_due("watch", WATCH_SECONDS):
            self._spawn(self.keep_watch())
        if self._is_due("clean", CLEAN_SECONDS):
            await self._db.write(drop_old_tokens)
            await self._db.write(roll_up)
            self._spawn(self._clean())
        woken |= await self.keep_leases()
        woken |= self._is_time() or await self._others_wrote()
        if woken or self._is_due("pass", PASS_SECONDS):
            self._due["pass"] = self._clock.monotonic() + PASS_SECONDS
            await self.run_pass()

    async def _clean(self) -> None:
        await clean(self._db, self.retention)

    def _notice_a_freeze(self) -> None:
        """After a stretch in which this process did not run, everyone gets the whole lease anew.

        Heartbeats of that time wait in its sockets; silence cannot be told from deafness.
        """
        now, wall = self._clock.monotonic(), self._clock.time_ms() / 1000
        # A machine that slept, or a clock that was set, jumps on the wall alone.
        gap = max(now - self._ticked, wall - self._ticked_wall)
        if gap > FROZEN_SECONDS:
            self._led_since_ms = self._clock.time_ms()
        self._ticked, self._ticked_wall = now, wall

    def _is_due(self, what: str, every: float) -> bool:
        now = self._clock.monotonic()
        if now < self._due[what]:
            return False
        self._due[what] = now + every
        return True

    def _is_time(self) -> bool:
        """Tell whether the moment has come that a waiting job waits for."""
        if self.last is None:
            return True
        now = self._clock.time_ms() / 1000
        seen = self.last.loaded.snapshot
        return any(seen.now < one.job.not_before <= now for one in seen.waiting) or any(
            seen.now < edge <= now
            for lease in seen.leases
            for edge in (lease.starts_at, lease.last_start, lease.ends_at)
        )

    async def _others_wrote(self) -> bool:
        """Tell whether another server on the same database changed a job."""
        if self._db.is_sqlite:
            return False
        row = await self._db.read(
            lambda reader: reader.one(
                "SELECT max(id) FROM events WHERE id > ? AND"
                " subject IN ('job', 'node', 'queue', 'lease')",
                (self._last_event,),
            )
        )
        newest = int(row[0]) if row and row[0] else 0
        self._last_event = max(self._last_event, newest)
        return newest > 0

    async def _claim(self) -> None:
        was = self.is_leader
        self.is_leader = await self._db.write(self.leadership.claim)
        if self.is_leader and not was:
            self._led_since_ms = self._clock.time_ms()
            self._due.update(reconcile=0.0, nodes=0.0)
            self.wake()

    async def drain(self) -> None:
        """Wait for the launches and looks in flight."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- looks ------------------------------------------------------------------------------

    async def look_at_nodes(self) -> bool:
        """Write down the engine's nodes; tell whether something changed."""
        reports = await self.dispatcher.nodes()
        if reports is None:
            return False
        name = self.dispatcher.engine.name
        changed = await self._db.write(lambda tx: self.fleet.record(tx, name, reports))
        if changed:
            self._due["health"] = 0.0
        return changed

    async def expire(self) -> None:
        """Give up attempts that were not heard of for too long."""
        now = self._clock.time_ms()
        if now - self._led_since_ms < self._silence_ms:
            return
        silent = await self._db.read(
            lambda reader: load_attempts(
                reader,
                "state IN ('starting', 'running', 'stopping') AND launched_ms IS NOT NULL"
                " AND seen_ms < ?",
                (now - self._silence_ms,),
            )
        )
        for attempt in silent:
            if attempt.attempt_id not in self._fencing:
                self._fencing.add(attempt.attempt_id)
                self._spawn(self._fence(attempt))

    async def _fence(self, attempt: AttemptRow) -> None:
        try:
            with contextlib.suppress(Superseded):
                await self.dispatcher.fence(attempt)
        finally:
            self._fencing.discard(attempt.attempt_id)

    # -- pass -------------------------------------------------------------------------------

    async def run_pass(self) -> LastPass:
        """Load the queue, decide, apply; then tell the engine."""
        # Who asks meanwhile waits for this look instead of making another beside it.
        async with self._looking:
            changes = self._changes
            looked = await self._look(self.board)
            self.last = self._shown = looked
            self._shown_at = changes
        self.has_looked.set()
        decisions = looked.decisions
        admitted: list[Admitted] = []
        blocked = self._blocked(looked)
        refused = "; ".join(f"job {one.job}: {one.sentence}" for one in looked.faults[:3])
        is_news = refused not in ("", self._refused)
        self._refused = refused
        if is_news:
            await self._db.write(lambda tx: _note_refusal(tx, looked))
        if decisions.admissions or decisions.stops or blocked:
            count = len(decisions.admissions) + len(decisions.stops) + len(blocked)
            admitted = await self._db.write(
                lambda tx: self._apply(tx, looked), is_long=count > FEW_JOBS
            )
        if any(one.attempt.number > 1 for one in admitted):
            self._on_fence()
        for one in admitted:
            if not one.attempt.settled:
                self._spawn(self.dispatcher.launch(one))
        self._changes += bool(admitted)
        if len(admitted) < len(decisions.admissions) or decisions.stops:
            self.wake()
        stopping = [attempt for _, attempt in looked.loaded.running.values()]
        await self.dispatcher.send_stops(stopping)
        return looked

    async def view(self) -> LastPass:
        """Return the queue as it stands; of a long queue, a look at most two seconds old."""
        if self._shown is not None and self._is_fresh(self._shown):
            return self._shown
        async with self._looking:
            shown = self._shown
            if shown is not None and self._is_fresh(shown):
                return shown
            changes = self._changes
            try:
                shown = await self._look(self._side_board)
            except YardError:
                raise
            except Exception:
                # Lists answer all the same, with reasons still to come.
                log.exception("the queue could not be looked at")
                return LastPass(at_ms=self._clock.time_ms())
            self._shown, self._shown_at = shown, changes
            return shown

    def _is_fresh(self, shown: LastPass) -> bool:
        is_young = self._clock.time_ms() - shown.at_ms < 2000
        if self._shown_at == self._changes:
            return self.is_leader or is_young
        return is_young and shown.took_seconds > LONG_LOOK_SECONDS

    async def _look(self, board: SnapshotLoader) -> LastPass:
        now_ms = self._clock.time_ms()

        def think(reader: ReadConnection) -> LastPass:
            began = self._clock.monotonic()
            loaded = board.load(reader, now_ms, self._leases(reader))
            loaded, decisions = self._weigher.decide(loaded)
            return LastPass(
                at_ms=now_ms,
                loaded=loaded,
                decisions=decisions,
                faults=self._weigher.faults,
                took_seconds=self._clock.monotonic() - began,
            )

        return await self._db.read(think)

    def _blocked(self, looked: LastPass) -> list[str]:
        before = self._told
        return [
            job
            for job, reasons in looked.decisions.reasons.items()
            if reasons and reasons[0].tier in _GRAVE and before.get(job) != reasons[0].code
        ]

    def _apply(self, tx: Tx, looked: LastPass) -> list[Admitted]:
        """Write a pass's decisions, if this server still leads; what moved on is left out."""
        self.leadership.prove(tx)
        admitted = [
            one
            for admission in looked.decisions.admissions
            if (one := self._admit(tx, looked, admission)) is not None
        ]
        for stop in looked.decisions.stops:
            self._preempt(tx, looked, stop)
        self._note_blocked(tx, looked)
        return admitted

    def _admit(self, tx: Tx, looked: LastPass, admission: Admission) -> Admitted | None:
        seen = looked.loaded.waiting[admission.job]
        job = job_by_inner(tx, seen.id, lock=True)
        if job.version != seen.version:
            return None
        labels = {
            node.id: {"gpu_type": node.gpu_type, **dict(node.labels)}
            for node in looked.loaded.snapshot.nodes
            if node.id in admission.placement.nodes
        }
        spec = load_spec(tx, job.spec_id)
        admitted = admit(
            tx,
            job,
            admission.placement,
            environment=environment_of(spec, labels),
            backfilled=admission.backfilled,
            members=1 if spec.gang else None,
            with_ticket=self.dispatcher.engine.shows_specs,
        )
        return grant(tx, admitted) if claimant(tx, job) is not None else admitted

    def _preempt(self, tx: Tx, looked: LastPass, stop: Stop) -> None:
        seen, _ = looked.loaded.running[stop.job]
        job = job_by_inner(tx, seen.id, lock=True)
        if job.version != seen.version:
            return
        grace = min(stop.grace_seconds, load_spec(tx, job.spec_id).grace_seconds)
        with contextlib.suppress(Conflict):
            ask_stop(
                tx,
                job,
                reason=ExitCause.PREEMPTED,
                grace_seconds=grace,
                actor="system",
                stops_for=stop.for_job,
                sentence=stop.sentence,
            )

    def _note_blocked(self, tx: Tx, looked: LastPass) -> None:
        """Record once why a job cannot start as it is written."""
        known = {job: code for job, code in self._told.items() if job in looked.loaded.waiting}
        for job_id in self._blocked(looked):
            reason = looked.decisions.reasons[job_id][0]
            row = looked.loaded.waiting[job_id]
            told = tx.one(
                "SELECT 1 FROM events WHERE subject = 'job' AND subject_id = ?"
                " AND kind = 'job.blocked' AND data LIKE ? LIMIT 1",
                (job_id, f'%"code":"{reason.code.value}"%'),
            )
            if told is None:
                job_event(
                    tx,
                    "job.blocked",
                    row,
                    code=reason.code.value,
                    sentence=reason.sentence,
                    remedy=reason.remedy,
                )
            known[job_id] = reason.code.value
        self._told = known


def _note_refusal(tx: Tx, looked: LastPass) -> None:
    """Record that a pass's decisions broke a rule and were not carried out."""
    tx.event(
        "queue.decision_refused",
        team_id=None,
        actor="system",
        subject="queue",
        subject_id="",
        faults=[f"job {one.job}: {one.sentence}" for one in looked.faults[:20]],
    )
