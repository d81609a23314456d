"""Runs a history through the scheduler as the live loop would, in memory and in no time.

Owns the life of attempts: starts take effect, stops take their grace, work since the last
checkpoint is lost, restarts cost, failures are tried again, nodes take their jobs with them.
Decides nothing: every decision is `trackyard.scheduling`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import inf

from trackyard.core.job import Job, JobState, PriorityClass
from trackyard.core.lease import Lease
from trackyard.core.node import NodeState
from trackyard.core.resources import WHOLE, Placement
from trackyard.scheduling import (
    ActiveJob,
    Admission,
    Decisions,
    DurationModel,
    Snapshot,
    Stop,
    WaitingJob,
    decide,
)
from trackyard.simulate.check.history import (
    CheckHistory,
    EventKind,
    HistoryEvent,
    PlannedJob,
    StopReply,
    clock,
)
from trackyard.simulate.check.watch import (
    Fact,
    FinalState,
    Invariant,
    Occurrence,
    PassRecord,
    Promises,
    Violation,
)

#: Passes at one moment; each after the first follows stops.
_MOST_PASSES = 10
#: Seconds that a command which saves when told needs for it.
_SAVE_SECONDS = 5.0
#: How the first wait after a failure grows.
_MOST_DELAY = 300.0
#: While nothing changes, passes come less and less often, up to this.
_LONGEST_PAUSE = 3840.0
_MOST_STEPS = 2_000


@dataclass(slots=True)
class JobLife:
    """Where a job stands."""

    planned: PlannedJob
    job: Job
    state: JobState = JobState.QUEUED
    #: seconds of work that the last checkpoint keeps
    saved_work: float = 0.0
    #: run time that the queue counts as kept
    attained: float = 0.0
    attempts: int = 0
    failures: int = 0
    avoid: tuple[str, ...] = ()
    placement: Placement | None = None
    started_at: float = 0.0
    #: when this attempt is over if nothing happens to it, and how
    ends_at: float = inf
    ends_as: JobState = JobState.SUCCEEDED
    first_start: float | None = None
    stops_at: float | None = None
    stops_for: str = ""
    #: when it was stopped for others, and the last of them while that one has not ended
    stops: list[float] = field(default_factory=list)
    stopped_for: str = ""
    #: someone was stopped for it and it has not started since
    is_owed: bool = False
    stop_asked_at: float = 0.0
    #: whether it is to be cancelled once it has stopped
    is_cancelled: bool = False

    @property
    def restart(self) -> float:
        """Seconds of this attempt before it goes on with its work."""
        return self.planned.restart_seconds if self.attempts > 1 else 0.0

    def progress(self, now: float) -> float:
        """Seconds of work done in this attempt."""
        return max(0.0, now - self.started_at - self.restart)

    def checkpoint_at(self, now: float) -> float | None:
        """When it last saved in this attempt by itself; None: it did not."""
        every = self.planned.saves_every
        if every is None or self.placement is None:
            return None
        count = int(self.progress(now) / every)
        return self.started_at + self.restart + count * every if count else None


@dataclass(frozen=True, slots=True)
class HistoryOutcome:
    """How a history went."""

    history: CheckHistory
    violations: tuple[Violation, ...]
    #: what happened, a line each
    log: tuple[str, ...]
    passes: int
    #: the same for the same history, always
    digest: str
    finished: int


class HistoryRun:
    """One run of a history."""

    def __init__(
        self,
        history: CheckHistory,
        invariants: Iterable[type[Invariant]],
        *,
        promises: Promises | None = None,
        chooser: Callable[[Snapshot], Decisions] = decide,
        stop_at_first: bool = True,
    ) -> None:
        self.history = history
        self._promises = promises or Promises()
        self._invariants = [one(history, self._promises) for one in invariants]
        self._decide = chooser
        self._stop_at_first = stop_at_first
        self._lives: dict[str, JobLife] = {}
        self._nodes = {node.id: node for node in history.nodes}
        self._teams = {team.id: team for team in history.teams}
        self._usage = dict.fromkeys(self._teams, 0.0)
        self._leases: dict[str, Lease] = {}
        self._policy = history.policy
        self._durations = DurationModel()
        self._now = 0.0
        self._events = sorted(history.events, key=lambda one: one.at)
        self._next_event = 0
        self._back_at = 0.0
        self._pause = self._promises.pass_seconds
        self._pass_at = inf
        self._serial = 0.0
        self._deadline = inf
        self._passes = 0
        self._log: list[str] = []
        self._violations: list[Violation] = []
        self._last: Snapshot | None = None

    def run(self) -> HistoryOutcome:
        """Run to the end, or to the first promise that is not kept."""
        for _ in range(_MOST_STEPS):
            if self._is_done() or not self._step():
                break
        if not (self._violations and self._stop_at_first):
            rest = FinalState(at=self._now, snapshot=self._snapshot(), serial_seconds=self._serial)
            for one in self._invariants:
                self._note(one, one.on_end(rest))
        return HistoryOutcome(
            history=self.history,
            violations=tuple(self._violations),
            log=tuple(self._log),
            passes=self._passes,
            digest=sha256("\n".join(self._log).encode()).hexdigest(),
            finished=sum(life.state.is_final for life in self._lives.values()),
        )

    def _is_done(self) -> bool:
        if self._violations and self._stop_at_first:
            return True
        if self._next_event < len(self._events):
            return False
        return all(life.state.is_final for life in self._lives.values())

    def _step(self) -> bool:
        """Go to the next moment at which something happens; False: there is none in time."""
        moment = max(min(self._moments(), default=inf), self._now)
        if moment == inf or moment > self._deadline:
            self._now = min(moment, self._deadline) if self._deadline < inf else self._now
            return False
        self._pass_time(moment)
        changed = self._outside()
        if self._now < self._back_at:
            if changed:
                # What came meanwhile is looked at as soon as the queue is back.
                self._pass_at = self._back_at
            return True
        changed |= self._end_attempts()
        changed |= self._drain_leases()
        changed |= self._is_time()
        if self._next_event >= len(self._events) and self._deadline == inf:
            self._set_deadline()
        if changed:
            self._pause = self._promises.pass_seconds
        if changed or self._now >= self._pass_at:
            self._look()
        return True

    def _moments(self) -> Iterable[float]:
        if self._next_event < len(self._events):
            yield self._events[self._next_event].at
        later = [self._pass_at]
        later.extend(life.ends_at for life in self._lives.values() if life.placement is not None)
        for lease in self._leases.values():
            later.extend(
                edge
                for edge in (lease.starts_at - self._lead(), lease.starts_at, lease.ends_at)
                if edge > self._now
            )
        later.extend(
            life.job.not_before
            for life in self._lives.values()
            if life.state is JobState.QUEUED and life.job.not_before > self._now
        )
        yield max(min(later), self._back_at)

    def _lead(self) -> float:
        """How long before a lease those on its nodes are told to leave."""
        return 60.0 + 2.0

    def _is_time(self) -> bool:
        """Tell whether a moment has come that a waiting job, or a lease, waits for."""
        seen = -1.0 if self._last is None else self._last.now
        return any(
            seen < life.job.not_before <= self._now
            for life in self._lives.values()
            if life.state is JobState.QUEUED
        ) or any(
            seen < edge <= self._now
            for lease in self._leases.values()
            for edge in (lease.starts_at, lease.ends_at)
        )

    def _pass_time(self, moment: float) -> None:
        elapsed = moment - self._now
        keep = 0.5 ** (elapsed / self._policy.half_life_seconds)
        for team in self._usage:
            self._usage[team] *= keep
        for life in self._lives.values():
            if life.placement is not None and life.job.team in self._usage:
                held = life.placement.gpu_milli_total / WHOLE
                self._usage[life.job.team] += held * elapsed
        self._now = moment

    # -- outside ----------------------------------------------------------------------------

    def _outside(self) -> bool:
        changed = False
        while self._next_event < len(self._events):
            event = self._events[self._next_event]
            if event.at > self._now:
                break
            self._next_event += 1
            self._say(event.words)
            self._happen(event)
            changed = True
        return changed

    def _happen(self, event: HistoryEvent) -> None:
        if event.planned is not None:
            job = replace(event.planned.job, submitted_at=event.at)
            self._lives[job.id] = JobLife(planned=event.planned, job=job)
            self._tell(Occurrence.SUBMITTED, job.id)
            return
        if event.lease is not None:
            self._leases[event.lease.id] = event.lease
        elif event.kind is EventKind.LEASE_DROPPED:
            self._leases.pop(event.subject, None)
        elif event.team is not None:
            self._teams[event.team.id] = event.team
        elif event.policy is not None:
            self._policy = event.policy
        elif event.kind is EventKind.OUTAGE:
            self._back_at = event.at + event.value
        elif event.subject in self._nodes:
            self._change_node(event)
        elif event.subject in self._lives:
            self._change_job(event, self._lives[event.subject])
        self._tell(Occurrence.CHANGED, event.subject)

    def _change_node(self, event: HistoryEvent) -> None:
        state = {
            EventKind.NODE_DOWN: NodeState.DOWN,
            EventKind.NODE_DRAINED: NodeState.DRAINED,
            EventKind.NODE_UP: NodeState.READY,
        }[event.kind]
        self._nodes[event.subject] = replace(self._nodes[event.subject], state=state)
        if state is not NodeState.DOWN:
            return
        for life in self._lives.values():
            if life.placement is not None and event.subject in life.placement.nodes:
                self._over(life, saved=False)
                if life.is_cancelled:
                    self._final(life, JobState.CANCELLED)
                else:
                    self._requeue(life, "its node was lost")

    def _change_job(self, event: HistoryEvent, life: JobLife) -> None:
        if event.kind is EventKind.CANCEL and not life.state.is_final:
            if life.placement is None:
                self._final(life, JobState.CANCELLED)
            else:
                life.is_cancelled = True
                if life.stops_at is None:
                    self._ask_stop(life, life.planned.grace_seconds, "")
        elif event.kind is EventKind.RECLASS and not life.state.is_final:
            life.job = replace(life.job, priority=PriorityClass(int(event.value)))
        elif (
            event.kind is EventKind.REQUEUE
            and life.placement is not None
            and life.stops_at is None
        ):
            self._ask_stop(life, life.planned.grace_seconds, "")
        elif event.kind in (EventKind.HOLD, EventKind.RELEASE) and life.state is JobState.QUEUED:
            life.job = replace(life.job, held=event.kind is EventKind.HOLD)

    # -- attempts ---------------------------------------------------------------------------

    def _end_attempts(self) -> bool:
        due = [
            life
            for life in self._lives.values()
            if life.placement is not None and life.ends_at <= self._now
        ]
        for life in due:
            was_stopped, as_state = life.stops_at is not None, life.ends_as
            stopped_for = life.stops_for
            done = life.ends_as is JobState.SUCCEEDED
            self._over(life, saved=was_stopped and not done)
            if done:
                first = self._now if life.first_start is None else life.first_start
                self._durations.observe(life.job, self._now - first)
                self._final(life, JobState.SUCCEEDED)
            elif life.is_cancelled:
                self._final(life, JobState.CANCELLED)
            elif was_stopped:
                self._note_stop(life, stopped_for)
                self._requeue(life, "it was stopped")
            elif as_state is JobState.FAILED and life.failures < life.planned.retries:
                life.failures += 1
                self._delay(life)
                self._requeue(life, "it failed and is tried again")
            else:
                self._final(life, JobState.FAILED)
        return bool(due)

    def _note_stop(self, life: JobLife, for_job: str) -> None:
        if not for_job:
            return
        life.stops.append(self._now)
        life.stopped_for = for_job
        claimant = self._lives[for_job]
        claimant.is_owed = claimant.placement is None

    def _delay(self, life: JobLife) -> None:
        wait = min(2.0 ** (life.failures - 1), _MOST_DELAY)
        life.job = replace(life.job, not_before=self._now + wait)

    def _start(self, admission: Admission) -> None:
        life = self._lives[admission.job]
        life.state, life.placement = JobState.RUNNING, admission.placement
        life.attempts += 1
        life.is_owed = False
        life.started_at = self._now
        life.first_start = self._now if life.first_start is None else life.first_start
        planned, job = life.planned, life.job
        work_end = self._now + life.restart + planned.work_seconds - life.saved_work
        life.ends_at, life.ends_as = work_end, JobState.SUCCEEDED
        if life.attempts <= len(planned.fails_after):
            fails_at = self._now + planned.fails_after[life.attempts - 1]
            if fails_at < life.ends_at:
                life.ends_at, life.ends_as = fails_at, JobState.FAILED
        limit = job.time_limit_seconds
        if limit is not None and self._now + limit < life.ends_at:
            life.ends_at, life.ends_as = self._now + limit, JobState.FAILED
        where = " ".join(
            f"{share.node}:{','.join(map(str, share.gpus))}"
            for share in admission.placement.shares
        )
        flag = ", backfilled" if admission.backfilled else ""
        self._say(f"start {job.id} on {where} (attempt {life.attempts}{flag})")
        self._tell(Occurrence.STARTED, job.id)

    def _ask_stop(self, life: JobLife, grace: float, for_job: str) -> None:
        grace = min(grace, life.planned.grace_seconds)
        gone = {
            StopReply.SAVES: min(_SAVE_SECONDS, grace),
            StopReply.ENDS: 0.0,
            StopReply.IGNORES: grace,
        }[life.planned.reply]
        life.state = JobState.STOPPING
        life.stop_asked_at = self._now
        life.stops_at = self._now + grace + self._promises.stop_slack_seconds
        life.stops_for = for_job
        if self._now + gone < life.ends_at:
            life.ends_at, life.ends_as = self._now + gone, JobState.CANCELLED
        reason = f" for {for_job}" if for_job else ""
        self._say(f"stop {life.job.id}{reason} (ran {self._now - life.started_at:g} s)")
        self._tell(Occurrence.STOPPING, life.job.id, for_job=for_job)

    def _over(self, life: JobLife, *, saved: bool) -> None:
        """Close an attempt; keep the work that it saved."""
        at = life.checkpoint_at(self._now)
        if saved and life.planned.reply is StopReply.SAVES:
            at = self._now
        if at is not None:
            life.saved_work += max(0.0, at - life.started_at - life.restart)
            life.attained += at - life.started_at
        life.placement, life.stops_at, life.stops_for = None, None, ""
        life.ends_at = inf

    def _requeue(self, life: JobLife, why: str) -> None:
        life.state = JobState.QUEUED
        self._say(f"requeue {life.job.id}: {why}, {life.saved_work:g} s of its work are saved")
        self._tell(Occurrence.REQUEUED, life.job.id)

    def _final(self, life: JobLife, state: JobState) -> None:
        life.state = state
        self._say(f"end {life.job.id}: {state}")
        self._tell(Occurrence.ENDED, life.job.id, state=state)

    def _drain_leases(self) -> bool:
        """Tell those to leave in time whose nodes others have leased; forget ended leases."""
        drained = False
        for life in self._lives.values():
            if life.placement is None or life.stops_at is not None:
                continue
            job, nodes = life.job, set(life.placement.nodes)
            own = self._leases.get(job.lease) if job.lease else None
            is_over = bool(job.lease) and (own is None or own.ends_at - self._lead() <= self._now)
            in_way = any(
                nodes & set(lease.nodes)
                and lease.starts_at - self._lead() <= self._now < lease.ends_at
                and not lease.admits(
                    team=job.team, user=job.user, lease=job.lease, preemptible=job.preemptible
                )
                for lease in self._leases.values()
            )
            if in_way or is_over:
                self._ask_stop(life, 60.0, "")
                drained = True
        over = [one for one in self._leases.values() if one.ends_at <= self._now]
        for lease in over:
            del self._leases[lease.id]
        return drained or bool(over)

    # -- passes -----------------------------------------------------------------------------

    def _snapshot(self) -> Snapshot:
        lives = self._lives.values()
        ended = {life.job.id: life.state for life in lives if life.state.is_final}
        return Snapshot(
            now=self._now,
            nodes=tuple(self._nodes.values()),
            waiting=tuple(
                WaitingJob(
                    job=life.job,
                    attained_seconds=life.attained,
                    avoid=life.avoid,
                    stops=tuple(life.stops),
                    stopped_for="" if life.stopped_for in ended else life.stopped_for,
                    is_owed=life.is_owed,
                )
                for life in lives
                if life.state is JobState.QUEUED
            ),
            running=tuple(
                ActiveJob(
                    job=life.job,
                    placement=life.placement,
                    started_at=life.started_at,
                    attained_seconds=life.attained,
                    checkpoint_at=life.checkpoint_at(self._now),
                    stops_at=life.stops_at,
                    stops_for=life.stops_for,
                    stops=tuple(life.stops),
                    stopped_for="" if life.stopped_for in ended else life.stopped_for,
                )
                for life in lives
                if life.placement is not None
            ),
            teams=tuple(
                replace(team, usage_gpu_seconds=self._usage.get(team.id, 0.0))
                for team in self._teams.values()
            ),
            queues=self.history.queues,
            leases=tuple(self._leases.values()),
            outcomes=ended,
            durations=self._durations,
            policy=self._policy,
        )

    def _look(self) -> None:
        """Decide and apply, again while that stops someone."""
        for _ in range(_MOST_PASSES):
            snapshot = self._last = self._snapshot()
            if not snapshot.waiting:
                self._pass_at = inf
                return
            decisions = self._decide(snapshot)
            self._passes += 1
            look = PassRecord(snapshot=snapshot, decisions=decisions)
            for one in self._invariants:
                self._note(one, one.on_look(look))
            if self._violations and self._stop_at_first:
                return
            self._apply(decisions)
            if not decisions.stops:
                break
            self._end_attempts()
        moved = bool(decisions.admissions or decisions.stops)
        self._pause = (
            self._promises.pass_seconds if moved else min(4 * self._pause, _LONGEST_PAUSE)
        )
        self._pass_at = self._now + self._pause

    def _apply(self, decisions: Decisions) -> None:
        for stop in decisions.stops:
            self._preempt(stop)
        for admission in decisions.admissions:
            self._start(admission)

    def _preempt(self, stop: Stop) -> None:
        life = self._lives.get(stop.job)
        if life is not None and life.placement is not None and life.stops_at is None:
            self._ask_stop(life, stop.grace_seconds, stop.for_job)

    # -- the end ----------------------------------------------------------------------------

    def _set_deadline(self) -> None:
        """From here on nothing comes from outside: all that is left must end in time."""
        open_lives = [life for life in self._lives.values() if not life.state.is_final]
        self._serial = sum(_left(life) for life in open_lives)
        until = max(
            [self._now, self._back_at]
            + [lease.ends_at for lease in self._leases.values()]
            + [life.job.not_before for life in open_lives]
        )
        overhead = self._promises.grace(self._policy) + 60.0
        bound = self._promises.drain_factor * self._serial + 4 * len(open_lives) * overhead
        self._deadline = until + bound

    def _tell(
        self, came: Occurrence, subject: str, *, state: JobState | None = None, for_job: str = ""
    ) -> None:
        fact = Fact(at=self._now, came=came, subject=subject, state=state, for_job=for_job)
        for one in self._invariants:
            self._note(one, one.on_fact(fact))

    def _note(self, invariant: Invariant, sentences: Iterable[str]) -> None:
        for sentence in sentences:
            found = Violation(invariant=invariant.name, at=self._now, sentence=sentence)
            self._violations.append(found)
            self._say(f"VIOLATION of {invariant.name}: {sentence}")

    def _say(self, words: str) -> None:
        self._log.append(f"{clock(self._now)} {words}")


def _left(life: JobLife) -> float:
    """Seconds that a job still needs alone, with all the tries that it may take."""
    planned = life.planned
    tries = 1 + max(0, min(planned.retries - life.failures, len(planned.fails_after)))
    return tries * (planned.work_seconds - life.saved_work + planned.restart_seconds)
