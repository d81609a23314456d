"""A real Prometheus scrapes a real server, with the files that deploy/ holds."""

import contextlib
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.acceptance.jobs.yard import JobServer
from tests.acceptance.serving import ROOT, free_port

DEPLOY = ROOT / "deploy"
PATIENCE = 180.0
#: Queries that tell something as soon as a job has run.
TOLD = {
    "sum(yard_node_gpus)": 2.0,
    'sum(yard_events_total{kind="job.submitted"})': 1.0,
    'sum(yard_attempts_ended_total{cause="succeeded"})': 1.0,
    "yard_job_wait_seconds_count": 1.0,
    "sum(yard_metric_points_total) >= bool 3": 1.0,
    "yard_scheduler_leader": 1.0,
    "yard_database_size_bytes > bool 0": 1.0,
    'sum(yard_http_requests_total{route="POST /api/v1/jobs",status="200"})': 1.0,
    'sum(yard_node_state{state="ready"})': 1.0,
}


def program(name: str) -> str:
    found = shutil.which(name)
    assert found is not None, f"{name} is missing; run tools/test_needs.sh"
    return found


class Prometheus:
    """Prometheus on a free port, with the configuration of deploy/ pointed at a server."""

    def __init__(self, folder: Path, server: JobServer) -> None:
        folder.mkdir()
        (folder / "token").write_text(server.token)
        shutil.copy(DEPLOY / "prometheus" / "trackyard.rules.yml", folder)
        text = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
        text = text.replace("/etc/prometheus/trackyard.token", str(folder / "token"))
        text = text.replace("127.0.0.1:8000", f"127.0.0.1:{server.port}")
        # There is no Ray cluster here.
        text, count = re.subn(r"  # A Ray cluster.*", "", text, flags=re.DOTALL)
        assert count == 1
        text = text.replace("scrape_interval: 15s", "scrape_interval: 1s")
        (folder / "prometheus.yml").write_text(text)
        self.url = f"http://127.0.0.1:{free_port()}"
        self._log = folder / "log"
        self.process = subprocess.Popen(
            [
                program("prometheus"),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={self.url.removeprefix('http://')}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=self._log.open("w"),
        )
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        """Wait until it takes queries: it listens before that, and answers 503."""
        until = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/-/ready", timeout=180).status_code == 200:
                    return
            assert self.process.poll() is None, self._log.read_text()
            assert time.monotonic() < until, self._log.read_text()
            time.sleep(0.1)

    def ask(self, query: str) -> list[dict[str, Any]]:
        """Return what a query finds now."""
        answer = httpx.get(f"{self.url}/api/v1/query", params={"query": query}, timeout=180)
        assert answer.status_code == 200, (query, answer.text)
        found: list[dict[str, Any]] = answer.json()["data"]["result"]
        return found

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobServer]:
    one = JobServer(tmp_path_factory.mktemp("prometheus") / "home")
    one.start()
    run = one.post("/api/2.0/mlflow/runs/create", experiment_id="0")["run"]["info"]["run_id"]
    points = [{"key": "loss", "value": 1.0, "timestamp": 1, "step": step} for step in range(3)]
    one.post("/api/2.0/mlflow/runs/log-batch", run_id=run, metrics=points)
    one.wait(one.submit("true", gpus=1), "succeeded")
    yield one
    one.stop()


@pytest.fixture(scope="module")
def prometheus(
    tmp_path_factory: pytest.TempPathFactory, server: JobServer
) -> Iterator[Prometheus]:
    one = Prometheus(tmp_path_factory.mktemp("scraping") / "prometheus", server)
    yield one
    one.stop()


def queries() -> dict[str, str]:
    """Every query of the dashboard and of the rules, by its place."""
    board = json.loads((DEPLOY / "grafana" / "trackyard.json").read_text())
    found = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in board["panels"]
        for target in panel["targets"]
    }
    rules = (DEPLOY / "prometheus" / "trackyard.rules.yml").read_text()
    for group in yaml.safe_load(rules)["groups"]:
        found |= {rule["alert"]: rule["expr"] for rule in group["rules"]}
    return found


def test_what_the_server_tells_is_well_formed(server: JobServer) -> None:
    """Promtool finds nothing to complain of: names, units, types and help."""
    text = server.ask("GET", "/metrics").text
    checked = subprocess.run(
        [program("promtool"), "check", "metrics"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    names = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    asked = set(re.findall(r"yard_\w+", " ".join(queries().values())))
    plain = {re.sub(r"_(bucket|count|sum)$", "", name) for name in asked}
    assert plain <= names, plain - names


def test_a_scrape_brings_the_queue_the_fleet_and_what_ended(prometheus: Prometheus) -> None:
    until = time.monotonic() + PATIENCE
    missing = dict(TOLD)
    while missing:
        assert time.monotonic() < until, (missing, prometheus.process.poll())
        with contextlib.suppress(httpx.TransportError):
            for query, wanted in list(missing.items()):
                found = prometheus.ask(query)
                if found and float(found[0]["value"][1]) == wanted:
                    del missing[query]
        time.sleep(0.2)


def test_queries_of_the_dashboard_and_the_rules_are_understood(prometheus: Prometheus) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(httpx.TransportError):
            if prometheus.ask('up{job="trackyard"} == 1'):
                break
        assert time.monotonic() < until
        time.sleep(0.2)
    for expression in queries().values():
        prometheus.ask(expression)
    rules = httpx.get(f"{prometheus.url}/api/v1/rules", timeout=180).json()["data"]["groups"]
    assert len(rules[0]["rules"]) == 8
    firing = [rule["name"] for rule in rules[0]["rules"] if rule["state"] == "firing"]
    assert firing == []


def test_a_stranger_reads_no_figures(server: JobServer) -> None:
    assert httpx.get(f"{server.url}/metrics", timeout=180).status_code == 401


def test_a_prometheus_of_the_servers_own_starts_scrapes_and_ends_with_it(
    tmp_path: Path,
) -> None:
    one = JobServer(tmp_path / "home", options=("--with", "prometheus"))
    one.start()
    try:
        url = (tmp_path / "home" / "prometheus" / "address").read_text().strip()
        until = time.monotonic() + PATIENCE * 2
        found: list[Any] = []
        while not found and time.monotonic() < until:
            with contextlib.suppress(httpx.HTTPError):
                words = {"query": 'up{job="trackyard"} == 1'}
                answer = httpx.get(f"{url}/api/v1/query", params=words, timeout=180)
                found = answer.json()["data"]["result"]
            time.sleep(0.2)
        assert found, (tmp_path / "home" / "prometheus" / "log").read_text()[-2000:]
    finally:
        one.stop()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/-/ready", timeout=180)
