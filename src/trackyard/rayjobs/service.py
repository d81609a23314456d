"""Jobs as Ray's own protocol reaches them: submit, show, stop, and output as it comes.

Owns the composition of the door's parts over `Jobs`. Knows no HTTP, and nothing of Ray but its
words: a Ray cluster, where there is one, is the engine's business.
"""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import AsyncGenerator, Sequence

import msgspec

from trackyard.access.principal import Principal, Role
from trackyard.control.forecast.preview import FEW_WAITING
from trackyard.control.loop import LastPass
from trackyard.control.service import Jobs
from trackyard.core.errors import Denied, InvalidInput, NotFound
from trackyard.core.job import JobState
from trackyard.core.reasons import EVALUATING, Code
from trackyard.fleet import nodes as node_table
from trackyard.fleet.nodes import NodeRow
from trackyard.queue.attempts import logs
from trackyard.queue.records import AttemptRow, JobRow, load_attempts, load_spec, load_specs
from trackyard.queue.shares.queues import queue_names
from trackyard.queue.specification import JobSpec
from trackyard.queue.submit.submission import SubmissionExtras, acting_for
from trackyard.rayjobs import records
from trackyard.rayjobs.records import Listed
from trackyard.rayjobs.specification import PlatformState, RayBody, TranslatedBody, translate
from trackyard.rayjobs.views import (
    MARK,
    RayJob,
    WaitingInfo,
    between,
    notes,
    queue_words,
    ray_job,
)
from trackyard.store.database import Database, ReadConnection, Tx

#: What is spoken where no cluster says its own version: Ray's clients only ask for a least one.
RAY_VERSION = "2.60.0"
#: Seconds between looks at a followed job that waits, at first and once it has waited a while,
#: and between words on its place.
LOOK_SECONDS, LATER_SECONDS, PLACE_SECONDS = 0.25, 1.0, 3.0
#: Seconds after which a new forecast alone is worth a line.
RETELL_SECONDS = 300.0
#: Seconds that a job may wait for the queue's first look at it before its client hears of it.
FIRST_LOOK_SECONDS = 3.0
A_WHILE_SECONDS = 10.0
#: Characters of one message to a following client.
MESSAGE_CHARACTERS = 64 * 1024
#: Bytes of output that one whole answer carries at most; the end of a longer log is told.
MAX_OUTPUT = 32 * 1024 * 1024


