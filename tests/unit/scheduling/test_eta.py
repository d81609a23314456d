"""Predicted starts, and what a job not yet submitted would meet."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.scheduling.yards import NOW, PLAIN, job, node, start, waiting
from trackyard.core.lease import Lease
from trackyard.core.reasons import Code
from trackyard.scheduling import Snapshot
from trackyard.scheduling.eta import forecast, what_if


def yard(*line, **more):
    return Snapshot(now=NOW, nodes=(node("n0"),), waiting=line, **{"policy": PLAIN, **more})


def busy():
    return start(replace(yard(waiting("r", 3, limit=1000.0)), now=NOW - 200))


def test_a_job_starts_at_the_latest_when_its_holder_must_end():
    answer = forecast(yard(waiting("w", 4, limit=50.0), running=busy()), ["w"])["w"]
    assert answer.latest == NOW + 800
    assert answer.earliest is not None
    assert NOW < answer.earliest <= answer.expected <= answer.latest
    assert answer.confidence == 1.0


def test_jobs_ahead_are_waited_for():
    line = (waiting("first", 4, limit=300.0, at=1), waiting("second", 4, limit=50.0, at=2))
    assert forecast(yard(*line, running=busy()), ["second"])["second"].latest == NOW + 1100


def test_a_job_that_fits_nowhere_has_no_start():
    answer = forecast(yard(waiting("w", 8)), ["w"])["w"]
    assert (answer.earliest, answer.expected, answer.latest) == (None, None, None)


def test_a_job_of_a_lease_starts_with_it():
    lease = Lease(id="l", nodes=("n0",), starts_at=NOW + 50, ends_at=NOW + 500, team="t")
    answer = forecast(yard(waiting("w", 1, lease="l"), leases=(lease,)), ["w"])["w"]
    assert answer.expected == NOW + 50


def test_what_if_says_where_it_would_start():
    answer = what_if(yard(running=busy()), job("new", 1))
    assert answer.placement is not None
    assert answer.forecast.expected == NOW
    assert not answer.reasons


def test_what_if_names_the_smaller_request_that_starts_now():
    answer = what_if(yard(running=busy()), job("new", 4))
    assert answer.reasons[0].code is Code.NO_FREE_GPUS
    assert answer.forecast.latest == NOW + 800
    assert [one.request.gpus for one in answer.smaller][:1] == [1]
    assert answer.smaller[0].sentence == "drop to 1 GPU: starts now"


def test_what_if_names_the_time_limit_that_ends_before_a_lease():
    lease = Lease(id="l", nodes=("n0",), starts_at=NOW + 900, ends_at=NOW + 5000, team="u")
    answer = what_if(yard(leases=(lease,)), job("new", 1, limit=2000.0, preemptible=False))
    assert answer.smaller[0].time_limit_seconds == 900.0
