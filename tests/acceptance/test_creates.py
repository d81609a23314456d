"""As many create calls as were answered make as many things; a retry of a lost answer makes none.

Equal words prove nothing: processes that start together, proxies and full connection pools send
them on connections that end after every answer.
"""

import json
import socket
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.cutting import send_and_leave
from tests.acceptance.nginx import proxy
from tests.acceptance.serving import SCRIPTS, TrackingServer, run_client

#: It starts many processes at once, or a cluster: with others beside it time alone would decide.
pytestmark = pytest.mark.alone

WISH = {"start_time": 1_700_000_000_000, "run_name": "same"}
NewServer = Callable[..., TrackingServer]


def _experiment(server: TrackingServer) -> str:
    made = server.post("experiments/create", name=f"creates-{uuid.uuid4().hex[:8]}")
    return str(made["experiment_id"])


def _runs(server: TrackingServer, experiment: str) -> list[str]:
    found = server.post("runs/search", experiment_ids=[experiment], max_results=5000)
    return [run["info"]["run_id"] for run in found.get("runs", [])]


def _create_many(
    server: TrackingServer, home: Path, *counts: int, pool: str = "10"
) -> tuple[list[str], list[str]]:
    """Return the runs that stock clients were told of, and those that are there."""
    experiment = _experiment(server)
    output = run_client(
        server,
        "mlflow3",
        SCRIPTS / "create_many.py",
        experiment,
        *map(str, counts),
        home=home,
        MLFLOW_HTTP_POOL_MAXSIZE=pool,
        MLFLOW_HTTP_POOL_CONNECTIONS=pool,
    )
    told = [line.split()[1] for line in output.splitlines() if line.startswith("RUN ")]
    return told, _runs(server, experiment)


@pytest.mark.parametrize(("processes", "threads", "runs"), [(16, 1, 8), (1, 8, 160)])
def test_equal_creates_behind_nginx_are_as_many_runs(
    tracking: TrackingServer, tmp_path: Path, processes: int, threads: int, runs: int
) -> None:
    """Sixteen processes that start at once, and eight threads, behind the documented proxy."""
    with proxy(tracking, tmp_path / "nginx") as beyond:
        told, there = _create_many(beyond, tmp_path, processes, threads, runs)
    assert len(told) == processes * runs
    assert len(set(told)) == len(told)
    assert sorted(there) == sorted(told)


def test_equal_creates_through_a_small_pool_are_as_many_runs(
    tracking: TrackingServer, tmp_path: Path
) -> None:
    """Thirty-two threads share two connections: most calls open one and close it again."""
    told, there = _create_many(tracking, tmp_path, 1, 32, 320, pool="2")
    assert len(set(told)) == 320
    assert sorted(there) == sorted(told)


@pytest.mark.parametrize("is_proxied", [False, True])
def test_a_loop_of_equal_calls_makes_a_run_each(
    tracking: TrackingServer, tmp_path: Path, is_proxied: bool
) -> None:
    """As a shell script with curl does: whole seconds, a connection for each call."""
    experiment = _experiment(tracking)
    with proxy(tracking, tmp_path / "nginx") as beyond:
        server = beyond if is_proxied else tracking
        made = [
            server.post("runs/create", experiment_id=experiment, **WISH)["run"]["info"]["run_id"]
            for _ in range(12)
        ]
    assert len(set(made)) == 12
    assert sorted(_runs(tracking, experiment)) == sorted(made)


def _leave(server: TrackingServer, path: str, body: dict[str, Any]) -> None:
    """Send a call whose connection ends before its answer."""
    content = json.dumps(body).encode()
    lines = [
        f"POST /api/2.0/mlflow/{path} HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
        *(f"{name}: {value}" for name, value in server.headers.items()),
    ]
    line = socket.create_connection(("127.0.0.1", server.port))
    send_and_leave(line, "\r\n".join(lines).encode() + b"\r\n\r\n" + content)


def test_a_run_whose_answer_was_lost_goes_to_the_retry_alone(tracking: TrackingServer) -> None:
    """The first caller left before its answer; the retry gets its run, the next one its own."""
    for _ in range(5):
        experiment = _experiment(tracking)
        wish = {"experiment_id": experiment, **WISH}
        _leave(tracking, "runs/create", wish)
        retry = tracking.post("runs/create", **wish)["run"]["info"]["run_id"]
        assert _runs(tracking, experiment) == [retry]
        honest = tracking.post("runs/create", **wish)["run"]["info"]["run_id"]
        assert sorted(_runs(tracking, experiment)) == sorted((retry, honest))


def test_names_that_may_be_given_once_are_given_to_the_retry(tracking: TrackingServer) -> None:
    """An experiment and a registered model exist already, and the retry is told so only if
    somebody may have had the first answer.
    """
    for path in ("experiments/create", "registered-models/create"):
        wish = {"name": f"once-{uuid.uuid4().hex[:8]}"}
        _leave(tracking, path, wish)
        tracking.post(path, **wish)
        again = tracking.ask("POST", path, json=wish)
        assert again.status_code == 400
        assert again.json()["error_code"] == "RESOURCE_ALREADY_EXISTS"


@pytest.mark.parametrize("kind", ["experiment", "model", "model_version", "logged_model"])
def test_killed_between_commit_and_reply_the_retry_makes_one(
    new_server: NewServer, kind: str
) -> None:
    """Not only runs: whatever is created is given to the retry after the next start."""
    server = new_server()
    server.start()
    run = server.post("runs/create", experiment_id="0")["run"]["info"]
    inside = run["artifact_uri"].removeprefix("mlflow-artifacts:/")
    server.ask("PUT", f"/api/2.0/mlflow-artifacts/artifacts/{inside}/m/MLmodel", content=b"x")
    server.post("registered-models/create", name="base")
    path, wish = {
        "experiment": ("experiments/create", {"name": "one"}),
        "model": ("registered-models/create", {"name": "one"}),
        "model_version": (
            "model-versions/create",
            {"name": "base", "source": f"runs:/{run['run_id']}/m"},
        ),
        "logged_model": ("logged-models", {"experiment_id": "0", "name": "one"}),
    }[kind]
    server.stop()
    server.environment = {"YARD_CRASH_POINT": f"after-commit={kind}.created"}
    server.start()
    with pytest.raises(httpx.HTTPError):
        server.post(path, **wish)
    assert server.process is not None
    server.process.wait(60)
    server.environment = {}
    server.start()
    made = server.post(path, **wish)
    if kind == "model_version":
        assert made["model_version"]["version"] == "1"
        assert server.post(path, **wish)["model_version"]["version"] == "2"
    elif kind == "logged_model":
        assert (
            server.post(path, **wish)["model"]["info"]["model_id"]
            != (made["model"]["info"]["model_id"])
        )
        found = server.post("logged-models/search", experiment_ids=["0"])["models"]
        assert len(found) == 2
    else:
        assert server.ask("POST", path, json=wish).status_code == 400
