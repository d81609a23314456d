"""Partitions and QOS become queues with the site's own rules; options are checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from trackyard.core.errors import InvalidInput, SetupError
from trackyard.core.ports import AttemptPhase, BatchOptions, ExitCause, NodeGrant
from trackyard.engines.slurm.limits import partition
from trackyard.engines.slurm.observe import ObservedAttempt, judge, spelled, waiting_words
from trackyard.engines.slurm.parse import SlurmJob
from trackyard.engines.slurm.site import merge, read_site
from trackyard.engines.statefolder import AttemptFolder, Launched
from trackyard.queue.shares.settings import QueueSettings, SlurmOptions
from trackyard.runner.slurm.entry import ending_reason, given_gpus

GH_DEV = {
    "PartitionName": "GH-dev",
    "MaxTime": "02:00:00",
    "MaxNodes": "8",
    "OverSubscribe": "EXCLUSIVE",
    "QoS": "dev",
    "TotalNodes": "600",
}


def test_a_partition_becomes_a_queue_with_the_sites_rules() -> None:
    found = partition(GH_DEV, {"Name": "dev", "MaxWall": "01:00:00", "MaxJobsPU": "1"})
    assert found.queue == "gh-dev"
    settings = found.settings()
    assert settings["max_wall_seconds"] == 3600
    assert settings["max_nodes_per_job"] == 8
    assert settings["max_running_per_user"] == 1
    rules = settings["slurm"]["rules"]
    assert rules["max_wall_seconds"] == "MaxWall=01:00:00 of QOS dev"
    assert rules["max_nodes_per_job"] == "MaxNodes=8 of partition GH-dev"
    assert "whole nodes alone" in rules["whole_nodes"]


def test_a_partition_without_limits_sets_none() -> None:
    row = {"PartitionName": "gpu", "MaxTime": "UNLIMITED", "MaxNodes": "UNLIMITED"}
    assert partition(row, {}).settings() == {"slurm": {"partition": "gpu", "rules": {}}}


@pytest.mark.parametrize("line", ["--nodes=4", "--wrap=x", "-p gpu", "--mem=$(id)", "--output=x"])
def test_options_that_are_not_a_queues_to_give_are_refused(line: str) -> None:
    with pytest.raises(InvalidInput, match="directive"):
        QueueSettings(slurm=SlurmOptions(directives=[line])).check()


def test_the_slurm_table_is_checked_key_by_key(tmp_path: Path) -> None:
    site = read_site(
        {"way": "behind", "partition": "gpu", "setup": ["module load cuda"]},
        name="s",
        home=tmp_path,
    )
    assert site.is_behind
    assert site.folder == tmp_path / "slurm"
    assert site.defaults.partition == "gpu"
    for wrong in ({"wey": "x"}, {"way": "beside"}, {"ahead": 0}, {"setup": "module"}):
        with pytest.raises(SetupError):
            read_site(wrong, name="s", home=tmp_path)


def test_a_queues_options_win_over_the_sites() -> None:
    site = BatchOptions(partition="gpu", account="a1", directives=("--nice=1",))
    queue = BatchOptions(partition="short", directives=("--exclusive",))
    found = merge(queue, site)
    assert (found.partition, found.account) == ("short", "a1")
    assert found.directives == ("--nice=1", "--exclusive")


def test_slurms_reasons_are_said_in_our_words() -> None:
    job = SlurmJob(job_id=5, state="PENDING", reason="QOSMaxJobsPerUserLimit", start=4_000_000_000)
    words = waiting_words(job)
    assert "as many jobs as the QOS allows (QOSMaxJobsPerUserLimit)" in words
    assert "expects it to start at 2096-10-02" in words
    assert spelled("AssocGrpGRESMinutes") == "assoc grp g r e s minutes"


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        ("TIMEOUT", ExitCause.TIME_LIMIT),
        ("OUT_OF_MEMORY", ExitCause.OUT_OF_MEMORY),
        ("PREEMPTED", ExitCause.PREEMPTED),
        ("CANCELLED", ExitCause.STOPPED),
        ("BOOT_FAIL", ExitCause.ENGINE),
    ],
)
def test_an_end_without_a_record_is_judged_by_slurms_state(
    tmp_path: Path, state: str, cause: ExitCause
) -> None:
    folder = AttemptFolder(tmp_path)
    folder.member(0).path.mkdir()
    launched = Launched(
        attempt_id="a1", epoch=1, job_id="j1", placement=(NodeGrant(node_id="n1"),)
    )
    job = SlurmJob(job_id=5, state=state, nodes=("n1",), start=100, end=160)
    report = judge(
        folder,
        launched,
        ObservedAttempt(job=job, is_current=True, gone_seconds=9),
        "",
        has_begun=True,
    )
    assert report.phase is AttemptPhase.EXITED
    assert report.exit is not None
    assert (report.exit.cause, report.exit.duration_seconds) == (cause, 60.0)
    fresh = judge(
        folder,
        launched,
        ObservedAttempt(job=job, is_current=True, gone_seconds=0),
        "",
        has_begun=True,
    )
    assert fresh.phase is AttemptPhase.RUNNING, "its record may still be on its way"
    lost = SlurmJob(job_id=5, state="NODE_FAIL", nodes=("n1",))
    report = judge(
        folder,
        launched,
        ObservedAttempt(job=lost, is_current=True, gone_seconds=9),
        "",
        has_begun=True,
    )
    assert report.phase is AttemptPhase.LOST


@pytest.mark.parametrize(
    ("job", "nodes", "reason"),
    [
        ("JobState=COMPLETING RunTime=00:01:00 TimeLimit=00:01:00", [], "time_limit"),
        ("JobState=COMPLETING RunTime=00:01:00 TimeLimit=1-00:00:00", [], "stopped"),
        ("JobState=COMPLETING PreemptTime=2026-01-01T00:00:00", [], "preempted"),
        ("JobState=RUNNING PreemptTime=2026-01-01T00:00:00", [], "preempted"),
        ("JobState=COMPLETING Restarts=1", [], "preempted"),
        ("JobState=COMPLETING PreemptTime=None", ["NodeName=n2 State=DOWN"], "node_lost"),
        ("JobState=CANCELLED", [], "stopped"),
        ("", [], "preempted"),
    ],
)  # fmt: skip
def test_the_reason_of_an_end_is_read_from_what_slurm_says_just_then(
    job: str, nodes: list[str], reason: str
) -> None:
    assert ending_reason(job, nodes) == reason


def test_a_member_gets_the_gpus_that_slurm_gave() -> None:
    planned = [{"index": 1, "fraction": 1.0, "vendor": "nvidia"}]
    assert given_gpus([], {"CUDA_VISIBLE_DEVICES": "0"}, whole=False) == []
    found = given_gpus(planned, {"CUDA_VISIBLE_DEVICES": "3"}, whole=False)
    assert found is not None
    assert [gpu["index"] for gpu in found] == [3]
    assert given_gpus(planned, {}, whole=True) == planned
    assert given_gpus(planned, {"CUDA_VISIBLE_DEVICES": "GPU-ab"}, whole=False) is None
