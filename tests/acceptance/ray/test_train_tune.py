"""Unmodified Ray Train and Tune scripts, sent by the stock command, admitted by their demand."""

import pytest

from tests.acceptance.jobs.yard import eventually
from tests.acceptance.ray.conftest import Front, lines

RANK = r"rank (\d) of (\d) on (\w+)"
PATIENCE = 240.0


@pytest.fixture(scope="module")
def old(front: Front) -> str:
    """A script for an older Ray, sent by the stock command with the folder of them all."""
    return front.submit("python", "old.py")


def test_a_train_script_waits_for_its_whole_gang_and_runs_on_the_nodes_it_is_given(
    front: Front,
) -> None:
    """Two workers need both GPUs: while one is taken the demand waits, with its reason, whole."""
    server = front.server
    blocker = server.submit("sleep", "600", gpus=1)
    server.wait(blocker, "running", patience=PATIENCE)
    job = front.submit("python", "train.py", "2")
    eventually(lambda: server.detail(job)["claims"], patience=PATIENCE)
    claim = server.detail(job)["claims"][0]
    assert (claim["state"], claim["demand"], claim["source"]) == ("waiting", "2x1gpu,1cpu", "gate")
    shown = {row["job_id"]: row for row in server.get("/api/v1/jobs")["jobs"]}
    assert shown[job]["state"] == "running"
    assert (shown[claim["job_id"]]["state"], shown[claim["job_id"]]["parent"]) == ("queued", job)

    def why(one: str) -> str:
        return str(server.get(f"/api/v1/jobs/{one}/why")["sentence"])

    # The first look at it is up to a second away.
    eventually(lambda: "GPU" in why(claim["job_id"]), patience=150)
    later = f"It waits for 2x1gpu,1cpu, which it asked for later as job {claim['job_id']}"
    eventually(lambda: later in why(job), patience=150)
    server.post(f"/api/v1/jobs/{blocker}/stop")
    eventually(lambda: server.detail(job)["claims"][0]["state"] == "granted", patience=PATIENCE)
    granted = server.detail(job)["claims"][0]
    assert (sorted(granted["nodes"]), granted["gpus"]) == (["worker-1", "worker-2"], 2)
    server.wait(job, "succeeded", patience=PATIENCE)
    log = server.logs(job)
    found = lines(log, RANK)
    assert [(rank, of) for rank, of, _ in found] == [("0", "2"), ("1", "2")], log
    assert len({node for *_, node in found}) == 2
    assert "[trackyard] Ray Train: 2x1gpu,1cpu waits" in log
    assert "checkpoint True" in log
    after = server.detail(job)
    assert after["claims"][0]["state"] == "released"
    assert after["gpu_seconds"] > 1


def test_a_train_script_with_one_worker_takes_one_gpu(front: Front, old: str) -> None:
    server = front.server
    job = front.repeat(old, "python", "train.py", "1")
    server.wait(job, "succeeded", patience=PATIENCE)
    detail = server.detail(job)
    assert [(one["demand"], one["gpus"]) for one in detail["claims"]] == [("1x1gpu,1cpu", 1)]
    assert [rank for rank, *_ in lines(server.logs(job), RANK)] == ["0"]


def test_a_tune_job_stays_within_its_teams_limit(front: Front) -> None:
    """Five trials of half a GPU under a limit of one GPU: never more than two at once."""
    server = front.server
    server.ask("PUT", "/api/v1/teams/default/share", json={"limit_gpus": 1})
    try:
        job = front.submit("python", "search.py")
        server.wait(job, "succeeded", patience=PATIENCE)
    finally:
        server.ask("PUT", "/api/v1/teams/default/share", json={})
    log = server.logs(job)
    assert "trials 5 best 5" in log
    spans = [
        (float(began), float(ended))
        for began, ended in lines(log, r"epoch of \d from ([\d.]+) to ([\d.]+)")
    ]
    assert len(spans) >= 8
    assert max(sum(b <= at < e for b, e in spans) for at, _ in spans) <= 2
    claims = server.detail(job)["claims"]
    assert {(one["demand"], one["source"]) for one in claims} == {("1x0.5gpu,1cpu", "gate")}
    held = [(one["granted_ms"], one["released_ms"]) for one in claims if one["granted_ms"]]
    assert max(sum(b <= at < e for b, e in held) for at, _ in held) <= 2


def test_gpus_beyond_the_declared_gang_are_charged_and_by_rule_end_the_job(
    front: Front, old: str
) -> None:
    """It declares one GPU and takes two by its own groups: seen, charged, stopped."""
    server = front.server
    job = front.repeat(old, "python", "grab.py", "2", **{"trackyard.gang": "1x1gpu"})
    eventually(lambda: server.detail(job)["claims"], patience=PATIENCE)
    [claim] = server.detail(job)["claims"]
    assert (claim["source"], claim["state"], claim["gpus"]) == ("watch", "granted", 1)
    eventually(lambda: server.state(job) == "stopped", patience=PATIENCE)
    events = server.get("/api/v1/events?limit=1000")["events"]
    [seen] = [one for one in events if one["kind"] == "claim.seen"]
    assert seen["subject_id"] == job
    assert seen["data"]["sentence"].startswith("It holds 1 GPU on worker-")


def test_a_script_for_an_older_ray_is_told_both_fixes(front: Front, old: str) -> None:
    server = front.server
    eventually(lambda: server.state(old) == "failed", patience=PATIENCE)
    notes = " ".join(server.detail(old)["attempts"][0]["notes"])
    assert "RAY_TRAIN_V2_ENABLED=0" in notes
    assert "verbose" in notes
    assert server.logs(old).splitlines()[-1].startswith("[yard] This script was written for")
