"""The bound on waiting holds in every replay of the default order, and can be broken by others."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from trackyard.scheduling.policy import Policy
from trackyard.simulate.cluster import read_cluster
from trackyard.simulate.overtaking import MOST_RUNS, Overtaking
from trackyard.simulate.replay import Habits
from trackyard.simulate.runs import replay, setting_for
from trackyard.simulate.trace import JobTrace, TraceJob

DAY = 86_400.0


def trace(seed, *, jobs=300, days=10.0, gpus=16):
    """Jobs of minutes to a day, of one GPU to all of them: more than the GPUs keep up with."""
    draw = random.Random(seed)
    found = [
        TraceJob(
            id=f"j{number:04d}",
            submitted_at=draw.uniform(0.0, days * DAY),
            duration=60.0 * 2 ** draw.uniform(0.0, 11.0),
            gpus=draw.choice((1, 1, 1, 1, 2, 2, 4, 8, gpus)),
            team=draw.choice(("a", "b", "b")),
            name=draw.choice("xyz"),
        )
        for number in range(jobs)
    ]
    return JobTrace(name="made up", format="test", jobs=tuple(sorted(found, key=_submitted)))


def _submitted(job):
    return job.submitted_at


def longest_stretch(name, made, *, gpus="16", preemptible=0.0, halving=2 * DAY):
    """The longest stretch, where waiting so long halves a length in the order."""
    setting = setting_for(name, habits=Habits(preemptible_share=preemptible))
    setting = replace(setting, policy=replace(setting.policy, halving_seconds=halving))
    watch = Overtaking(replace(Policy(), halving_seconds=halving))
    replay(made, read_cluster(gpus), setting, overtaking=watch)
    return watch.longest_seconds


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("preemptible", [0.0, 0.5, 1.0])
def test_nobody_waits_beyond_the_bound_while_lower_right_starts(seed, preemptible):
    """Days are too short here for halvings of days: an hour makes rights differ all the time."""
    made = trace(seed)
    longest = max(job.duration for job in made.jobs)
    stretch = longest_stretch("default", made, preemptible=preemptible, halving=3600.0)
    assert 0.0 < stretch <= MOST_RUNS * longest


def test_bound_holds_on_several_nodes_too():
    made = trace(7, gpus=8)
    longest = max(job.duration for job in made.jobs)
    stretch = longest_stretch("default", made, gpus="2x8", halving=3600.0)
    assert 0.0 < stretch <= MOST_RUNS * longest


def test_policy_that_starves_is_caught():
    """Shortest first without reservations: a job of all GPUs never finds them free at once."""
    large = TraceJob(id="large", submitted_at=0.0, duration=60.0, gpus=4, team="a", name="l")
    small = [
        TraceJob(
            id=f"s{number:05d}",
            submitted_at=300.0 * number,
            duration=1000.0,
            gpus=1,
            team="a",
            name="s",
        )
        for number in range(4000)
    ]
    first = replace(small[0], id="first", submitted_at=-1.0, duration=5000.0)
    made = JobTrace(name="made up", format="test", jobs=(first, large, *small))
    assert longest_stretch("sjf-oracle", made, gpus="4") > MOST_RUNS * 5000.0
    assert longest_stretch("default", made, gpus="4") <= MOST_RUNS * 5000.0
