"""Against real processes: killed servers and runners, hidden forks, frozen parties."""

import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from tests.acceptance.jobs.yard import SCRIPTS, JobServer, children, eventually, is_alive

PYTHON = sys.executable


def test_jobs_run_on_through_a_killed_server_and_logs_have_no_gap(
    new_yard: Callable[..., JobServer], tmp_path: Path
) -> None:
    """Killed with -9 and restarted twice: same attempt, whole log, one submission, one start."""
    server = new_yard()
    server.start()
    gate = tmp_path / "gate"
    job = server.submit(
        PYTHON, str(SCRIPTS / "counting.py"), "80", str(gate), gpus=1, name="counting"
    )
    server.wait(job, "running")
    wish = {"command": [PYTHON, "-c", "print('once')"], "key": "only-one", "gpus": 1}
    for _ in range(2):
        time.sleep(0.5)
        server.kill()
        time.sleep(0.5)
        server.start()
        server.post("/api/v1/jobs", **wish)
    gate.touch()
    detail = server.wait(job, "succeeded")
    assert [one["number"] for one in detail["attempts"]] == [1]
    numbers = [int(found) for found in re.findall(r"^line (\d+)$", server.logs(job), re.M)]
    assert numbers == list(range(80))
    once = server.get("/api/v1/jobs", limit=1000)["jobs"]
    assert len(once) == 2
    other = next(one for one in once if one["job_id"] != job)
    assert server.wait(other["job_id"], "succeeded")["job"]["attempt"] == 1


def test_a_submission_in_a_killed_server_is_there_exactly_once(
    new_yard: Callable[..., JobServer],
) -> None:
    """Whenever it dies, a client that repeats with its key ends with one job that runs once."""
    server = new_yard()
    server.start()
    keys = [f"key-{number}" for number in range(6)]
    for number, key in enumerate(keys):
        wish = {"command": [PYTHON, "-c", "print('hi')"], "key": key, "name": key, "gpus": 0.5}
        if number % 2:
            server.kill()
            server.start()
        try:
            server.post("/api/v1/jobs", **wish)
        except httpx.HTTPError:
            server.start()
        server.post("/api/v1/jobs", **wish)
    jobs = server.get("/api/v1/jobs", limit=1000)["jobs"]
    assert sorted(job["name"] for job in jobs) == sorted(keys)
    for job in jobs:
        detail = server.wait(job["job_id"], "succeeded")
        assert len(detail["attempts"]) == 1
        assert server.logs(job["job_id"]) == "hi\n"


def test_a_killed_runner_loses_the_attempt_and_the_job_is_requeued_once(yard: JobServer) -> None:
    """Guard and supervisor are killed: nothing of the attempt is left, and one more follows."""
    job = yard.submit(PYTHON, str(SCRIPTS / "counting.py"), "60", gpus=1)
    yard.wait(job, "running")
    pids = yard.runner(job)
    eventually(lambda: len(children(pids[0])) >= 2)
    tree = children(pids[0])
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    detail = yard.wait(job, "succeeded")
    assert [one["state"] for one in detail["attempts"]] == ["lost", "succeeded"]
    assert not [pid for pid in tree if is_alive(pid)]
    kinds = [
        one["kind"] for one in yard.get("/api/v1/events", subject_id=job, limit=100)["events"]
    ]
    assert kinds.count("attempt.lost") == kinds.count("job.requeued") == 1


def test_what_a_job_forks_and_hides_ends_with_it(yard: JobServer, tmp_path: Path) -> None:
    """Orphans in sessions of their own, deaf to SIGTERM and without environment, end on stop."""
    job = yard.submit(PYTHON, str(SCRIPTS / "hiding.py"), str(tmp_path), gpus=1)
    yard.wait(job, "running")
    files = [tmp_path / f"hidden-{number}" for number in range(3)]
    eventually(lambda: all(file.exists() and file.read_text() for file in files))
    hidden = [int(file.read_text()) for file in files]
    assert all(is_alive(pid) for pid in hidden)
    yard.post(f"/api/v1/jobs/{job}/stop", grace_seconds=1)
    yard.wait(job, "stopped")
    assert not [pid for pid in hidden if is_alive(pid)]


def test_a_frozen_server_comes_back_to_jobs_that_ran_on(
    new_yard: Callable[..., JobServer], tmp_path: Path
) -> None:
    """Frozen for longer than an attempt may be silent: nothing is lost, nothing starts again."""
    server = new_yard(config="lost_after = 8\n")
    server.start()
    gate = tmp_path / "gate"
    job = server.submit(PYTHON, str(SCRIPTS / "counting.py"), "40", str(gate), gpus=1)
    server.wait(job, "running")
    assert server.process is not None
    server.process.send_signal(signal.SIGSTOP)
    time.sleep(10)
    server.process.send_signal(signal.SIGCONT)
    gate.touch()
    detail = server.wait(job, "succeeded")
    assert len(detail["attempts"]) == 1
    assert server.logs(job).count("line ") == 40


def test_a_frozen_runner_is_given_up_and_finds_its_epoch_refused(
    new_yard: Callable[..., JobServer],
) -> None:
    """Silent too long: the job goes on elsewhere; the old processes are gone when they thaw."""
    server = new_yard(config="lost_after = 8\n")
    server.start()
    job = server.submit(PYTHON, str(SCRIPTS / "counting.py"), "9999", gpus=1)
    server.wait(job, "running")
    pids = server.runner(job)
    tree = sorted({*pids, *children(pids[0])})
    for pid in tree:
        os.kill(pid, signal.SIGSTOP)
    eventually(lambda: server.detail(job)["job"]["attempt"] == 2)
    for pid in tree:
        if is_alive(pid):
            os.kill(pid, signal.SIGCONT)
    eventually(lambda: not [pid for pid in tree if is_alive(pid)])
    server.wait(job, "running", "succeeded")
    states = [one["state"] for one in server.detail(job)["attempts"]]
    assert states[0] == "lost"
    assert len(states) == 2


def test_a_training_killed_three_times_ends_with_the_same_loss_and_one_curve(
    yard: JobServer,
) -> None:
    """Each kill costs the steps since the last checkpoint; the curve has every step once."""
    steps = 60
    calm = yard.submit(PYTHON, str(SCRIPTS / "training.py"), str(steps), gpus=1, name="calm")
    shaken = [PYTHON, str(SCRIPTS / "training.py"), str(steps), "4"]
    job = yard.submit(*shaken, gpus=1, name="shaken")
    rng = random.Random(7)
    for attempt in (1, 2, 3):
        eventually(lambda n=attempt: yard.detail(job)["job"]["attempt"] == n)
        yard.wait(job, "running")
        eventually(lambda n=attempt: yard.folder(job, n).joinpath("started.json").exists())
        time.sleep(rng.uniform(0.3, 1.0))
        for pid in children(yard.runner(job, attempt)[1]):
            os.kill(pid, signal.SIGKILL)
    yard.wait(job, "succeeded")
    yard.wait(calm, "succeeded")
    final = [re.findall(r"^final (.+)$", yard.logs(one), re.M)[-1] for one in (calm, job)]
    assert final[0] == final[1]
    run = yard.detail(job)["job"]["run_id"]
    points = yard.history(run, "loss")
    assert [point["step"] for point in points] == list(range(steps))
    assert len(yard.detail(job)["attempts"]) == 4
