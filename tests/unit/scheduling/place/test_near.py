"""Nodes that hold a job's data win ties, and nothing else."""

from dataclasses import replace

from tests.unit.scheduling.yards import node
from trackyard.core.job import Job
from trackyard.core.node import Node
from trackyard.core.resources import ResourceRequest
from trackyard.scheduling import Snapshot, WaitingJob, decide


def chosen(request: ResourceRequest, *nodes: Node) -> tuple[str, ...]:
    job = Job(id="j", team="t", user="u", request=request)
    decisions = decide(Snapshot(now=0.0, nodes=nodes, waiting=(WaitingJob(job=job),)))
    (admission,) = decisions.admissions
    return tuple(share.node for share in admission.placement.shares)


def test_a_node_that_holds_the_data_wins_a_tie() -> None:
    nodes = [node("a"), node("b"), node("c")]
    request = ResourceRequest(gpus=1, cpu_milli=1000)
    assert chosen(request, *nodes) == ("a",)
    assert chosen(replace(request, near=("c",)), *nodes) == ("c",)
    gang = replace(request, nodes=2, near=("c",))
    assert "c" in chosen(gang, *nodes)


def test_a_node_that_is_gone_or_too_small_changes_nothing() -> None:
    nodes = [node("a", gpus=4), node("b", gpus=1)]
    request = ResourceRequest(gpus=2, cpu_milli=1000, near=("b", "gone"))
    assert chosen(request, *nodes) == ("a",)
