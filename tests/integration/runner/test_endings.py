"""How commands end is judged right and recorded, and nothing is left running behind them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.integration.runner.conftest import Start, wait_until


def test_a_tree_that_forks_and_hides_ends_with_the_stop(start: Start) -> None:
    """Descendants that left the session, dropped their environment and lost their parents."""
    code = (
        "import os, sys, time\n"
        "def hide(depth):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        if os.fork() == 0:\n"
        "            if depth: hide(depth - 1)\n"
        "            null = os.open(os.devnull, os.O_RDWR)\n"
        "            for fd in (0, 1, 2): os.dup2(null, fd)\n"
        "            os.execve('/bin/sleep', ['sleep', sys.argv[1]], {})\n"
        "        os._exit(0)\n"
        "for depth in range(3): hide(depth)\n"
        "print('hidden', flush=True)\n"
        "time.sleep(600)\n"
    )
    word = f"600.{os.getpid()}{time.monotonic_ns() % 10**9}"
    runner = start(argv=[sys.executable, "-c", code, word])
    runner.wait_for_log(b"hidden")
    wait_until(lambda: len(sleepers(word)) == 6, "not all of them hid")
    runner.send_stop("stopped", 60)
    record = runner.wait()
    assert record["cause"] == "stopped"
    assert sleepers(word) == []
    assert record["stragglers"] >= 6


def test_what_a_finished_command_leaves_behind_is_ended(start: Start) -> None:
    word = f"600.{os.getpid()}{time.monotonic_ns() % 10**9}"
    runner = start(argv=["sh", "-c", f"(trap '' TERM; setsid sleep {word} & ) ; exit 0"])
    record = runner.wait()
    assert (record["cause"], record["stragglers"]) == ("succeeded", 1)
    assert sleepers(word) == []


def test_a_tree_that_keeps_forking_is_caught(start: Start) -> None:
    code = (
        "import os, time\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    if os.fork() == 0:\n"
        "        os.setsid(); time.sleep(0.05); continue\n"
        "    time.sleep(0.05)\n"
        "    os._exit(0) if os.getppid() == 1 else None\n"
        "    try: os.waitpid(-1, os.WNOHANG)\n"
        "    except ChildProcessError: pass\n"
        "    time.sleep(0.3)\n"
    )
    runner = start(code)
    runner.wait_for_log(b"ready")
    time.sleep(0.3)
    runner.send_stop("stopped", 0)
    assert runner.wait()["cause"] == "stopped"
    marked = [
        process.pid
        for process in psutil.process_iter()
        if environment(process).get("YARD_ATTEMPT_ID") == runner.attempt_id
    ]
    assert marked == []


def test_data_loader_workers_are_left_alone_while_the_trainer_saves(start: Start) -> None:
    """The polite signal goes to the command, seen through its shell, not to its children."""
    code = (
        "import os, signal, sys, time\n"
        "worker = os.fork()\n"
        "if worker == 0:\n"
        "    time.sleep(600)\n"
        "def save(*_):\n"
        "    time.sleep(0.3)\n"
        "    print('worker', os.waitpid(worker, os.WNOHANG), flush=True)\n"
        "    sys.exit(85)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    runner = start(argv=["sh", "-c", f'cd / && {sys.executable} -c "$0"; exit $?', code])
    runner.wait_for_log(b"ready")
    runner.send_stop("preempted", 60)
    record = runner.wait()
    assert b"worker (0, 0)" in runner.log
    assert record["cause"] == "preempted"


def test_a_shell_does_not_go_on_with_its_script_after_a_stop(start: Start) -> None:
    line = "echo ready; sleep 600; echo next; sleep 600; echo last"
    runner = start(argv=["sh", "-c", line])
    runner.wait_for_log(b"ready")
    runner.send_stop("stopped", 60)
    record = runner.wait(timeout=180)
    assert (record["cause"], record["forced"]) == ("stopped", False)
    assert b"last" not in runner.log
    assert record["duration_seconds"] < 50


def test_sigterm_to_the_runner_is_a_graceful_stop(start: Start) -> None:
    runner = start(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        "print('ready', flush=True); time.sleep(600)",
        grace_seconds=60,
    )
    runner.wait_for_log(b"ready")
    runner.process.send_signal(signal.SIGTERM)
    record = runner.wait()
    assert (record["cause"], record["exit_code"], record["forced"]) == ("stopped", 0, False)


def test_a_command_killed_from_outside_ends_by_signal(start: Start) -> None:
    runner = start("import os; os.kill(os.getpid(), 9)")
    record = runner.wait()
    assert (record["cause"], record["signal"]) == ("signal", 9)
    assert runner.process.returncode == 137


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("raise MemoryError", "main memory"),
        ("raise RuntimeError('CUDA out of memory. Tried to allocate 2 GiB')", "GPU ran out"),
    ],
)
def test_memory_errors_in_the_log_are_out_of_memory(
    start: Start, code: str, sentence: str
) -> None:
    record = start(code).wait()
    assert record["cause"] == "out_of_memory"
    assert sentence in record["sentence"]
    assert record["error_line"]


def test_a_command_over_its_memory_limit_is_out_of_memory(start: Start) -> None:
    """By the kernel where a cgroup is allowed, else by the runner's own watch."""
    code = (
        "import time\n"
        "hoard = []\n"
        "for _ in range(60):\n"
        "    hoard.append(bytearray(b'x') * 10_000_000)\n"
        "    time.sleep(0.05)\n"
        "time.sleep(600)\n"
    )
    record = start(code, memory_bytes=120 * 1024**2).wait()
    assert record["cause"] == "out_of_memory"
    assert "120 MiB" in record["sentence"]
    assert record["peak_memory_bytes"] > 50 * 1024**2


