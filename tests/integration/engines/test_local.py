"""The local engine passes the conformance suite with real processes, and its own promises."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.integration.engines.conformance import Harness, ProcessConformance
from trackyard.core.ports import (
    AttemptPhase,
    EngineError,
    ExitCause,
    ExitRecord,
    GpuShare,
    NodeGrant,
    NoticeKind,
    ReportTo,
)
from trackyard.engines.local import LocalEngine
from trackyard.engines.machine import Declared, HealthChecking

SCRIPTS = {
    "succeed": "pass",
    "exit 7": "raise SystemExit(7)",
    "sleep": "import time; time.sleep(600)",
    "say hello": "print('hello')",
    "kill itself": "import os; os.kill(os.getpid(), 11)",
    "print environment": "import json, os; print(json.dumps(dict(os.environ)))",
    "save on stop": (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(85))\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)"
    ),
    "ignore stop": (
        "import signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)"
    ),
    "member 1 fails": (
        "import os, time\nif os.environ['RANK'] == '1': raise SystemExit(9)\ntime.sleep(600)"
    ),
}


#: Prints all that a command can read of its runner without special rights.
SPYING = """
import os, pathlib
print(dict(os.environ))
seen = 0
folder = pathlib.Path(os.environ["YARD_NOTICE_FILE"]).parent.parent
for path in folder.rglob("*"):
    if path.is_file() and path.name != "log":
        seen += 1
        print(path, path.read_bytes().strip(b"\\0"))
