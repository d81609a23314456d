"""Reports reach the server once and whole, through outages, lost answers and restarts."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil

from tests.integration.runner.conftest import Start, wait_until
from tests.integration.runner.server import AttemptServer

COUNT = """
import sys, time
for number in range({count}):
    print(f"line {{number:06d}}", flush=True)
    time.sleep({pause})
"""


#: prints some lines, and the rest when the test has done what it does in between
IN_TWO_PARTS = """
import pathlib, time
for number in range({count}):
    if number == {after}:
        while not pathlib.Path({gate!r}).exists():
            time.sleep(0.02)
    print(f"line {{number:06d}}", flush=True)
"""


def lines(count: int) -> bytes:
    return b"".join(b"line %06d\n" % number for number in range(count))


def test_log_samples_heartbeats_and_exit_arrive(
    start: Start, server: AttemptServer, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    runner = start(IN_TWO_PARTS.format(count=20, after=10, gate=str(gate)), to=server)
    wait_until(lambda: server.samples, "no sample came")
    wait_until(
        lambda: any(beat["state"] == "running" for beat in server.heartbeats), "no heartbeat came"
    )
    gate.touch()
    record = runner.wait()
    assert server.log() == lines(20)
    assert [told["cause"] for told in server.exits] == ["succeeded"]
    assert server.exits[0] == record
    assert all(beat["epoch"] == 1 for beat in server.heartbeats)
    sample = server.samples[max(server.samples)]
    assert 0 <= sample["system/cpu_utilization_percentage"] <= 100
    for name in (
        "system_memory_usage_megabytes",
        "system_memory_usage_percentage",
        "disk_usage_percentage",
        "disk_usage_megabytes",
        "disk_available_megabytes",
        "network_receive_megabytes",
        "network_transmit_megabytes",
    ):
        assert sample[f"system/{name}"] >= 0
    assert (runner.state / "delivered").exists()


def test_the_first_heartbeat_comes_at_once(start: Start, server: AttemptServer) -> None:
    report = {"url": server.url, "token": server.token, "heartbeat_seconds": 600}
    start("import time; time.sleep(60)", report=report)
    wait_until(
        lambda: any(beat["state"] == "running" for beat in server.heartbeats), "no heartbeat came"
    )


def test_an_outage_leaves_neither_gap_nor_repeat(
    start: Start, server: AttemptServer, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    runner = start(IN_TWO_PARTS.format(count=60, after=10, gate=str(gate)), to=server)
    wait_until(lambda: b"line 000009" in server.log(), "the log never arrived")
    server.stop()
    gate.touch()
    runner.wait_for_log(b"line 000040")
    server.start()
    record = runner.wait()
    assert record["cause"] == "succeeded"
    assert server.log() == lines(60)
    assert len(server.exits) == 1


def test_lost_answers_leave_no_repeat(start: Start, server: AttemptServer) -> None:
    server.lose_answers = 6
    runner = start(COUNT.format(count=20, pause=0.05), to=server)
    runner.wait()
    assert server.log() == lines(20)
    assert server.lose_answers == 0


def test_a_server_that_lost_its_tail_is_given_it_again(
    start: Start, server: AttemptServer, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    runner = start(IN_TWO_PARTS.format(count=60, after=20, gate=str(gate)), to=server)
    wait_until(lambda: b"line 000019" in server.log(), "the log never arrived")
    with server.lock:
        del server.logs[0][30:]
    gate.touch()
    runner.wait()
    assert server.log() == lines(60)


def test_a_command_that_ended_while_the_server_was_away_is_told_later(
    start: Start, server: AttemptServer
) -> None:
    server.stop()
    runner = start(COUNT.format(count=5, pause=0), to=server)
    wait_until((runner.state / "exit.json").exists, "no exit record was written")
    assert server.exits == []
    server.start()
    runner.wait()
    assert server.log() == lines(5)
    assert [told["cause"] for told in server.exits] == ["succeeded"]


def test_without_a_server_the_runner_ends_after_its_linger(
    start: Start, server: AttemptServer
) -> None:
    server.stop()
    report = {"url": server.url, "token": "x", "heartbeat_seconds": 0.2, "linger_seconds": 0.5}
    runner = start("print('x')", report=report)
    assert runner.wait()["cause"] == "succeeded"
    assert not (runner.state / "delivered").exists()


def test_without_server_and_cluster_the_runner_stays_only_a_short_time(
    start: Start, server: AttemptServer
) -> None:
    """While the cluster's head answers it waits for the server; then nobody needs it."""
    server.stop()
    report = {"url": server.url, "token": "x", "linger_seconds": 3600, "alone_seconds": 0.1}
    with socket.create_server(("127.0.0.1", 0)) as head:
        witness = f"127.0.0.1:{head.getsockname()[1]}"
        runner = start("print('x')", report=report, witness=witness)
        head.settimeout(60)
        head.accept()[0].close()
        assert runner.process.poll() is None
    assert runner.wait()["cause"] == "succeeded"
    assert not (runner.state / "delivered").exists()


LEFT_BEHIND = """
import subprocess, sys
code = (
    "import time; from trackyard.runner.ray.host import end_with_the_cluster;"
    "end_with_the_cluster(); print('ready', flush=True); time.sleep(600)"
)
child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, pass_fds=[{held}])
child.stdout.readline()
"""


