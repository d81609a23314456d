"""Training that is killed, preempted or stopped goes on where it was, and ends in the truth."""

import os
import random
import re
import signal
import time
from collections.abc import Callable

from tests.acceptance.jobs_cli.yarding import SCRIPTS, SOURCE, Yard
from tests.acceptance.serving import python_of

KILLS = 3


def test_torch_training_killed_three_times_ends_with_the_loss_of_an_undisturbed_one(
    shared: Yard,
) -> None:
    """Random kill -9 of the trainer; each attempt goes on from the last whole checkpoint."""
    train = [
        "--env", SOURCE, "--working-dir", str(SCRIPTS), "--preemptible", "--",
        str(python_of("mlflow3")), "train_torch.py", "120", "0.04",
    ]  # fmt: skip
    disturbed = shared.submit("--name", "killed", *train, str(KILLS + 1))
    undisturbed = shared.submit("--name", "whole", *train)
    kills = []
    for number in range(1, KILLS + 1):
        shared.until(disturbed, lambda page, n=number: len(page["attempts"]) == n)
        printed = shared.until_printed(disturbed, "from step")
        if number == KILLS:
            # However slow the machine is, one of them has saved.
            shared.until(disturbed, lambda page: page["checkpoints"])
        time.sleep(random.uniform(0.3, 1.2))
        pid = int(re.findall(r"pid (\d+)", printed)[-1])
        os.kill(pid, signal.SIGKILL)
        kills.append(shared.logs(disturbed).splitlines()[-1])
        shared.until(
            disturbed, lambda page, n=number: page["attempts"][n - 1]["ended_ms"] is not None
        )
    page = shared.until_state(disturbed, "succeeded", "failed")
    assert page["job"]["state"] == "succeeded", page
    causes = [(one["state"], one["cause"], one["signal"]) for one in page["attempts"]]
    assert causes == [("failed", "signal", 9)] * KILLS + [("succeeded", "succeeded", None)]
    first_steps = re.findall(r"from step (\d+)", shared.logs(disturbed, "--attempt", "all"))
    assert len(first_steps) == KILLS + 1
    assert first_steps[0] == "0"
    assert int(first_steps[-1]) > 0, kills
    shared.until_state(undisturbed, "succeeded")
    assert _loss(shared, disturbed) == _loss(shared, undisturbed)


def test_a_high_priority_job_preempts_and_its_victim_resumes_where_it_saved(
    yard_with: Callable[..., Yard],
) -> None:
    yard = yard_with("--preempt-after", "1", gpus=1)
    count = ["--gpus", "1", "--working-dir", str(SCRIPTS), "--", "python", "count.py"]
    victim = yard.submit("--preemptible", "--priority", "low", *count, "40", "0.1", "2")
    yard.until_printed(victim, "from step 0")
    urgent = yard.submit("--priority", "high", *count, "5", "0.1")
    waits = yard.page(urgent)
    if waits["job"]["state"] == "queued":
        assert waits["reasons"][0]["code"] in ("preempting", "evaluating", "no_free_gpus")
    assert yard.until_state(urgent, "succeeded", "failed")["job"]["state"] == "succeeded"
    page = yard.until_state(victim, "succeeded", "failed")
    first, second = page["attempts"]
    assert (first["state"], first["cause"], first["saved"]) == ("preempted", "preempted", True)
    assert urgent in first["sentence"] or urgent in yard.ok("events", "--json")
    assert second["state"] == "succeeded"
    saved = re.findall(r"saved at step (\d+)", yard.logs(victim, "--attempt", "1"))
    resumed = re.findall(r"from step (\d+)", yard.logs(victim))
    assert saved == resumed
    assert int(saved[0]) > 0
    assert "counted to 40" in yard.logs(victim)
    # The one that preempted ran between the two halves of its victim.
    ran = yard.page(urgent)["attempts"][0]
    assert first["ended_ms"] <= ran["started_ms"] <= ran["ended_ms"] <= second["started_ms"]


def test_a_wrong_command_is_not_tried_again(shared: Yard) -> None:
    said = shared.run("submit", "--retries", "3", "--wait", "--", "no-such-program", "--now")
    assert said.code == 1
    page = shared.page(said.out.strip())
    assert page["job"]["state"] == "failed"
    assert [one["cause"] for one in page["attempts"]] == ["command"]
    assert "no-such-program" in page["job"]["sentence"]
    assert "no-such-program" in said.err


def test_a_job_that_fails_is_tried_again_as_often_as_asked(shared: Yard) -> None:
    said = shared.run("submit", "--retries", "1", "--wait", "--no-working-dir", "--", "false")
    assert said.code == 1
    page = shared.page(said.out.strip())
    assert [one["exit_code"] for one in page["attempts"]] == [1, 1]


def test_a_waiting_and_a_running_job_are_stopped(shared: Yard) -> None:
    running = shared.submit("--gpus", "2", "--no-working-dir", "--", "sleep", "600")
    waiting = shared.submit("--gpus", "2", "--no-working-dir", "--", "sleep", "600")
    shared.until_state(running, "running")
    assert shared.page(waiting)["job"]["state"] == "queued"
    said = shared.run("stop", waiting)
    assert f"{waiting} (" in said.err
    assert "is stopped" in said.err
    page = shared.page(waiting)
    assert (page["job"]["state"], page["attempts"]) == ("stopped", [])
    ended = shared.read("stop", "--wait", running)
    assert [(job["job_id"], job["state"]) for job in ended] == [(running, "stopped")]
    attempt = shared.page(running)["attempts"][0]
    assert (attempt["state"], attempt["cause"]) == ("stopped", "stopped")
    # Nothing of it is left: the GPUs are free again.
    free = [gpu["free"] for node in shared.read("nodes") for gpu in node["gpus"]]
    assert free == [1.0, 1.0]


def _loss(yard: Yard, job: str) -> str:
    found = re.findall(r"last batch (\S+) final loss (\S+)", yard.logs(job))
    assert len(found) == 1, yard.logs(job)
    return " ".join(found[0])
