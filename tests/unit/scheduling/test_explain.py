"""Reasons say what is so: remove what they name and the job starts."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.scheduling.yards import NOW, PLAIN, node, start, waiting
from trackyard.core.node import NodeState
from trackyard.core.reasons import Code
from trackyard.scheduling import Snapshot, decide


def racks(*line, running=(), sizes=(2, 2), states=(), **more):
    """Two racks of nodes with four GPUs each."""
    nodes = tuple(
        node(f"r{rack}n{at}", labels=(("rack", f"r{rack}"),), **more)
        for rack, size in enumerate(sizes)
        for at in range(size)
    )
    nodes = tuple(
        replace(one, state=NodeState.DRAINED) if one.id in states else one for one in nodes
    )
    return Snapshot(now=NOW, nodes=nodes, waiting=line, running=running, policy=PLAIN)


def one_in_each_rack():
    """A job on the first node of each rack."""
    found = []
    for name in ("r0n0", "r1n0"):
        away = [f"r{rack}n{at}" for rack in range(2) for at in range(2)]
        away.remove(name)
        line = racks(waiting(f"on-{name}", 4, limit=1000.0, avoid=tuple(away)))
        found += start(line)
    return tuple(found)


def test_nodes_that_are_free_but_not_in_one_rack_are_not_called_fragments():
    running = one_in_each_rack()
    line = racks(waiting("w", 4, nodes=2, same="rack"), running=running)
    reason = decide(line).reason("w")
    assert reason.code is Code.NOT_TOGETHER
    assert "needs 2 nodes with 4 GPUs each under one `rack`" in reason.sentence
    assert "`r0`, has 1 node free" in reason.sentence
    assert reason.holders == ("on-r0n0",)
    # Without the holder it starts.
    freed = tuple(one for one in running if one.job.id not in reason.holders)
    assert [one.job for one in decide(racks(*line.waiting, running=freed)).admissions] == ["w"]


def test_a_gang_larger_than_any_rack_is_told_so():
    reason = decide(racks(waiting("w", 4, nodes=3, same="rack"))).reason("w")
    assert reason.code is Code.TOO_LARGE
    assert "even idle, the cluster has 2 of them under one `rack`" in reason.sentence


def test_jobs_without_gpus_are_not_told_of_gpus():
    line = [waiting("r", 0, cpu_milli=12_000, limit=1000.0)]
    running = start(Snapshot(now=NOW, nodes=(node("n"),), waiting=tuple(line), policy=PLAIN))
    busy = Snapshot(
        now=NOW,
        nodes=(node("n"),),
        waiting=(waiting("w", 0, cpu_milli=8_000),),
        running=running,
        policy=PLAIN,
    )
    reason = decide(busy).reason("w")
    assert reason.code is Code.NO_FREE_CPUS
    assert "GPU" not in reason.sentence
    # The same of those whom others passed in this very pass.
    both = replace(
        busy,
        running=(),
        waiting=(
            waiting("a", 0, cpu_milli=12_000, at=1),
            waiting("b", 0, cpu_milli=12_000, at=2),
        ),
    )
    behind = decide(both).reason("b")
    assert (behind.code, "GPU" in behind.sentence) == (Code.BEHIND_JOBS, False)


def test_nodes_out_of_service_are_not_called_the_only_ones():
    running = one_in_each_rack()
    line = racks(waiting("w", 4, nodes=2, same="rack"), running=running, states=("r0n1", "r1n1"))
    codes = [reason.code for reason in decide(line).reasons["w"]]
    assert Code.NODES_UNHEALTHY in codes[:1] or Code.MORE_NODES_OUT in codes
    busy = start(racks(waiting("a", 4, limit=60.0), sizes=(1, 1)))
    other = racks(waiting("w", 4), running=busy, sizes=(1, 1), states=("r1n0",))
    found = decide(other).reasons["w"]
    assert [reason.code for reason in found] == [Code.NO_FREE_GPUS, Code.MORE_NODES_OUT]
    assert "would fit as well" in found[1].sentence
