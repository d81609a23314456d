"""Rests that are kept up to date are those that one would work out anew."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.unit.scheduling.yards import job, node
from trackyard.core.resources import ResourceRequest
from trackyard.scheduling import DurationModel, PreemptionRules
from trackyard.scheduling.place.table import NodeTable
from trackyard.scheduling.preemption.remaining_time import RemainingTimes
from trackyard.scheduling.preemption.victims import Victims
from trackyard.scheduling.state import HeldJob


def learned():
    model = DurationModel()
    for team in "tuv":
        for power in range(1, 12):
            model.observe(job("x", team=team), 3.0**power)
    return model


@pytest.mark.parametrize("by_size", [True, False])
@pytest.mark.parametrize("min_run", [0.0, 600.0])
@pytest.mark.parametrize("stated", [0.0, 0.2])
def test_kept_rests_are_those_worked_out_anew(by_size, min_run, stated):
    """Through starts, ends, earlier stops and steps of length, at every moment."""
    draw, model = random.Random(3), learned()
    shapes = [NodeTable((node("n0"),)).shape(ResourceRequest(gpus=gpus)) for gpus in (1, 2)]
    victims, now, there = Victims(PreemptionRules(min_run_seconds=min_run)), 0.0, []
    kept = victims.rests(by_size=by_size)
    for number in range(400):
        now += draw.choice([0.0, 0.25, 7.0, 300.0, 5000.0])
        if there and draw.random() < 0.4:
            gone = there.pop(draw.randrange(len(there)))
            victims.spare(gone) if draw.random() < 0.2 else victims.remove(gone)
        else:
            length = draw.choice([50.0, 9000.0]) if draw.random() < stated else None
            one = job(f"j{number}", team=draw.choice("tuv"), estimate_seconds=length)
            held = HeldJob(
                one,
                shape=draw.choice(shapes),
                parts=[],
                started_at=now,
                ends_at=now,
                attained=draw.choice([0.0, 0.0, 812.5]),
                stops=(now - 10.0,) * draw.choice([0, 0, 1, 3]),
            )
            victims.add(held, model)
            there.append(held)
        kept.advance(now)
        anew = RemainingTimes(victims, by_size=by_size)
        anew.advance(now)
        assert np.array_equal(kept.rest, anew.rest)
        assert np.array_equal(kept.is_ripe, anew.is_ripe)
        length = draw.choice([0.0, 100.0, 20_000.0])
        longer = {int(victims.team[slot]) for slot in np.flatnonzero(kept.rest > length)}
        assert set(kept.longer_than(length)) == longer
