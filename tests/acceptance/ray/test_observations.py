"""What someone who only knows `ray job submit` sees of the queue, on a real cluster."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
from typing import Any

import httpx
import yaml

from tests.acceptance.jobs.yard import eventually
from tests.acceptance.ray.conftest import Front, lines
from tests.acceptance.ray_door.conftest import small_wheel
from tests.acceptance.serving import ROOT

PATIENCE = 240.0


def states(front: Front, jobs: list[str]) -> list[str]:
    return [front.server.state(job) for job in jobs]


def test_a_plain_lightning_script_runs_with_its_variables_requirement_and_metrics(
    front: Front,
) -> None:
    """It goes PENDING, RUNNING, SUCCEEDED; its log is live and its curve is in the job's run."""
    server = front.server
    wheel = small_wheel(front.folder)
    environment = {"env_vars": {"LEARNING_RATE": "0.1"}, "pip": [str(wheel)]}
    (front.folder / "runtime.json").write_text(json.dumps(environment))
    said = front.ray(
        "job", "submit", "--submission-id", "plain", "--entrypoint-num-gpus", "1",
        "--working-dir", str(front.folder / "work"),
        "--runtime-env", str(front.folder / "runtime.json"), "--", "python", "plain.py",
        timeout=PATIENCE,
    )  # fmt: skip
    assert "taste sour on 0" in said
    assert "Job 'plain' succeeded" in said
    assert "SUCCEEDED" in front.ray("job", "status", "plain").upper()
    detail = server.detail("plain")
    assert [one["exit_code"] for one in detail["attempts"]] == [0]
    run_id = detail["job"]["run_id"]
    run = server.get("/api/2.0/mlflow/runs/get", run_id=run_id)["run"]
    assert run["info"]["status"] == "FINISHED"
    metrics = {one["key"]: one["value"] for one in run["data"]["metrics"]}
    assert metrics["train_loss_epoch"] < 2
    history = server.get(
        "/api/2.0/mlflow/metrics/get-history", run_id=run_id, metric_key="train_loss_step"
    )
    assert len(history["metrics"]) >= 10


