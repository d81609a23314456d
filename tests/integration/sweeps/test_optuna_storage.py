"""Trials in our database mean to a sampler what they mean in a storage of Optuna's own."""

from pathlib import Path
from typing import Any

import optuna
import pytest

from trackyard.sweeps import samplers
from trackyard.sweeps.samplers import PastTrial, propose
from trackyard.sweeps.space import parse_space

SPACE = parse_space(
    {
        "lr": {"log": [1e-5, 1e-1]},
        "n": {"int": [1, 8]},
        "opt": ["adam", "sgd"],
        "momentum": {"range": [0.5, 0.99], "when": {"opt": "sgd"}},
    }
)
SEED, TRIALS = 3, 14


def suggest(trial: optuna.Trial) -> dict[str, Any]:
    """Suggest values as a script with Optuna does."""
    point: dict[str, Any] = {
        "lr": trial.suggest_float("lr", 1e-5, 1e-1, log=True),
        "n": trial.suggest_int("n", 1, 8),
        "opt": trial.suggest_categorical("opt", ["adam", "sgd"]),
    }
    if point["opt"] == "sgd":
        point["momentum"] = trial.suggest_float("momentum", 0.5, 0.99)
    return point


@pytest.mark.parametrize("sampler", ["tpe", "cmaes"])
def test_the_same_trials_in_optunas_database_lead_to_the_same_proposals(
    sampler: str, tmp_path: Path
) -> None:
    """Complete, pruned, failed and running trials count alike; each proposal opens it anew."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = f"sqlite:///{tmp_path}/study.db"
    optuna.create_study(study_name="s", storage=storage)
    past: list[PastTrial] = []
    for number in range(TRIALS):
        seed = SEED * 100_003 + number
        study = optuna.load_study(
            study_name="s", storage=storage, sampler=samplers._sampler(optuna, sampler, seed)
        )
        trial = study.ask()
        point = suggest(trial)
        ours = propose(sampler, SPACE, past, seed=SEED, number=number)
        assert ours is not None
        assert ours.point == point
        past.append(_ended(study, trial, point, number, ours.attributes))


def _ended(
    study: optuna.Study,
    trial: optuna.Trial,
    point: dict[str, Any],
    number: int,
    attributes: dict[str, Any],
) -> PastTrial:
    """End a trial in Optuna's storage in one of four ways, and return it as ours."""
    loss = abs(float(point["lr"]) - 0.01) + abs(int(point["n"]) - 4)
    state = ("complete", "pruned", "complete", "running", "complete", "failed")[number % 6]
    if state == "complete":
        study.tell(trial, loss)
    elif state == "failed":
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
    curve = [(1, loss + 1), (3, loss)] if state == "pruned" else []
    for step, value in curve:
        trial.report(value, step)
    if state == "pruned":
        study.tell(trial, state=optuna.trial.TrialState.PRUNED)
    return PastTrial(
        number=number,
        point=point,
        state=state,
        loss=loss if state in ("complete", "pruned") else None,
        curve=curve,
        attributes=attributes,
    )
