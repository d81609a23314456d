"""Which jobs count as typical, and how they are merged when there are many kinds."""

from __future__ import annotations

import numpy as np

from tests.unit.scheduling.yards import GIB, node
from trackyard.core.resources import WHOLE, ResourceRequest
from trackyard.scheduling.place.table import NodeTable
from trackyard.scheduling.place.typical import TypicalJobs


def table():
    return NodeTable((node("n0", gpus=8, cpu=96, memory=512), node("n1", gpus=2, kind="b")))


def demand_of(rows, *requests):
    return [(rows.shape(request), float(count)) for request, count in requests]


def sizes(typical):
    return sorted(zip(typical.gpus.tolist(), typical.size.tolist(), strict=True))


def test_few_kinds_are_all_kept_as_they_are():
    rows = table()
    demand = demand_of(
        rows,
        (ResourceRequest(gpus=1, cpu_milli=4 * WHOLE), 3),
        (ResourceRequest(gpus=1, cpu_milli=8 * WHOLE), 1),
        (ResourceRequest(gpus=1, gpu_milli=500), 4),
    )
    typical = TypicalJobs(rows, demand)
    assert len(typical) == 3
    assert sorted(typical.cpu) == [1.0, 4000.0, 8000.0]
    assert np.isclose(typical.weight.sum(), 1.0)


def test_a_size_of_job_is_not_lost_among_many_kinds_of_small_ones():
    rows = table()
    small = [(ResourceRequest(gpus=1, cpu_milli=cpu * 100), 50) for cpu in range(1, 160)]
    demand = demand_of(rows, *small, (ResourceRequest(gpus=8, cpu_milli=64 * WHOLE), 2))
    for most in (100, 8, 2):
        assert 8.0 in TypicalJobs(rows, demand, most=most).gpus


def test_kinds_of_like_cpus_are_merged_before_all_of_the_same_gpus():
    rows = table()
    close = [
        (ResourceRequest(gpus=1, cpu_milli=cpu, memory_bytes=GIB), 1) for cpu in (4500, 5000, 5500)
    ]
    demand = demand_of(
        rows, *close, (ResourceRequest(gpus=1, cpu_milli=15_000, memory_bytes=GIB), 1)
    )
    assert sorted(TypicalJobs(rows, demand, most=2).cpu) == [5000.0, 15_000.0]
    assert TypicalJobs(rows, demand, most=1).cpu.tolist() == [7500.0]


def test_a_class_weighs_as_much_as_its_members_and_asks_for_their_mean():
    rows = table()
    demand = demand_of(
        rows,
        (ResourceRequest(gpus=1, cpu_milli=2000), 3),
        (ResourceRequest(gpus=1, cpu_milli=6000), 1),
        (ResourceRequest(gpus=1, gpu_milli=999), 4),
    )
    typical = TypicalJobs(rows, demand, most=2)
    assert sizes(typical) == [(1.0, 999.0), (1.0, 1000.0)]
    whole = typical.size.tolist().index(1000.0)
    assert typical.cpu[whole] == 3000.0
    assert np.isclose(typical.weight[whole], 0.5, atol=1e-3)


def test_types_and_labels_are_never_merged_away():
    rows = table()
    demand = demand_of(
        rows,
        (ResourceRequest(gpus=1, gpu_types=("b",)), 1),
        (ResourceRequest(gpus=1, gpu_types=("a",)), 1),
    )
    typical = TypicalJobs(rows, demand, most=2)
    assert typical.able.tolist() in (
        [[False, True], [True, False]],
        [[True, False], [False, True]],
    )


def test_jobs_without_gpus_do_not_count():
    rows = table()
    assert len(TypicalJobs(rows, demand_of(rows, (ResourceRequest(cpu_milli=1000), 9)))) == 0


def test_room_is_counted_for_each_need_from_the_largest_on():
    rows = table()
    demand = demand_of(
        rows,
        (ResourceRequest(gpus=1), 1),
        (ResourceRequest(gpus=1, gpu_milli=300), 1),
        (ResourceRequest(gpus=2), 1),
    )
    typical = TypicalJobs(rows, demand)
    gpu = np.array([[1000, 1000, 500, 200], [0, 299, 300, -50]], dtype=np.int32)
    room, count = typical.room(gpu)
    assert room[:, :2].tolist() == [[2000.0, 2500.0], [0.0, 300.0]]
    assert count.tolist() == [[2, 3, 4], [0, 1, 4]]
    assert room[:, -1].tolist() == gpu.sum(axis=1).tolist()
