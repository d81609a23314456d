"""Room kept for the head of the line while jobs run longer than was foreseen."""

from __future__ import annotations

import pytest

from tests.unit.scheduling.yards import NOW, PLAIN, node, waiting
from trackyard.core.job import PriorityClass
from trackyard.core.resources import NodeShare, Placement
from trackyard.scheduling import ActiveJob, Snapshot, decide

#: Live requests have their CPUs filled in; those of a trace may have none.
CPUS = (0, 1000)


def holds(ident, gpus, *, began, estimate, cpu):
    """A job on these GPUs of the only node."""
    one = waiting(ident, len(gpus), estimate_seconds=estimate, cpu_milli=cpu, team="t")
    share = NodeShare(node="n0", gpus=gpus, cpu_milli=cpu)
    return ActiveJob(job=one.job, placement=Placement(shares=(share,)), started_at=began)


def yard(late, cpu, *, passing):
    """Two GPUs, one of them held by a job that is late; a large job of a high class waits."""
    head = waiting(
        "head", 2, priority=PriorityClass.HIGH, estimate_seconds=60.0, cpu_milli=cpu, team="t"
    )
    small = waiting("small", 1, estimate_seconds=passing, cpu_milli=cpu, team="t")
    held = holds("late", (0,), began=NOW - 600.0, estimate=600.0 - late, cpu=cpu)
    return Snapshot(
        now=NOW, nodes=(node("n0", 2),), waiting=(head, small), running=(held,), policy=PLAIN
    )


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize(
    ("late", "passing", "starts"),
    [
        # Its process takes a moment to end: nothing may slip in before the head.
        (0.2, 5.0, []),
        # It is long past what was foreseen, and may well run on as long again.
        (200.0, 100.0, ["small"]),
        (200.0, 300.0, []),
    ],
)
def test_late_job_is_given_as_long_again_as_it_is_late(late, passing, starts, cpu):
    """Whether or not requests name CPUs, the same jobs may pass the head meanwhile."""
    decisions = decide(yard(late, cpu, passing=passing))
    assert [one.job for one in decisions.admissions] == starts
    assert decisions.reservations[0].at == NOW + max(late, 1.0)
