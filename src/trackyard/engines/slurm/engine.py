"""SlurmEngine: the engine port on a Slurm cluster.

Owns the life cycle of an attempt's folder: written, submitted, polled, stopped, removed. A written
attempt survives a restart of the server and an unreachable controller, and is submitted once the
controller answers. One squeue per pass serves all attempts. Must not touch the store.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import logging
import os
import shutil
import threading
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

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
from trackyard.engines import wrapper
from trackyard.engines.holds import check_held
from trackyard.engines.notices import Notices
from trackyard.engines.slurm import nodes as slurm_nodes
from trackyard.engines.slurm import submit
from trackyard.engines.slurm.accounting import Accounting
from trackyard.engines.slurm.commands import Commands, QueueFull
from trackyard.engines.slurm.observe import judge
from trackyard.engines.slurm.parse import SlurmJob
from trackyard.engines.slurm.relay import Relay
from trackyard.engines.slurm.reservations import SlurmReservations
from trackyard.engines.slurm.site import SlurmSite
from trackyard.engines.slurm.view import View
from trackyard.engines.statefolder import AttemptFolder, Launched, read_json, write_json

log = logging.getLogger(__name__)

POLL_SECONDS = 0.25
IDLE_SECONDS = 2.0
#: how long after its grace period a job that has not ended is cancelled in Slurm
OVERDUE_SECONDS = 10.0
#: how often an unreachable controller is retried
RETRY_SECONDS = 2.0
_LIVE = (AttemptPhase.STARTING, AttemptPhase.RUNNING)


class SlurmEngine:
    """Runs attempts as batch jobs of a Slurm cluster."""

    name = "slurm"
    loses_sight = True
    shows_specs = False

    def __init__(
        self, site: SlurmSite, *, commands: Commands | None = None, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._site = site
        self._clock = clock
        self._notices = Notices(clock)
        self.commands = commands or Commands(folder=site.commands, config=site.conf)
        self.commands.check()
        self._attempts = site.folder / "attempts"
        self._attempts.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._runner = _place_runner(site.folder)
        self._view = View(self.commands, site, clock)
        self._accounting = Accounting(self.commands)
        self._reservations = SlurmReservations(self.commands, site, tell=self._notices.tell)
        self._relay = Relay(site.private or site.folder / "private", site.folder)
        self._lock = threading.RLock()
        self._phases: dict[str, AttemptPhase] = {}
        self._ended: dict[str, AttemptReport] = {}
        self._overdue: dict[str, float] = {}
        self._retry_at = 0.0
        self._silent = False
        #: why Slurm takes no more jobs for now; empty: it does, for all that is known
        self._full = ""
        self._up: dict[str, bool] = {}
        self._closing = threading.Event()
        self._work = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="slurm-engine", daemon=True)
        for report in self.attempts():
            self._phases[report.attempt_id] = report.phase
        self._watcher.start()

    # The port

    def nodes(self) -> Sequence[NodeReport]:
        """Describe the cluster's nodes and what our attempts and other users leave free."""
        held: dict[str, list[NodeGrant]] = {}
        for report in self.attempts():
            if report.phase in _LIVE:
                for share in report.placement:
                    held.setdefault(share.node_id, []).append(share)
        if not self._view.look():
            raise EngineUnavailable(self._view.trouble)
        found = self._view.nodes().values()
        if self._site.is_behind:
            many = [one for node in found for one in slurm_nodes.places(node, self._site.ahead)]
            return [slurm_nodes.describe(one, held.get(one.name, ()), ()) for one in many]
        others = slurm_nodes.foreign_use(self._view.others())
        return [
            slurm_nodes.describe(node, held.get(node.name, ()), others.get(node.name, ()))
            for node in found
        ]

    def launch(self, spec: LaunchSpec) -> AttemptReport:
        """Write the attempt to its folder and submit it, or adopt it if it exists."""
        found = [self._view.check(share) for share in spec.placement]
        folder = self._folder(spec.attempt_id)
        try:
            folder.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            with _locked(folder.path / ".launch"):
                if folder.is_stopped() and folder.launched() is None:
                    raise LaunchRefused(f"attempt {spec.attempt_id} was stopped before it started")
                if folder.launched() is None:
                    check_held(spec, self._reservations.holds(), self._clock.now())
                    self._write_down(spec, folder, found[0].gpu_type)
                self._hand_over_or_wait(folder)
        except LaunchRefused:
            self._discard(folder)
            raise
        except OSError as fault:
            raise EngineError(
                f"attempt {spec.attempt_id} cannot be written down: {fault}; check room and"
                f" permissions of {self._site.folder}"
            ) from fault
        report = self._read(spec.attempt_id)
        if report is None:
            raise EngineUnavailable(f"attempt {spec.attempt_id} cannot be read back")
        with self._lock:
            self._phases.setdefault(spec.attempt_id, AttemptPhase.STARTING)
        self._work.set()
        return report

    def lookup(self, attempt_id: str) -> AttemptReport | None:
        """Judge an attempt by its folder and the latest list of jobs."""
        _check(attempt_id)
        with self._lock:
            is_open = attempt_id not in self._ended
        if is_open and (self._attempts / attempt_id).exists():
            self._view.look()
        return self._read(attempt_id)

    def _read(self, attempt_id: str) -> AttemptReport | None:
        folder = self._folder(attempt_id)
        with self._lock:
            if attempt_id in self._ended:
                return self._ended[attempt_id]
        launched = folder.launched()
        if launched is None:
            return None
        report = self._judge(folder, launched)
        if report.phase not in _LIVE:
            with self._lock:
                self._ended[attempt_id] = report
        return report

    def attempts(self) -> Sequence[AttemptReport]:
        """Judge every attempt; ended ones are read only once."""
        names = sorted(
            path.name for path in self._attempts.iterdir() if ATTEMPT_ID.match(path.name)
        )
        reports = (self.lookup(name) for name in names)
        return [report for report in reports if report is not None]

    def stop(self, attempt_id: str, *, grace_seconds: float, reason: ExitCause) -> None:
        """Leave a stop request for the runners; a pending job is cancelled at once."""
        folder = self._folder(attempt_id)
        launched = folder.launched()
        if launched is not None and attempt_id in self._ended:
            return
        members = 1 if launched is None else len(launched.placement)
        grace = max(0.0, grace_seconds)
        request = {
            "reason": reason.value,
            "grace_seconds": grace,
            "at_ms": self._clock.time_ms(),
        }
        folder.ask_to_stop(request, members)
        due = self._clock.monotonic() + grace + OVERDUE_SECONDS
        with self._lock:
            self._overdue[attempt_id] = min(due, self._overdue.get(attempt_id, due))
        self._work.set()

    def read_log(self, attempt_id: str, member: int, *, offset: int, limit: int) -> bytes:
        """Return log bytes from the runner's own file in the shared folder."""
        return self._folder(attempt_id).member(member).read_log(offset, limit)

    def forget(self, attempt_id: str) -> None:
        """Remove an ended attempt's folder."""
        report = self.lookup(attempt_id)
        if report is not None and report.phase in _LIVE:
            raise EngineError(f"attempt {attempt_id} still runs; stop it first")
        self._discard(self._folder(attempt_id))
        self._view.forget(attempt_id)
        self._relay.forget(attempt_id)
        with self._lock:
            for kept in (self._ended, self._phases, self._overdue):
                kept.pop(attempt_id, None)

    def subscribe(self, listener: Listener) -> Unsubscribe:
        """Notify `listener` of attempts, nodes, and whether the controller answers."""
        return self._notices.subscribe(listener)

    def hold_lease(self, hold: LeaseHold) -> None:
        """Create the lease's reservation, or update it to match the lease."""
        self._reservations.hold(hold)

    def drop_lease(self, lease_id: str) -> None:
        """End the lease's reservation."""
        self._reservations.drop(lease_id)
        self._work.set()

    def close(self) -> None:
        """Stop the polling thread; attempts continue."""
        self._closing.set()
        self._work.set()
        self._watcher.join(timeout=5)

    # Handing over

    def _folder(self, attempt_id: str) -> AttemptFolder:
        _check(attempt_id)
        return AttemptFolder(self._attempts / attempt_id)

    def _write_down(self, spec: LaunchSpec, folder: AttemptFolder, gpu_type: str) -> None:
        """Write everything needed to submit the attempt, now or later."""
        if not self._site.nodes_reach_server:
            spec = self._relay.take_over(spec)
        left = self._reservations.seconds_left(spec)
        minutes = submit.limit_minutes(spec, left)
        is_cut = minutes != submit.limit_minutes(spec)
        submit.write_specs(spec, self._site, folder, is_cut=is_cut)
        arguments = submit.arguments(
            spec,
            self._site,
            folder.path,
            gpu_type=gpu_type,
            reservation=self._reservations.name_for(spec),
            minutes=minutes,
        )
        script = submit.script(self._site, self._runner, folder.path)
        write_json(folder.path / "submit.json", {"arguments": arguments, "script": script})
        folder.note_launch(spec)

    def _hand_over_or_wait(self, folder: AttemptFolder) -> None:
        """Submit the attempt; if the controller does not answer, the watcher retries."""
        try:
            self._hand_over(folder)
        except QueueFull as fault:
            self._full = str(fault)
        except EngineUnavailable as fault:
            self._note_trouble(str(fault))

    def _hand_over(self, folder: AttemptFolder) -> None:
        """Submit an attempt exactly once: after a lost answer, look the job up first."""
        asked = read_json(folder.path / "submit.json")
        tried = folder.path / "tried"
        is_stopped = folder.is_stopped()
        if (folder.path / "submitted.json").exists() or asked is None:
            return
        if is_stopped and not tried.exists():
            return
        attempt_id = folder.path.name
        if tried.exists():
            if not self._view.look(max_age=0.0):
                raise EngineUnavailable(self._view.trouble)
            known = self._view.ours().get(attempt_id)
            if known:
                self._note_handed(folder, known[0].job_id)
                return
        if is_stopped:
            # Slurm answers and has no such job: it was stopped before it was submitted.
            self._note_handed(folder, 0)
            return
        tried.touch()
        job_id = self.commands.submit(asked["arguments"], asked["script"])
        self._full = ""
        said = f"{submit.PREFIX}{self._site.name}:{attempt_id}"
        self._view.note(SlurmJob(job_id=job_id, comment=said, state="PENDING"))
        self._note_handed(folder, job_id)

    def _note_handed(self, folder: AttemptFolder, job_id: int) -> None:
        now_ms = self._clock.time_ms()
        write_json(folder.path / "submitted.json", {"job_id": job_id, "at_ms": now_ms})

    def _hand_over_late(self) -> None:
        """Submit what Slurm did not accept at first: no answer, or too many jobs of this user."""
        if self._clock.monotonic() < self._retry_at:
            return
        full: set[tuple[str, ...]] = set()
        for attempt_id in self._open_ids():
            folder = self._folder(attempt_id)
            if folder.launched() is None or (folder.path / "submitted.json").exists():
                continue
            place = submit.destination(read_json(folder.path / "submit.json") or {})
            if place in full and not folder.is_stopped():
                # Another job for the same limits was turned away just now.
                continue
            self._retry_at = self._clock.monotonic() + RETRY_SECONDS
            try:
                with _locked(folder.path / ".launch"):
                    self._hand_over(folder)
            except LaunchRefused as fault:
                sentence = f"The engine would not start it: {fault}"
                write_json(folder.path / "refused.json", {"sentence": sentence})
            except QueueFull as fault:
                self._full = str(fault)
                full.add(place)
            except EngineUnavailable as fault:
                self._note_trouble(str(fault))
                return

    def _job_id(self, folder: AttemptFolder) -> int | None:
        found = (read_json(folder.path / "submitted.json") or {}).get("job_id")
        return found if isinstance(found, int) else None

    def _cancel_stopped(self, attempt_id: str) -> None:
        """Cancel a job that was stopped before Slurm started it."""
        folder = self._folder(attempt_id)
        job = self._view.job(attempt_id, self._job_id(folder))
        if job is not None and job.waits and folder.is_stopped():
            with contextlib.suppress(EngineError):
                self.commands.run("scancel", "--state=PENDING", str(job.job_id))

    def _discard(self, folder: AttemptFolder) -> None:
        if folder.path.exists():
            gone = folder.path.with_name(f".{folder.path.name}.gone")
            shutil.rmtree(gone, ignore_errors=True)
            with contextlib.suppress(FileNotFoundError):
                folder.path.replace(gone)
            shutil.rmtree(gone, ignore_errors=True)

    # Judging

    def _judge(self, folder: AttemptFolder, launched: Launched) -> AttemptReport:
        attempt_id = launched.attempt_id
        job_id = self._job_id(folder)
        detail = ""
        if job_id is None:
            detail = self._why_not_handed()
            if folder.is_stopped() and not (folder.path / "tried").exists():
                self._note_handed(folder, 0)
                job_id = 0
        handed = read_json(folder.path / "submitted.json") or {}
        handed_ms = int(handed.get("at_ms") or 0)
        members = range(len(launched.placement))
        has_begun = any(folder.member(one).has_started() for one in members)
        seen = self._view.seen(attempt_id, job_id, handed_ms, has_begun=has_begun)
        report = judge(folder, launched, seen, detail, has_begun=has_begun)
        if report.phase is AttemptPhase.LOST and seen.job is None:
            # The controller has forgotten the job; accounting, if there is any, has not.
            known = self._accounting.job(job_id or 0, attempt_id)
            if known is not None and known.has_ended:
                seen = replace(seen, job=known)
                return judge(folder, launched, seen, detail, has_begun=has_begun)
        return report

    def _why_not_handed(self) -> str:
        if self._full and not self._view.trouble:
            return (
                "It is written down and goes to Slurm as soon as that takes more jobs of the"
                f" server's user: {self._full}."
            )
        return (
            "It is written down and goes to Slurm as soon as its controller answers:"
            f" {self._view.trouble or 'no answer yet'}."
        )

    # Watching

    def _open_ids(self) -> list[str]:
        with self._lock:
            return [key for key, phase in self._phases.items() if phase in _LIVE]

    def _watch(self) -> None:
        while not self._closing.is_set():
            busy = False
            try:
                busy = self._look()
            except EngineError as fault:
                self._note_trouble(str(fault))
            except Exception:
                log.exception("polling Slurm failed; it is retried")
            if busy:
                self._closing.wait(POLL_SECONDS)
            else:
                self._work.wait(timeout=IDLE_SECONDS)
                self._work.clear()

    def _look(self) -> bool:
        open_ids = self._open_ids()
        # An idle engine polls less often, but still polls: an outage has to be reported.
        self._view.look(max_age=1.0 if open_ids else 3 * IDLE_SECONDS)
        self._note_trouble(self._view.trouble)
        self._hand_over_late()
        for attempt_id in open_ids:
            self._cancel_stopped(attempt_id)
            self._look_at(attempt_id)
        self._end_overdue()
        self._end_superfluous()
        self._compare_nodes()
        self._reservations.look()
        return bool(open_ids)

    def _look_at(self, attempt_id: str) -> None:
        report = self.lookup(attempt_id)
        phase = AttemptPhase.LOST if report is None else report.phase
        self._relay.carry(self._folder(attempt_id), report)
        with self._lock:
            before = self._phases.get(attempt_id)
            if before is None or phase is before:
                return
            self._phases[attempt_id] = phase
        if phase is AttemptPhase.RUNNING:
            self._notices.tell(NoticeKind.ATTEMPT_STARTED, attempt_id)
        elif phase not in _LIVE:
            self._notices.tell(NoticeKind.ATTEMPT_ENDED, attempt_id)

    def _end_overdue(self) -> None:
        now = self._clock.monotonic()
        with self._lock:
            late = [key for key, due in self._overdue.items() if now > due]
            for attempt_id in late:
                del self._overdue[attempt_id]
        for attempt_id in late:
            report = self.lookup(attempt_id)
            job_id = self._job_id(self._folder(attempt_id))
            if report is None or report.phase not in _LIVE or not job_id:
                continue
            log.warning("attempt %s did not end in time; job %s is cancelled", attempt_id, job_id)
            try:
                self.commands.run("scancel", str(job_id))
            except EngineError:
                with self._lock:
                    self._overdue[attempt_id] = now + RETRY_SECONDS

    def _end_superfluous(self) -> None:
        """Cancel jobs that no attempt needs any more.

        These are second jobs of one attempt, submitted when the answer to the first was lost, and
        jobs that Slurm requeued: their attempt is over, and Trackyard starts the next one.
        """
        for attempt_id, jobs in self._view.ours().items():
            live = [job for job in jobs if not job.has_ended]
            kept = self._job_id(self._folder(attempt_id))
            is_over = attempt_id in self._ended
            for job in live:
                is_second = bool(kept) and job.job_id != kept and len(live) > 1
                came_back = job.waits and (is_over or (kept is None and job.restarts > 0))
                if is_second or came_back:
                    with contextlib.suppress(EngineError):
                        self.commands.run("scancel", str(job.job_id))

    def _compare_nodes(self) -> None:
        now = {
            node.name: slurm_nodes.state_of(node).takes_work
            for node in self._view.nodes().values()
        }
        before, self._up = self._up, now
        if not before:
            return
        for name in sorted({*before, *now}):
            was, is_up = before.get(name, False), now.get(name, False)
            if is_up and not was:
                self._notices.tell(NoticeKind.NODE_JOINED, name)
            elif was and not is_up:
                self._notices.tell(NoticeKind.NODE_LOST, name)

    def _note_trouble(self, trouble: str) -> None:
        """Report once that the controller does not answer, and once that it does again."""
        if bool(trouble) == self._silent:
            return
        self._silent = bool(trouble)
        if trouble:
            words = f"{trouble}; jobs that run go on, and new ones are handed over when it does"
            log.warning("%s", words)
            self._notices.tell(NoticeKind.ENGINE_SILENT, self.name, words)
        else:
            log.warning("Slurm's controller answers again")
            self._notices.tell(
                NoticeKind.ENGINE_ANSWERS, self.name, "Slurm's controller answers again."
            )


def _check(attempt_id: str) -> None:
    if not ATTEMPT_ID.match(attempt_id):
        raise EngineError(f"{attempt_id!r} is not an attempt id")


def _place_runner(folder: Path) -> Path:
    """Unpack the runner into the shared folder, named by its content.

    Unpacked, so that the nodes' Python can cache its bytecode: starting from a zip is slower.
    """
    place = folder / f"runner-{wrapper.bundle_digest()[:16]}"
    if not place.exists():
        beside = place.with_name(f".{place.name}.{os.getpid()}.{threading.get_ident()}")
        with zipfile.ZipFile(io.BytesIO(wrapper.bundle())) as archive:
            archive.extractall(beside)
        try:
            beside.rename(place)
        except OSError:
            # Another server was faster.
            shutil.rmtree(beside, ignore_errors=True)
    return place


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process at a time submit an attempt."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
