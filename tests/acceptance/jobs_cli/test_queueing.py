"""Who runs when: fractions, infeasible jobs, shares, dependencies, arrays, limits and drains."""

import itertools
import time
from collections.abc import Callable
from typing import Any

from tests.acceptance.jobs_cli.yarding import Yard

NOTHING = "--no-working-dir"


def test_three_half_gpu_jobs_run_at_once_on_two_gpus_and_one_gpu_holds_two(shared: Yard) -> None:
    half = ["--gpus", "0.5", NOTHING, "--", "sh", "-c", "echo $YARD_GPUS; sleep 600"]
    jobs = [shared.submit("--name", f"half-{number}", *half) for number in range(3)]
    for job in jobs:
        shared.until_state(job, "running")
    (node,) = shared.read("nodes")
    held = {
        gpu["index"]: sorted(holder["job_id"] for holder in gpu["holders"]) for gpu in node["gpus"]
    }
    assert sorted(len(holders) for holders in held.values()) == [1, 2]
    assert sorted(job for holders in held.values() for job in holders) == sorted(jobs)
    # What the jobs themselves were told agrees with it.
    for index, holders in held.items():
        for job in holders:
            (share,) = shared.page(job)["attempts"][0]["placement"]
            assert (share["gpus"], share["share"]) == ([index], 0.5)
            assert shared.until_printed(job, "\n").strip() == str(index)
    # A whole GPU does not fit beside them; a fourth half does.
    whole = shared.submit("--gpus", "1", NOTHING, "--", "true")
    shared.until(whole, lambda page: page["reasons"][0]["tier"] == "capacity")
    fourth = shared.submit("--name", "half-3", *half)
    shared.until_state(fourth, "running")
    shared.ok("stop", "--now", "--wait", *jobs, fourth)
    shared.until_state(whole, "succeeded")


def test_an_infeasible_job_waits_with_the_true_reason_and_starts_when_a_node_fits(
    yard_with: Callable[..., Yard],
) -> None:
    yard = yard_with(gpus=2)
    planned = yard.run("submit", "--dry-run", "--gpus", "4", NOTHING, "--", "true")
    assert "feasible    no: It needs" in planned.err
    assert "smaller" in planned.err
    assert yard.read("ps", "-a") == []
    job = yard.submit("--gpus", "4", NOTHING, "--", "echo", "here")
    page = yard.until(job, lambda page: page["reasons"][0]["tier"] != "evaluating")
    (reason, *_) = page["reasons"]
    assert (reason["tier"], reason["code"]) == ("infeasible", "too_large")
    assert "4 GPUs" in reason["sentence"]
    assert "infeasible" in yard.ok("why", job)
    assert "starts  " not in yard.ok("why", job)
    # It does not stand in the way of what fits.
    yard.ok("submit", "--gpus", "2", "--wait", NOTHING, "--", "true")
    assert yard.page(job)["job"]["state"] == "queued"
    assert f"({job})" in yard.ok("top")
    yard.server.stop()
    yard.server.gpus = 4
    yard.server.start()
    page = yard.until_state(job, "succeeded", "failed")
    assert page["job"]["state"] == "succeeded"
    assert len(page["attempts"][0]["placement"][0]["gpus"]) == 4
    assert yard.logs(job) == "here\n"


def test_two_teams_with_shares_of_two_to_one_get_gpu_time_of_two_to_one(
    yard_with: Callable[..., Yard],
) -> None:
    """Both teams always have jobs waiting; what runs in between is counted in GPU-seconds."""
    yard = yard_with(gpus=2)
    for team, share in (("large", "2"), ("small", "1")):
        yard.ok("team", "add", team)
        yard.ok("team", "set", team, "--share", share)
    assert {row["team"]: row["share"] for row in yard.read("teams")} == {
        "default": 1.0,
        "large": 2.0,
        "small": 1.0,
    }
    # An array for each, long enough that neither runs dry, submitted while nothing can start.
    blocker = yard.submit("--gpus", "2", "--priority", "urgent", NOTHING, "--", "sleep", "600")
    yard.until_state(blocker, "running")
    for team in ("small", "large"):
        array = ["--array", "0-149", "--gpus", "1", NOTHING, "--", "sleep", "0.3"]
        yard.submit("--team", team, *array)
    yard.ok("stop", "--now", blocker)
    ended: list[dict[str, Any]] = []
    until = time.monotonic() + 240
    while len(ended) < 60:
        assert time.monotonic() < until, len(ended)
        time.sleep(0.5)
        jobs = yard.read("ps", "-a", "--all-teams", "--limit", "400")
        ended = [job for job in jobs if job["team"] != "default" and job["state"] == "succeeded"]
    for team in ("small", "large"):
        assert any(job["state"] == "queued" for job in jobs if job["team"] == team), "ran dry"
    spent = {
        team: sum(_seconds(job) for job in ended if job["team"] == team)
        for team in ("large", "small")
    }
    # No team is further ahead of its share than by what runs at a time and is charged later;
    # an equal split of these jobs would be.
    longest = max(_seconds(job) for job in ended)
    assert abs(spent["large"] / 2 - spent["small"]) <= 3 * longest + 0.5, (spent, longest)


