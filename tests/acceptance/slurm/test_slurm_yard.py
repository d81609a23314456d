"""A user of a server on a real Slurm, whose nodes are reached by the shared folder alone."""

from __future__ import annotations

import json
from pathlib import Path

from tests.acceptance.jobs_cli.yarding import Yard
from tests.slurmcluster import SlurmCluster

SCRIPT = """#!/bin/bash
#SBATCH --job-name=two-nodes
#SBATCH -N 2 --ntasks-per-node=1
#SBATCH --gres=gpu:h100:1
#SBATCH --time=0:10:00
#SBATCH --output=out-%j.txt
#SBATCH --mail-type=END

echo "job $SLURM_JOB_NAME nodes $SLURM_NNODES tasks $SLURM_NTASKS on $SLURM_JOB_NODELIST $1"
srun --overlap --ntasks=2 --ntasks-per-node=1 sh -c 'echo "node $SLURMD_NODENAME"'
"""


def test_a_job_runs_logs_and_is_sampled_without_a_way_to_the_server(yard: Yard) -> None:
    (yard.folder / "hello.py").write_text("print('hello from', __import__('os').getcwd())\n")
    job = yard.submit("--gpus", "1", "--", "python3", "hello.py")
    page = yard.until_state(job, "succeeded", "failed")
    assert page["job"]["state"] == "succeeded", page
    assert "hello from" in yard.logs(job)
    # Nothing on the shared folder holds the runner's credential.
    assert not list(yard.folder.parent.glob("shared/attempts/*/*.credential"))


def test_a_data_set_comes_by_the_shared_folder(yard: Yard, tmp_path: Path) -> None:
    """Nodes that cannot reach the server read what its machine fetched for them."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "one.txt").write_text("from the data set")
    yard.ok("data", "add", "small", str(tmp_path))
    script = "cat $YARD_DATA_SMALL/sub/one.txt"
    job = yard.submit(
        "--no-working-dir", "--nodes", "2", "--data", "small", "--", "sh", "-c", script
    )
    page = yard.until_state(job, "succeeded", "failed")
    assert page["job"]["state"] == "succeeded", page
    assert "from the data set" in yard.logs(job)


def test_a_gang_whose_node_dies_starts_again(yard: Yard, slurm_cluster: SlurmCluster) -> None:
    code = (
        "import os, time; print('attempt', os.environ['YARD_ATTEMPT'], flush=True);"
        " time.sleep(600 if os.environ['YARD_ATTEMPT'] == '1' else 0)"
    )
    job = yard.submit("--no-working-dir", "--nodes", "2", "--", "python3", "-c", code)
    yard.until_printed(job, "attempt 1")
    slurm_cluster.kill("n2")
    slurm_cluster.run("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=power")
    yard.until(job, lambda page: page["attempts"][0]["state"] in ("lost", "failed", "preempted"))
    slurm_cluster.start_node("n2")
    slurm_cluster.run("scontrol", "update", "NodeName=n2", "State=RESUME")
    page = yard.until_state(job, "succeeded", "failed")
    assert page["job"]["state"] == "succeeded", page
    assert [one["cause"] for one in page["attempts"]] == ["node_lost", "succeeded"]


def test_sbatch_takes_a_stock_script_and_names_what_it_does_not_honour(
    yard: Yard, scripts: Path
) -> None:
    (scripts / "two.sh").write_text(SCRIPT)
    said = yard.run("sbatch", "--parsable", "two.sh", "again")
    assert said.code == 0, said.err
    assert "not honoured: --output" in said.err
    assert "not honoured: --mail-type" in said.err
    job = said.out.strip()
    page = yard.until_state(job, "succeeded", "failed")
    printed = yard.logs(job)
    assert page["job"]["state"] == "succeeded", printed
    assert page["job"]["name"] == "two-nodes"
    assert "job two-nodes nodes 2 tasks 2 on n[1-2] again" in printed or "nodes 2" in printed
    assert "node n1" in printed
    assert "node n2" in printed


def test_arrays_and_dependencies_of_batch_scripts(yard: Yard, scripts: Path) -> None:
    (scripts / "part.sh").write_text('#!/bin/sh\necho "part $SLURM_ARRAY_TASK_ID"\n')
    (scripts / "merge.sh").write_text("#!/bin/sh\necho merged\n")
    parts = yard.ok("sbatch", "--parsable", "--array=3-4%1", "part.sh").strip()
    after = yard.ok("sbatch", "--parsable", f"--dependency=afterok:{parts}", "merge.sh").strip()
    yard.until_state(after, "succeeded", "failed", "stopped")
    assert "merged" in yard.logs(after)
    members = yard.ok("ps", "--all", "--quiet", "--array", parts).split()
    assert sorted(yard.logs(member).strip() for member in members) == ["part 3", "part 4"]


def test_the_sites_limits_refuse_at_once_in_its_own_words(
    yard: Yard, slurm_cluster: SlurmCluster
) -> None:
    said = json.loads(
        yard.ok("queue", "import-slurm", "--conf", str(slurm_cluster.conf), "--json")
    )
    assert {row["name"] for row in said["queues"]} == {"gpu", "urgent", "whole", "short"}
    refused = yard.run(
        "submit", "--queue", "short", "--time", "1h", "--no-working-dir", "--", "true"
    )
    assert refused.code != 0
    assert "MaxTime=00:10:00 of partition short" in refused.err
    refused = yard.run("submit", "--queue", "short", "--no-working-dir", "--", "true")
    assert "give --time" in refused.err
    # All that the partition gives, and not a minute more, is what Slurm is asked for.
    job = yard.submit("--queue", "short", "--time", "10m", "--no-working-dir", "--", "true")
    page = yard.until_state(job, "succeeded", "failed")
    assert page["job"]["state"] == "succeeded", page


def test_a_job_that_slurm_keeps_waiting_says_why(yard: Yard, slurm_cluster: SlurmCluster) -> None:
    """Someone else's job took the nodes after the queue looked at them."""
    slurm_cluster.run("scontrol", "update", "PartitionName=gpu", "State=DOWN")
    job = yard.submit("--no-working-dir", "--", "true")
    page = yard.until(
        job, lambda page: "Slurm keeps it waiting" in (page["job"]["sentence"] or "")
    )
    assert page["job"]["state"] == "starting"
    assert "partition is down" in yard.ok("why", job)
    slurm_cluster.run("scontrol", "update", "PartitionName=gpu", "State=UP")
    yard.until_state(job, "succeeded")
