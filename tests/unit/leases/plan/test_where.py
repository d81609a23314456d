"""The language in which nodes are chosen."""

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackyard.leases.plan.machines import LeasableNode
from trackyard.leases.plan.where import BadWhere, parse

BIG = LeasableNode(
    id="g03",
    node_class="A100-40GB",
    gpu_vendor="nvidia",
    gpu_model="A100-40GB",
    gpu_count=2,
    gpu_memory_bytes=40 * 1024**3,
    cpus=32,
    memory_bytes=256 * 1024**3,
    labels={"rack": "r1", "Zone": "north"},
)
SMALL = LeasableNode(id="c01", cpus=8, memory_bytes=16 * 1024**3)


@pytest.mark.parametrize(
    ("text", "is_big", "is_small"),
    [
        ("gpu.count >= 2 and gpu.memory >= 40GB", True, False),
        ("gpu.count = 0", False, True),
        ("gpu.memory >= 40GiB", True, False),
        ("gpu.memory > 40G", False, False),
        ("gpu.model ~ a100", True, False),
        ("gpu.model = 'a100-40gb'", True, False),
        ("gpu.model = a100", False, False),
        ("gpu.vendor != nvidia", False, True),
        ("label.rack in (r1, r2)", True, False),
        ("label.Zone = North", True, False),
        ("not (cpus < 16)", True, False),
        ("name = c01 or name = g03", True, True),
        ("gpu.count >= 1 and cpus > 100 or memory <= 16GiB", False, True),
        ("class == A100-40GB", True, False),
        ("GPU.COUNT == 2 AND NOT name = c01", True, False),
    ],
)
def test_an_expression_finds_the_nodes_it_means(text: str, is_big: bool, is_small: bool) -> None:
    condition = parse(text)
    assert (condition.matches(BIG), condition.matches(SMALL)) == (is_big, is_small)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "write for example"),
        ("gpu.cout >= 2", "there is no property 'gpu.cout'; there are gpu.count"),
        ("gpu.count", "expected a comparison"),
        ("gpu.count >= many", "gpu.count is a number, as in 2 or 40GB"),
        ("gpu.count ~ 2", "`~` looks for text"),
        ("gpu.model > a100", "gpu.model is text"),
        ("(gpu.count = 1", "expected `)`"),
        ("gpu.count = 1 gpu.count = 2", "expected `and`, `or` or the end"),
        ("name in g03", "expected `(` after `in`"),
        ("__import__('os')", "there is no property"),
        ("name = $x", "cannot read"),
        ("not " * 40 + "cpus = 1", "nested"),
        ("cpus = 1 or " * 200 + "cpus = 1", "characters"),
    ],
)
def test_a_refusal_says_where_and_what_would_do(text: str, words: str) -> None:
    with pytest.raises(BadWhere, match=re.escape(words)):
        parse(text)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing a user types makes the reader fail otherwise."""
    with contextlib.suppress(BadWhere):
        parse(text).matches(BIG)


def test_what_stands_in_for_a_node_lacks_nothing_of_it() -> None:
    one_gpu = LeasableNode(id="g04", node_class="A100-40GB", gpu_model="A100-40GB", gpu_count=1)
    assert not one_gpu.can_stand_in_for(BIG)
    assert BIG.can_stand_in_for(BIG)
    assert BIG.is_type("a100")
    assert not SMALL.is_type("a100")
    assert SMALL.is_type("CPU")
