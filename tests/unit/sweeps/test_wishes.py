"""What may be asked of a sweep, and how a point becomes part of a command."""

from typing import Any

import msgspec
import pytest

from trackyard.core.errors import InvalidInput
from trackyard.queue.specification import JobRequest
from trackyard.sweeps.wishes import SweepBudget, SweepRequest, applied, check_sweep

JOB = JobRequest(command=["python", "train.py"])


def wish(**more: Any) -> SweepRequest:
    fields = {
        "metric": "val_loss",
        "space": {"lr": [0.1, 0.01], "warm-up": [True]},
        "job": JOB,
        "budget": SweepBudget(trials=4),
    }
    return SweepRequest(**(fields | more))


@pytest.mark.parametrize(
    ("how", "command", "env"),
    [
        ("flags", ["--lr", "0.1", "--warm-up", "true"], {}),
        ("assignments", ["lr=0.1", "warm-up=true"], {}),
        ("env", [], {"LR": "0.1", "WARM_UP": "true"}),
        ("params", [], {}),
    ],
)
def test_values_reach_the_command(how: str, command: list[str], env: dict[str, str]) -> None:
    spec = check_sweep(wish(values_as=how), has_optuna=False)
    found = applied(JOB, spec, {"lr": 0.1, "warm-up": True})
    assert found.command == ["python", "train.py", *command]
    assert found.env == env


def test_a_command_may_name_its_values() -> None:
    job = JobRequest(command=["sh", "-c", "train {lr} {warm-up} {other}"])
    spec = check_sweep(wish(job=job), has_optuna=False)
    assert applied(job, spec, {"lr": 0.1, "warm-up": True}).command[2] == "train 0.1 true {other}"


def test_defaults_follow_what_is_installed() -> None:
    assert check_sweep(wish(), has_optuna=False).sampler == "random"
    assert check_sweep(wish(), has_optuna=True).sampler == "tpe"
    grid = check_sweep(wish(sampler="grid", budget=SweepBudget()), has_optuna=False)
    assert grid.trials == 2


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"sampler": "tpe"}, "pip install 'trackyard\\[sweeps\\]'"),
        ({"sampler": "rnadom"}, "did you mean `random`"),
        ({"goal": "maximise"}, "did you mean `maximize`"),
        ({"budget": SweepBudget()}, "needs a budget"),
        ({"budget": SweepBudget(trials=0)}, "between 1 and 10000"),
        ({"budget": SweepBudget(gpu_hours=-1)}, "above 0"),
        ({"slots": 0}, "slots must lie between 1"),
        ({"values_as": "flag"}, "did you mean `flags`"),
        ({"metric": ""}, "metric names"),
        ({"name": "a b"}, "no blanks"),
        ({"job": msgspec.structs.replace(JOB, array="0-3")}, "takes no array"),
        ({"job": JobRequest(command=["train", "{lr}"])}, "name all parameters, or none"),
        ({"stop": {"method": "pbt"}, "slots": 8}, "population of 8"),
    ],
)
def test_a_wrong_wish_is_refused_with_its_sentence(more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        check_sweep(wish(**more), has_optuna=False)
