"""Partitions and QOS become queues with the site's own rules; options are checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trackyard.core.errors import InvalidInput, SetupError
from trackyard.core.ports import AttemptPhase, BatchOptions, ExitCause, LaunchSpec, NodeGrant
from trackyard.engines.slurm.commands import Commands
from trackyard.engines.slurm.limits import (
    Accounts,
    partition,
    read_accounts,
    read_partitions,
)
from trackyard.engines.slurm.observe import ObservedAttempt, judge, spelled, waiting_words
from trackyard.engines.slurm.parse import SlurmJob
from trackyard.engines.slurm.site import merge, read_site
from trackyard.engines.slurm.submit import limit_minutes
from trackyard.engines.statefolder import AttemptFolder, Launched
from trackyard.queue.shares.settings import QueueSettings, SlurmOptions
from trackyard.runner.slurm.entry import ending_reason, given_gpus

GH_DEV = {
    "PartitionName": "GH-dev",
    "MaxTime": "02:00:00",
    "MaxNodes": "8",
    "OverSubscribe": "EXCLUSIVE",
    "QoS": "N/A",
    "TotalNodes": "600",
}


#: what sacctmgr and scontrol of Slurm 22.05 with slurmdbd printed
PRINTED = {
    ("scontrol", "config"): "AccountingStorageEnforce = associations,limits,qos\n",
    ("sacctmgr", "user"): "ml\n",
    ("sacctmgr", "association"): "ml||normal|04:00:00||7|9|gres/gpu=4||\nroot|||||||||\n",
    ("sacctmgr", "qos"): (
        "normal|||||||||\n"
        "devlimits||01:00:00|gres/gpu=2,node=2|gres/gpu=2|1|3|||\n"
        "high||00:30:00|||||gres/gpu=3|5|\n"
    ),
    ("scontrol", "partition"): (
        "PartitionName=gpu AllowAccounts=ALL AllowQos=ALL Default=YES QoS=N/A DefaultTime=NONE"
        " ExclusiveUser=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 Nodes=n[1-2]"
        " OverSubscribe=NO OverTimeLimit=NONE State=UP TotalCPUs=16 TotalNodes=2\n"
        "PartitionName=dev AllowAccounts=ALL AllowQos=ALL Default=NO QoS=devlimits"
        " ExclusiveUser=NO MaxNodes=UNLIMITED MaxTime=02:00:00 MinNodes=0 Nodes=n[1-2]"
        " OverSubscribe=NO OverTimeLimit=NONE State=UP TotalCPUs=16 TotalNodes=2\n"
    ),
}  # fmt: skip


class Recorded(Commands):
    """Prints what Slurm printed, or a part of it instead."""

    def __init__(self, **changed: str) -> None:
        super().__init__()
        self.changed = changed

    def run(self, program: str, *arguments: str, given: str = "", refuses: bool = False) -> str:
        what = arguments[arguments.index("show") + 1]
        return self.changed.get(what, PRINTED[program, what])


def imported(commands: Commands, name: str, **chosen: Any) -> dict[str, Any]:
    """The settings of the queue that one partition becomes."""
    (row,) = (row for row in read_partitions(commands) if row["PartitionName"] == name)
    return partition(row, read_accounts(commands, "root"), **chosen).settings()


def test_a_partition_becomes_a_queue_with_the_sites_rules() -> None:
    """A limit per user of Slurm's holds for all of the queue: one user submits for everybody."""
    settings = imported(Recorded(), "dev")
    assert {name: value for name, value in settings.items() if name != "slurm"} == {
        "max_wall_seconds": 3600,
        "max_nodes_per_job": 2,
        "max_gpus_per_job": 2,
        "quota_gpus": 2,
        "max_running": 1,
    }
    assert settings["slurm"]["rules"] == {
        "max_wall_seconds": "MaxWall=01:00:00 of QOS devlimits",
        "max_nodes_per_job": "MaxTRES node=2 of QOS devlimits",
        "max_gpus_per_job": "MaxTRES gres/gpu=2 of QOS devlimits",
        "quota_gpus": "MaxTRESPU gres/gpu=2 of QOS devlimits",
        "max_running": "MaxJobsPU=1 of QOS devlimits",
    }
    assert QueueSettings(**{**settings, "slurm": None}).max_running == 1


