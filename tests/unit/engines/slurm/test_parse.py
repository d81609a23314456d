"""What Slurm prints is read alike in the form of 22.05 and in that of later releases."""

from __future__ import annotations

from typing import Any

import pytest

from trackyard.core.node import NodeState
from trackyard.engines.slurm.nodes import state_of
from trackyard.engines.slurm.parse import (
    expand,
    gpus_of,
    indices,
    number,
    read_job,
    read_node,
    records,
    seconds,
)

OLD: dict[str, Any] = {
    "job_id": 7,
    "name": "trk-a1",
    "comment": "yard:s:trk-a1",
    "job_state": "RUNNING",
    "state_reason": "None",
    "start_time": 1794931103,
    "restart_cnt": 1,
    "nodes": "n[1-2]",
    "cpus": 4,
    "user_name": "ada",
    "gres_detail": ["gpu:h100:2(IDX:0-1)", "gpu:h100:1(IDX:1)"],
    "tres_alloc_str": "cpu=4,mem=200M,node=2,billing=4",
    "exit_code": 0,
}
NEW: dict[str, Any] = {
    **OLD,
    "comment": {"job": "yard:s:trk-a1", "administrator": ""},
    "job_state": ["RUNNING", "COMPLETING"],
    "start_time": {"set": True, "infinite": False, "number": 1794931103},
    "cpus": {"set": True, "infinite": False, "number": 4},
    "exit_code": {"status": ["SUCCESS"], "return_code": {"set": True, "number": 0}},
}
NODE = (
    "NodeName=n1 Arch=x86_64 CPUAlloc=0 CPUTot=8 ActiveFeatures=a100,ib Gres=gpu:h100:2(S:0-1)"
    " NodeAddr=10.0.0.1 NodeHostName=host Version=22.05.8 OS=Linux 6.1 #1 SMP RealMemory=8000"
    " State=IDLE+DRAIN Partitions=gpu,short Reason=bad fan [root@now]"
)


@pytest.mark.parametrize("row", [OLD, NEW])
def test_a_job_is_read_in_both_forms(row: dict[str, Any]) -> None:
    job = read_job(row)
    assert (job.job_id, job.comment, job.state, job.start) == (
        7,
        "yard:s:trk-a1",
        "RUNNING",
        1794931103,
    )
    assert job.nodes == ("n1", "n2")
    assert job.gpus == {"n1": (0, 1), "n2": (1,)}
    assert (job.cpus, job.memory_bytes, job.restarts) == (4, 200 * 1024**2, 1)
    assert not job.has_ended


def test_a_job_back_in_the_queue_waits_and_one_that_completes_has_not_ended() -> None:
    assert read_job({**OLD, "job_state": ["PENDING", "REQUEUED"]}).waits
    assert read_job({**OLD, "job_state": "PENDING"}).waits
    assert not read_job({**OLD, "job_state": ["CANCELLED", "COMPLETING"]}).has_ended
    assert read_job({**OLD, "job_state": ["TIMEOUT"]}).has_ended


def test_a_node_is_read_from_scontrols_line() -> None:
    (row,) = records(NODE)
    node = read_node(row)
    assert (node.name, node.address, node.cpus) == ("n1", "10.0.0.1", 8)
    assert (node.gpu_type, node.gpu_count) == ("h100", 2)
    assert node.partitions == ("gpu", "short")
    assert node.features == ("a100", "ib")
    assert node.reason == "bad fan [root@now]"
    assert state_of(node) is NodeState.DRAINED


@pytest.mark.parametrize(
    ("state", "meant"),
    [
        ("IDLE", NodeState.READY),
        ("MIXED", NodeState.READY),
        ("ALLOCATED+RESERVED", NodeState.READY),
        ("IDLE*", NodeState.DOWN),
        ("DOWN+DRAIN", NodeState.DOWN),
        ("DRAINING", NodeState.DRAINED),
        ("IDLE+MAINTENANCE", NodeState.DRAINED),
    ],
)
def test_node_states_say_whether_work_is_taken(state: str, meant: NodeState) -> None:
    assert state_of(read_node({"NodeName": "n1", "State": state})) is meant


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("n1", ["n1"]),
        ("n[1-3,5]", ["n1", "n2", "n3", "n5"]),
        ("n[01-02],m7", ["n01", "n02", "m7"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
    ],
)
def test_host_lists_are_expanded(text: str, names: list[str]) -> None:
    assert expand(text) == names


def test_gpus_are_read_from_every_spelling() -> None:
    assert gpus_of("gpu:h100:4(S:0-1),shard:8") == ("h100", 4)
    assert gpus_of("gpu:2") == ("", 2)
    assert gpus_of("gpu") == ("", 1)
    assert gpus_of("craynetwork:1") == ("", 0)
    assert indices("gpu:h100:3(IDX:0-1,3)") == (0, 1, 3)
    assert indices("gpu:h100:0") == ()


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2-00:00:00", 172800),
        ("1:30:00", 5400),
        ("30:15", 1815),
        ("30", 1800),
        ("1-12", 129600),
        ("UNLIMITED", None),
        ("", None),
    ],
)
def test_times_are_read_as_sbatch_reads_them(text: str, meant: float | None) -> None:
    assert seconds(text) == meant


def test_numbers_that_are_not_set_are_none() -> None:
    assert number({"set": False, "number": 0}) is None
    assert number({"set": True, "infinite": True, "number": 0}) is None
    assert number("x") is None