class RayJobsService:
    """What stands behind Ray's job endpoints."""

    def __init__(self, database: Database, jobs: Jobs, *, on_ray: bool) -> None:
        self._db = database
        self._jobs = jobs
        self._on_ray = on_ray

    # -- submit -----------------------------------------------------------------------------

    async def submit(self, principal: Principal, body: RayBody) -> str:
        """Queue a job and return what its client is to call it."""
        translated = await self._db.peek(lambda reader: self._translate(reader, principal, body))
        wanted = translated.ray.submission_id

        def words(spec: JobSpec) -> JobSpec:
            return msgspec.structs.replace(spec, ray=translated.ray, modules=translated.modules)

        def record(tx: Tx, caller: Principal, job: JobRow) -> None:
            records.note_job(tx, caller, job, wanted)

        try:
            done = await self._jobs.submit(
                principal, translated.wish, SubmissionExtras(spec=words, record=record)
            )
        except (Denied, NotFound) as fault:
            # Ray's client takes 403 and 404 for trouble with its token or with the server.
            raise InvalidInput(fault.message) from fault
        return wanted or done.jobs[0].job_id

    def _translate(
        self, reader: ReadConnection, principal: Principal, body: RayBody
    ) -> TranslatedBody:
        team = (body.metadata or {}).get("trackyard.team", "").strip()
        try:
            caller = acting_for(reader, principal, team)
        except (Denied, NotFound) as fault:
            raise InvalidInput(fault.message) from fault
        yard = PlatformState(
            on_ray=self._on_ray,
            queues=queue_names(reader),
            nodes=[row.labels for row in node_table.load(reader)],
            package=lambda address: records.require_named(reader, caller, address),
        )
        return translate(body, yard)

    # -- show -------------------------------------------------------------------------------

    async def version(self) -> str:
        """Return the Ray version of the cluster, or the one whose words are spoken here."""
        rows = await self._db.peek(node_table.load)
        known = (row.labels.get("ray-version") for row in rows)
        return next((version for version in known if version), RAY_VERSION)

    async def show(self, principal: Principal, text: str) -> RayJob:
        """Show one job, with its forecast while it waits."""
        listed, spec = await self._db.peek(lambda reader: _find(reader, principal, text))
        waiting = await self._waiting(listed) if listed.job.state == JobState.QUEUED else None
        return ray_job(listed, spec, waiting, await self._addresses())

    async def listing(self, principal: Principal) -> list[RayJob]:
        """Show the team's jobs; forecasts are left to those who ask for one job."""
        looked = await self._jobs.scheduler.view()
        addresses = await self._addresses()

        def load(reader: ReadConnection) -> list[RayJob]:
            found = records.listing(reader, principal)
            specs = load_specs(reader, (listed.job.spec_id for listed in found))
            return [
                ray_job(listed, specs[listed.job.spec_id], _place(listed, looked), addresses)
                for listed in found
            ]

        return await self._db.read(load)

    async def nodes(self) -> Sequence[NodeRow]:
        """Return every node."""
        return await self._db.peek(node_table.load)

    async def _addresses(self) -> dict[str, str]:
        return {row.id: row.facts.address for row in await self.nodes()}

    async def _waiting(self, listed: Listed) -> WaitingInfo | None:
        looked = await self._jobs.scheduler.view()
        found = _place(listed, looked)
        if found is not None and found.waiting <= FEW_WAITING:
            found.eta = await self._jobs.eta(listed.job.job_id)
        return found

    # -- act --------------------------------------------------------------------------------

    async def stop(self, principal: Principal, text: str) -> bool:
        """Stop a job at whatever state; tell whether there was something to stop."""
        listed, _ = await self._db.peek(lambda reader: _find(reader, principal, text))
        if JobState(listed.job.state).is_final:
            return False
        await self._jobs.stop_jobs(principal, listed.job.job_id, None)
        return True

    async def delete(self, principal: Principal, text: str) -> None:
        """Take an ended job out of Ray's list."""

        def change(tx: Tx) -> None:
            listed = records.find(tx, principal, text)
            if listed.job.user_id != principal.user_id and not principal.may(Role.maintainer):
                raise Denied(
                    f"job {text} is {listed.job.user_name}'s: to delete it needs the role"
                    f" maintainer in team {principal.team}"
                )
            records.unlist(tx, principal, listed)

        await self._db.write(change)

    # -- output -----------------------------------------------------------------------------

    async def output(self, principal: Principal, text: str) -> str:
        """Return what a job has printed so far, over all its attempts."""
        listed, spec = await self._db.peek(lambda reader: _find(reader, principal, text))
        attempts = await self._attempts(listed.job)
        parts = [notes(spec)]
        for attempt in attempts:
            parts.append(await self._whole(attempt))
            if attempt.is_over and not _is_last(attempt, listed.job):
                parts.append(between(attempt))
        if listed.job.state == JobState.QUEUED:
            parts.append(f"{MARK}{queue_words(listed, await self._waiting(listed))}\n")
        return "".join(parts)

    async def _whole(self, attempt: AttemptRow) -> str:
        end = await self._jobs.log_end(attempt, 0)
        offset, parts = max(0, end - MAX_OUTPUT), bytearray()
        while data := await self._jobs.read_log(attempt, 0, offset, logs.READ_BYTES):
            parts += data
            offset += len(data)
        return parts.decode("utf-8", "replace")

    async def follow(self, principal: Principal, text: str) -> AsyncGenerator[str, None]:
        """Yield a job's output from its beginning until the job is over, whatever happens
        between: its place in the queue while it waits, and a line between two attempts.
        """
        told_until, place = 0, _PlaceWords()
        listed, spec = await self._db.peek(lambda reader: _find(reader, principal, text))
        if opening := notes(spec):
            yield opening
        clock = self._db.clock
        began = clock.monotonic()
        while not self._is_cut():
            listed, _ = await self._db.peek(lambda reader: _find(reader, principal, text))
            for attempt in await self._attempts(listed.job, told_until):
                async for piece in self._piecewise(attempt):
                    yield piece
                if self._is_cut():
                    return
                told_until = attempt.number
                listed, _ = await self._db.peek(lambda reader: _find(reader, principal, text))
                if not _is_last(attempt, listed.job):
                    now = await self._attempt(attempt)
                    yield between(now)
            if JobState(listed.job.state).is_final:
                return
            waits = listed.job.state == JobState.QUEUED
            if waits and place.is_due(clock.monotonic()):
                words = place.take(listed, await self._waiting(listed), clock.monotonic())
                if words:
                    yield words
            is_fresh = clock.monotonic() - began < A_WHILE_SECONDS
            await asyncio.sleep(LOOK_SECONDS if is_fresh else LATER_SECONDS)

    @property
    def is_stopping(self) -> bool:
        """Whether the server is about to end, and with it every stream of output."""
        return self._jobs.is_stopping

    def _is_cut(self) -> bool:
        return self._jobs.is_stopping

    async def _attempts(self, job: JobRow, after: int = 0) -> list[AttemptRow]:
        return await self._db.peek(
            lambda reader: load_attempts(
                reader, "job = ? AND number > ? ORDER BY number", (job.id, after)
            )
        )

    async def _attempt(self, attempt: AttemptRow) -> AttemptRow:
        found = await self._db.peek(lambda reader: load_attempts(reader, "id = ?", (attempt.id,)))
        return found[0]

    async def _piecewise(self, attempt: AttemptRow) -> AsyncGenerator[str, None]:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        async for data in self._jobs.follow(attempt, 0, 0):
            text = decoder.decode(data)
            for at in range(0, len(text), MESSAGE_CHARACTERS):
                yield text[at : at + MESSAGE_CHARACTERS]
        if rest := decoder.decode(b"", final=True):
            yield rest


