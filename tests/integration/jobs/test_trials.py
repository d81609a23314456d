"""Trials that a running search tells of, over a fake engine, on both databases."""

import pytest

from tests.integration.jobs.yard import Yard
from trackyard.core.errors import Conflict, Denied, InvalidInput
from trackyard.queue.attempts.trials import MAX_REPORT, Trial, TrialReport


def told(*trials: Trial, metric: str = "accuracy") -> TrialReport:
    return TrialReport(trials=list(trials), metric=metric)


async def test_trials_are_shown_under_their_job_as_they_were_told_last(two_nodes: Yard) -> None:
    yard = two_nodes
    job = await yard.run_job("python search.py")
    runner, _, _ = await yard.runner(job)
    first = Trial(trial="a_00000", number=1, state="running", params={"lr": 0.1, "act": "relu"})
    second = Trial(trial="a_00001", number=2, state="pending", params={"lr": 0.2})
    assert (await yard.jobs.demands.tell_trials(runner, told(second, first))).known == 2
    first.state, first.iterations, first.seconds = "terminated", 4, 1.5
    first.metrics = {"accuracy": 0.75, "loss": 0.5}
    assert (await yard.jobs.demands.tell_trials(runner, told(first))).known == 2
    [one, two] = (await yard.detail(job)).trials
    assert (one.trial, one.number, one.attempt, one.state) == ("a_00000", 1, 1, "terminated")
    assert one.params == {"lr": 0.1, "act": "relu"}
    assert (one.metric, one.value, one.iterations, one.seconds) == ("accuracy", 0.75, 4, 1.5)
    assert (two.state, two.value) == ("pending", None)


async def test_trials_that_an_ended_attempt_left_open_were_interrupted(two_nodes: Yard) -> None:
    yard = two_nodes
    job = await yard.run_job("python search.py")
    runner, _, _ = await yard.runner(job)
    await yard.jobs.demands.tell_trials(runner, told(Trial(trial="a", number=1, state="running")))
    await yard.end(job, exit_code=1)
    assert [one.state for one in (await yard.detail(job)).trials] == ["interrupted"]
    with pytest.raises(Conflict):
        await yard.jobs.demands.tell_trials(
            runner, told(Trial(trial="b", number=2, state="error"))
        )


async def test_what_makes_no_sense_is_refused(two_nodes: Yard) -> None:
    yard = two_nodes
    job = await yard.run_job("python search.py")
    runner, _, _ = await yard.runner(job)
    one = Trial(trial="a", number=1, state="running")
    many = [Trial(trial=str(n), number=n, state="pending") for n in range(1, MAX_REPORT + 2)]
    for report in (
        told(Trial(trial="a", number=1, state="flying")),
        told(Trial(trial="", number=1, state="running")),
        told(Trial(trial="a", number=0, state="running")),
        told(Trial(trial="a", number=1, state="running", params={"text": "x" * 20_000})),
        told(*many),
    ):
        with pytest.raises(InvalidInput):
            await yard.jobs.demands.tell_trials(runner, report)
    with pytest.raises(Denied):
        await yard.jobs.demands.tell_trials(yard.user, told(one))
    assert (await yard.detail(job)).trials == []
