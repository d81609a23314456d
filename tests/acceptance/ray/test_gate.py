"""The gate's own calls, under the Ray they are made for, against a real server."""

from pathlib import Path

from tests.acceptance.jobs.yard import JobServer
from tests.acceptance.serving import ENVS
from trackyard.engines import ray_gate

SCRIPT = Path(__file__).parent / "scripts" / "hooks.py"


def test_an_elastic_run_starts_with_what_the_queue_gives_and_grows_only_when_told(
    tmp_path: Path,
) -> None:
    """One to four workers on two GPUs make two, pinned to the node; Ray's own growing rests."""
    for name, data in ray_gate.files().items():
        (tmp_path / name).write_bytes(data)
    server = JobServer(tmp_path / "home", options=("--gpus", "2"))
    server.start()
    try:
        job = server.submit(
            str(ENVS / "raytrain" / "bin" / "python"),
            str(SCRIPT),
            env={"PYTHONPATH": str(tmp_path)},
        )
        detail = server.wait(job, "succeeded", patience=180)
        log = server.logs(job)
        [claim] = detail["claims"]
        assert (claim["demand"], claim["state"], claim["gpus"]) == ("2x1gpu", "released", 2)
        assert "workers 2 grows inf" in log
        node = claim["nodes"][0]
        assert f"[('ray.io/node-id', '{node}'), ('zone', '!far')]" in log
    finally:
        server.stop()
