"""A server behind Slurm's own queue: jobs are handed over early, and Slurm's words passed on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.jobs_cli.yarding import JobServer, Yard, end_all
from tests.acceptance.slurm.conftest import CONFIG
from tests.slurmcluster import SlurmCluster

pytestmark = pytest.mark.timeout(900)
PATIENCE = 300.0


@pytest.fixture
def behind(
    slurm_cluster: SlurmCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Yard]:
    folder = tmp_path_factory.mktemp("behind")
    config = CONFIG.format(folder=folder / "shared", conf=slurm_cluster.conf)
    server = JobServer(folder / "home", config=f'{config}way = "behind"\nahead = 3\n')
    server.start()
    server.wait_for_nodes()
    (folder / "user").mkdir()
    yard = Yard(server, folder / "user")
    yield yard
    yard.ok("stop", "--mine", "--now", "--wait")
    server.kill()
    end_all(folder)


def test_slurms_reason_is_told_and_an_admins_scancel_stops_the_job(
    behind: Yard, slurm_cluster: SlurmCluster
) -> None:
    line = ("--no-working-dir", "--gpus", "2", "--time", "1h", "--", "sleep", "600")
    jobs = [behind.submit(*line) for _ in range(3)]

    def states() -> list[str]:
        return sorted(behind.page(job)["job"]["state"] for job in jobs)

    behind.until(jobs[0], lambda _: states() == ["running", "running", "starting"], PATIENCE)
    waiting = next(job for job in jobs if behind.page(job)["job"]["state"] == "starting")
    behind.until(
        waiting, lambda _: "Slurm keeps it waiting" in behind.ok("why", waiting), PATIENCE
    )
    told = behind.ok("why", waiting)
    assert "(Resources)" in told or "(Priority)" in told, told
    # Slurm's own estimate: when the jobs before it reach their limit of an hour.
    behind.until(
        waiting, lambda _: "Slurm expects it to start at" in behind.ok("why", waiting), PATIENCE
    )
    running = next(job for job in jobs if job != waiting)
    attempt = behind.page(running)["attempts"][0]["attempt_id"]
    slurm_cluster.run("scancel", f"--name={attempt}")
    page = behind.until_state(running, "stopped", "failed", "succeeded", patience=PATIENCE)
    assert page["attempts"][0]["cause"] == "stopped", page
    behind.until_state(waiting, "running", patience=PATIENCE)
