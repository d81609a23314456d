"""Packing with the settings of a live pass against a search without limits."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from trackyard.scheduling.place.fragmentation import Fragmentation
from trackyard.simulate import packing
from trackyard.simulate.cluster import read_cluster
from trackyard.simulate.readers import read_trace

DATA = Path(__file__).parents[2] / "data" / "traces"
#: Percent of all GPUs that the limits may cost on a small cluster, over a few shuffles.
MARGIN = 0.5
SEEDS = range(6)


def mean_allocated(pods):
    trace = read_trace(DATA / pods)
    nodes = read_cluster(str(DATA / "openb-nodes-61.csv"))
    found = [
        packing.pack(trace, nodes, placement="default", seed=seed, arrive_percent=100)
        for seed in SEEDS
    ]
    return sum(one.allocated_percent for one in found) / len(found)


@pytest.mark.parametrize("pods", ["openb-pods-408.csv", "openb-pods-multigpu-438.csv"])
def test_the_limits_of_a_live_pass_cost_next_to_nothing(monkeypatch, pods):
    live = mean_allocated(pods)
    without = partial(Fragmentation, most_classes=10**6, most_rows=10**6)
    monkeypatch.setattr(packing, "Fragmentation", without)
    assert live >= mean_allocated(pods) - MARGIN


def test_what_is_usual_is_learned_from_what_has_arrived(monkeypatch):
    """The rest of the list is as unknown as the future is to a live queue."""
    known = []

    def spy(table, demand, **more):
        known.append(sum(count for _, count in demand))
        return Fragmentation(table, demand, **more)

    monkeypatch.setattr(packing, "Fragmentation", spy)
    trace = read_trace(DATA / "openb-pods-408.csv")
    nodes = read_cluster(str(DATA / "openb-nodes-61.csv"))
    found = packing.pack(trace, nodes, placement="default", seed=1, arrive_percent=100)
    assert known == sorted(known)
    assert known[0] == 0
    assert known[1] < len(trace.jobs) / 2
    assert known[-1] == found.placed + found.refused
