"""`yard demo` without a server: what it shows can be read, and it ends with Ctrl+C."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.acceptance.serving import free_port
from trackyard.client.api import Api

PATIENCE = 300.0


def wait_for(look: Callable[[], Any]) -> Any:
    until = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < until, look
        time.sleep(0.5)
    return found


def test_logbook_usage_and_alerts_of_the_demo_can_be_read(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "trackyard.cli.main", "demo"]
    demo = subprocess.Popen(
        [*command, "--scale", "0.01", "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=(tmp_path / "stderr").open("w"),
        text=True,
        env={**os.environ, "YARD_URL": f"http://127.0.0.1:{port}", "HOME": str(tmp_path)},
    )
    try:
        assert demo.stdout is not None
        assert any("/signin#code=" in line for line in demo.stdout)
        told = (tmp_path / "stderr").read_text()
        home = re.search(r"throw-away home at (\S+)", told)
        assert home is not None, told
        api = Api(f"http://127.0.0.1:{port}", (Path(home[1]) / "token").read_text().strip())
        wait_for(lambda: fired(api) >= {"log cuda-oom", "wait > 10s"})
        jobs = wait_for(lambda: ended(api))
        (broken,) = [one for one in jobs if one["name"] == "demo-out-of-memory"]
        entries = api.get(f"/api/v1/runs/{broken['run_id']}/logbook")["entries"]
        words = [one["sentence"] for one in entries]
        assert any("resumed on" in one and "from step 19" in one for one in words), words
        assert any("fired for demo-out-of-memory" in one for one in words), words
        usage = api.get("/api/v1/usage", {"by": "job"})
        assert usage["total"]["cost"] > 0
        assert usage["fleet"]["productive"] > usage["fleet"]["lost"] > 0
        assert abs(sum(usage["fleet"].values()) - usage["wall_gpu_hours"]) < 1e-9
    finally:
        demo.send_signal(signal.SIGINT)
        assert demo.wait(60) == 0
    assert not Path(home[1]).exists()


def fired(api: Api) -> set[str]:
    return {one["text"] for one in api.get("/api/v1/incidents")["incidents"]}


def ended(api: Api) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = api.get("/api/v1/jobs")["jobs"]
    own = [one for one in jobs if one["name"].startswith("demo-")]
    return own if own and all(one["state"] == "succeeded" for one in own) else []
