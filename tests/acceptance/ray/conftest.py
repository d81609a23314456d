"""A real cluster with Ray Train in it, a server in front of it, and the stock `ray` command."""

import os
import re
import shutil
import subprocess
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.acceptance.jobs.yard import JobServer
from tests.raycluster import RayCluster

SCRIPTS = Path(__file__).parent / "scripts"
FAILED = pytest.StashKey[bool]()


@dataclass
class Front:
    """A server over a cluster, as someone with the stock command line sees it."""

    server: JobServer
    cluster: RayCluster
    folder: Path

    def ray(self, *words: str, timeout: float = 400.0) -> str:
        """Run the stock `ray` against the server and return what it prints."""
        done = subprocess.run(
            [self.cluster.bin / "ray", *words],
            cwd=self.folder,
            env=self.environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def environment(self) -> dict[str, str]:
        """What a user of the stock command sets."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "RAY_ADDRESS": self.server.url,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": self.server.token,
            "RAY_USAGE_STATS_ENABLED": "0",
        }

    def submit(self, *words: str, **metadata: str) -> str:
        """Submit by the stock command without waiting; return our own id of the job."""
        name = self._next_name()
        self.ray(
            "job",
            "submit",
            "--no-wait",
            "--working-dir",
            str(self.folder / "work"),
            "--submission-id",
            name,
            "--metadata-json",
            _json({"job_name": name, **metadata}),
            "--",
            *words,
        )
        return str(self.server.detail(name)["job"]["job_id"])

    def repeat(self, first: str, *words: str, **metadata: str) -> str:
        """Submit from the folder of an earlier job, as the stock client does, but quicker."""
        name = self._next_name()
        known = self.server.detail(first)["job"]["name"]
        environment = self.server.get(f"/api/jobs/{known}")["runtime_env"]
        self.server.post(
            "/api/jobs/",
            entrypoint=" ".join(words),
            submission_id=name,
            runtime_env=environment,
            metadata={"job_name": name, **metadata},
        )
        return str(self.server.detail(name)["job"]["job_id"])

    def _next_name(self) -> str:
        number = len(list(self.folder.glob(".sent-*")))
        (self.folder / f".sent-{number}").touch()
        return f"job-{number}"


def _json(values: dict[str, str]) -> str:
    pairs = (f'"{key}": "{value}"' for key, value in values.items())
    return "{" + ", ".join(pairs) + "}"


@pytest.fixture(scope="module")
def front(clear_cluster: RayCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """A server whose engine is that cluster."""
    folder = tmp_path_factory.mktemp("front")
    shutil.copytree(SCRIPTS, folder / "work")
    server = JobServer(
        folder / "home",
        options=("--engine", f"ray={clear_cluster.address}", "--preempt-after", "0"),
        config='undeclared = "stop"\nundeclared_grace = 5\n',
    )
    server.start()
    yield Front(server, clear_cluster, folder)
    server.stop()


def lines(text: str, pattern: str) -> list[tuple[str, ...]]:
    """Find what a script printed, each line once: Ray may forward one twice."""
    return sorted({match.groups() for match in re.finditer(pattern, text)})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember of a test that it failed."""
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@pytest.fixture(autouse=True)
def _fails_alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """Stop the jobs of a failed test, so that the next finds the cluster free."""
    yield
    if request.node.stash.get(FAILED, False) and "front" in request.fixturenames:
        server = request.getfixturevalue("front").server
        for row in server.get("/api/v1/jobs", limit=500)["jobs"]:
            server.post(f"/api/v1/jobs/{row['job_id']}/stop")