def test_what_runs_inside_a_cluster_ends_with_the_process_above_it() -> None:
    """As a lease's keeper or a gang's launcher does that Ray did not end itself."""
    seen, held = os.pipe()
    subprocess.run(
        [sys.executable, "-c", LEFT_BEHIND.format(held=held)],
        pass_fds=[held],
        check=True,
        timeout=180,
    )
    os.close(held)
    # Nothing is ever written: it becomes readable when the last holder of the other end is gone.
    ready, _, _ = select.select([seen], [], [], 60)
    os.close(seen)
    assert ready


def test_a_big_burst_of_output_arrives_whole(start: Start, server: AttemptServer) -> None:
    runner = start("import sys; sys.stdout.write('x' * 79 + '\\n' * 1); "
                   "sys.stdout.write(('y' * 79 + '\\n') * 100000)", to=server)  # fmt: skip
    record = runner.wait()
    assert record["log_bytes"] == 80 * 100001
    assert len(server.log()) == 80 * 100001


def test_the_server_can_ask_for_a_stop_in_its_answer(start: Start, server: AttemptServer) -> None:
    code = (
        "import signal, sys, time, json, os\n"
        "def save(*_):\n"
        "    print(json.load(open(os.environ['YARD_NOTICE_FILE']))['reason'], flush=True)\n"
        "    sys.exit(85)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    runner = start(code, to=server)
    runner.wait_for_log(b"ready")
    server.stop_request = {"reason": "preempted", "grace_seconds": 20}
    record = runner.wait()
    assert (record["cause"], record["saved"], record["exit_code"]) == ("preempted", True, 85)
    assert runner.log.rstrip().endswith(b"preempted")


def test_a_frozen_runner_with_an_old_epoch_ends_its_command_when_it_thaws(
    start: Start, server: AttemptServer
) -> None:
    runner = start("import time; print('ready', flush=True); time.sleep(600)", to=server)
    runner.wait_for_log(b"ready")
    wait_until(lambda: server.heartbeats, "no heartbeat came")
    os.kill(runner.supervisor, signal.SIGSTOP)
    child = psutil.Process(runner.supervisor).children()[0]
    with server.lock:
        server.epoch = 2
        held = len(server.heartbeats)
    time.sleep(0.6)
    assert child.is_running()
    os.kill(runner.supervisor, signal.SIGCONT)
    record = runner.wait()
    assert record["cause"] == "fenced"
    assert not child.is_running()
    assert server.refused >= 1
    assert len(server.heartbeats) == held
    assert server.exits == []


def test_a_lease_that_cannot_be_renewed_ends_the_command_where_asked(
    start: Start, server: AttemptServer
) -> None:
    report = {
        "url": server.url,
        "token": server.token,
        "heartbeat_seconds": 0.1,
        "linger_seconds": 0.1,
        "renew_within_seconds": 1.0,
    }
    runner = start("import time; time.sleep(600)", report=report)
    # On a machine that is kept from working for a second it ends before the server is gone.
    wait_until(lambda: server.heartbeats or runner.process.poll() is not None, "it did nothing")
    server.stop()
    assert runner.wait()["cause"] == "fenced"


def test_a_node_that_is_not_cut_off_goes_on_without_the_server(
    start: Start, server: AttemptServer
) -> None:
    """While the cluster's head answers, it is the server that is down; then both are gone."""
    report = {
        "url": server.url,
        "token": server.token,
        "heartbeat_seconds": 0.1,
        "linger_seconds": 0.1,
        "renew_within_seconds": 0.5,
    }
    with socket.create_server(("127.0.0.1", 0)) as head:
        witness = f"127.0.0.1:{head.getsockname()[1]}"
        runner = start("import time; time.sleep(600)", report=report, witness=witness)
        wait_until(lambda: server.heartbeats, "no heartbeat came")
        server.stop()
        head.settimeout(60)
        head.accept()[0].close()
        time.sleep(0.5)
        assert runner.process.poll() is None
    assert runner.wait()["cause"] == "fenced"


def test_progress_and_checkpoints_are_told_with_the_heartbeat(
    start: Start, server: AttemptServer, tmp_path: Path
) -> None:
    code = (
        "import json, os, time\n"
        "open(os.environ['YARD_PROGRESS_FILE'], 'w').write(json.dumps({'step': 12}))\n"
        "folder = os.environ['YARD_CHECKPOINT_DIR']\n"
        "open(folder + '/latest.json', 'w').write(json.dumps({'name': 'step-12', 'step': 12}))\n"
        "time.sleep(600)\n"
    )
    runner = start(code, to=server, checkpoint_dir=f"{tmp_path}/checkpoints", progress_seconds=0.5)

    def told() -> bool:
        beat = server.heartbeats[-1] if server.heartbeats else {"progress": {}, "checkpoint": None}
        progress = beat["progress"]
        # Before its first step, too, a slow command may count as stalled.
        return bool(progress.get("stalled") and "step" in progress and beat["checkpoint"])

    wait_until(told, "the stall was never told")
    beat = server.heartbeats[-1]
    assert beat["progress"]["step"] == 12
    assert beat["checkpoint"] == {"name": "step-12", "step": 12}
    runner.send_stop("stopped", 0)
    assert runner.wait()["step"] == 12
