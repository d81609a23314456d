"""Launchers get the words and variables they need, and single processes are left alone."""

from __future__ import annotations

import pytest

from trackyard.runner.gang.launchers import (
    command,
    environment,
    launcher_environment,
    split_python,
)
from trackyard.runner.spec import GangMember

TWO = ("10.0.0.1", "10.0.0.2")


def test_a_single_plain_process_learns_nothing_of_ranks() -> None:
    values = environment(GangMember(), 1)
    assert "RANK" not in values
    assert "LOCAL_RANK" not in values
    assert values["YARD_NODE_LIST"] == "127.0.0.1"


def test_a_plain_gang_has_one_rank_per_member() -> None:
    values = environment(GangMember(member=1, members=2, addresses=TWO, port=5000), 1)
    assert (values["RANK"], values["WORLD_SIZE"], values["LOCAL_RANK"]) == ("1", "2", "0")
    assert (values["MASTER_ADDR"], values["MASTER_PORT"]) == ("10.0.0.1", "5000")
    assert values["YARD_NODE_LIST"] == "10.0.0.1,10.0.0.2"


def test_torchrun_on_one_node_is_standalone_with_a_process_per_gpu() -> None:
    line = command(GangMember(launcher="torchrun"), ("python", "train.py", "--lr", "1"), 4, "py")
    assert line == [
        "python", "-m", "torch.distributed.run", "--nnodes=1", "--nproc-per-node=4",
        "--standalone", "train.py", "--lr", "1",
    ]  # fmt: skip


def test_torchrun_on_two_nodes_meets_at_the_first() -> None:
    gang = GangMember(
        member=1, members=2, launcher="torchrun", processes=2, addresses=TWO, port=5000
    )
    line = command(gang, ("train.py",), 8, "py")
    assert line == [
        "py", "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=2",
        "--node-rank=1", "--master-addr=10.0.0.1", "--master-port=5000", "train.py",
    ]  # fmt: skip


def test_torchrun_takes_programs_that_are_not_python() -> None:
    line = command(GangMember(launcher="torchrun"), ("./train", "-x"), 1, "py")
    assert line is not None
    assert line[-3:] == ["--no-python", "./train", "-x"]


def test_accelerate_counts_processes_over_all_nodes() -> None:
    gang = GangMember(member=0, members=2, launcher="accelerate", addresses=TWO, port=5000)
    line = command(gang, ("python", "-m", "train"), 4, "py")
    assert line == [
        "python", "-m", "accelerate.commands.launch", "--num_processes=8", "--num_machines=2",
        "--machine_rank=0", "--multi_gpu", "--main_process_ip=10.0.0.1",
        "--main_process_port=5000", "-m", "train",
    ]  # fmt: skip


def test_accelerate_without_gpus_is_told_so() -> None:
    line = command(GangMember(launcher="accelerate"), ("train.py",), 0, "py")
    assert line is not None
    assert "--cpu" in line
    assert "--multi_gpu" not in line
    # With --cpu it would start one process, whatever their number.
    two = GangMember(members=2, launcher="accelerate", addresses=TWO)
    line = command(two, ("train.py",), 0, "py", "/ranks")
    assert line is not None
    assert "--multi_gpu" in line
    assert {"--tee=3", "--log_dir=/ranks"} <= set(line)
    assert launcher_environment(two, 0)["ACCELERATE_USE_CPU"] == "true"


def test_mpirun_is_started_by_the_first_member_alone() -> None:
    gang = GangMember(member=0, members=2, launcher="mpirun", addresses=TWO)
    assert command(gang, ("./sim",), 2, "py") == [
        "mpirun", "-np", "4", "--tag-output", "--map-by", "ppr:2:node", "./sim",
    ]  # fmt: skip
    other = GangMember(member=1, members=2, launcher="mpirun", addresses=TWO)
    assert command(other, ("./sim",), 2, "py") is None


@pytest.mark.parametrize(
    ("argv", "interpreter", "script"),
    [
        (("train.py", "a"), "py", ["train.py", "a"]),
        (("python3.11", "-u", "train.py"), "python3.11", ["train.py"]),
        (("/venv/bin/python", "-m", "pkg"), "/venv/bin/python", ["-m", "pkg"]),
        (("python", "-c", "pass"), None, ["python", "-c", "pass"]),
        (("bash", "run.sh"), None, ["bash", "run.sh"]),
    ],
)
def test_python_commands_are_told_from_others(
    argv: tuple[str, ...], interpreter: str | None, script: list[str]
) -> None:
    assert split_python(argv, "py") == (interpreter, script)