class _PlaceWords:
    """Which of a waiting job's changes are worth a line to its client."""

    def __init__(self) -> None:
        self._looked_at = self._told_at = -RETELL_SECONDS
        self._key: tuple[object, ...] = ()
        self._words = ""
        self._unseen_since: float | None = None

    def is_due(self, now: float) -> bool:
        """Tell whether it is time to look at the place again."""
        return now - self._looked_at >= PLACE_SECONDS

    def take(self, listed: Listed, waiting: WaitingInfo | None, now: float) -> str:
        """Return a line if place or reason changed, or the forecast did and a while has passed.

        A job that no pass has looked at yet most often starts within the second: no word of it.
        """
        if waiting is not None and waiting.reason.code == Code.EVALUATING:
            self._unseen_since = now if self._unseen_since is None else self._unseen_since
            if now - self._unseen_since < FIRST_LOOK_SECONDS:
                return ""
        self._looked_at = now
        key = () if waiting is None else (waiting.position, waiting.reason.code)
        words = f"{MARK}{queue_words(listed, waiting)}\n"
        is_old = now - self._told_at >= RETELL_SECONDS
        if words == self._words or (key == self._key and not is_old):
            return ""
        self._key, self._words, self._told_at = key, words, now
        return words


def _find(reader: ReadConnection, principal: Principal, text: str) -> tuple[Listed, JobSpec]:
    listed = records.find(reader, principal, text)
    return listed, load_spec(reader, listed.job.spec_id)


def _is_last(attempt: AttemptRow, job: JobRow) -> bool:
    """Tell whether nothing of the job comes after this attempt."""
    return attempt.number == job.attempt and JobState(job.state).is_final


def _place(listed: Listed, looked: LastPass) -> WaitingInfo | None:
    if listed.job.state != JobState.QUEUED:
        return None
    reasons = looked.decisions.reasons.get(listed.job.job_id)
    return WaitingInfo(
        reason=reasons[0] if reasons else EVALUATING,
        position=looked.positions.get(listed.job.job_id),
        waiting=len(looked.positions),
    )
