"""Samplers: the next point of a sweep, from what its trials have shown so far.

Owns random and grid search, and handing the rest to Optuna, which is an extra and imported late.
A sampler keeps nothing between two calls: Optuna's study is built anew from the trials each time,
with a seed of its own for each trial, so that a restart goes on as if there had been none. Knows
no storage and no job. May take long: call it off the event loop.
"""

from __future__ import annotations

import importlib.util
import logging
import math
import random
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from trackyard.core.errors import InvalidInput
from trackyard.sweeps.space import Parameter, Point, Space
from trackyard.sweeps.stopping import Curve

log = logging.getLogger(__name__)

#: Points that are drawn at random before a model is fitted.
STARTUP_TRIALS = 10
_STATES = {"complete": "COMPLETE", "pruned": "PRUNED", "running": "RUNNING"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PastTrial:
    """A trial as a sampler sees it; lower losses are better."""

    number: int
    point: Point
    #: complete, pruned, running, or anything else for a trial without a result
    state: str
    loss: float | None = None
    curve: Curve = ()
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Proposal:
    """The next point, and attributes that the sampler needs to see again."""

    point: Point
    attributes: dict[str, Any]


def has_optuna() -> bool:
    """Tell whether Optuna is installed."""
    return importlib.util.find_spec("optuna") is not None


def check_installed(sampler: str) -> None:
    """Refuse a sampler whose packages are missing, with the line that installs them."""
    needed = {"cmaes": ("cmaes",), "gp": ("torch", "scipy")}.get(sampler, ())
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise InvalidInput(
            f"sampler {sampler} needs {' and '.join(missing)} on the server:"
            f" pip install {' '.join(missing)}; `sampler: tpe` needs neither"
        )


def propose(
    sampler: str, space: Space, history: Sequence[PastTrial], *, seed: int, number: int
) -> Proposal | None:
    """Return the point of trial `number`; None once a grid is exhausted."""
    if sampler == "grid":
        points = space.grid()
        return Proposal(points[number], {}) if number < len(points) else None
    if sampler == "random":
        source = random.Random(f"{seed}:{number}")  # noqa: S311 - a search, not a secret
        return Proposal(space.draw(source), {})
    return _by_optuna(sampler, space, history, seed=seed * 100_003 + number)


def _by_optuna(sampler: str, space: Space, history: Sequence[PastTrial], *, seed: int) -> Proposal:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = optuna.create_study(sampler=_sampler(optuna, sampler, seed))
        for past in history:
            study.add_trial(_frozen(optuna, space, past))
        trial = study.ask()
        point: Point = {}
        for parameter in space.parameters:
            if parameter.is_active(point):
                point[parameter.name] = _suggest(trial, parameter)
        attributes = study.get_trials(deepcopy=False)[-1].system_attrs
    return Proposal(point, dict(attributes))


def _sampler(optuna: Any, sampler: str, seed: int) -> Any:
    seed %= 2**32
    known = optuna.samplers
    if sampler == "gp":
        return known.GPSampler(seed=seed, n_startup_trials=STARTUP_TRIALS)
    if sampler == "cmaes":
        return known.CmaEsSampler(seed=seed, warn_independent_sampling=False)
    # Grouped, so that conditional parameters are modelled together where they appear together;
    # running trials count as bad ones, so that slots do not all try the same place.
    return known.TPESampler(
        seed=seed,
        n_startup_trials=STARTUP_TRIALS,
        multivariate=True,
        group=True,
        constant_liar=True,
        warn_independent_sampling=False,
    )


def _frozen(optuna: Any, space: Space, past: PastTrial) -> Any:
    state, loss = _STATES.get(past.state, "FAIL"), past.loss
    is_told = loss is not None and math.isfinite(loss)
    if state in ("COMPLETE", "PRUNED") and not is_told:
        state = "FAIL"
    kept = [parameter for parameter in space.parameters if _fits(parameter, past.point)]
    return optuna.trial.create_trial(
        state=optuna.trial.TrialState[state],
        value=loss if state == "COMPLETE" else None,
        params={parameter.name: past.point[parameter.name] for parameter in kept},
        distributions={parameter.name: _distribution(optuna, parameter) for parameter in kept},
        intermediate_values={step: loss for step, loss in past.curve if math.isfinite(loss)},
        system_attrs=past.attributes,
    )


def _fits(parameter: Parameter, point: Point) -> bool:
    """Tell whether a point has a parameter, with a value that its range still holds."""
    value = point.get(parameter.name)
    if value is None:
        return False
    if parameter.kind == "choice":
        return value in parameter.choices
    return isinstance(value, int | float) and parameter.low <= value <= parameter.high


def _distribution(optuna: Any, parameter: Parameter) -> Any:
    known = optuna.distributions
    if parameter.kind == "choice":
        return known.CategoricalDistribution(parameter.choices)
    if parameter.kind == "int":
        low, high = int(parameter.low), int(parameter.high)
        return known.IntDistribution(
            low, high, log=parameter.is_log, step=int(parameter.step or 1)
        )
    return known.FloatDistribution(
        parameter.low, parameter.high, log=parameter.is_log, step=parameter.step
    )


def _suggest(trial: Any, parameter: Parameter) -> str | int | float | bool:
    found: str | int | float | bool
    if parameter.kind == "choice":
        found = trial.suggest_categorical(parameter.name, parameter.choices)
    elif parameter.kind == "int":
        found = trial.suggest_int(
            parameter.name,
            int(parameter.low),
            int(parameter.high),
            step=int(parameter.step or 1),
            log=parameter.is_log,
        )
    else:
        found = trial.suggest_float(
            parameter.name,
            parameter.low,
            parameter.high,
            step=parameter.step,
            log=parameter.is_log,
        )
    return found
