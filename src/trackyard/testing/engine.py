"""FakeEngine: the engine port in memory, driven by a test and its FakeClock.

Owns what a test says happens: attempts run until told otherwise, or as their program says.
Starts no process and sleeps nowhere; time limits and graces pass with the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from trackyard.core.clock import Clock
from trackyard.core.node import NodeState
from trackyard.core.ports import (
    ATTEMPT_ID,
    AttemptPhase,
    AttemptReport,
    EngineError,
    EngineNotice,
    EngineUnavailable,
    ExitCause,
    ExitRecord,
    GpuReport,
    LaunchRefused,
    LaunchSpec,
    LeaseHold,
    Listener,
    NodeGrant,
    NodeReport,
    NoticeKind,
    Unsubscribe,
)
from trackyard.engines.holds import check_held

GIGABYTE = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """How a fake command behaves; the default runs until the test ends it."""

    #: ends by itself after so many seconds
    ends_after: float | None = None
    exit_code: int = 0
    output: bytes = b""
    #: what it does on SIGTERM: the exit code it ends with, or None to ignore it
    on_stop: int | None = 143


@dataclass(slots=True)
class _Attempt:
    spec: LaunchSpec
    program: Program
    phase: AttemptPhase
    began: float
    began_ms: int
    stop_reason: ExitCause | None = None
    deadline: float | None = None
    exit: ExitRecord | None = None


def fake_node(
    node_id: str, *, gpus: int = 0, cpus: float = 8, memory_bytes: int = 64 * GIGABYTE
) -> NodeReport:
    """Return a node with so many declared GPUs."""
    return NodeReport(
        node_id=node_id,
        hostname=node_id,
        address="127.0.0.1",
        cpus=cpus,
        memory_bytes=memory_bytes,
        gpus=tuple(
            GpuReport(index=index, vendor="declared", model="fake", memory_bytes=16 * GIGABYTE)
            for index in range(gpus)
        ),
        free_cpus=cpus,
        free_memory_bytes=memory_bytes,
    )


class FakeEngine:
    """An Engine whose nodes and attempts exist in memory alone."""

    name = "fake"
    loses_sight = False
    shows_specs = False

    def __init__(
        self,
        clock: Clock,
        nodes: Sequence[NodeReport] = (),
        *,
        program: Callable[[LaunchSpec], Program] = lambda _spec: Program(),
    ) -> None:
        self._clock = clock
        self._nodes = {node.node_id: node for node in nodes}
        self._program = program
        self._attempts: dict[str, _Attempt] = {}
        self._stopped_early: set[str] = set()
        self._listeners: list[Listener] = []
        self._lost_answers = 0
        self._refusals: list[str] = []
        self.leases: dict[str, LeaseHold] = {}
        #: every attempt id whose command really started, in order
        self.started: list[str] = []

    # The port

    def nodes(self) -> Sequence[NodeReport]:
        """Describe the nodes, less what live attempts hold."""
        self._pass_time()
        held = [
            share
            for attempt in self._attempts.values()
            if attempt.phase in (AttemptPhase.STARTING, AttemptPhase.RUNNING)
            for share in attempt.spec.placement
        ]
        return [_less(node, held) for node in self._nodes.values()]

    def launch(self, spec: LaunchSpec) -> AttemptReport:
        """Start, or adopt what was started under this id."""
        self._pass_time()
        if self._refusals:
            raise LaunchRefused(self._refusals.pop(0))
        if spec.attempt_id not in self._attempts:
            check_held(spec, self.leases.values(), self._clock.now())
            self._start(spec)
        if self._lost_answers:
            self._lost_answers -= 1
            raise EngineUnavailable("the answer was lost on its way; look the attempt up")
        return self._report(spec.attempt_id)

    def lookup(self, attempt_id: str) -> AttemptReport | None:
        """Return what is known of an attempt."""
        self._pass_time()
        return self._report(attempt_id) if attempt_id in self._attempts else None

    def attempts(self) -> Sequence[AttemptReport]:
        """List every attempt."""
        self._pass_time()
        return [self._report(attempt_id) for attempt_id in self._attempts]

    def stop(self, attempt_id: str, *, grace_seconds: float, reason: ExitCause) -> None:
        """Ask for an end; it comes as the attempt's program says."""
        self._pass_time()
        attempt = self._attempts.get(attempt_id)
        if attempt is None:
            self._stopped_early.add(attempt_id)
            return
        if attempt.phase is AttemptPhase.RUNNING:
            self._ask(attempt, grace_seconds, reason)
        self._pass_time()

    def _ask(self, attempt: _Attempt, grace_seconds: float, reason: ExitCause) -> None:
        due = self._clock.monotonic() + max(0.0, grace_seconds)
        attempt.deadline = due if attempt.deadline is None else min(due, attempt.deadline)
        if attempt.stop_reason is None:
            attempt.stop_reason = reason
            if attempt.program.on_stop is not None and grace_seconds > 0:
                self.finish(attempt.spec.attempt_id, exit_code=attempt.program.on_stop)

    def read_log(self, attempt_id: str, member: int, *, offset: int, limit: int) -> bytes:
        """Return the program's output."""
        del member
        attempt = self._attempts.get(attempt_id)
        return b"" if attempt is None else attempt.program.output[offset : offset + limit]

    def forget(self, attempt_id: str) -> None:
        """Drop an ended attempt."""
        report = self.lookup(attempt_id)
        if report is not None and report.phase in (AttemptPhase.STARTING, AttemptPhase.RUNNING):
            raise EngineError(f"attempt {attempt_id} still runs; stop it first")
        self._attempts.pop(attempt_id, None)
        self._stopped_early.discard(attempt_id)

    def subscribe(self, listener: Listener) -> Unsubscribe:
        """Call `listener` at each change."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def hold_lease(self, hold: LeaseHold) -> None:
        """Keep others' attempts off the nodes."""
        self.leases[hold.lease_id] = hold

    def drop_lease(self, lease_id: str) -> None:
        """Forget the hold."""
        self.leases.pop(lease_id, None)

    def close(self) -> None:
        """Do nothing."""

    # What a test makes happen

    def finish(
        self, attempt_id: str, *, exit_code: int = 0, cause: ExitCause | None = None
    ) -> ExitRecord:
        """End an attempt's command with an exit code, as if it had done so by itself."""
        attempt = self._attempts[attempt_id]
        saved = exit_code == attempt.spec.saved_exit_code
        attempt.exit = self._record(attempt, exit_code, cause or _cause(attempt, exit_code), saved)
        attempt.phase = AttemptPhase.EXITED
        self._tell(NoticeKind.ATTEMPT_ENDED, attempt_id)
        return attempt.exit

    def lose(self, attempt_id: str) -> None:
        """Let an attempt vanish without a record, as when its runner is killed."""
        self._attempts[attempt_id].phase = AttemptPhase.LOST
        self._tell(NoticeKind.ATTEMPT_ENDED, attempt_id)

    def lose_next_answer(self) -> None:
        """Let the next launch happen while its answer is lost."""
        self._lost_answers += 1

    def refuse_next_launch(self, why: str) -> None:
        """Let the next launch be refused; nothing is started."""
        self._refusals.append(why)

    def add_node(self, node: NodeReport) -> None:
        """Let a node join."""
        self._nodes[node.node_id] = node
        self._tell(NoticeKind.NODE_JOINED, node.node_id)

    def lose_node(self, node_id: str) -> None:
        """Let a node go down with everything on it."""
        self._nodes[node_id] = replace(self._nodes[node_id], state=NodeState.DOWN)
        self._tell(NoticeKind.NODE_LOST, node_id)
        for attempt_id, attempt in self._attempts.items():
            placed = {share.node_id for share in attempt.spec.placement}
            if attempt.phase is AttemptPhase.RUNNING and node_id in placed:
                self.lose(attempt_id)

    # Inside

    def _start(self, spec: LaunchSpec) -> None:
        if not ATTEMPT_ID.match(spec.attempt_id) or spec.attempt_id in self._stopped_early:
            raise LaunchRefused(f"attempt {spec.attempt_id} was stopped before it started")
        for share in spec.placement:
            self._check(share)
        self._attempts[spec.attempt_id] = _Attempt(
            spec=spec,
            program=self._program(spec),
            phase=AttemptPhase.RUNNING,
            began=self._clock.monotonic(),
            began_ms=self._clock.time_ms(),
        )
        self.started.append(spec.attempt_id)
        self._tell(NoticeKind.ATTEMPT_STARTED, spec.attempt_id)

    def _check(self, share: NodeGrant) -> None:
        node = self._nodes.get(share.node_id)
        if node is None or node.state is not NodeState.READY:
            raise LaunchRefused(f"there is no node {share.node_id!r} that takes work")
        known = {gpu.index for gpu in node.gpus}
        if any(gpu.index not in known for gpu in share.gpus):
            raise LaunchRefused(f"node {share.node_id} has no such GPU")

    def _pass_time(self) -> None:
        now = self._clock.monotonic()
        for attempt_id, attempt in self._attempts.items():
            if attempt.phase is not AttemptPhase.RUNNING:
                continue
            limit = attempt.spec.time_limit_seconds
            ends = attempt.program.ends_after
            if attempt.deadline is not None and now >= attempt.deadline:
                self.finish(attempt_id, exit_code=137)
            elif ends is not None and now >= attempt.began + ends:
                self.finish(attempt_id, exit_code=attempt.program.exit_code)
            elif limit is not None and now >= attempt.began + limit:
                self._ask(attempt, attempt.spec.grace_seconds, ExitCause.TIME_LIMIT)

    def _report(self, attempt_id: str) -> AttemptReport:
        attempt = self._attempts[attempt_id]
        return AttemptReport(
            attempt_id=attempt_id,
            epoch=attempt.spec.epoch,
            job_id=attempt.spec.job_id,
            phase=attempt.phase,
            placement=attempt.spec.placement,
            exits=() if attempt.exit is None else (attempt.exit,),
        )

    def _record(
        self, attempt: _Attempt, exit_code: int, cause: ExitCause, saved: bool
    ) -> ExitRecord:
        return ExitRecord(
            attempt_id=attempt.spec.attempt_id,
            epoch=attempt.spec.epoch,
            member=0,
            cause=cause,
            exit_code=exit_code,
            signal=None,
            sentence=f"The fake command ended with exit code {exit_code} ({cause}).",
            started_ms=attempt.began_ms,
            ended_ms=self._clock.time_ms(),
            duration_seconds=self._clock.monotonic() - attempt.began,
            saved=saved,
            log_bytes=len(attempt.program.output),
        )

    def _tell(self, kind: NoticeKind, subject: str) -> None:
        notice = EngineNotice(kind=kind, subject=subject, at=self._clock.now())
        for listener in list(self._listeners):
            listener(notice)


def _cause(attempt: _Attempt, exit_code: int) -> ExitCause:
    if attempt.stop_reason is not None:
        return attempt.stop_reason
    if exit_code == 0:
        return ExitCause.SUCCEEDED
    return (
        ExitCause.PREEMPTED if exit_code == attempt.spec.saved_exit_code else ExitCause.EXIT_CODE
    )


def _less(node: NodeReport, held: Sequence[NodeGrant]) -> NodeReport:
    shares = [share for share in held if share.node_id == node.node_id]
    used: dict[int, float] = {}
    for share in shares:
        for gpu in share.gpus:
            used[gpu.index] = used.get(gpu.index, 0.0) + gpu.fraction
    return replace(
        node,
        free_cpus=max(0.0, node.cpus - sum(share.cpus for share in shares)),
        free_memory_bytes=max(0, node.memory_bytes - sum(share.memory_bytes for share in shares)),
        gpus=tuple(
            replace(gpu, free=round(max(0.0, 1.0 - used.get(gpu.index, 0.0)), 6))
            for gpu in node.gpus
        ),
    )
