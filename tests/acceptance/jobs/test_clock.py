"""The server's clock jumps an hour ahead and an hour back while jobs run and leases hold."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from tests.acceptance.jobs.yard import SCRIPTS, JobServer, eventually
from tests.acceptance.serving import ROOT

SHIMS = ROOT / "tests" / "acceptance" / "shims"
HOUR = 3600


def test_a_jump_of_the_clock_loses_no_attempt_and_no_order(
    new_yard: Callable[..., JobServer], tmp_path: Path
) -> None:
    """What runs runs on in its first attempt, what is new starts, nothing lasts less than no time,
    and events stay in their order.
    """
    jump = tmp_path / "jump"
    jump.write_text("0")
    server = new_yard()
    server.environment = {
        "PYTHONPATH": os.pathsep.join((str(SHIMS), str(ROOT / "src"))),
        "YARD_TEST_JUMP": str(jump),
    }
    server.start()
    gate = tmp_path / "gate"
    words = (sys.executable, str(SCRIPTS / "counting.py"), "100000", str(gate))
    job = server.submit(*words, gpus=1, name="counting")
    server.wait(job, "running")
    for seconds in (HOUR, -HOUR, 0):
        beside = tmp_path / "beside"
        beside.write_text(str(seconds))
        beside.replace(jump)
        # The runner reports on, and the server takes its word; another job comes and goes.
        for _ in range(3):
            heard = len(server.logs(job))
            eventually(lambda heard=heard: len(server.logs(job)) > heard)  # type: ignore[misc]
        other = server.submit(sys.executable, "-c", "print('hi')", gpus=1)
        done = server.wait(other, "succeeded")
        assert [one["number"] for one in done["attempts"]] == [1]
        run_id = server.post("runs/create", experiment_id="0")["run"]["info"]["run_id"]
        server.post("runs/update", run_id=run_id, status="FINISHED")
        assert server.state(job) == "running"
    server.post(f"/api/v1/jobs/{job}/stop", grace_seconds=0)
    ended = server.wait(job, "stopped")
    (attempt,) = ended["attempts"]
    assert attempt["number"] == 1
    events = server.get("/api/v1/events", limit=1000)["events"]
    assert [event["id"] for event in events] == sorted(event["id"] for event in events)
    assert not [event for event in events if "lost" in event["kind"]]
    for one in server.get("/api/v1/jobs", limit=100)["jobs"]:
        spans = [value for key, value in one.items() if key.endswith("_seconds") and value]
        assert all(value >= 0 for value in spans if isinstance(value, int | float)), one
