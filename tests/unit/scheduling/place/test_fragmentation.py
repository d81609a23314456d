"""What a choice costs the jobs usually seen: the score against its definition, and its caches."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.scheduling.yards import GIB, node
from trackyard.core.resources import WHOLE, ResourceRequest, Style
from trackyard.scheduling.place.capacity import Capacity
from trackyard.scheduling.place.choose import place
from trackyard.scheduling.place.fragmentation import Fragmentation
from trackyard.scheduling.place.table import NodeTable

REQUESTS = (
    ResourceRequest(gpus=1, cpu_milli=4000, memory_bytes=8 * GIB),
    ResourceRequest(gpus=1, gpu_milli=300, cpu_milli=1000),
    ResourceRequest(gpus=1, gpu_milli=700, cpu_milli=6000, memory_bytes=2 * GIB),
    ResourceRequest(gpus=2, cpu_milli=8000),
    ResourceRequest(gpus=4, cpu_milli=12_000, gpu_types=("a",)),
    ResourceRequest(cpu_milli=3000),
)


def cluster():
    nodes = [node(f"n{i}", gpus=4, kind="ab"[i % 2], cpu=16 + 4 * i) for i in range(6)]
    return NodeTable((*nodes, node("wide", gpus=8, cpu=64)))


def unusable(capacity, demand, row):
    """The definition, in plain Python, for a demand few enough to be left unmerged."""
    free = [int(share) for share in capacity.gpu[row]]
    weights = [
        (shape, count * (shape.total_milli / WHOLE) ** -0.2)
        for shape, count in demand
        if shape.gpus
    ]
    usable = 0.0
    for shape, weight in weights:
        large = [share for share in free if share >= shape.milli]
        rest = min(
            capacity.cpu[row] / max(shape.cpu, 1), capacity.memory[row] / max(shape.memory, 1)
        )
        if len(large) >= shape.gpus and rest >= 1 and shape.any_mask()[row]:
            limited = min(sum(large), rest * shape.gpus * shape.milli)
            usable += weight * (0.2 * limited + 0.8 * sum(large))
    return sum(free) - usable / sum(weight for _, weight in weights)


def fill(capacity, picks):
    """Place shapes where they fit, by numbers."""
    for which, start in picks:
        shape = capacity.table.shape(REQUESTS[which])
        rows = np.flatnonzero(capacity.fits(shape, shape.any_mask()))
        if len(rows):
            row = int(rows[start % len(rows)])
            capacity.take(shape, [(row, capacity.pick(shape, row))])


PICKS = st.lists(st.tuples(st.integers(0, len(REQUESTS) - 1), st.integers(0, 6)), max_size=25)


@settings(max_examples=40, deadline=None)
@given(before=PICKS, between=PICKS, which=st.integers(0, len(REQUESTS) - 1))
def test_growth_is_the_difference_that_placing_makes(before, between, which):
    table = cluster()
    capacity = Capacity(table)
    demand = [(table.shape(request), float(at + 1)) for at, request in enumerate(REQUESTS)]
    fragmentation = Fragmentation(table, demand)
    fill(capacity, before)
    shape = table.shape(REQUESTS[which])
    everyone = np.arange(table.count)
    # Asked once, so that what changes afterwards must be noticed.
    fragmentation.growth(capacity, shape, everyone[capacity.fits(shape, shape.any_mask())])
    fill(capacity, between)
    rows = everyone[capacity.fits(shape, shape.any_mask())]
    growth = fragmentation.growth(capacity, shape, rows)
    for row, found in zip(rows.tolist(), growth.tolist(), strict=True):
        after = capacity.copy()
        after.take(shape, [(row, after.pick(shape, row))])
        wear = 0.3 * shape.gpus * shape.milli * fragmentation.pressure[row]
        wanted = unusable(after, demand, row) - unusable(capacity, demand, row) + wear
        assert abs(found - wanted) < 1e-6
    total = sum(unusable(capacity, demand, row) for row in range(table.count))
    assert abs(fragmentation.total(capacity) - total) < 1e-6


@settings(max_examples=40, deadline=None)
@given(before=PICKS, which=st.integers(0, len(REQUESTS) - 1))
def test_a_row_scores_the_same_alone_as_among_others(before, which):
    table = cluster()
    capacity = Capacity(table)
    demand = [(table.shape(request), 1.0) for request in REQUESTS]
    fill(capacity, before)
    shape = table.shape(REQUESTS[which])
    rows = np.flatnonzero(capacity.fits(shape, shape.any_mask()))
    together = Fragmentation(table, demand).growth(capacity, shape, rows)
    alone = Fragmentation(table, demand)
    assert together.tolist() == [
        float(alone.growth(capacity, shape, rows[at : at + 1])[0]) for at in range(len(rows))
    ]


@settings(max_examples=40, deadline=None)
@given(taken=PICKS)
def test_free_thousandths_follow_every_take_and_give(taken):
    capacity = Capacity(cluster())
    held = []
    for which, _ in taken:
        shape = capacity.table.shape(REQUESTS[which])
        parts = place(capacity, shape, style=Style.PACK)
        if parts is not None:
            capacity.take(shape, parts)
            held.append((shape, parts))
        assert capacity.free.tolist() == capacity.gpu.sum(axis=1).tolist()
    for shape, parts in held[::2]:
        capacity.give(shape, parts)
        assert capacity.free.tolist() == capacity.gpu.sum(axis=1).tolist()
    for shape, parts in held[1:2]:
        capacity.hold(shape, parts)
    assert capacity.copy().free.tolist() == capacity.gpu.sum(axis=1).tolist()


def test_a_small_job_spares_the_room_of_large_ones_however_many_kinds_of_small_there_are():
    table = NodeTable((node("four_left", gpus=8, cpu=96), node("seven_left", gpus=8, cpu=96)))
    capacity = Capacity(table)
    one, four = table.shape(ResourceRequest(gpus=1)), table.shape(ResourceRequest(gpus=4))
    capacity.take(four, [(0, (0, 1, 2, 3))])
    capacity.take(one, [(1, (0,))])
    # Users choose their CPUs freely: eighty kinds of small jobs, each more frequent.
    small = [table.shape(ResourceRequest(gpus=1, cpu_milli=cpu)) for cpu in range(100, 4100, 50)]
    demand = [*((shape, 5.0) for shape in small), (four, 2.0)]
    style = Style.LEAST_FRAGMENTATION
    chosen = place(capacity, one, style=style, fragmentation=Fragmentation(table, demand))
    assert chosen == [(1, (1,))]
    without = Fragmentation(table, demand[:-1])
    assert place(capacity, one, style=style, fragmentation=without) == [(0, (4,))]