def test_a_chain_of_dependencies_runs_in_order_and_what_can_never_run_says_so(
    shared: Yard,
) -> None:
    first = shared.submit("--name", "first", "--hold", NOTHING, "--", "true")
    second = shared.submit("--after", "first", NOTHING, "--", "true")
    third = shared.submit("--after", f"{second}:success", NOTHING, "--", "false")
    mourner = shared.submit("--after", f"{third}:failure", NOTHING, "--", "true")
    never = shared.submit("--after", f"{third}", NOTHING, "--", "true")
    assert shared.until(second, lambda page: page["reasons"])["reasons"][0]["code"] == (
        "waits_for_job"
    )
    assert shared.page(first)["job"]["held"]
    assert "held" in shared.ok("ps")
    shared.ok("release", first)
    shared.until_state(mourner, "succeeded")
    pages = [shared.page(job)["job"] for job in (first, second, third, mourner)]
    assert [job["state"] for job in pages] == ["succeeded", "succeeded", "failed", "succeeded"]
    for before, after in itertools.pairwise(pages):
        assert before["ended_ms"] <= after["started_ms"]
    page = shared.until(never, lambda page: page["job"]["state"] == "queued" and page["reasons"])
    assert page["reasons"][0]["code"] == "dependency_never"
    shared.ok("stop", never)


def test_an_array_runs_every_index_and_never_more_at_once_than_its_cap(shared: Yard) -> None:
    said = shared.run(
        "submit", "--array", "3-8%2", "--wait", NOTHING, "--",
        "sh", "-c", "echo index $YARD_ARRAY_INDEX; sleep 0.3",
    )  # fmt: skip
    assert said.code == 0, said.err
    array = said.out.strip()
    jobs = shared.read("ps", "-a", "--array", array)
    assert sorted(job["array_index"] for job in jobs) == [3, 4, 5, 6, 7, 8]
    assert {job["state"] for job in jobs} == {"succeeded"}
    for job in jobs:
        assert shared.logs(job["job_id"]) == f"index {job['array_index']}\n"
    assert _most_at_once(jobs) <= 2


def test_a_drained_node_takes_nothing_new_and_the_reason_says_so(shared: Yard) -> None:
    (node,) = (row["node_id"] for row in shared.read("nodes"))
    shared.ok("drain", node, "--note", "new disk")
    job = shared.submit("--gpus", "1", NOTHING, "--", "true")
    page = shared.until(job, lambda page: page["reasons"][0]["tier"] != "evaluating")
    assert page["reasons"][0]["tier"] == "unhealthy"
    assert "new disk" in shared.ok("nodes")
    shared.ok("undrain", node)
    shared.until_state(job, "succeeded")


def test_a_queue_keeps_its_limits_and_a_job_can_be_moved_and_made_smaller(shared: Yard) -> None:
    shared.ok("queue", "set", "night", "--max-gpus", "1", "--max-time", "1h")
    assert "night" in shared.ok("queues")
    job = shared.submit("--queue", "night", "--gpus", "2", "--time", "30m", NOTHING, "--", "true")
    page = shared.until(job, lambda page: page["reasons"][0]["tier"] != "evaluating")
    assert (page["reasons"][0]["tier"], page["reasons"][0]["code"]) == (
        "misconfigured",
        "gpus_over_limit",
    )
    shared.ok("requeue", job, "--gpus", "1")
    shared.until_state(job, "succeeded")
    shared.ok("queue", "set", "night", "--max-gpus", "none")
    (night,) = (row for row in shared.read("queues") if row["name"] == "night")
    assert night["settings"] == {"max_wall_seconds": 3600.0}
    shared.ok("queue", "rm", "night")
    assert shared.run("submit", "--queue", "night", NOTHING, "--", "true").code == 2


def _seconds(job: dict[str, Any]) -> float:
    return float(job["ended_ms"] - job["started_ms"]) / 1000


def _most_at_once(jobs: list[dict[str, Any]]) -> int:
    edges = [(job["started_ms"], 1) for job in jobs] + [(job["ended_ms"], -1) for job in jobs]
    most = now = 0
    for _, change in sorted(edges):
        now += change
        most = max(most, now)
    return most
