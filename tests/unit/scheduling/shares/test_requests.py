"""What jobs get that state no CPUs or no memory."""

import pytest

from trackyard.core.node import Node, NodeGpu
from trackyard.core.resources import ResourceRequest
from trackyard.scheduling.shares.requests import DefaultRequests
from trackyard.scheduling.snapshot import Queue

GIB = 2**30


def node(
    name: str, *, gpus: int = 0, cpus: int = 64, memory: int = 512, kind: str = "gpu"
) -> Node:
    return Node(
        id=name,
        gpus=tuple(NodeGpu(index=index, type=kind) for index in range(gpus)),
        cpu_milli=cpus * 1000,
        memory_bytes=memory * GIB,
    )


def filled(
    request: ResourceRequest, *nodes: Node, queue: Queue | None = None
) -> tuple[float, float]:
    queue = queue or Queue()
    found = DefaultRequests(nodes, [queue]).fill(request, queue.name, cpus=True, memory=True)
    return found.cpu_milli / 1000, found.memory_bytes / GIB


def test_a_job_without_gpus_gets_one_cpu() -> None:
    assert filled(ResourceRequest(), node("a"), node("b", gpus=8)) == (1, 0)


def test_a_yard_of_tiny_nodes_still_runs_its_jobs() -> None:
    tiny = Node(id="t", cpu_milli=500)
    assert filled(ResourceRequest(), tiny) == (0.5, 0)


def test_a_gpu_brings_its_part_of_the_node_less_what_is_left_for_others() -> None:
    assert filled(ResourceRequest(gpus=1), node("a", gpus=8)) == (7, 56)
    assert filled(ResourceRequest(gpus=4), node("a", gpus=8)) == (28, 224)
    assert filled(ResourceRequest(gpus=1, gpu_milli=500), node("a", gpus=8)) == (3.5, 28)
    # Four GPUs declared on two cores: one core is left, so one job without GPUs fits beside them.
    assert filled(ResourceRequest(gpus=1), node("a", gpus=4, cpus=2))[0] == 0.25


def test_the_smallest_part_among_the_nodes_that_could_hold_it() -> None:
    rich, poor = node("rich", gpus=4, kind="A"), node("poor", gpus=8, kind="B", cpus=32)
    assert filled(ResourceRequest(gpus=1), rich, poor)[0] == 3.5
    assert filled(ResourceRequest(gpus=1, gpu_types=("A",)), rich, poor)[0] == 14
    # Where none could hold it nothing is added: the gate says what is wrong.
    assert filled(ResourceRequest(gpus=1, gpu_types=("C",)), rich, poor) == (0, 0)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (ResourceRequest(), (2, 4)),
        (ResourceRequest(gpus=2), (6, 32)),
        (ResourceRequest(gpus=1, gpu_milli=500), (1.5, 8)),
    ],
)
def test_the_queue_may_say_otherwise(
    request_: ResourceRequest, expected: tuple[float, float]
) -> None:
    queue = Queue(
        name="q",
        default_cpus=2,
        default_memory_bytes=4 * GIB,
        default_cpus_per_gpu=3,
        default_memory_per_gpu_bytes=16 * GIB,
    )
    assert filled(request_, node("a", gpus=8), queue=queue) == expected


def test_a_default_keeps_to_the_queue_s_limits() -> None:
    queue = Queue(name="q", max_cpus_per_job=4, max_memory_per_job_bytes=8 * GIB)
    assert filled(ResourceRequest(gpus=1, nodes=2), node("a", gpus=8), queue=queue) == (2, 4)


def test_what_is_stated_stays() -> None:
    defaults = DefaultRequests([node("a", gpus=8)], [Queue()])
    stated = ResourceRequest(gpus=1, cpu_milli=0, memory_bytes=5)
    assert defaults.fill(stated, "default", cpus=False, memory=False) is stated
    assert defaults.fill(stated, "default", cpus=True, memory=False).memory_bytes == 5


def test_the_answers_hold_until_nodes_or_queues_change() -> None:
    first = DefaultRequests([node("a", gpus=8)], [Queue()])
    assert first.holds_for(DefaultRequests([node("b", gpus=8), node("c", gpus=8)], [Queue()]))
    assert not first.holds_for(DefaultRequests([node("a", gpus=4)], [Queue()]))
    assert not first.holds_for(DefaultRequests([node("a", gpus=8)], [Queue(default_cpus=2)]))
