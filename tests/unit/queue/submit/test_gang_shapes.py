"""How equal workers become nodes times shares."""

import pytest

from trackyard.core.errors import InvalidInput
from trackyard.core.job import Job
from trackyard.core.node import Node, NodeGpu, NodeState
from trackyard.core.resources import WHOLE, NodeShare, Placement, ResourceRequest
from trackyard.queue.submit.gang_shapes import (
    WorkerRequest,
    ask_of,
    choose,
    parse_gang,
    ways,
    words,
)
from trackyard.scheduling import ActiveJob

ONE = WorkerRequest(gpus=1, cpus=2)


def node(name: str, gpus: int, *, cpus: int = 16, state: NodeState = NodeState.READY) -> Node:
    return Node(
        id=name,
        gpus=tuple(NodeGpu(index=index, type="A100") for index in range(gpus)),
        cpu_milli=cpus * WHOLE,
        memory_bytes=2**36,
        labels=(("rack", "r1"),),
        state=state,
    )


def held(name: str, *gpus: int) -> ActiveJob:
    share = NodeShare(node=name, gpus=gpus, cpu_milli=WHOLE)
    return ActiveJob(job=Job(id="j", team="t"), placement=Placement(shares=(share,)), started_at=0)


def shape(request: ResourceRequest) -> tuple[int, int, int]:
    return request.nodes, request.gpus, request.cpu_milli


@pytest.mark.parametrize(
    ("text", "workers", "ask"),
    [
        ("2x1gpu,8cpu", 2, WorkerRequest(gpus=1, cpus=8)),
        ("4 x 0.5gpu", 4, WorkerRequest(gpus=0.5)),
        ("1gpu", 1, WorkerRequest(gpus=1)),
        ("3x2gpus,16cpus,32gb", 3, WorkerRequest(gpus=2, cpus=16, memory_bytes=32 * 1024**3)),
        ("8x1CPU", 8, WorkerRequest(cpus=1)),
    ],
)
def test_a_gang_is_read_as_it_is_said(text: str, workers: int, ask: WorkerRequest) -> None:
    found = parse_gang(text)
    assert (found.workers, found.ask) == (workers, ask)
    assert parse_gang(words(workers, ask)) == found


@pytest.mark.parametrize(
    "text", ["", "2x", "x1gpu", "2x1gpu,2gpu", "2x1tpu", "0x1gpu", "2x1.5gpu", "99999x1gpu", "two"]
)
def test_a_gang_that_says_nothing_clear_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_gang(text)


def test_rays_words_are_read() -> None:
    found = ask_of({"GPU": 1, "CPU": 4, "memory": 10, "accelerator_type:A100": 0.001, "x": 1})
    assert found == WorkerRequest(gpus=1, cpus=4, memory_bytes=10, gpu_types=["A100"])


def test_workers_are_packed_or_spread_as_they_ask() -> None:
    """Packing prefers few nodes, spreading many; the strict ways leave no choice."""

    def nodes(strategy: str, workers: int = 4) -> list[int]:
        ask = WorkerRequest(gpus=1, strategy=strategy)
        return [one.nodes for one in ways(workers, ask, {"A100"})]

    assert nodes("PACK") == [1, 2, 4]
    assert nodes("SPREAD") == [4, 2, 1]
    assert nodes("STRICT_PACK") == [1]
    assert nodes("STRICT_SPREAD") == [4]
    assert nodes("PACK", 3) == [1, 3, 2]
    assert all(one.nodes * one.gpus >= 700 for one in ways(700, WorkerRequest(gpus=1), set()))


def test_what_fits_now_goes_before_what_would_fit_some_day() -> None:
    nodes = [node("a", 2), node("b", 2)]
    assert shape(choose(2, 2, ONE, nodes, ()).request) == (1, 2, 4000)
    busy = [held("a", 0), held("b", 1)]
    apart = choose(2, 2, ONE, nodes, busy)
    assert (apart.fits_now, shape(apart.request)) == (True, (2, 1, 2000))
    full = choose(2, 2, ONE, nodes, [held("a", 0, 1), held("b", 0, 1)])
    assert (full.fits_now, shape(full.request)) == (False, (1, 2, 4000))
    never = choose(9, 9, ONE, nodes, ())
    assert (never.fits_now, never.request.nodes) == (False, 1)


def test_nodes_that_take_no_work_or_lack_a_label_are_left_out() -> None:
    nodes = [node("a", 2, state=NodeState.DRAINED), node("b", 1), node("c", 1)]
    assert choose(2, 2, ONE, nodes, ()).request.nodes == 2
    wrong = WorkerRequest(gpus=1, labels={"rack": "r2"})
    assert not choose(1, 1, wrong, nodes, ()).fits_now
    right = WorkerRequest(gpus=1, labels={"rack": "r1"}, gpu_types=["a100"])
    assert choose(1, 1, right, nodes, ()).request.gpu_types == ("A100",)


def test_an_elastic_demand_takes_the_most_that_fits_within_its_limit() -> None:
    nodes = [node("a", 4)]
    assert choose(8, 1, ONE, nodes, ()).workers == 4
    assert choose(8, 1, ONE, nodes, (), most_gpus=2).workers == 2
    assert choose(8, 2, ONE, nodes, [held("a", 0, 1, 2)]).workers == 2
    assert choose(8, 3, ONE, nodes, (), most_gpus=0).workers == 3


def test_fractions_share_a_gpu_on_one_node_and_are_rounded_up_elsewhere() -> None:
    nodes = [node("a", 2)]
    half = choose(1, 1, WorkerRequest(gpus=0.5), nodes, ()).request
    assert (half.gpus, half.gpu_milli) == (1, 500)
    three = choose(3, 3, WorkerRequest(gpus=0.5), nodes, ()).request
    assert (three.gpus, three.gpu_milli) == (2, WHOLE)