def test_without_cgroups_the_runner_watches_memory_itself(start: Start) -> None:
    code = "import time; hoard = bytearray(b'x') * 200_000_000; time.sleep(600)"
    record = start(code, memory_bytes=120 * 1024**2, kernel_limits=False).wait()
    assert record["cause"] == "out_of_memory"
    assert "120 MiB" in record["sentence"]
    assert "not enforced by the kernel" in record["notes"][0]


def test_memory_that_processes_share_is_counted_once(start: Start) -> None:
    """Data-loader workers share the trainer's pages; five times 60 MB is not 300 MB."""
    code = (
        "import os, time\n"
        "hoard = bytearray(b'x') * 60_000_000\n"
        "for _ in range(4):\n"
        "    if os.fork() == 0: time.sleep(2.5); os._exit(0)\n"
        "time.sleep(3)\n"
    )
    record = start(code, memory_bytes=140 * 1024**2, kernel_limits=False).wait()
    assert record["cause"] == "succeeded"


def test_a_time_limit_gives_its_grace_and_then_kills(start: Start) -> None:
    deaf = "trap '' TERM; echo deaf; while :; do sleep 1; done"
    # A busy machine may need longer until the command does not hear any more.
    for limit in (0.5, 5, 50):
        runner = start(
            argv=["sh", "-c", deaf], stop_scope="group", time_limit_seconds=limit, grace_seconds=1
        )
        record = runner.wait(timeout=120)
        if runner.log.startswith(b"deaf\n"):
            break
    assert (record["cause"], record["forced"]) == ("time_limit", True)
    assert record["duration_seconds"] >= limit + 1


def test_a_wrong_program_is_told_plainly(start: Start) -> None:
    record = start(argv=["no-such-program"]).wait()
    assert record["cause"] == "command"
    assert "'no-such-program' was not found" in record["sentence"]


def test_an_attempt_runs_once_even_if_its_runner_is_started_again(
    start: Start, tmp_path: Path
) -> None:
    runner = start("print('once')")
    runner.wait()
    again = start("print('twice')", attempt_id=runner.attempt_id, state_dir=str(runner.state))
    assert again.process.wait(60) == 73
    assert runner.log == b"once\n"


