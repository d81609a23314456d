"""What a sweep does next, by looks made by hand."""

from typing import Any

from trackyard.queue.specification import JobRequest
from trackyard.sweeps.decisions import LiveTrial, SweepSnapshot, decide, result
from trackyard.sweeps.records import TrialRow
from trackyard.sweeps.wishes import SweepBudget, SweepRequest, SweepSpec, check_sweep


def spec(**more: Any) -> SweepSpec:
    fields: dict[str, Any] = {
        "metric": "loss",
        "space": {"lr": {"range": [0, 1]}},
        "job": JobRequest(command=["train"]),
        "budget": SweepBudget(trials=6),
        "slots": 2,
    }
    return check_sweep(SweepRequest(**(fields | more)), has_optuna=False)


def row(number: int, state: str = "running", **more: Any) -> TrialRow:
    fields: dict[str, Any] = {
        "sweep": 1, "number": number, "job": number, "state": state, "params": "{}",
        "attributes": "{}", "value": None, "step": None, "bracket": 0, "rungs": "{}",
        "curve": "[]", "parent": None, "sentence": "", "gpu_seconds": 0.0, "created_ms": 0,
        "ended_ms": None if state == "running" else number,
    }  # fmt: skip
    return TrialRow(**(fields | more))


def live(number: int, job: str = "running", **more: Any) -> LiveTrial:
    return LiveTrial(row=row(number), job_state=job, **more)


def look(
    of: SweepSpec, *trials: LiveTrial, ended: Any = (), seconds: float = 0.0
) -> SweepSnapshot:
    return SweepSnapshot(spec=of, ended=ended, live=trials, elapsed_seconds=seconds)


def test_slots_are_filled_with_one_in_wait() -> None:
    assert decide(look(spec())).begin == 3
    assert decide(look(spec(), live(0), live(1))).begin == 1
    assert decide(look(spec(budget=SweepBudget(trials=2)), live(0), live(1))).begin == 0


def test_ends_of_jobs_become_ends_of_trials() -> None:
    found = decide(
        look(
            spec(),
            live(0, "succeeded", curve=[(1, 3.0), (2, 2.0)]),
            live(1, "succeeded", logged=["losss"]),
            live(2, "failed", job_sentence="It broke."),
            live(3, "cancelled"),
        )
    )
    assert [change.state for change in found.changes] == [
        "complete", "failed", "failed", "stopped",
    ]  # fmt: skip
    assert (found.changes[0].value, found.changes[0].step) == (2.0, 2)
    assert "did you mean `losss`" in found.changes[1].sentence
    assert found.begin == 2


def test_a_sweep_whose_trials_all_fail_gives_up() -> None:
    past = [row(number, "failed", sentence="no such file") for number in range(4)]
    found = decide(look(spec(), live(4, "failed", job_sentence="no such file"), ended=past))
    assert found.end == "failed"
    assert "5 trials failed in a row" in found.sentence
    assert "no such file" in found.sentence


def test_a_budget_of_time_stops_what_runs() -> None:
    of = spec(budget=SweepBudget(seconds=60))
    assert not decide(look(of, live(0), seconds=59)).end
    found = decide(look(of, live(0, curve=[(1, 5.0)]), seconds=60))
    assert found.end == "finished"
    assert found.changes[0].stops
    assert found.changes[0].value == 5.0
    spent = decide(look(spec(budget=SweepBudget(gpu_hours=1)), live(0, gpu_seconds=3600)))
    assert "GPU-hours" in spent.sentence


def test_a_worse_trial_is_stopped_and_its_slot_is_used() -> None:
    of = spec(stop={"method": "asha", "min": 1, "max": 9})
    found = decide(look(of, live(0, curve=[(1, 1.0)]), live(1, curve=[(1, 9.0)])))
    assert [(change.number, change.state, change.stops) for change in found.changes] == [
        (0, None, False),
        (1, "pruned", True),
    ]
    assert found.begin == 2


def test_maximize_turns_it_round() -> None:
    of = spec(stop={"method": "asha", "max": 9}, goal="maximize")
    found = decide(look(of, live(0, curve=[(1, 1.0)]), live(1, curve=[(1, 9.0)])))
    assert [change.state for change in found.changes] == [None, None]
    assert found.changes[1].rungs == {1: 9.0}
    assert result(spec(value="best", goal="maximize"), [(1, 3.0), (2, 1.0)]) == (3.0, 1)


def test_a_population_is_made_once_and_its_bottom_replaced() -> None:
    of = spec(stop={"method": "pbt", "interval": 2}, slots=4, budget=SweepBudget(trials=20))
    assert decide(look(of)).begin == 4
    trials = [live(n, curve=[(1, 9.0), (2, float(n))]) for n in range(4)]
    found = decide(look(of, *trials))
    assert found.begin == 0
    assert [c.replaced_by_copy_of for c in found.changes] == [None, None, None, 0]


def test_it_finishes_when_nothing_is_left() -> None:
    done = [row(number, "complete", value=1.0) for number in range(6)]
    assert decide(look(spec(), ended=done)).end == "finished"
