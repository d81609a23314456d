"""Predicted starts, and what a job not yet submitted would meet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.scheduling.yards import NOW, PLAIN, job, node, start, waiting
from trackyard.core.lease import Lease
from trackyard.core.reasons import Code
from trackyard.scheduling import DurationModel, Policy, PreemptionRules, Snapshot, Team, decide
from trackyard.scheduling.forecast.eta import forecast, what_if


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


def test_a_running_job_of_unknown_length_is_expected_to_end_within_the_hour():
    """Not after most of the day that it may take at the worst."""
    running = start(replace(yard(waiting("r", 4)), now=NOW - 60))
    answer = forecast(yard(waiting("w", 4, limit=3 * 3600.0), running=running), ["w"])["w"]
    assert answer.expected == NOW + 3600 - 60
    assert answer.latest == NOW + 86400
    assert answer.confidence == 0.0


def test_who_has_outlived_what_was_expected_is_not_taken_to_end_at_once():
    running = start(replace(yard(waiting("r", 4)), now=NOW - 10_000))
    answer = forecast(yard(waiting("w", 4), running=running), ["w"])["w"]
    assert NOW + 1000 < answer.earliest < answer.expected < answer.latest


def test_what_was_learned_says_when_a_running_job_ends():
    model = DurationModel()
    for seconds in (400.0, 500.0, 600.0):
        model.observe(job("x", 4), seconds)
    running = start(replace(yard(waiting("r", 4)), now=NOW - 100))
    answer = forecast(yard(waiting("w", 4), running=running, durations=model), ["w"])["w"]
    assert answer.expected == NOW + 400


def test_a_stated_length_is_believed():
    running = start(replace(yard(waiting("r", 4, estimate_seconds=900.0)), now=NOW - 100))
    answer = forecast(yard(waiting("w", 4), running=running), ["w"])["w"]
    assert answer.expected == NOW + 800


@pytest.mark.parametrize(
    ("begins", "preemptible", "latest"),
    [(None, False, 0.5), (4.0, False, 0.5), (1.0, False, 5.0), (1.0, True, 0.5)],
)
def test_a_long_job_behind_a_short_one_starts_after_it_or_after_the_lease_between(
    begins, preemptible, latest
):
    """Three hours behind half an hour on one node, with a lease of four hours or without."""
    leases = ()
    if begins is not None:
        starts = NOW + begins * 3600
        end = starts + 4 * 3600
        leases = (Lease(id="l", nodes=("n0",), starts_at=starts, ends_at=end, team="u"),)
    running = start(yard(waiting("r", 4, limit=1800.0, preemptible=False)))
    long = waiting("w", 4, limit=3 * 3600.0, preemptible=preemptible)
    snapshot = yard(long, running=running, leases=leases, policy=Policy())
    assert forecast(snapshot, ["w"])["w"].latest == NOW + latest * 3600


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


# -- reasons and forecasts agree ----------------------------------------------------------------


def test_held_until_about_is_what_the_forecast_expects():
    """Of a holder of unknown length both say an hour, not the day that it may take at most."""
    running = start(replace(yard(waiting("r", 4)), now=NOW - 60))
    line = yard(waiting("w", 4, limit=3 * 3600.0), running=running)
    reason = decide(line).reason("w")
    assert reason.code is Code.NO_FREE_GPUS
    assert reason.until == forecast(line, ["w"])["w"].expected == NOW + 3540


def test_a_stated_limit_is_told_as_the_forecast_has_it():
    line = yard(waiting("w", 4, limit=50.0), running=busy())
    assert decide(line).reason("w").until == forecast(line, ["w"])["w"].expected


def test_a_stop_that_is_coming_is_foreseen():
    """Nobody is stopped before the minimal run time: the forecast waits for that moment."""
    policy = Policy(preemption=PreemptionRules(min_run_seconds=600.0))
    running = start(
        replace(
            yard(waiting("r", 4, estimate_seconds=86_400.0, preemptible=True)),
            now=NOW - 100,
        )
    )
    running = tuple(replace(one, checkpoint_at=NOW - 1) for one in running)
    line = yard(waiting("w", 4, limit=60.0), running=running, policy=policy)
    assert not decide(line).stops
    assert forecast(line, ["w"])["w"].expected == NOW + 500


def test_quota_that_comes_back_is_foreseen():
    """An owner waits until it may take back what was borrowed."""
    rules = PreemptionRules(
        min_run_seconds=0.0, reclaim_after_seconds=1800.0, yield_to_shorter=False
    )
    policy = Policy(preemption=rules)
    teams = (Team(id="own", quota_gpus=4), Team(id="guest", quota_gpus=0))
    guest = waiting("r", 4, limit=86_400.0, team="guest", preemptible=True)
    running = start(replace(yard(guest, teams=teams), now=NOW - 100))
    line = yard(
        waiting("w", 4, limit=86_400.0, team="own", at=NOW),
        running=running,
        policy=policy,
        teams=teams,
    )
    assert not decide(line).stops
    assert forecast(line, ["w"])["w"].expected == NOW + 1800
