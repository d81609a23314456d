"""Requests and placements: sums, faults and the words for GPUs."""

from __future__ import annotations

import pytest

from trackyard.core.errors import InvalidInput
from trackyard.core.resources import NodeShare, Placement, ResourceRequest, parse_gpus


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2", (2, 1000)), ("0.5", (1, 500)), ("1", (1, 1000)), ("0", (0, 1000)), ("8.0", (8, 1000))],
)
def test_gpus_are_read_as_whole_or_as_a_fraction(text, expected):
    assert parse_gpus(text) == expected


@pytest.mark.parametrize("text", ["1.5", "-1", "many", ""])
def test_nonsense_gpus_are_refused_with_a_remedy(text):
    with pytest.raises(InvalidInput, match="whole number, or a fraction"):
        parse_gpus(text)


def test_totals_count_all_nodes():
    request = ResourceRequest(nodes=2, gpus=4)
    assert (request.total_gpus, request.gpu_milli_total, request.gpu_milli_per_node) == (
        8.0,
        8000,
        4000,
    )


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (ResourceRequest(nodes=0), "nodes must lie between 1 and 10000, not 0"),
        (ResourceRequest(nodes=10**16), "nodes must lie between 1 and 10000"),
        (ResourceRequest(gpus=1025), "gpus on one node must be at most 1024"),
        (ResourceRequest(cpu_milli=10**12), "cpus on one node must be at most 100000"),
        (ResourceRequest(memory_bytes=2**60), "memory on one node"),
        (ResourceRequest(gpus=-1), "negative"),
        (ResourceRequest(gpus=1, gpu_milli=0), "share"),
        (ResourceRequest(nodes=2, gpus=1, gpu_milli=500), "fraction"),
        (ResourceRequest(gpus=2, gpu_milli=500), "fraction"),
    ],
)
def test_faults_are_named(request_, words):
    assert words in request_.fault()


def test_a_sound_request_has_no_fault():
    assert ResourceRequest(gpus=1, gpu_milli=250).fault() == ""


def test_a_placement_sums_what_it_holds():
    shares = (NodeShare(node="a", gpus=(0, 1)), NodeShare(node="b", gpus=(3,), gpu_milli=500))
    placement = Placement(shares=shares)
    assert placement.nodes == ("a", "b")
    assert placement.gpu_milli_total == 2500
