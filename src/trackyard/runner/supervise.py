"""One attempt's life on the node: set up, start, watch, stop, sweep, judge, record, report.

Owns the order of these steps and the command's process. One thread supervises; the reporter's
two threads only read. Whatever happens to the server, the exit record in the state folder is
written, fsynced, once.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Set, Tuple, Union

from trackyard.runner import ending, processes, records
from trackyard.runner.data.inputs import Data
from trackyard.runner.fitness import Fitness
from trackyard.runner.gang.meeting import MeetingError
from trackyard.runner.gang.rank_lines import RankLines
from trackyard.runner.gang.siblings import Company, UnfitError
from trackyard.runner.interactive.work import InteractiveSession
from trackyard.runner.logs import LogSpool, Output
from trackyard.runner.machine.samples import oom_kills, sampler_of
from trackyard.runner.report import RunnerReporter, ServerReply
from trackyard.runner.slurm.report_folder import FolderReporter
from trackyard.runner.spec import RunnerSpec, mark
from trackyard.runner.watch import (
    AT_ONCE,
    MEMORY_SECONDS,
    ProgressFiles,
    Siblings,
    StopFile,
    StopRequest,
    StopRequests,
    answers,
)
from trackyard.runner.workspace import limits, sandbox, workspace

TICK_SECONDS = 0.1
LEFTOVER_SECONDS = 1.0
WITNESS_SECONDS = 5.0
SHELL_SECONDS = 0.3
#: between a signal to all of a job's processes reaching the command and reaching us
SIGNAL_SECONDS = 0.5
#: to save, at most, where the cluster has lost the node and may start the job elsewhere
LOSS_SECONDS = 10.0


class StopAsked(Exception):
    """The attempt is to end before its command started."""


class Supervisor:
    """Wraps one command."""

    def __init__(self, spec: RunnerSpec) -> None:
        self._spec = spec
        self._mark = mark(spec)
        self._unit = f"yard-{self._mark}"
        self._state = "setup"
        self._started_ms = time.time_ns() // 1_000_000
        self._began = time.monotonic()
        self._spool = LogSpool(spec.state_dir / "log")
        self._requests = StopRequests()
        self._stop_file = StopFile(spec)
        self._siblings = Siblings(spec)
        self._signs = ProgressFiles(spec)
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        hidden = [spec.env[name] for name in spec.secrets if name in spec.env]
        self._session = InteractiveSession(spec, say=self._say)
        marks = RankLines() if spec.gang.launcher == "mpirun" else None
        self._output = Output(self._spool, echo=spec.echo, secrets=hidden, marks=marks)
        self._company = Company(spec, pause=self._pause, say=self._say)
        self._main: Optional[int] = None
        self._main_status: Optional[int] = None
        self._command_began: Optional[float] = None
        self._asked: Optional[str] = None
        self._deadline: Optional[float] = None
        self._forced = self._signalled = False
        self._cgroup: Optional[limits.Cgroup] = None
        self._next_memory_check = 0.0
        self._next_witness = 0.0
        self._peak_memory = 0
        self._leaders: Set[int] = set()
        self._shell_due = 0.0
        self._stragglers: Set[int] = set()
        self._notes: List[str] = []
        self._oom_before = oom_kills()
        self._sampler = sampler_of(spec)
        self._fitness = Fitness(spec)
        self._reporter: Union[RunnerReporter, FolderReporter, None] = None
        self._data = Data(spec, self._say, self._beat_soon)

    def run(self) -> int:
        """Live through the attempt and return the code to exit with."""
        self._install_signals()
        self._start_reporting()
        facts = self._live()
        verdict = ending.judge(facts)
        record = self._record(verdict)
        records.write_reserved(
            self._spec.state_dir / "exit.reserved", self._spec.state_dir / "exit.json", record
        )
        self._company.part(verdict.cause)
        self._state = "ended"
        if self._reporter is not None and self._reporter.finish(record):
            with contextlib.suppress(OSError):
                (self._spec.state_dir / "delivered").touch()
        self._spool.close()
        return ending.exit_status(verdict)

    # Set-up

    def _install_signals(self) -> None:
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        # From the guard: the cluster's own process above us is gone.
        signal.signal(signal.SIGUSR1, self._on_loss)

    def _on_signal(self, number: int, _frame: Any) -> None:
        del number
        self._signalled = True
        # Where someone else says what a signal means, its word comes as a stop file.
        if not self._spec.signals_explained:
            self._requests.put("stopped", self._spec.grace_seconds)

    def _on_loss(self, number: int, _frame: Any) -> None:
        del number
        self._requests.put("node_lost", min(self._spec.grace_seconds, LOSS_SECONDS))

    def _start_reporting(self) -> None:
        if self._spec.report is None:
            return
        spec, describe, sample = self._spec, self._describe, self._sample
        if self._spec.report.by_folder:
            self._reporter = FolderReporter(spec, describe=describe, sample=sample)
        else:
            self._reporter = RunnerReporter(
                spec, self._spool, describe=describe, sample=sample, on_answer=self._on_answer
            )
        self._reporter.start()

    def _live(self) -> ending.ExitFacts:
        try:
            self._pause(0)
            unfit = self._fitness.before()
            if unfit is not None:
                return self._failed("node_unfit", unfit)
            self._company.arrive()
            env = workspace.job_environment(self._spec, venv=None, own=self._own_variables())
            folder = workspace.prepare_folder(self._spec, self._pause)
            modules = workspace.prepare_modules(self._spec, self._pause)
            self._state = "environment"
            self._data.prepare(self._pause)
            clean = {k: v for k, v in env.items() if k not in self._spec.platform_env}
            venv = workspace.prepare_python(
                self._spec, folder, clean, run=self._run_program, pause=self._pause
            )
            env = workspace.job_environment(
                self._spec,
                venv=venv,
                own=self._own_variables(),
                imports=[folder, *modules] if self._spec.ray_rules else modules,
            )
            self._start_command(folder, self._session.environment(env))
        except StopAsked:
            self._sweep(0)
            self._spool.finish()
            return self._facts(status=0 if self._asked == "gang_done" else signal.SIGTERM)
        except UnfitError as fault:
            self._fitness.note_unfit("preflight", str(fault))
            return self._failed("node_unfit", str(fault))
        except MeetingError as fault:
            return self._failed(fault.cause, str(fault))
        except workspace.WorkspaceError as fault:
            return self._failed("setup", str(fault))
        except OSError as fault:
            return self._failed("command", ending.start_failure(self._spec.argv[0], fault))
        self._watch_command()
        self._end_command()
        return self._facts(status=self._main_status)

    def _failed(self, cause: str, sentence: str) -> ending.ExitFacts:
        self._say(sentence)
        self._sweep(0)
        self._spool.finish()
        return ending.ExitFacts(status=None, failed_start=cause, failure=sentence)

    def _own_variables(self) -> Dict[str, str]:
        own = {processes.MARKER: self._mark, "YARD_PROGRESS_FILE": str(self._signs.progress_file)}
        return {**own, **workspace.own_variables(self._spec), **self._data.variables()}

    def _start_command(self, folder: Path, env: Dict[str, str]) -> None:
        self._company.look(folder, env, self._run_program)
        self._company.agree(folder)
        env = {**env, **self._company.variables(env)}
        line = self._company.command(env)
        spec = self._spec
        self._cgroup = limits.cgroup_for(spec, self._unit, self._notes)
        if line is None:
            self._hold(folder, env)
            return
        self._say_launcher(line)
        prefix = limits.prefix_for(spec, self._unit, self._cgroup, self._notes)
        if self._session.terminal is not None:
            self._output.tee = self._session.terminal.feed
        line = [*prefix, *self._session.line(line, folder)]
        self._main = self._spawn(line, folder, env, self._session.take_terminal())
        self._command_began = time.monotonic()
        self._signs.started()
        self._state = "running"
        self._session.started(self._stop_unused)
        self._beat_soon()

    def _beat_soon(self) -> None:
        if self._reporter is not None:
            self._reporter.beat_soon()

    def _hold(self, folder: Path, env: Dict[str, str]) -> None:
        """Hold the node, and start here what the first member asks for."""
        self._state = "running"
        self._command_began = time.monotonic()
        while not self._is_released():
            self._company.answer(lambda line: self._spawn(line, folder, env, beside=True))
            self._pump(TICK_SECONDS)
        if self._asked is None:
            self._requests.put("gang_done", 0)
        self._pause(0)

    def _is_released(self) -> bool:
        """Tell whether the node is held no more; who is stopped waits for the first's end."""
        if self._asked is None:
            return self._siblings.first_is_done()
        is_over = self._deadline is not None and time.monotonic() >= self._deadline
        return self._asked in AT_ONCE or is_over or self._company.first_has_ended()

    def _say_launcher(self, line: List[str]) -> None:
        if line != list(self._spec.argv):
            self._say("starting " + " ".join(line[: len(line) - len(self._spec.argv) + 1]) + " …")

    # Processes

    def _stop_unused(self, sentence: str) -> None:
        self._notes.append(sentence)
        self._say(sentence)
        self._requests.put("stopped", self._spec.grace_seconds)

    def _spawn(
        self,
        line: List[str],
        folder: Path,
        env: Mapping[str, str],
        terminal: Optional[Tuple[int, int]] = None,
        *,
        beside: bool = False,
    ) -> int:
        doors = self._cgroup.open_doors() if self._cgroup is not None else []
        try:
            pid, pipe = processes.spawn(
                sandbox.line_in(self._spec, line, str(folder)), folder, env, doors, terminal
            )
        finally:
            for door in doors:
                os.close(door)
        self._output.attach(pipe, beside=beside)
        return pid

    def _run_program(self, line: List[str], folder: Path, env: Dict[str, str]) -> tuple[int, str]:
        self._output.capture()
        try:
            self._main = self._spawn(line, folder, env)
        except OSError as fault:
            return 127, str(fault)
        status = self._wait_for_program()
        self._sweep(0)
        self._output.drain()
        code, number = ending.split_status(status)
        output = self._output.captured().decode("utf-8", "replace")
        return (code if code is not None else 128 + (number or 0)), output

    def _wait_for_program(self) -> int:
        self._main_status = None
        try:
            while True:
                self._pump(TICK_SECONDS)
                if self._asked is not None:
                    raise StopAsked
                status = self._ended()
                if status is not None:
                    return status
        finally:
            self._main, self._main_status = None, None

    def _ended(self) -> int | None:
        return self._main_status

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while True:
            self._pump(max(0.0, min(TICK_SECONDS, until - time.monotonic())))
            if self._asked is not None:
                raise StopAsked
            if time.monotonic() >= until:
                return

    def _watch_command(self) -> None:
        while self._main is not None and self._main_status is None:
            self._pump(self._tick())
            self._end_shell()
            if self._deadline is not None and time.monotonic() >= self._deadline:
                self._force()
        self._wait_for_word_of_a_loss()

    def _wait_for_word_of_a_loss(self) -> None:
        """Ask whether the command died with its node, whose cluster kills it before we hear."""
        explained = self._spec.signals_explained
        # A command that handles the signal itself saves, and ends with a code of its own.
        by_signal = ending.is_killed(self._main_status) or (explained and self._signalled)
        if not (self._spec.witness or explained) or not by_signal:
            return
        began = time.monotonic()
        while self._asked is None:
            heard = not explained or self._signalled
            patience = self._spec.loss_news_seconds if heard else SIGNAL_SECONDS
            if time.monotonic() - began >= patience:
                return
            self._pump(TICK_SECONDS)

    def _tick(self) -> float:
        if self._deadline is None:
            return TICK_SECONDS
        return max(0.0, min(TICK_SECONDS, self._deadline - time.monotonic()))

    def _force(self) -> None:
        self._forced = True
        found = self._belonging()
        if self._main is not None:
            found.add(self._main)
        processes.send(found, signal.SIGKILL)
        self._deadline = time.monotonic() + 0.2

    def _end_command(self) -> None:
        self._state = "stopping"
        polite = LEFTOVER_SECONDS
        if self._asked is not None:
            left = (self._deadline or 0.0) - time.monotonic()
            polite = 0.0 if self._forced else min(LEFTOVER_SECONDS, max(0.0, left))
        self._sweep(polite)
        self._output.drain()
        self._session.close()
        self._output.close()
        self._spool.finish()

    def _sweep(self, polite_seconds: float) -> None:
        def find() -> Set[int]:
            self._output.drain()
            return self._belonging()

        self._stragglers |= processes.end_tree(find, polite_seconds=polite_seconds)
        left = self._belonging()
        if left:
            self._notes.append(f"processes {sorted(left)} hang in the kernel and remain")

    def _belonging(self) -> Set[int]:
        found = processes.belonging(self._mark)
        if self._cgroup is not None:
            found |= self._cgroup.members() - {os.getpid()}
        return found

    # The loop

    def _pump(self, seconds: float) -> None:
        """Wait for output, an ended child or a request, at most `seconds`."""
        ready, _, _ = select.select([self._wake_read, *self._output.pipes()], [], [], seconds)
        if self._wake_read in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake_read, 4096)
        if set(ready) & set(self._output.pipes()):
            self._output.read()
            if self._reporter is not None:
                self._reporter.log_soon()
        ended = list(processes.reap())
        for pid, status, peak in ended:
            self._peak_memory = max(self._peak_memory, peak)
            if pid == self._main:
                self._main_status = status
        self._company.check(self._requests, [(pid, status) for pid, status, _ in ended])
        self._stop_file.check(self._requests)
        self._siblings.check(self._requests)
        self._check_limits()
        for request in self._requests.take():
            self._stop(request)

    def _check_limits(self) -> None:
        spec, now = self._spec, time.monotonic()
        if self._asked is None and self._command_began is not None:
            limit = spec.time_limit_seconds
            if limit is not None and now - self._command_began >= limit:
                self._requests.put("time_limit", spec.grace_seconds)
            watched = spec.memory_bytes and self._cgroup is None
            if watched and now >= self._next_memory_check:
                self._next_memory_check = now + MEMORY_SECONDS
                if self._is_over_memory(spec.memory_bytes):
                    self._requests.put("memory", 0)
        renew = None if spec.report is None else spec.report.renew_within_seconds
        if renew is None or self._reporter is None or self._asked is not None:
            return
        if now - self._reporter.last_accepted > renew and self._is_cut_off(now, renew):
            self._requests.put("fenced", 0)

    def _is_cut_off(self, now: float, renew: float) -> bool:
        """Tell a node that is cut off from a server that is merely down."""
        if not self._spec.witness:
            return True
        if now < self._next_witness:
            return False
        self._next_witness = now + min(WITNESS_SECONDS, renew)
        return not answers(self._spec.witness)

    def _is_over_memory(self, limit: int) -> bool:
        # The exact reading is dear, so it is taken only when the cheap one is over the limit.
        if self._tree_use()[0] <= limit:
            return False
        tree = processes.descendants(os.getpid(), processes.table())
        return processes.proportional_memory(tree) > limit

    def _stop(self, request: StopRequest) -> None:
        deadline = time.monotonic() + request.grace_seconds
        overrides = self._asked is None or request.reason in AT_ONCE
        if self._deadline is not None:
            deadline = min(deadline, self._deadline)
        self._deadline = deadline
        if not overrides or self._asked == request.reason:
            return
        self._asked = request.reason
        if self._main is None or self._main_status is not None:
            return
        self._state = "stopping"
        if request.grace_seconds > 0:
            self._ask_politely(request)
        self._beat_soon()

    def _ask_politely(self, request: StopRequest) -> None:
        notice = {
            "reason": request.reason,
            "grace_seconds": request.grace_seconds,
            "deadline_ms": time.time_ns() // 1_000_000 + int(request.grace_seconds * 1000),
        }
        with contextlib.suppress(OSError):
            records.write_json(self._spec.state_dir / "notice.json", notice)
        words = f"stopping ({request.reason}): SIGTERM now, {request.grace_seconds:g} s to save"
        self._say(words)
        self._session.warn(words)
        if self._main is None:
            return
        if self._spec.stop_scope == "group":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._main, signal.SIGTERM)
            return
        deep = self._spec.gang.launcher == "accelerate"
        self._leaders = processes.stop_leaders(self._main, processes.table(), deep=deep)
        self._ask(self._leaders)
        processes.send(self._leaders, signal.SIGCONT)

    def _end_shell(self) -> None:
        """End a shell that goes on with its script after the stopped command."""
        if not self._leaders or self._main is None:
            return
        if any(processes.look(pid) is not None for pid in self._leaders):
            self._shell_due = time.monotonic() + SHELL_SECONDS
        elif time.monotonic() >= self._shell_due:
            # The shell first, lest it see its command end and start the next one.
            shell, around = processes.inside(self._main, processes.table())
            self._ask({shell})
            self._ask(self._belonging() - around - {shell})
            self._leaders = set()

    def _ask(self, pids: Set[int]) -> None:
        processes.send(pids, signal.SIGTERM)
        if self._session.terminal is not None:
            # A shell at a terminal heeds no SIGTERM.
            processes.send(pids, signal.SIGHUP)

    def _say(self, sentence: str) -> None:
        line = f"[yard] {sentence}\n".encode("utf-8", "replace")
        self._spool.append(line)
        if self._spec.echo:
            with contextlib.suppress(OSError):
                records.write_all(1, line)
        if self._reporter is not None:
            self._reporter.log_soon()

    # Reports

    def _on_answer(self, answer: ServerReply) -> None:
        if answer.status == 409:
            self._requests.put("fenced", 0)
        elif isinstance(answer.body.get("stop"), dict):
            stop = answer.body["stop"]
            grace = stop.get("grace_seconds", self._spec.grace_seconds)
            if isinstance(grace, (int, float)):
                self._requests.put(str(stop.get("reason", "stopped")), float(grace))
        else:
            return
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_write, b"\0")

    def _describe(self) -> Dict[str, Any]:
        return {
            "epoch": self._spec.epoch,
            "member": self._spec.gang.member,
            "members": self._spec.gang.members,
            "state": self._state,
            "pid": self._main,
            "runner_pid": os.getpid(),
            "hostname": socket.gethostname(),
            "started_ms": self._started_ms,
            "time_ms": time.time_ns() // 1_000_000,
            "log_end": self._spool.end,
            "log_lost_bytes": self._spool.lost_bytes,
            "log_disk_full": self._spool.disk_full,
            "log_age_seconds": round(self._output.quiet_seconds, 1),
            "progress": self._signs.progress(),
            "checkpoint": self._signs.checkpoint(),
            "notes": [*self._notes, *self._data.notes],
            "health": self._fitness.checks,
            "data": self._data.held,
        }

    def _sample(self) -> Dict[str, float]:
        memory, ticks = self._tree_use()
        return self._sampler.read(job_memory_bytes=memory, job_cpu_ticks=ticks)

    def _tree_use(self) -> tuple[int, int]:
        seen = processes.table()
        tree = [seen[pid] for pid in processes.descendants(os.getpid(), seen) if pid in seen]
        memory = sum(process.memory_bytes for process in tree)
        self._peak_memory = max(self._peak_memory, memory)
        return memory, sum(process.cpu_ticks for process in tree)

    # The end

    def _facts(self, *, status: Optional[int]) -> ending.ExitFacts:
        spec = self._spec
        in_limit = self._cgroup is not None and self._cgroup.oom_kills() > 0
        return ending.ExitFacts(
            status=status,
            asked=self._asked,
            forced=self._forced,
            oom_in_limit=in_limit,
            oom_on_machine=oom_kills() > self._oom_before,
            memory_limit_bytes=spec.memory_bytes,
            time_limit_seconds=spec.time_limit_seconds,
            saved_exit_code=spec.saved_exit_code,
            tail=self._spool.tail,
        )

    def _record(self, verdict: ending.ExitVerdict) -> Dict[str, Any]:
        if self._cgroup is not None:
            self._peak_memory = max(self._peak_memory, self._cgroup.peak_bytes())
            self._cgroup.remove()
        if self._spool.disk_full:
            self._notes.append("the disk under the log was full for a time")
        spec = self._spec
        # From one monotonic reading, so that a jump of the clock makes no negative duration.
        duration = time.monotonic() - self._began
        return {
            "version": 1,
            "attempt_id": spec.attempt_id,
            "job_id": spec.job_id,
            "epoch": spec.epoch,
            "member": spec.gang.member,
            "cause": verdict.cause,
            "sentence": verdict.sentence,
            "exit_code": verdict.exit_code,
            "signal": verdict.signal,
            "saved": verdict.saved,
            "forced": self._forced,
            "error_line": verdict.error_line,
            "started_ms": self._started_ms,
            "ended_ms": self._started_ms + int(duration * 1000),
            "duration_seconds": round(duration, 3),
            "log_bytes": self._spool.end,
            "log_lost_bytes": self._spool.lost_bytes,
            "peak_memory_bytes": self._peak_memory,
            "stragglers": len(self._stragglers - {self._main}),
            "hostname": socket.gethostname(),
            "checkpoint": self._signs.checkpoint(),
            "step": self._signs.progress().get("step"),
            "notes": [*self._notes, *self._data.notes],
            "health": self._fitness.after(verdict.cause),
        }
