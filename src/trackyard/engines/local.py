"""The local engine: runners as detached processes on this machine.

Owns starting, finding again and stopping them. They survive the server: everything known of an
attempt is read from its folder, so any server process on this machine sees the same. An attempt
id never starts twice, because the runner itself claims the folder with a lock. Must not touch
the store.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trackyard.core.clock import SYSTEM_CLOCK, Clock
from trackyard.core.health import CheckReport, read_checks
from trackyard.core.ports import (
    ATTEMPT_ID,
    AttemptPhase,
    AttemptReport,
    EngineError,
    ExitCause,
    ExitRecord,
    LaunchRefused,
    LaunchSpec,
    LeaseHold,
    Listener,
    NodeGrant,
    NodeReport,
    NoticeKind,
    Unsubscribe,
)
from trackyard.engines import machine, wrapper
from trackyard.engines.fork_server import UNKNOWN, ForkServer, Runner
from trackyard.engines.holds import LeaseHolds, check_held
from trackyard.engines.isolation import Isolation
from trackyard.engines.notices import Notices
from trackyard.engines.statefolder import (
    AttemptFolder,
    Launched,
    MemberFolder,
    write_json,
    write_private,
)

log = logging.getLogger(__name__)

POLL_SECONDS = 0.05
#: how long after its grace a runner that does not end is killed itself
OVERDUE_SECONDS = 10.0
SWEEP_SECONDS = 30
#: in the engine's folder: GPUs whose driver is not known here, written by whoever knows them
GPU_FILE = "gpus.json"

#: in the engine's folder: the leases of this machine, for other programs on it
LEASE_FILE = "leases.json"


class LocalEngine:
    """Runs attempts as processes of this machine."""

    name = "local"
    loses_sight = False
    shows_specs = False

    def __init__(
        self,
        home: Path,
        *,
        declared: machine.Declared = machine.Declared(),  # noqa: B008  # frozen
        looking: machine.HealthChecking = machine.HealthChecking(),  # noqa: B008  # frozen
        isolation: Isolation | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._home = home
        self._isolation = isolation or Isolation()
        self._attempts = home / "attempts"
        self._attempts.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._attempts.chmod(self._isolation.passage)
        self._holds = LeaseHolds(home / LEASE_FILE)
        self._clock = clock
        self._notices = Notices(clock)
        self._declared = declared
        self._looking = looking
        self._checks: tuple[CheckReport, ...] = ()
        self._machine = self._survey(live=None)
        self._expected_gpus = self._declared_gpus()
        self._next_inventory = clock.monotonic() + looking.every_seconds
        self._lock = threading.RLock()
        self._children: dict[tuple[str, int], Runner] = {}
        self._runners = ForkServer()
        self._repeated: set[tuple[str, int]] = set()
        self._phases: dict[str, AttemptPhase] = {}
        self._ended: dict[str, AttemptReport] = {}
        self._overdue: dict[str, float] = {}
        self._swept: set[tuple[str, int]] = set()
        self._closing = threading.Event()
        self._work = threading.Event()
        self._monitor = threading.Thread(target=self._watch, name="local-engine", daemon=True)
        for report in self.attempts():
            self._phases[report.attempt_id] = report.phase
        self._work.set()
        self._monitor.start()

    def declare(self, declared: machine.Declared) -> None:
        """Offer other resources from now on; attempts that run are left alone."""
        self._declared = declared
        self._take_inventory()
        self._expected_gpus = self._declared_gpus()

    def nodes(self) -> Sequence[NodeReport]:
        """Describe this machine, less what live attempts hold."""
        held: list[NodeGrant] = []
        for report in self.attempts():
            if report.phase in (AttemptPhase.STARTING, AttemptPhase.RUNNING):
                held.extend(report.placement)
        return self._machine.reports(held, checks=self._checks, expected_gpus=self._expected_gpus)

    def launch(self, spec: LaunchSpec) -> AttemptReport:
        """Start the attempt's runners, or adopt those that run."""
        for share in spec.placement:
            self._machine.check(share)
        folder = self._folder(spec.attempt_id)
        try:
            folder.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder.path.chmod(self._isolation.passage)
            for number in range(len(spec.placement)):
                folder.member(number).path.mkdir(exist_ok=True, mode=0o700)
            if folder.is_stopped() and self.lookup(spec.attempt_id) is None:
                raise LaunchRefused(f"attempt {spec.attempt_id} was stopped before it started")
            if folder.launched() is None:
                check_held(spec, self._holds.all(), self._clock.now())
                folder.note_launch(spec)
            with self._lock:
                self._start_missing(spec, folder)
        except OSError as fault:
            raise EngineError(
                f"attempt {spec.attempt_id} cannot be started: {fault}; check room and "
                f"permissions of {self._home}"
            ) from fault
        report = self.lookup(spec.attempt_id)
        if report is None:
            raise EngineError(f"the runner of attempt {spec.attempt_id} did not start")
        with self._lock:
            self._phases.setdefault(spec.attempt_id, AttemptPhase.STARTING)
        self._work.set()
        return report

    def lookup(self, attempt_id: str) -> AttemptReport | None:
        """Read an attempt's folder."""
        with self._lock:
            if attempt_id in self._ended:
                return self._ended[attempt_id]
        folder = self._folder(attempt_id)
        launched = folder.launched()
        if launched is None:
            return None
        report = self._judge(folder, launched)
        if report is not None and report.phase in (AttemptPhase.EXITED, AttemptPhase.LOST):
            with self._lock:
                self._ended[attempt_id] = report
        return report

    def attempts(self) -> Sequence[AttemptReport]:
        """Read every attempt's folder; ended ones are read once."""
        names = sorted(
            path.name for path in self._attempts.iterdir() if ATTEMPT_ID.match(path.name)
        )
        reports = (self.lookup(name) for name in names)
        return [report for report in reports if report is not None]

    def stop(self, attempt_id: str, *, grace_seconds: float, reason: ExitCause) -> None:
        """Leave a stop request where the runners look for it."""
        folder = self._folder(attempt_id)
        launched = folder.launched()
        members = 1 if launched is None else len(launched.placement)
        request = {
            "reason": reason.value,
            "grace_seconds": max(0.0, grace_seconds),
            "at_ms": self._clock.time_ms(),
        }
        folder.ask_to_stop(request, members)
        due = self._clock.monotonic() + max(0.0, grace_seconds) + OVERDUE_SECONDS
        with self._lock:
            self._overdue[attempt_id] = min(due, self._overdue.get(attempt_id, due))
        self._work.set()

    def read_log(self, attempt_id: str, member: int, *, offset: int, limit: int) -> bytes:
        """Return log bytes from the runner's own file."""
        return self._folder(attempt_id).member(member).read_log(offset, limit)

    def forget(self, attempt_id: str) -> None:
        """Remove an ended attempt's folder."""
        report = self.lookup(attempt_id)
        if report is not None and report.phase in (AttemptPhase.STARTING, AttemptPhase.RUNNING):
            raise EngineError(f"attempt {attempt_id} still runs; stop it first")
        folder = self._folder(attempt_id).path
        if folder.exists():
            gone = folder.with_name(f".{folder.name}.gone")
            shutil.rmtree(gone, ignore_errors=True)
            with contextlib.suppress(FileNotFoundError):
                folder.replace(gone)
            shutil.rmtree(gone, ignore_errors=True)
        with self._lock:
            for kept in (self._ended, self._phases, self._overdue):
                kept.pop(attempt_id, None)
            for marks in (self._swept, self._repeated):
                marks.difference_update([key for key in marks if key[0] == attempt_id])

    def subscribe(self, listener: Listener) -> Unsubscribe:
        """Tell `listener` of attempts that start or end."""
        return self._notices.subscribe(listener)

    def hold_lease(self, hold: LeaseHold) -> None:
        """Write down for whom nodes are held; nobody else's attempt is started on them."""
        self._holds.keep(hold)

    def drop_lease(self, lease_id: str) -> None:
        """Strike the hold out."""
        self._holds.drop(lease_id)

    def close(self) -> None:
        """End the watching thread; attempts run on."""
        self._closing.set()
        self._work.set()
        self._monitor.join(timeout=5)
        self._runners.close()

    # Starting

    def _folder(self, attempt_id: str) -> AttemptFolder:
        if not ATTEMPT_ID.match(attempt_id):
            raise EngineError(f"{attempt_id!r} is no attempt id")
        return AttemptFolder(self._attempts / attempt_id)

    def _start_missing(self, spec: LaunchSpec, folder: AttemptFolder) -> None:
        port, secret = folder.meeting() if len(spec.placement) > 1 else (29500, "")
        apart = self._isolation.prepare(spec.team, self._home)
        own = self._isolation.folder(spec.team, self._home)
        inherited = wrapper.inherited_environment()
        for number in range(len(spec.placement)):
            member = folder.member(number)
            if member.has_started() or member.is_held() or self._is_booting(spec, number):
                continue
            place = wrapper.MemberPlace(
                member=number,
                state_dir=member.path,
                cache_dir=own / "cache",
                addresses=["127.0.0.1"] * len(spec.placement),
                port=port,
                secret=secret,
                gang_dir=folder.path,
                gpu_vendor=self._machine.gpu_vendor,
                checkpoint_dir=own / "checkpoints" / spec.job_id,
                lasting_dir=own / "folders",
                base_env=self._isolation.environment(spec.team, self._home, inherited),
                python=sys.executable,
                health={
                    "limits": dict(self._looking.limits),
                    "gpu_file": str(self._home / GPU_FILE),
                },
            )
            data = {**wrapper.runner_spec(spec, place), **apart}
            self._write_spec(folder, number, data)
            self._children[spec.attempt_id, number] = self._runners.start(folder.spec(number))

    def _write_spec(self, folder: AttemptFolder, number: int, data: dict[str, Any]) -> None:
        """Leave the spec for the runner, its credential apart: the runner removes that file.

        The command can read the spec; it must not find the runner's credential there.
        """
        report = data["report"]
        if report is not None:
            place = folder.path / f"m{number}.credential"
            write_private(place, report["token"])
            data["report"] = {**report, "token": "", "token_file": str(place)}
        write_json(folder.spec(number), data)

    def _is_booting(self, spec: LaunchSpec, number: int) -> bool:
        child = self._children.get((spec.attempt_id, number))
        return child is not None and child.poll() is None

    # Judging

    def _judge(self, folder: AttemptFolder, launched: Launched) -> AttemptReport | None:
        phases: list[AttemptPhase | None] = []
        exits: list[ExitRecord] = []
        for number in range(len(launched.placement)):
            phase, record = self._member_phase(folder.member(number), launched.attempt_id, number)
            phases.append(phase)
            if record is not None:
                exits.append(record)
        if all(phase is None for phase in phases):
            return None
        phase = _combine(phases)
        detail = ""
        if phase is AttemptPhase.LOST:
            detail = "its runner ended without a record; what it left running was ended"
        return AttemptReport(
            attempt_id=launched.attempt_id,
            epoch=launched.epoch,
            job_id=launched.job_id,
            phase=phase,
            placement=launched.placement,
            exits=tuple(exits),
            detail=detail,
        )

    def _member_phase(
        self, member: MemberFolder, attempt_id: str, number: int
    ) -> tuple[AttemptPhase | None, ExitRecord | None]:
        # The lock is looked at before the record: a runner writes the record, then lets go.
        held, started = member.is_held(), member.has_started()
        record = member.exit_record()
        if record is not None:
            return AttemptPhase.EXITED, record
        if held:
            return (AttemptPhase.RUNNING if started else AttemptPhase.STARTING), None
        if started:
            self._sweep(attempt_id, number)
            return AttemptPhase.LOST, None
        child = self._children.get((attempt_id, number))
        return (AttemptPhase.STARTING if child is not None else None), None

    def _sweep(self, attempt_id: str, number: int) -> None:
        with self._lock:
            if (attempt_id, number) in self._swept:
                return
        answer = subprocess.run(
            wrapper.command("--sweep", str(self._folder(attempt_id).spec(number))),
            capture_output=True,
            timeout=SWEEP_SECONDS,
            check=False,
        )
        if answer.returncode != 0:
            log.error("processes of attempt %s could not be ended", attempt_id)
        with self._lock:
            self._swept.add((attempt_id, number))

    # Watching

    def _watch(self) -> None:
        while not self._closing.is_set():
            try:
                busy = self._look()
            except (OSError, EngineError, subprocess.SubprocessError):
                log.exception("the local engine could not look at its attempts")
                busy = True
            if busy:
                self._closing.wait(POLL_SECONDS)
            else:
                self._work.wait(timeout=1.0)
                self._work.clear()

    def _look(self) -> bool:
        with self._lock:
            open_ids = [
                attempt_id
                for attempt_id, phase in self._phases.items()
                if phase in (AttemptPhase.STARTING, AttemptPhase.RUNNING)
            ]
            for key, child in list(self._children.items()):
                status = child.poll()
                if status is not None:
                    self._child_ended(key, status)
        for attempt_id in open_ids:
            self._look_at(attempt_id)
        self._end_overdue()
        if self._clock.monotonic() >= self._next_inventory:
            self._take_inventory()
        return bool(open_ids)

    def _survey(self, *, live: list[str] | None) -> machine.LocalMachine:
        """Have the runner look at this machine: what it has, and how it is doing."""
        found = machine.detect(
            {
                "folder": str(self._home),
                "gpu_file": str(self._home / GPU_FILE),
                "limits": dict(self._looking.limits),
                "live": live,
                "memory": str(self._home / "stuck.json"),
            }
        )
        self._checks = read_checks(found.get("checks"))
        return machine.describe(found, self._declared)

    def _declared_gpus(self) -> int | None:
        """GPUs this machine must have where an operator said how many to offer."""
        return None if self._declared.gpus is None else len(self._machine.gpus)

    def _take_inventory(self) -> None:
        self._next_inventory = self._clock.monotonic() + self._looking.every_seconds
        with self._lock:
            live = [
                attempt_id
                for attempt_id, phase in self._phases.items()
                if phase in (AttemptPhase.STARTING, AttemptPhase.RUNNING)
            ]
        before, now = self._machine, self._survey(live=live)
        if now == before:
            return
        self._machine = now
        for node_id in sorted({*before.node_ids, *now.node_ids}):
            if node_id not in before.node_ids:
                self._notices.tell(NoticeKind.NODE_JOINED, node_id)
            elif node_id not in now.node_ids:
                self._notices.tell(NoticeKind.NODE_LOST, node_id)
            else:
                self._notices.tell(NoticeKind.NODE_CHANGED, node_id)

    def _child_ended(self, key: tuple[str, int], status: int) -> None:
        attempt_id, number = key
        member = self._folder(attempt_id).member(number)
        del self._children[key]
        if not member.has_started() and not member.is_held():
            if status == UNKNOWN and key not in self._repeated:
                # It may never have been forked. Should there be two, one gets the lock.
                self._repeated.add(key)
                self._children[key] = self._runners.start(self._folder(attempt_id).spec(number))
                return
            # It died before it could say anything: let the attempt end rather than hang.
            write_json(member.path / "started.json", {"attempt_id": attempt_id, "member": number})

    def _look_at(self, attempt_id: str) -> None:
        report = self.lookup(attempt_id)
        phase = AttemptPhase.LOST if report is None else report.phase
        with self._lock:
            before = self._phases.get(attempt_id)
            if before is None:
                return
            self._phases[attempt_id] = phase
        if report is not None:
            self._end_broken_gang(report)
        if phase is before:
            return
        if phase is AttemptPhase.RUNNING:
            self._notices.tell(NoticeKind.ATTEMPT_STARTED, attempt_id)
        elif phase in (AttemptPhase.EXITED, AttemptPhase.LOST):
            self._notices.tell(NoticeKind.ATTEMPT_ENDED, attempt_id)

    def _end_broken_gang(self, report: AttemptReport) -> None:
        if len(report.placement) == 1 or report.phase is not AttemptPhase.RUNNING:
            return
        folder = self._folder(report.attempt_id)
        if folder.is_stopped():
            return
        for number in range(len(report.placement)):
            phase, _ = self._member_phase(folder.member(number), report.attempt_id, number)
            if phase is AttemptPhase.LOST:
                self.stop(report.attempt_id, grace_seconds=10.0, reason=ExitCause.GANG)
                return

    def _end_overdue(self) -> None:
        now = self._clock.monotonic()
        with self._lock:
            late = [attempt_id for attempt_id, due in self._overdue.items() if now > due]
            for attempt_id in late:
                del self._overdue[attempt_id]
        for attempt_id in late:
            report = self.lookup(attempt_id)
            if report is None or report.phase is not AttemptPhase.RUNNING:
                continue
            log.warning("attempt %s did not end in time; its runner is killed", attempt_id)
            for number in range(len(report.placement)):
                member = self._folder(attempt_id).member(number)
                if member.exit_record() is None and member.is_held():
                    for pid in member.processes():
                        if not self._isolation.may_end(pid, member.path):
                            continue
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)


def _combine(phases: Sequence[AttemptPhase | None]) -> AttemptPhase:
    if AttemptPhase.RUNNING in phases:
        return AttemptPhase.RUNNING
    if AttemptPhase.STARTING in phases or None in phases:
        return AttemptPhase.STARTING
    if AttemptPhase.LOST in phases:
        return AttemptPhase.LOST
    return AttemptPhase.EXITED
