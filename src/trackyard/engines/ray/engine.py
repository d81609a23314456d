"""RayEngine: the engine port on a Ray cluster.

Owns what is remembered between calls: the last list of jobs and nodes, stops that are due, ids
that may not start. Everything else is read from the cluster, so that any server finds the same.
One list call serves all attempts of a tick. Must not touch the store.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from trackyard.core.clock import SYSTEM_CLOCK, Clock
from trackyard.core.ports import (
    ATTEMPT_ID,
    AttemptPhase,
    AttemptReport,
    EngineError,
    EngineUnavailable,
    ExitCause,
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
from trackyard.engines.notices import Notices
from trackyard.engines.ray import carrying, foreign, judging, submission
from trackyard.engines.ray.api import RayApi
from trackyard.engines.ray.channel import NoChannel, ReportChannel
from trackyard.engines.ray.cluster import ClusterView
from trackyard.engines.ray.keeping import LeaseKeepers
from trackyard.engines.ray.pending import PendingAttempts
from trackyard.engines.ray.stopping import Stops
from trackyard.engines.ray.submission import RaySite

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
IDLE_SECONDS = 3.0
_LIVE = (AttemptPhase.STARTING, AttemptPhase.RUNNING)


class RayEngine:
    """Runs attempts as jobs of a Ray cluster."""

    name = "ray"
    loses_sight = True
    shows_specs = True

    def __init__(
        self,
        address: str,
        *,
        site: RaySite,
        token: str = "",
        channel: ReportChannel | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._api = RayApi(address, token=token)
        self._site = site
        self._channel = channel or NoChannel()
        self._clock = clock
        self._notices = Notices(clock)
        self._view = ClusterView(self._api, site.name, clock)
        self._stops = Stops(self._api, self._channel, clock)
        self._pending = PendingAttempts(clock)
        self._keepers = LeaseKeepers(self._api, self._view, site, clock, tell=self._notices.tell)
        self._lock = threading.RLock()
        self._barred: set[str] = set()
        self._forgotten: set[str] = set()
        self._phases: dict[str, AttemptPhase] = {}
        self._alive: dict[str, bool] = {}
        self._trouble = ""
        self._attached = False
        self._closing = threading.Event()
        self._work = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="ray-engine", daemon=True)
        self._watcher.start()

    # The port

    def nodes(self) -> Sequence[NodeReport]:
        """Describe the cluster's nodes, less what our attempts and foreign jobs hold."""
        held: dict[str, list[NodeGrant]] = {}
        for report in self.attempts():
            if report.phase in _LIVE:
                for share in report.placement:
                    held.setdefault(share.node_id, []).append(share)
        others = foreign.on_nodes(self._api, self._view)
        return self._view.reports(held, others)

    def launch(self, spec: LaunchSpec) -> AttemptReport:
        """Submit the attempt as a Ray job, or adopt the one that is there."""
        for share in spec.placement:
            self._view.check(share)
        nodes = [self._view.node(share.node_id) for share in spec.placement]
        with self._lock:
            barred = spec.attempt_id in self._barred
        if barred and self.lookup(spec.attempt_id) is None:
            raise LaunchRefused(f"attempt {spec.attempt_id} was stopped before it started")
        if spec.attempt_id not in self._view.jobs():
            check_held(spec, self._keepers.holds(), self._clock.now())
        carried = carrying.carry(self._api, spec)
        given = self._keepers.give(spec)
        body = submission.submission(
            spec, nodes, self._view.cluster(), self._site, carried, given=given
        )
        is_new = self._api.submit(body)
        if is_new:
            self._view.note_submitted(body)
        else:
            self._view.look_again()
        report = self.lookup(spec.attempt_id)
        if report is None:
            raise EngineUnavailable(
                f"Ray knows an attempt {spec.attempt_id} but does not list it as ours"
            )
        with self._lock:
            self._phases.setdefault(spec.attempt_id, AttemptPhase.STARTING)
        self._work.set()
        return report

    def lookup(self, attempt_id: str) -> AttemptReport | None:
        """Find an attempt in the last list of jobs."""
        _check(attempt_id)
        job = self._view.jobs().get(attempt_id)
        if job is None or attempt_id in self._forgotten:
            return None
        return self._judge(attempt_id, job)

    def attempts(self) -> Sequence[AttemptReport]:
        """Judge every job of ours in the last list."""
        return [
            self._judge(attempt_id, job)
            for attempt_id, job in self._view.jobs().items()
            if attempt_id not in self._forgotten
        ]

    def stop(self, attempt_id: str, *, grace_seconds: float, reason: ExitCause) -> None:
        """Tell the runner through its own channel; Ray is asked when it does not end in time."""
        _check(attempt_id)
        report = self.lookup(attempt_id)
        if report is None:
            with self._lock:
                self._barred.add(attempt_id)
            return
        if report.phase not in _LIVE:
            return
        job = self._view.jobs().get(attempt_id) or {}
        reports = (job.get("metadata") or {}).get(submission.REPORTS) == "yes"
        self._stops.ask(attempt_id, grace_seconds, reason, reports=reports)
        self._work.set()

    def read_log(self, attempt_id: str, member: int, *, offset: int, limit: int) -> bytes:
        """Return log bytes from where the runner reports, else from Ray's own file."""
        _check(attempt_id)
        found = self._channel.read_log(attempt_id, member, offset=offset, limit=limit)
        if found is not None:
            return found
        report = self.lookup(attempt_id)
        if report is None or member or len(report.placement) > 1:
            return b""
        job = self._view.jobs().get(attempt_id) or {}
        reports = (job.get("metadata") or {}).get(submission.REPORTS) == "yes"
        if reports and report.phase is not AttemptPhase.LOST:
            # The runner ends only when the server has all of it, or has given up for long.
            return b""
        return judging.command_log(self._api.logs(attempt_id))[offset : offset + limit]

    def forget(self, attempt_id: str) -> None:
        """Drop an ended job from Ray's list."""
        report = self.lookup(attempt_id)
        if report is not None and report.phase in _LIVE:
            raise EngineError(f"attempt {attempt_id} still runs; stop it first")
        if report is not None and not self._api.delete(attempt_id):
            log.info("Ray keeps its job %s for now", attempt_id)
        with self._lock:
            self._forgotten.add(attempt_id)
            self._phases.pop(attempt_id, None)
        self._stops.drop(attempt_id)
        self._pending.drop(attempt_id)

    def subscribe(self, listener: Listener) -> Unsubscribe:
        """Tell `listener` of attempts that start or end and of nodes that come or go."""
        return self._notices.subscribe(listener)

    def hold_lease(self, hold: LeaseHold) -> None:
        """Have a job in the cluster keep the nodes from work past the queue, while it lasts."""
        self._keepers.hold(hold)
        self._work.set()

    def drop_lease(self, lease_id: str) -> None:
        """Let go of its nodes, but for what attempts still use, for every job of the cluster."""
        self._keepers.drop(lease_id)

    def close(self) -> None:
        """End the watching thread; attempts run on."""
        self._closing.set()
        self._work.set()
        self._watcher.join(timeout=5)

    def usage(self) -> Mapping[str, Mapping[str, Mapping[str, float]]]:
        """Return what each attempt's own actors and placement groups hold, by node."""
        return foreign.use_by_attempt(self._api, self._view)

    # Judging

    def _judge(self, attempt_id: str, job: Mapping[str, Any]) -> AttemptReport:
        asked = self._stops.asked(attempt_id)
        report = judging.judge(job, self._view.alive(), asked)
        return self._pending.judge(report, job, asked)

    # Watching

    def _watch(self) -> None:
        while not self._closing.is_set():
            busy = False
            try:
                busy = self._look()
                self._note_answer("")
            except EngineError as fault:
                self._note_answer(str(fault))
            except Exception:
                log.exception("the Ray engine could not look at its attempts; it goes on")
            self._work.wait(timeout=POLL_SECONDS if busy else IDLE_SECONDS)
            self._work.clear()
            if busy:
                # Several launches at once wake it once.
                self._closing.wait(0.1)

    def _note_answer(self, trouble: str) -> None:
        """Say once that the cluster does not answer, and once that it does again."""
        if trouble and not self._trouble:
            log.warning("%s; jobs that run go on, and new ones wait", trouble)
        elif self._trouble and not trouble:
            log.warning("the Ray cluster answers again")
        self._trouble = trouble

    def _look(self) -> bool:
        self._compare_nodes()
        self._keepers.look()
        with self._lock:
            known = dict(self._phases)
        open_before = {key for key, phase in known.items() if phase in _LIVE}
        if not open_before and self._attached:
            return False
        # The first look finds what ran before this process did.
        self._view.look_again()
        reports = {report.attempt_id: report for report in self.attempts()}
        self._attached = True
        self._tidy()
        for attempt_id, report in reports.items():
            self._compare(report, known.get(attempt_id))
        for attempt_id in open_before - reports.keys():
            with self._lock:
                self._phases.pop(attempt_id, None)
            self._notices.tell(NoticeKind.ATTEMPT_ENDED, attempt_id)
        self._stops.press(reports)
        return any(report.phase in _LIVE for report in reports.values())

    def _tidy(self) -> None:
        """Drop from Ray what was forgotten here before it had ended there."""
        jobs = self._view.jobs()
        with self._lock:
            self._forgotten &= jobs.keys()
            kept = [name for name in self._forgotten if jobs[name]["status"] in judging.ENDED]
        for name in kept:
            self._api.delete(name)

    def _compare(self, report: AttemptReport, before: AttemptPhase | None) -> None:
        with self._lock:
            self._phases[report.attempt_id] = report.phase
        if report.phase is before:
            return
        if report.phase is AttemptPhase.RUNNING:
            self._notices.tell(NoticeKind.ATTEMPT_STARTED, report.attempt_id)
        elif report.phase not in _LIVE and before in _LIVE:
            self._notices.tell(NoticeKind.ATTEMPT_ENDED, report.attempt_id)

    def _compare_nodes(self) -> None:
        now = {node.node_id: node.is_alive for node in self._view.nodes() if node.takes_work}
        before, self._alive = self._alive, now
        if not before:
            return
        for node_id in sorted({*before, *now}):
            lived, lives = before.get(node_id, False), now.get(node_id, False)
            if lives and not lived:
                self._notices.tell(NoticeKind.NODE_JOINED, node_id)
            elif lived and not lives:
                self._notices.tell(NoticeKind.NODE_LOST, node_id)


def _check(attempt_id: str) -> None:
    if not ATTEMPT_ID.match(attempt_id):
        raise EngineError(f"{attempt_id!r} is no attempt id")