pid = os.getppid()
while pid > 1:
    try:
        print(pid, pathlib.Path(f"/proc/{pid}/environ").read_bytes()[:65536])
    except OSError:
        print(pid, "is closed")
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pid = int(fields[1])
print("looked at", seen)
assert seen > 1
"""


def _record(engine: LocalEngine, attempt_id: str) -> ExitRecord | None:
    report = engine.lookup(attempt_id)
    return None if report is None else report.exit


class LocalHarness(Harness):
    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.opened: list[LocalEngine] = []
        super().__init__(self.reopen(), folder)

    def reopen(self) -> LocalEngine:
        declared = Declared(gpus=2, node_ids=("n0", "n1"))
        engine = LocalEngine(self.home, declared=declared)
        self.opened.append(engine)
        return engine

    def command(self, behaviour: str) -> tuple[str, ...]:
        return (sys.executable, "-c", SCRIPTS[behaviour])

    def clear(self) -> None:
        """End and forget what a test started; leave the first engine as it was."""
        while len(self.opened) > 1:
            self.opened.pop().close()
        self.engine = engine = self.opened[0]
        for report in engine.attempts():
            engine.stop(report.attempt_id, grace_seconds=0, reason=ExitCause.STOPPED)
        for report in engine.attempts():
            self.wait_for(report.attempt_id, AttemptPhase.EXITED, AttemptPhase.LOST)
            engine.forget(report.attempt_id)

    def close(self) -> None:
        self.clear()
        self.engine.close()


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHarness]:
    """One engine for the tests that leave it as they found it: each start takes a second."""
    harness = LocalHarness(tmp_path_factory.mktemp("lasting"))
    yield harness
    harness.close()


class TestLocalEngine(ProcessConformance):
    @pytest.fixture
    def harness(self, lasting: LocalHarness) -> Iterator[LocalHarness]:
        yield lasting
        lasting.clear()

    @pytest.fixture
    def own(self, tmp_path: Path) -> Iterator[LocalHarness]:
        """An engine of a test's own."""
        harness = LocalHarness(tmp_path)
        yield harness
        harness.close()

    def test_a_killed_runner_loses_the_attempt_and_leaves_nothing_running(
        self, harness: LocalHarness
    ) -> None:
        argv, word = hiding(scrubbed=True)
        spec = harness.spec("", argv=argv)
        harness.engine.launch(spec)
        harness.wait_until(lambda: len(sleepers(word)) == 3, "the command never hid")
        runner, _ = member_processes(harness, spec.attempt_id)
        os.kill(runner, signal.SIGKILL)
        report = harness.wait_for(spec.attempt_id, AttemptPhase.LOST, AttemptPhase.EXITED)
        assert (report.phase, report.exit) == (AttemptPhase.LOST, None)
        assert processes_of(spec.attempt_id, word) == []

    def test_runner_and_guard_killed_at_once_leave_nothing_running(
        self, harness: LocalHarness
    ) -> None:
        argv, word = hiding(scrubbed=False)
        spec = harness.spec("", argv=argv)
        harness.engine.launch(spec)
        harness.wait_until(lambda: len(sleepers(word)) == 3, "the command never hid")
        runner, guard = member_processes(harness, spec.attempt_id)
        os.kill(guard, signal.SIGKILL)
        os.kill(runner, signal.SIGKILL)
        harness.wait_for(spec.attempt_id, AttemptPhase.LOST)
        assert processes_of(spec.attempt_id, word) == []

    def test_the_command_finds_the_runners_credential_nowhere(self, harness: LocalHarness) -> None:
        """Not in its environment, nor in files of the attempt, nor in what its parents started
        with; the runner itself has it.
        """
        secret = "yard_runner0000_" + "s" * 51
        spec = harness.spec(
            "",
            argv=(sys.executable, "-c", SPYING),
            report=ReportTo(url="http://127.0.0.1:9", token=secret, linger_seconds=0),
        )
        report = harness.run(spec)
        said = harness.engine.read_log(spec.attempt_id, 0, offset=0, limit=100_000).decode()
        assert report.exit is not None
        assert report.exit.exit_code == 0, said
        assert "looked at" in said
        assert secret not in said

    def test_a_killed_guard_changes_nothing(self, harness: LocalHarness) -> None:
        spec = harness.spec("save on stop")
        harness.engine.launch(spec)
        self.wait_for_output(harness, spec, b"ready")
        _, guard = member_processes(harness, spec.attempt_id)
        os.kill(guard, signal.SIGKILL)
        harness.wait_until(lambda: not psutil.pid_exists(guard), "the guard lives")
        assert harness.wait_for(spec.attempt_id, AttemptPhase.RUNNING)
        harness.engine.stop(spec.attempt_id, grace_seconds=60, reason=ExitCause.PREEMPTED)
        report = harness.wait_for(spec.attempt_id, AttemptPhase.EXITED)
        assert report.exit is not None
        assert report.exit.saved

    def test_a_frozen_runner_that_misses_its_stop_is_killed(
        self, harness: LocalHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("trackyard.engines.local.OVERDUE_SECONDS", 0.5)
        spec = harness.spec("ignore stop")
        harness.engine.launch(spec)
        self.wait_for_output(harness, spec, b"ready")
        for pid in member_processes(harness, spec.attempt_id):
            os.kill(pid, signal.SIGSTOP)
        harness.engine.stop(spec.attempt_id, grace_seconds=0.1, reason=ExitCause.STOPPED)
        harness.wait_for(spec.attempt_id, AttemptPhase.LOST)
        assert processes_of(spec.attempt_id) == []

    def test_a_lost_member_ends_the_rest_of_its_gang(self, harness: LocalHarness) -> None:
        spec = harness.spec("sleep", placement=tuple(NodeGrant(node_id=n) for n in ("n0", "n1")))
        harness.engine.launch(spec)
        harness.wait_until(
            (harness.home / "attempts" / spec.attempt_id / "m1/started.json").exists,
            "member 1 never started",
        )
        harness.wait_for(spec.attempt_id, AttemptPhase.RUNNING)
        os.kill(member_processes(harness, spec.attempt_id, member=1)[0], signal.SIGKILL)
        report = harness.wait_for(spec.attempt_id, AttemptPhase.LOST)
        assert [record.cause for record in report.exits] == [ExitCause.GANG]
        assert processes_of(spec.attempt_id) == []

    def test_the_servers_own_secrets_do_not_reach_the_command(
        self, harness: LocalHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("YARD_TOKEN", "AWS_SECRET_ACCESS_KEY", "DATABASE_URL", "PGPASSWORD"):
            monkeypatch.setenv(name, "canary-value")
        spec = harness.spec("print environment")
        harness.run(spec)
        log = harness.engine.read_log(spec.attempt_id, 0, offset=0, limit=100_000)
        assert b"PATH" in log
        assert b"canary-value" not in log

    def test_one_warm_process_forks_every_runner_and_leaves_with_the_engine(
        self, own: LocalHarness
    ) -> None:
        others = nurseries()
        for _ in range(3):
            spec = own.spec("say hello")
            report = own.run(spec)
            assert report.exit is not None
            assert report.exit.cause is ExitCause.SUCCEEDED
            assert own.engine.read_log(spec.attempt_id, 0, offset=0, limit=9) == b"hello\n"
        running = own.spec("sleep")
        own.engine.launch(running)
        own.wait_for(running.attempt_id, AttemptPhase.RUNNING)
        (nursery,) = set(nurseries()) - set(others)
        guard = psutil.Process(member_processes(own, running.attempt_id)[1])
        assert guard.ppid() == nursery
        assert os.getsid(guard.pid) == guard.pid
        own.engine.close()
        own.wait_until(lambda: nurseries() == others, "the warm process stayed")
        assert guard.is_running()
        own.engine.stop(running.attempt_id, grace_seconds=0, reason=ExitCause.STOPPED)
        own.wait_until(lambda: not guard.is_running(), "it was not stopped")

    def test_a_warm_process_that_died_is_replaced_and_its_runners_go_on(
        self, harness: LocalHarness
    ) -> None:
        running = harness.spec("sleep")
        harness.engine.launch(running)
        harness.wait_for(running.attempt_id, AttemptPhase.RUNNING)
        for pid in nurseries():
            os.kill(pid, signal.SIGKILL)
        report = harness.run(harness.spec("succeed"))
        assert report.exit is not None
        assert report.exit.cause is ExitCause.SUCCEEDED
        found = harness.engine.lookup(running.attempt_id)
        assert found is not None
        assert found.phase is AttemptPhase.RUNNING

    def test_a_killed_server_leaves_no_warm_runner_behind(self, harness: LocalHarness) -> None:
        code = (
            "import sys, time, pathlib\n"
            "from trackyard.engines.local import LocalEngine\n"
            "from trackyard.core.ports import LaunchSpec, NodeGrant\n"
            "engine = LocalEngine(pathlib.Path(sys.argv[1]))\n"
            "node = engine.nodes()[0].node_id\n"
            "engine.launch(LaunchSpec(attempt_id='a1', epoch=1, job_id='j1',\n"
            "    argv=('sleep', '600'), placement=(NodeGrant(node_id=node),)))\n"
            "while engine.lookup('a1').phase != 'running': time.sleep(0.05)\n"
            "print('up', flush=True)\n"
            "time.sleep(600)\n"
        )
        home = harness.folder / "other"
        server = subprocess.Popen(
            [sys.executable, "-c", code, str(home)], stdout=subprocess.PIPE, text=True
        )
        assert server.stdout is not None
        assert server.stdout.readline() == "up\n"
        child = nurseries(server.pid)
        assert len(child) == 1
        server.kill()
        server.wait()
        server.stdout.close()
        harness.wait_until(lambda: not psutil.pid_exists(child[0]), "the warm runner stayed")
        again = LocalEngine(home)
        report = again.lookup("a1")
        assert report is not None
        assert report.phase is AttemptPhase.RUNNING
        again.stop("a1", grace_seconds=0, reason=ExitCause.STOPPED)
        harness.wait_until(
            lambda: again.attempts()[0].phase is AttemptPhase.EXITED, "it was not stopped"
        )
        again.close()

    def test_what_is_declared_anew_is_offered_and_noticed(self, own: LocalHarness) -> None:
        engine = own.opened[0]
        spec = own.spec("sleep")
        engine.launch(spec)
        seen: list[tuple[NoticeKind, str]] = []
        engine.subscribe(lambda notice: seen.append((notice.kind, notice.subject)))
        engine.declare(Declared(gpus=4, node_ids=("n0", "n2")))
        assert [(node.node_id, len(node.gpus)) for node in engine.nodes()] == [
            ("n0", 4),
            ("n2", 4),
        ]
        assert [notice for notice in seen if "node" in notice[0]] == [
            (NoticeKind.NODE_CHANGED, "n0"),
            (NoticeKind.NODE_LOST, "n1"),
            (NoticeKind.NODE_JOINED, "n2"),
        ]
        own.wait_for(spec.attempt_id, AttemptPhase.RUNNING)

    def test_a_gpu_that_is_gone_or_hot_is_noticed_at_the_next_look(
        self, harness: LocalHarness
    ) -> None:
        """GPUs are those that the file tells of, with what it tells of their condition."""
        home = harness.folder / "gpus"
        home.mkdir()
        two = [
            {"index": n, "model": "X1", "memory_bytes": 1, "temperature_celsius": 50}
            for n in (0, 1)
        ]
        write_whole(home / "gpus.json", two)
        engine = LocalEngine(home, looking=HealthChecking(every_seconds=0.2))
        seen: list[NoticeKind] = []
        engine.subscribe(lambda notice: seen.append(notice.kind))
        node = engine.nodes()[0]
        assert (len(node.gpus), node.expected_gpus) == (2, None)
        assert {one.name for one in node.checks} == {"disk", "temperature", "processes"}
        assert [one.verdict for one in node.checks if one.name == "temperature"] == ["ok"]
        write_whole(home / "gpus.json", [{**two[0], "temperature_celsius": 99}])
        harness.wait_until(lambda: bool(seen), "nobody noticed")
        assert seen == [NoticeKind.NODE_CHANGED]
        node = engine.nodes()[0]
        assert len(node.gpus) == 1
        hot = next(one for one in node.checks if one.name == "temperature")
        assert (hot.verdict, hot.number) == ("fail", 99)
        assert hot.sentence == "GPU 0 is at 99 °C; its limit is 95 °C."
        engine.close()

    def test_after_a_failure_the_runner_tells_how_the_node_is(self, harness: LocalHarness) -> None:
        """A job that ends well says nothing of its node."""
        home = harness.folder / "worn"
        home.mkdir()
        (home / "gpus.json").write_text(json.dumps([{"index": 0, "ecc_uncorrected": 3}]))
        engine = LocalEngine(home, looking=HealthChecking(every_seconds=3600))
        share = NodeGrant(node_id=engine.nodes()[0].node_id, gpus=(GpuShare(index=0),))
        found = {}
        for behaviour, name in (("exit 7", "worn-1"), ("succeed", "worn-2")):
            engine.launch(harness.spec(behaviour, attempt_id=name, placement=(share,)))
            harness.wait_until(lambda name=name: _record(engine, name) is not None, "no record")
            record = _record(engine, name)
            assert record is not None
            found[name] = {check.name: check.verdict for check in record.health}
        assert (found["worn-1"].keys(), found["worn-1"]["ecc"]) == ({"disk", "ecc"}, "fail")
        assert found["worn-2"] == {}
        engine.close()

    def test_a_job_does_not_start_where_its_gpu_is_gone_or_the_disk_is_full(
        self, harness: LocalHarness
    ) -> None:
        """The runner looks before it starts the command, and says what is wrong."""
        home = harness.folder / "unfit"
        home.mkdir()
        (home / "gpus.json").write_text(json.dumps([{"index": 0}, {"index": 1}]))
        engine = LocalEngine(home, looking=HealthChecking(every_seconds=3600))
        (home / "gpus.json").write_text(json.dumps([{"index": 0}]))
        node = engine.nodes()[0].node_id
        share = NodeGrant(node_id=node, gpus=(GpuShare(index=1),))
        engine.launch(harness.spec("", attempt_id="unfit-1", placement=(share,)))
        harness.wait_until(lambda: _record(engine, "unfit-1") is not None, "no record")
        record = _record(engine, "unfit-1")
        assert record is not None
        assert record.cause is ExitCause.NODE_UNFIT
        assert record.sentence.endswith("GPU 1, given to the job, is not there.")
        engine.close()
        engine = LocalEngine(home, looking=HealthChecking(limits={"disk_fail_gb": 1e9}))
        share = NodeGrant(node_id=node)
        engine.launch(harness.spec("", attempt_id="unfit-2", placement=(share,)))
        harness.wait_until(lambda: _record(engine, "unfit-2") is not None, "no record")
        record = _record(engine, "unfit-2")
        assert record is not None
        assert record.cause is ExitCause.NODE_UNFIT
        assert "Only" in record.sentence
        engine.close()

    def test_loader_and_interpreter_hooks_reach_the_command_alone(
        self, harness: LocalHarness
    ) -> None:
        """A job's variables cannot take over the runner around it."""
        trap = harness.folder / "trap"
        trap.mkdir()
        for name in ("json", "os", "sitecustomize"):
            (trap / f"{name}.py").write_text("raise SystemExit('trapped')")
        env = {
            "PYTHONPATH": str(trap),
            "PYTHONHOME": str(trap),
            "PYTHONSTARTUP": str(trap / "json.py"),
            "LD_LIBRARY_PATH": str(trap),
            "BASH_ENV": "/nonexistent",
        }
        spec = harness.spec("", argv=("/bin/sh", "-c", "echo $PYTHONPATH"), env=env)
        report = harness.run(spec)
        assert report.exit is not None
        assert report.exit.cause is ExitCause.SUCCEEDED
        log = harness.engine.read_log(spec.attempt_id, 0, offset=0, limit=1000)
        assert log.strip() == str(trap).encode()

    def test_a_spec_with_the_token_is_readable_by_its_owner_alone(
        self, harness: LocalHarness
    ) -> None:
        spec = harness.spec("succeed", platform_env={"MLFLOW_TRACKING_TOKEN": "s3cret"})
        harness.run(spec)
        folder = harness.home / "attempts" / spec.attempt_id
        holders = [p for p in folder.rglob("*") if p.is_file() and b"s3cret" in p.read_bytes()]
        assert [p.name for p in holders] == ["m0.spec.json"]
        assert holders[0].stat().st_mode & 0o077 == 0
        assert folder.stat().st_mode & 0o077 == 0

    @pytest.mark.parametrize("attempt_id", ["..", "../../x", "a/b", "", "a\nb"])
    def test_an_id_that_is_a_path_is_refused(self, harness: LocalHarness, attempt_id: str) -> None:
        for call in (
            harness.engine.lookup,
            harness.engine.forget,
            lambda bad: harness.engine.read_log(bad, 0, offset=0, limit=1),
            lambda bad: harness.engine.stop(bad, grace_seconds=0, reason=ExitCause.STOPPED),
        ):
            with pytest.raises(EngineError):
                call(attempt_id)


def hiding(*, scrubbed: bool) -> tuple[tuple[str, ...], str]:
    """Return a command that forks and leaves its session, and a word its processes carry.

    Scrubbed, the hidden process drops its environment too.
    """
    word = f"600.{os.getpid()}{time.monotonic_ns() % 10**9}"
    hidden = f"exec env -i sleep {word}" if scrubbed else f"exec sleep {word}"
    line = f"setsid sh -c 'sleep {word} & {hidden}' </dev/null >/dev/null 2>&1 & sleep {word}"
    return ("sh", "-c", line), word


def write_whole(path: Path, content: object) -> None:
    """Write a file that whoever looks meanwhile finds old or new, never half."""
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(content))
    beside.replace(path)


def sleepers(word: str) -> list[int]:
    """The processes that sleep for so long."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.cmdline() == ["sleep", word]:
                found.append(process.pid)
    return found


def member_processes(
    harness: LocalHarness, attempt_id: str, *, member: int = 0
) -> tuple[int, int]:
    from trackyard.engines.statefolder import MemberFolder

    folder = MemberFolder(harness.home / "attempts" / attempt_id / f"m{member}")
    runner, guard = folder.processes()
    return runner, guard


def nurseries(parent: int | None = None) -> list[int]:
    """The processes that start runners for this process, or for another."""
    found = []
    for child in psutil.Process(parent).children():
        with contextlib.suppress(psutil.Error):
            if "--nursery" in child.cmdline():
                found.append(child.pid)
    return found


def processes_of(attempt_id: str, word: str = "") -> list[int]:
    """Every live process with the attempt's marker, or with `word` on its command line."""
    found = []
    for process in psutil.process_iter():
        try:
            marked = process.environ().get("YARD_ATTEMPT_ID") == attempt_id
            named = bool(word) and any(word in part for part in process.cmdline())
            if (marked or named) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return found
