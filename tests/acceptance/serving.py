"""A tracking server in its own process, and stock clients in theirs.

Owns how acceptance tests start, kill and ask a server, and how they run a client script in its
environment. `YARD_TEST_TRACKING=mlflow` puts the real MLflow server in the place of ours, which
proves that what a test expects is what MLflow does.
"""

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[2]
ENVS = Path(os.environ.get("YARD_TEST_ENVS") or ROOT / ".cache" / "envs")
SCRIPTS = Path(__file__).parent / "clients" / "scripts"
ORACLE = os.environ.get("YARD_TEST_TRACKING") == "mlflow"


def free_port() -> int:
    """Return a port nobody listens on.

    A server keeps its port over restarts, so it is none that the system gives to connections,
    nor one of those that Ray gives to its workers: either may be taken while the server is away.
    """
    given = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(given.read_text().split()[0]) if given.exists() else 0
    while True:
        port = secrets.choice(range(20_000, first)) if first > 21_000 else 0
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])


@dataclass
class TrackingServer:
    """A server process on a home folder and a port that stay the same over restarts."""

    home: Path
    port: int = field(default_factory=free_port)
    environment: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    token: str = ""
    #: a database address in place of the file in the home
    database: str = ""
    #: where artifacts lie, if not in the home
    artifacts: str = ""
    #: what its config file says
    config: str = ""

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """What it has printed so far."""
        path = self.home / "server.log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    def command(self) -> list[str]:
        """The command line of the server under test."""
        if ORACLE:
            return [
                str(ENVS / "mlflow3/bin/mlflow"),
                "server",
                "--port",
                str(self.port),
                "--host",
                "127.0.0.1",
                "--workers",
                "1",
                "--backend-store-uri",
                f"sqlite:///{self.home}/mlflow.db",
                "--artifacts-destination",
                str(self.home / "artifacts"),
            ]
        return [
            sys.executable,
            "-m",
            "trackyard.cli.main",
            "up",
            "--home",
            str(self.home),
            *(["--database", self.database] if self.database else []),
            *(["--artifacts", self.artifacts] if self.artifacts else []),
            *(["--config", str(self.home / "config.toml")] if self.config else []),
            "--port",
            str(self.port),
        ]

    def start(self, patience: float = 180.0) -> float:
        """Start it and return the seconds it took until it was ready."""
        self.home.mkdir(parents=True, exist_ok=True)
        quiet = {"DO_NOT_TRACK": "true", "MLFLOW_DISABLE_TELEMETRY": "true"}
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **quiet, **self.environment}
        if self.config:
            (self.home / "config.toml").write_text(self.config)
        began = time.monotonic()
        with (self.home / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                cwd=self.home,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        path = "/health" if ORACLE else "/ready"
        while True:
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended at start: {self.log}")
            try:
                if httpx.get(f"{self.url}{path}", timeout=180).status_code == 200:
                    break
            except httpx.HTTPError:
                pass
            if time.monotonic() - began > patience:
                self.kill()
                raise AssertionError(f"the server was not ready in {patience} s: {self.log}")
            time.sleep(0.02)
        if not ORACLE:
            self.token = (self.home / "token").read_text().strip()
        return time.monotonic() - began

    def _signal(self, number: int) -> None:
        assert self.process is not None
        if ORACLE:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)

    def kill(self) -> None:
        """End it as a power cut would: kill -9, no farewell."""
        if self.process is not None and self.process.poll() is None:
            self._signal(signal.SIGKILL)
            self.process.wait(60)

    def stop(self) -> int:
        """Ask it to end and return its exit status."""
        assert self.process is not None
        if self.process.poll() is None:
            self._signal(signal.SIGTERM)
            try:
                self.process.wait(90)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"the server ignored SIGTERM for 90 s: {self.log}") from None
        return self.process.returncode

    @property
    def headers(self) -> dict[str, str]:
        """What a request must carry to be let in."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def ask(self, method: str, path: str, **how: Any) -> httpx.Response:
        """Do one request; a path without a leading slash is one of the MLflow API."""
        if not path.startswith("/"):
            path = f"/api/2.0/mlflow/{path}"
        headers = {**self.headers, **how.pop("headers", {})}
        return httpx.request(method, f"{self.url}{path}", headers=headers, timeout=120, **how)

    def get(self, path: str, /, **params: Any) -> Any:
        """GET, insist on 200, return the JSON."""
        answer = self.ask("GET", path, params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, /, **body: Any) -> Any:
        """POST, insist on 200, return the JSON."""
        answer = self.ask("POST", path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def runs(self, experiment: str, **search: Any) -> list[dict[str, Any]]:
        """Return all runs of an experiment given by name, newest first."""
        found = self.get("experiments/get-by-name", experiment_name=experiment)["experiment"]
        ids = [found["experiment_id"]]
        return list(self.post("runs/search", experiment_ids=ids, **search).get("runs", []))

    def history(self, run: str, key: str) -> list[dict[str, Any]]:
        """Return every point of a metric."""
        points: list[dict[str, Any]] = []
        token: dict[str, str] = {}
        while True:
            page = self.get(
                "metrics/get-history", run_id=run, metric_key=key, max_results=25_000, **token
            )
            points += page.get("metrics", [])
            if not page.get("next_page_token"):
                return points
            token = {"page_token": page["next_page_token"]}

    def files(self, run: str, path: str = "") -> dict[str, int | None]:
        """Return every file below a run's artifacts with its size."""
        found: dict[str, int | None] = {}
        asked = {"path": path} if path else {}
        for entry in self.get("artifacts/list", run_id=run, **asked).get("files", []):
            if entry["is_dir"]:
                found |= self.files(run, entry["path"])
            else:
                found[entry["path"]] = int(entry.get("file_size") or 0)
        return found


def pairs(entries: list[dict[str, Any]] | None) -> dict[str, Any]:
    """Turn the wire's list of key and value into a dict."""
    return {entry["key"]: entry.get("value", "") for entry in entries or []}


def python_of(generation: str) -> Path:
    """The interpreter of a client environment, which tools/client_envs.py builds."""
    python = ENVS / generation / "bin" / "python"
    assert python.exists(), f"{python} is missing; run tools/client_envs.py {generation}"
    return python


def client_environment(server: TrackingServer, home: Path, **more: str) -> dict[str, str]:
    """The environment of a client: where the server is, and nothing else of ours."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "MLFLOW_TRACKING_URI": server.url,
        **({"MLFLOW_TRACKING_TOKEN": server.token} if server.token else {}),
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
        # A model's requirements are guessed by loading it once more; that guess is MLflow's.
        "MLFLOW_REQUIREMENTS_INFERENCE_TIMEOUT": "1",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONWARNINGS": "ignore",
        **more,
    }


def run_client(
    server: TrackingServer, generation: str, script: Path, *arguments: str, home: Path, **more: str
) -> str:
    """Run a client script to its end, insist that it succeeds, and return what it printed."""
    done = subprocess.run(
        [python_of(generation), script, *arguments],
        cwd=script.parent,
        text=True,
        timeout=480,
        env=client_environment(server, home, **more),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, f"{script.name}: {done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def reports(output: str) -> dict[str, Any]:
    """Read the report line of a script made of checks."""
    lines = [line for line in output.splitlines() if line.startswith("REPORT ")]
    return dict(json.loads(lines[-1].removeprefix("REPORT ")))
