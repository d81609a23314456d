"""Between the ledger and the engine: launches, stops, and finding again what runs.

Owns every call to the engine, all from worker threads and none inside a transaction. An attempt
whose launch went unanswered is looked up by its id and never started a second time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from trackyard.control.launching import LaunchContext, LaunchSite, launch_spec
from trackyard.control.leader import Leadership
from trackyard.core.errors import InternalFault, NotFound
from trackyard.core.ports import (
    AttemptPhase,
    AttemptReport,
    BatchOptions,
    Engine,
    EngineError,
    EngineUnavailable,
    ExitCause,
    LaunchRefused,
    LaunchSpec,
    NodeReport,
)
from trackyard.fleet.service import Fleet
from trackyard.leases.records import load_open, usable_leases
from trackyard.queue.attempts import hints, log_policies, logs
from trackyard.queue.attempts.heartbeats import take_health, take_last_signs
from trackyard.queue.records import (
    AttemptRow,
    JobRow,
    attempt_of,
    job_by_inner,
    load_attempts,
    load_spec,
    note_settled,
)
from trackyard.queue.retry_policy import AttemptVerdict
from trackyard.queue.shares.queues import load_queues
from trackyard.queue.specification import JobSpec
from trackyard.queue.submit.packages import find_package
from trackyard.queue.transitions import (
    SYSTEM,
    Admitted,
    ask_stop,
    end_attempt,
    note_launched,
    note_waiting,
    renew_tokens,
)
from trackyard.store.database import Database, ReadConnection, Tx

log = logging.getLogger(__name__)
T = TypeVar("T")

ENGINE_THREADS = 8
#: How long an attempt may be unknown to the engine before it is given up.
UNKNOWN_MS = 60_000
#: How long after its end an attempt's log is fetched from the engine and the rest forgotten.
SETTLE_MS = 3_000
SETTLE_BATCH = 50
#: A runner that was heard within this time lives, whatever its engine says.
HEARD_MS = 12_000
#: What such a runner gets to save, and how long its record is waited for beyond that.
LOSS_GRACE_SECONDS = 10.0
LOSS_PATIENCE_MS = 30_000
MOST_HEARD = 20_000
LOST = "Its runner ended without a word: the node, or the runner itself, was lost."


def _no_secrets(_reader: ReadConnection, _team_id: int, names: Sequence[str]) -> Mapping[str, str]:
    raise NotFound(f"this server has no key for the secret {names[0]}")


def _as_stored(spec: JobSpec, _team_id: int) -> JobSpec:
    """Return a specification whose variables are not sealed."""
    return spec


class Dispatcher:
    """Calls the engine on behalf of the ledger."""

    def __init__(
        self,
        database: Database,
        open_engine: Callable[[], Engine | None],
        site: LaunchSite,
        *,
        fleet: Fleet | None = None,
        open_spec: Callable[[JobSpec, int], JobSpec] = _as_stored,
        secrets_of: Callable[
            [ReadConnection, int, Sequence[str]], Mapping[str, str]
        ] = _no_secrets,
    ) -> None:
        self._db = database
        self._open_engine = open_engine
        self._engine: Engine | None = None
        self._site = site
        self._threads = ThreadPoolExecutor(ENGINE_THREADS, thread_name_prefix="yard-engine")
        self._launching: set[str] = set()
        self._stopped: dict[str, tuple[int, int]] = {}
        #: proved inside every transaction, so that a server that was superseded writes nothing
        self.leadership = Leadership(alone=database.is_sqlite)
        #: when each runner was last heard, by attempt
        self._heard: dict[str, int] = {}
        #: records the problems that runners find on their nodes
        self.fleet = fleet or Fleet()
        #: unseals the values of a job's variables
        self._open_spec = open_spec
        #: reads the secrets that a job names
        self._secrets_of = secrets_of
        #: called after the ledger changed
        self.on_change: Callable[[], None] = lambda: None

    @property
    def engine(self) -> Engine:
        """The engine, once it is open."""
        if self._engine is None:
            raise EngineUnavailable("the engine is not open yet")
        return self._engine

    async def open(self) -> bool:
        """Open the engine; return whether this server has one."""
        if self._engine is None:
            self._engine = await self.call(self._open_engine)
        return self._engine is not None

    async def call(self, work: Callable[[], T]) -> T:
        """Do something with the engine off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def close(self) -> None:
        """Let the engine and its threads go; what runs goes on."""
        if self._engine is not None:
            await self.call(self._engine.close)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def nodes(self) -> list[NodeReport] | None:
        """Ask the engine for its nodes; None when it does not answer."""
        try:
            return list(await self.call(self.engine.nodes))
        except EngineError as fault:
            log.warning("the engine does not tell its nodes: %s", fault)
            return None

    # -- launch -----------------------------------------------------------------------------

    async def launch(self, admitted: Admitted) -> None:
        """Start an admitted attempt; whatever the engine answers, the ledger learns the truth."""
        attempt_id = admitted.attempt.attempt_id
        if attempt_id in self._launching:
            return
        self._launching.add(attempt_id)
        try:
            try:
                # What is sealed is opened off the event loop.
                spec = await self._db.read(lambda reader: self._spec(reader, admitted))
            except (NotFound, InternalFault) as fault:
                await self._refused(attempt_id, fault.message)
                return
            await self._launch(attempt_id, spec)
        except Exception:
            # The reconciling look finds it again, launched or not.
            log.exception("launching %s failed; it is looked up again", attempt_id)
        finally:
            self._launching.discard(attempt_id)

    async def _launch(self, attempt_id: str, spec: LaunchSpec) -> None:
        try:
            report = await self.call(lambda: self.engine.launch(spec))
        except EngineUnavailable as fault:
            log.warning("no answer to the launch of %s: %s", attempt_id, fault)
            return
        except (LaunchRefused, EngineError, ValueError) as fault:
            await self._refused(attempt_id, str(fault))
            return
        await self._db.write(lambda tx: note_launched(tx, attempt_id))
        if report.phase in (AttemptPhase.EXITED, AttemptPhase.LOST):
            await self.close_attempt(report)

    async def _refused(self, attempt_id: str, words: str) -> None:
        verdict = AttemptVerdict(
            cause=ExitCause.ENGINE, sentence=f"The engine would not start it: {words}"
        )
        await self._db.write(lambda tx: end_attempt(tx, attempt_id, verdict))
        self.on_change()

    def _spec(self, reader: ReadConnection, admitted: Admitted) -> LaunchSpec:
        job = admitted.job
        spec = self._open_spec(load_spec(reader, job.spec_id), job.team_id)
        row = reader.one(
            "SELECT t.name, t.default_experiment_id, r.experiment_id FROM teams t, runs r"
            " WHERE t.id = ? AND r.uuid = ?",
            (job.team_id, job.run_uuid),
        )
        assert row is not None
        packages = [find_package(reader, job.team_id, digest) for digest in spec.digests]
        context = LaunchContext(
            team=row[0],
            experiment_id="0" if row[1] == row[2] else str(row[2]),
            package_sizes={one.digest: one.size for one in packages if one is not None},
            array_size=_array_size(reader, job),
            leases=usable_leases(
                load_open(reader),
                team=row[0],
                user=job.user_name,
                lease=spec.lease,
                preemptible=spec.preemptible,
            ),
            batch=_batch_options(reader, job.queue),
            secrets=self._secrets_of(reader, job.team_id, spec.secrets) if spec.secrets else {},
        )
        return launch_spec(admitted, spec, context, self._site)

    # -- stop -------------------------------------------------------------------------------

    async def send_stops(self, attempts: Iterable[AttemptRow]) -> None:
        """Pass on to the engine what the ledger asks to stop, once per request."""
        for attempt in attempts:
            if attempt.stop_reason is None or attempt.stop_ms is None or attempt.settled:
                continue
            mark = (attempt.stop_ms, attempt.grace_ms or 0)
            if self._stopped.get(attempt.attempt_id) == mark:
                continue
            self._stopped[attempt.attempt_id] = mark
            await self.stop(attempt.attempt_id, mark[1] / 1000, ExitCause(attempt.stop_reason))

    async def stop(self, attempt_id: str, grace_seconds: float, reason: ExitCause) -> None:
        """Ask the engine to end an attempt."""
        try:
            await self.call(
                lambda: self.engine.stop(attempt_id, grace_seconds=grace_seconds, reason=reason)
            )
        except EngineError as fault:
            self._stopped.pop(attempt_id, None)
            log.warning("the engine could not be asked to stop %s: %s", attempt_id, fault)

    # -- find again -------------------------------------------------------------------------

    async def reconcile(self) -> None:
        """Compare the ledger's open attempts with what the engine knows."""
        open_rows = await self._db.read(
            # Claims are settled from the start: the engine has no part in them.
            lambda reader: load_attempts(
                reader, "state IN ('starting', 'running', 'stopping') AND settled = 0"
            )
        )
        if not open_rows:
            return
        try:
            reports = {one.attempt_id: one for one in await self.call(self.engine.attempts)}
        except EngineError as fault:
            log.warning("the engine does not tell what runs: %s", fault)
            return
        for attempt in open_rows:
            if attempt.attempt_id in self._launching:
                continue
            await self._compare(attempt, reports.get(attempt.attempt_id))

    async def look(self, attempt_id: str) -> None:
        """Look one attempt up after the engine hinted at its end."""
        try:
            report = await self.call(lambda: self.engine.lookup(attempt_id))
        except EngineError as fault:
            log.warning("the engine does not tell of %s: %s", attempt_id, fault)
            return
        if report is not None and report.phase in (AttemptPhase.EXITED, AttemptPhase.LOST):
            await self.close_attempt(report)

    async def _compare(self, attempt: AttemptRow, report: AttemptReport | None) -> None:
        if report is None:
            await self._unknown(attempt)
        elif report.phase in (AttemptPhase.EXITED, AttemptPhase.LOST):
            await self.close_attempt(report)
        else:
            if attempt.launched_ms is None:
                await self._db.write(lambda tx: note_launched(tx, attempt.attempt_id))
            if report.phase is AttemptPhase.STARTING and report.detail:
                words = report.detail
                await self._db.write(lambda tx: note_waiting(tx, attempt.attempt_id, words))

    async def _unknown(self, attempt: AttemptRow) -> None:
        """The engine knows nothing of it: it never started, or the engine lost it."""
        if attempt.launched_ms is None and attempt.stop_reason is None:
            if self._db.clock.time_ms() - attempt.admitted_ms < UNKNOWN_MS:
                # Its answer, and with it its token, was lost on the way: the same id again
                # adopts what may have started meanwhile.
                admitted = await self._db.write(lambda tx: self._renew(tx, attempt.attempt_id))
                if admitted is not None:
                    await self.launch(admitted)
                return
            await self.stop(attempt.attempt_id, 0, ExitCause.ENGINE)
            words = "The engine did not start it and does not know it."
            verdict = AttemptVerdict(cause=ExitCause.ENGINE, sentence=words)
        elif attempt.launched_ms is None:
            await self.stop(attempt.attempt_id, 0, ExitCause(str(attempt.stop_reason)))
            verdict = AttemptVerdict(
                cause=ExitCause(str(attempt.stop_reason)), sentence="It was stopped before it ran."
            )
        elif await self._is_heard(attempt.attempt_id):
            return
        else:
            verdict = AttemptVerdict(cause=ExitCause.NODE_LOST, sentence=LOST)
        await self._give_up(attempt.attempt_id, verdict)

    def note_heard(self, attempt_id: str, now_ms: int) -> None:
        """Remember that a runner spoke."""
        if len(self._heard) > MOST_HEARD:
            self._heard.clear()
        self._heard[attempt_id] = now_ms

    async def _is_heard(self, attempt_id: str) -> bool:
        """Tell whether a lost attempt's runner is still heard; if so it is asked to end first.

        Otherwise the next attempt would start beside what runs out of the engine's sight.
        """
        if not self.engine.loses_sight:
            return False
        return await self._db.write(lambda tx: self._end_heard(tx, attempt_id))

    def _end_heard(self, tx: Tx, attempt_id: str) -> bool:
        self.leadership.prove(tx)
        attempt = attempt_of(tx, attempt_id, lock=True)
        if attempt is None or attempt.is_over:
            return False
        last = max(self._heard.get(attempt_id, 0), attempt.seen_ms or 0)
        if tx.now_ms - last >= HEARD_MS:
            return False
        if attempt.stop_reason is not None:
            due = (attempt.stop_ms or 0) + (attempt.grace_ms or 0) + LOSS_PATIENCE_MS
            return tx.now_ms < due
        ask_stop(
            tx,
            job_by_inner(tx, attempt.job, lock=True),
            reason=ExitCause.NODE_LOST,
            grace_seconds=LOSS_GRACE_SECONDS,
            actor=SYSTEM,
            sentence="The cluster lost its node, but its runner is heard: it is to save and end.",
        )
        return True

    async def _give_up(self, attempt_id: str, verdict: AttemptVerdict) -> None:
        """End an attempt for want of a record: a judgement, so only the leader's counts."""

        def change(tx: Tx) -> None:
            self.leadership.prove(tx)
            end_attempt(tx, attempt_id, verdict)

        await self._db.write(change)
        self.on_change()

    def _renew(self, tx: Tx, attempt_id: str) -> Admitted | None:
        self.leadership.prove(tx)
        attempt = attempt_of(tx, attempt_id, lock=True)
        if attempt is None or attempt.is_over or attempt.launched_ms is not None:
            return None
        return renew_tokens(tx, attempt, with_ticket=self.engine.shows_specs)

    async def close_attempt(self, report: AttemptReport) -> None:
        """Write down the end of an attempt: the runner's record, or that there is none."""
        if report.phase is AttemptPhase.LOST and await self._is_heard(report.attempt_id):
            return
        await self._complete_logs(report)
        record = report.exit
        has_ended = report.phase is AttemptPhase.EXITED

        def change(tx: Tx) -> None:
            verdict = AttemptVerdict(cause=ExitCause.NODE_LOST, sentence=LOST)
            if record is not None and has_ended:
                verdict = log_policies.judged(tx, record, hints.judged(tx, record))
            if record is not None:
                take_last_signs(tx, record)
                take_health(tx, self.fleet, record.attempt_id, record.member, record.health)
            end_attempt(tx, report.attempt_id, verdict)

        await self._db.write(change)
        self._stopped.pop(report.attempt_id, None)
        self.on_change()

    async def _complete_logs(self, report: AttemptReport) -> None:
        """Fetch what runners have not sent yet, so that who sees the end sees the log as well."""
        attempt = await self._db.peek(lambda reader: attempt_of(reader, report.attempt_id))
        if attempt is None or attempt.is_over:
            return
        ends = await self._db.peek(
            lambda reader: [logs.log_end(reader, attempt.id, one.member) for one in report.exits]
        )
        for record, end in zip(report.exits, ends, strict=True):
            # What is long comes later: the slot's end is to be known at once.
            if end is not None and 0 < record.log_bytes - end <= logs.READ_BYTES:
                with contextlib.suppress(EngineError):
                    await self._fetch_log(attempt, record.member)

    async def fence(self, attempt: AttemptRow, patience_seconds: float = 15.0) -> None:
        """End an attempt that fell silent, as surely as the engine can, and call it lost."""
        await self.stop(attempt.attempt_id, 0, ExitCause.FENCED)
        for _ in range(max(1, int(patience_seconds / 0.5))):
            try:
                report = await self.call(lambda: self.engine.lookup(attempt.attempt_id))
            except EngineError:
                report = None
            if report is None or report.phase in (AttemptPhase.EXITED, AttemptPhase.LOST):
                break
            await asyncio.sleep(0.5)
        silent = "Its runner has not been heard of for too long; it counts as lost."
        verdict = AttemptVerdict(cause=ExitCause.NODE_LOST, sentence=silent)
        await self._give_up(attempt.attempt_id, verdict)

    # -- settle -----------------------------------------------------------------------------

    async def settle(self) -> None:
        """Fetch what is missing of ended attempts' logs, then let the engine forget them."""
        before = self._db.clock.time_ms() - SETTLE_MS
        rows = await self._db.read(
            lambda reader: load_attempts(
                reader,
                "settled = 0 AND ended_ms IS NOT NULL AND ended_ms < ? ORDER BY id LIMIT ?",
                (before, SETTLE_BATCH),
            )
        )
        done = [attempt.id for attempt in rows if await self._settle(attempt)]
        if done:
            await self._db.write(lambda tx: note_settled(tx, done))

    async def _settle(self, attempt: AttemptRow) -> bool:
        try:
            for member in range(attempt.members):
                await self._fetch_log(attempt, member)
            await self.call(lambda: self.engine.forget(attempt.attempt_id))
        except EngineError as fault:
            log.info("attempt %s is kept by the engine for now: %s", attempt.attempt_id, fault)
            return False
        return True

    async def _fetch_log(self, attempt: AttemptRow, member: int) -> None:
        while True:
            end = await self._db.peek(lambda reader: logs.log_end(reader, attempt.id, member))
            start = end or 0
            data = await self.call(
                lambda start=start: self.engine.read_log(  # type: ignore[misc]
                    attempt.attempt_id, member, offset=start, limit=logs.READ_BYTES
                )
            )
            if not data:
                return
            await self._db.write(
                lambda tx, start=start, data=data: logs.append(  # type: ignore[misc]
                    tx, attempt, member, start, data
                )
            )


def _batch_options(reader: ReadConnection, queue: str) -> BatchOptions:
    rules = load_queues(reader).get(queue)
    return BatchOptions() if rules is None else rules.batch_options


def _array_size(reader: ReadConnection, job: JobRow) -> int:
    if not job.array_id:
        return 0
    row = reader.one("SELECT count(*) FROM jobs WHERE array_id = ?", (job.array_id,))
    return int(row[0]) if row else 0