def test_what_no_node_has_is_told_apart_survives_ctrl_c_and_runs_once_a_node_joins(
    front: Front,
) -> None:
    """Two GPUs on one node where each has one: infeasible, listed as demand, not lost."""
    server = front.server
    command = [front.cluster.bin / "ray", "job", "submit", "--submission-id", "wide"]
    command += ["--entrypoint-num-gpus", "2", "--", "echo", "ran wide"]
    waiting = subprocess.Popen(
        command,
        env=front.environment() | {"PYTHONUNBUFFERED": "1"},
        cwd=front.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        eventually(lambda: _known(front, "wide"), patience=150)
        assert waiting.stdout is not None
        heard = ""
        while "even idle" not in heard:
            line = waiting.stdout.readline()
            assert line, f"it ended by itself: {heard}"
            heard += line
        waiting.send_signal(signal.SIGINT)
        waiting.wait(timeout=120)
    finally:
        waiting.kill()
        waiting.wait()
    [reason] = server.get("/api/v1/jobs/wide/why")["reasons"]
    assert (reason["tier"], reason["code"]) == ("infeasible", "too_large")
    assert server.state("wide") == "queued"
    listed = server.get("/api/v1/jobs", order="position", stuck=1)["jobs"]
    assert [row["job_id"] for row in listed] == [server.detail("wide")["job"]["job_id"]]
    front.cluster.add_node("worker-3", gpus=2)
    try:
        server.wait("wide", "succeeded", patience=PATIENCE)
        assert "ran wide" in server.logs("wide")
        assert server.detail("wide")["attempts"][0]["nodes"] == ["worker-3"]
    finally:
        front.cluster.end_node("worker-3")


def _known(front: Front, name: str) -> bool:
    return front.server.ask("GET", f"/api/v1/jobs/{name}").status_code == 200


def test_three_jobs_of_half_a_gpu_run_at_once_on_two(front: Front) -> None:
    server = front.server
    jobs = [server.submit("sleep", "600", gpus=0.5) for _ in range(3)]
    eventually(lambda: states(front, jobs) == ["running"] * 3, patience=150)
    held: dict[Any, float] = {}
    for job in jobs:
        [share] = server.detail(job)["attempts"][0]["placement"]
        key = (share["node"], *share["gpus"])
        held[key] = held.get(key, 0) + share["share"]
    assert sorted(held.values()) == [0.5, 1.0]
    for job in jobs:
        server.post(f"/api/v1/jobs/{job}/stop")
    eventually(lambda: states(front, jobs) == ["stopped"] * 3, patience=150)


def test_two_teams_share_two_to_one_and_the_urgent_goes_first(front: Front) -> None:
    """Plain submissions of two teams, more than fit: starts follow the shares."""
    server = front.server
    tokens = {team: _team(front, team, share) for team, share in (("large", 2), ("small", 1))}
    blockers = [server.submit("sleep", "600", gpus=1, priority="urgent") for _ in range(2)]
    eventually(lambda: states(front, blockers) == ["running"] * 2, patience=150)
    for team in ("small", "large"):
        for number in range(8):
            _plain(front, tokens[team], f"{team}-{number}", "sleep 1")
    _plain(front, tokens["small"], "rush", "sleep 1", **{"trackyard.priority": "high"})
    for blocker in blockers:
        server.post(f"/api/v1/jobs/{blocker}/stop")

    def started() -> list[tuple[int, str]]:
        rows = server.get("/api/v1/jobs", all=1, limit=500)["jobs"]
        mine = [row for row in rows if row["team"] in tokens and row["started_ms"]]
        return sorted((row["started_ms"], row["name"]) for row in mine)

    eventually(lambda: len(started()) >= 10, patience=PATIENCE)
    names = [name for _, name in started()[:10]]
    assert "rush" in names[:2], names
    others = [name for name in names if name != "rush"]
    large = sum(name.startswith("large") for name in others)
    assert 5 <= large <= 7, names
    for row in open_jobs(front):
        server.post(f"/api/v1/jobs/{row['job_id']}/stop")
    eventually(lambda: not open_jobs(front), patience=180)


def open_jobs(front: Front) -> list[Any]:
    rows = front.server.get("/api/v1/jobs", all=1, limit=500)["jobs"]
    return [row for row in rows if row["state"] in ("queued", "starting", "running")]


def _team(front: Front, team: str, share: int) -> str:
    server = front.server
    server.post("/api/v1/teams", name=team)
    answer = server.ask("PUT", f"/api/v1/teams/{team}/share", json={"share": share})
    assert answer.status_code == 200, answer.text
    return str(server.post("/api/v1/tokens", team=team, label="ray")["token"])


def _plain(front: Front, token: str, name: str, line: str, **metadata: str) -> None:
    """Submit as `ray job submit --entrypoint-num-gpus 1` does, without its four seconds."""
    body = {
        "entrypoint": line,
        "submission_id": name,
        "entrypoint_num_gpus": 1.0,
        "metadata": {"job_name": name, **metadata},
        "runtime_env": {},
    }
    headers = {"Authorization": f"Bearer {token}"}
    answer = httpx.post(f"{front.server.url}/api/jobs/", json=body, headers=headers, timeout=120)
    assert answer.status_code == 200, answer.text


def test_everything_is_listed_with_exit_codes_after_the_server_restarts(front: Front) -> None:
    server = front.server
    before = front.ray("job", "list")
    server.kill()
    server.start()
    after = front.ray("job", "list")
    for name in ("plain", "wide", "rush"):
        assert (f"'{name}'" in before) == (f"'{name}'" in after)
    assert "'plain'" in after
    assert "taste sour" in front.ray("job", "logs", "plain")
    assert lines(after, r"submission_id='(plain)'")
    assert server.detail("plain")["attempts"][0]["exit_code"] == 0


def test_prometheus_finds_ray_exporters_where_the_configuration_looks(front: Front) -> None:
    """Ray's own HTTP service discovery names an exporter for each node, and it can be scraped."""
    text = (ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text()
    jobs = {job["job_name"]: job for job in yaml.safe_load(text)["scrape_configs"]}
    [discovery] = jobs["ray"]["http_sd_configs"]
    path = httpx.URL(discovery["url"]).path

    def metrics() -> list[str]:
        groups = httpx.get(f"{front.cluster.address}{path}", timeout=60).json()
        targets = [target for group in groups for target in group["targets"]]
        return [httpx.get(f"http://{one}/metrics", timeout=60).text for one in targets]

    def is_told() -> bool:
        with contextlib.suppress(httpx.TransportError):
            return any("ray_node_cpu_count" in text for text in metrics())
        return False

    eventually(is_told, PATIENCE)