def test_two_runners_at_once_for_one_attempt_start_one_command(start: Start) -> None:
    runner = start("import time; print('once', flush=True); time.sleep(1)")
    again = start("print('twice')", attempt_id=runner.attempt_id, state_dir=str(runner.state))
    assert sorted([runner.process.wait(60), again.process.wait(60)]) in ([0, 73], [73, 73])
    assert runner.log.count(b"ce\n") == 1


def test_a_stop_that_was_there_first_keeps_the_command_from_starting(
    start: Start, tmp_path: Path
) -> None:
    state = tmp_path / "early"
    state.mkdir()
    (state / "stop.json").write_text('{"reason": "stopped", "grace_seconds": 5}')
    runner = start("print('started')", state_dir=str(state))
    assert runner.wait()["cause"] == "stopped"
    assert runner.log == b""


def test_the_command_dies_with_a_killed_runner(start: Start) -> None:
    word = f"600.{os.getpid()}{time.monotonic_ns() % 10**9}"
    runner = start(argv=["sh", "-c", f"setsid env -i sleep {word} & echo up; exec sleep {word}"])
    runner.wait_for_log(b"up")
    wait_until(lambda: len(sleepers(word)) == 2, "the command never started")
    os.kill(runner.supervisor, signal.SIGKILL)
    runner.process.wait(60)
    assert sleepers(word) == []
    assert not (runner.state / "exit.json").exists()
    assert (runner.state / "lost.json").exists()


def test_a_signal_that_comes_while_a_command_leaves_with_its_state_saved_changes_nothing() -> None:
    """The notice comes first: who is quick is on the way out when SIGTERM follows."""
    code = (
        "import os, signal\n"
        "from trackyard import checkpoint\n"
        "class Late:\n"
        "    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.SIGTERM):\n"
        "        kill(pid, number)\n"
        "late = Late()\n"
        "checkpoint.catch_stop()\n"
        "checkpoint.exit_saved()\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 85


def test_the_runner_itself_works_on_python_3_9_where_there_is_one(tmp_path: Path) -> None:
    """The shipped bundle runs by itself, under the oldest interpreter found here."""
    from trackyard.engines import wrapper

    bundle = tmp_path / "runner.pyz"
    bundle.write_bytes(wrapper.bundle())
    candidates = sorted((Path.home() / ".pyenv/versions").glob("3.9.*/bin/python"))
    python = str(candidates[0]) if candidates else sys.executable
    answer = subprocess.run(
        [python, "-I", "-S", str(bundle), "--inventory"], capture_output=True, check=True
    )
    assert b'"memory_bytes"' in answer.stdout


def sleepers(word: str) -> list[int]:
    found = []
    for process in psutil.process_iter():
        try:
            if "sleep" in process.name() and word in process.cmdline():
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return found


def environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ() if process.status() != psutil.STATUS_ZOMBIE else {}
    except (psutil.Error, OSError):
        return {}


@pytest.mark.parametrize(
    ("hears", "seconds", "cause"), [(True, 60, "node_lost"), (False, 0.2, "signal")]
)
def test_a_command_that_dies_with_its_node_is_told_from_one_that_was_killed(
    start: Start, hears: bool, seconds: float, cause: str
) -> None:
    """A cluster kills what is on a lost node; word of the loss may come after that."""
    code = "import os, time; print('pid', os.getpid(), flush=True); time.sleep(600)"
    runner = start(code, witness="127.0.0.1:1", loss_news_seconds=seconds)
    runner.wait_for_log(b"\n")
    pid = int(runner.log.split()[1])
    os.kill(pid, signal.SIGKILL)
    if hears:
        wait_until(lambda: not psutil.pid_exists(pid), "the runner did not see it end")
        os.kill(runner.supervisor, signal.SIGUSR1)
    assert runner.wait()["cause"] == cause