def test_the_account_limits_what_no_qos_does() -> None:
    settings = imported(Recorded(), "gpu")
    assert settings["slurm"]["rules"] == {
        "max_wall_seconds": "MaxWall=04:00:00 of account ml",
        "max_gpus_per_job": "GrpTRES gres/gpu=4 of account ml",
        "quota_gpus": "GrpTRES gres/gpu=4 of account ml",
        "max_running": "MaxJobs=7 of account ml",
    }
    assert imported(Recorded(), "gpu", account="root")["slurm"]["rules"] == {}
    high = imported(Recorded(), "gpu", qos="high")
    assert (high["max_wall_seconds"], high["quota_gpus"], high["max_running"]) == (1800, 3, 5)
    # The partition's QOS goes before the job's, unless that one says otherwise.
    assert imported(Recorded(), "dev", qos="high")["max_wall_seconds"] == 3600
    over = PRINTED["sacctmgr", "qos"].replace("high||", "high|OverPartQOS|")
    assert imported(Recorded(qos=over), "dev", qos="high")["max_wall_seconds"] == 1800


def test_behind_slurms_queue_the_number_of_submitted_jobs_is_the_limit() -> None:
    settings = imported(Recorded(), "dev", is_behind=True)
    assert settings["max_running"] == 3
    assert settings["slurm"]["rules"]["max_running"] == "MaxSubmitPU=3 of QOS devlimits"
    assert "quota_gpus" not in settings


def test_limits_that_slurm_does_not_enforce_are_none() -> None:
    config = "AccountingStorageEnforce = none\n"
    assert imported(Recorded(config=config), "gpu") == {"slurm": {"partition": "gpu", "rules": {}}}


def test_partitions_of_whole_nodes_say_so() -> None:
    settings = partition(GH_DEV, Accounts()).settings()
    rules = settings["slurm"]["rules"]
    assert (settings["max_wall_seconds"], settings["max_nodes_per_job"]) == (7200, 8)
    assert rules["max_nodes_per_job"] == "MaxNodes=8 of partition GH-dev"
    assert "whole nodes alone" in rules["whole_nodes"]
    assert partition(GH_DEV, Accounts()).queue == "gh-dev"


def test_a_mirrored_time_limit_is_what_slurm_is_asked_for_at_most() -> None:
    """A little more is asked for otherwise, so that the runner ends a job before Slurm does."""
    rules = {"max_wall_seconds": "MaxTime=02:00:00 of partition gh-dev"}
    queue = QueueSettings(max_wall_seconds=7200, slurm=SlurmOptions(rules=rules))
    spec = LaunchSpec(
        attempt_id="a1",
        epoch=1,
        job_id="j1",
        argv=("true",),
        placement=(NodeGrant(node_id="n1"),),
        grace_seconds=30,
        batch=queue.batch_options,
    )
    asked = {3600: 62, 7100: 120, 7200: 120}
    for limit, minutes in asked.items():
        assert limit_minutes(replace(spec, time_limit_seconds=float(limit))) == minutes
    free = replace(spec, time_limit_seconds=7200.0, batch=QueueSettings().batch_options)
    assert limit_minutes(free) == 122


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
    assert spelled("AssocGrpGRESMinutes") == "assoc grp GRES minutes"
    assert spelled("Nodes_required_for_job_are_DOWN") == "nodes required for job are DOWN"


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
    found = given_gpus(planned, {"CUDA_VISIBLE_DEVICES": "0,1"}, whole=True)
    assert found is not None
    assert [gpu["index"] for gpu in found] == [0]
    assert given_gpus(planned, {"CUDA_VISIBLE_DEVICES": "GPU-ab"}, whole=False) is None
