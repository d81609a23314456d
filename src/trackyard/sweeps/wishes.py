"""The request that creates a sweep: its fields and their checks.

Owns SweepWish (as it comes over the wire), SweepSpec (as it is kept) and how a point becomes part
of a job's command. Knows neither storage nor how trials run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from trackyard.core.errors import InvalidInput
from trackyard.core.ids import JOB_NAME
from trackyard.queue.specification import YEAR, JobRequest
from trackyard.store.bounds import Free, Int64, Word
from trackyard.sweeps.space import Point, Space, Value, nearest, parse_space
from trackyard.sweeps.stopping import StopRule, parse_rule

MAX_TRIALS = 10_000
MAX_SLOTS = 1000
_SHORT = {"min": "minimize", "max": "maximize"}
GOALS = ("minimize", "maximize")
SAMPLERS = ("tpe", "random", "grid", "gp", "cmaes")
#: Samplers that need no package beside our own.
OWN_SAMPLERS = ("random", "grid")
VALUES_AS = ("flags", "assignments", "env", "params")
_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.-]{0,99})\}")
_METRIC = re.compile(r"[^\x00-\x1f\x7f]{1,250}\Z")


class SweepBudget(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What a sweep may use; the limit that is reached first ends it."""

    trials: Int64 | None = None
    gpu_hours: float | None = None
    seconds: float | None = None


class SweepRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A sweep as it comes over the wire."""

    metric: Word
    space: Free
    #: what each trial submits; `command` before the chosen values are added
    job: JobRequest
    name: Word = ""
    goal: Word = "minimize"
    #: empty: tpe where the server has Optuna, else random
    sampler: Word = ""
    seed: Int64 = 0
    #: early stopping: `method` and its settings
    stop: Free = {}
    budget: SweepBudget = msgspec.field(default_factory=SweepBudget)
    #: trials that run at once
    slots: Int64 = 1
    #: how values reach the command: flags, assignments, env or params
    values_as: Word = "flags"
    #: which value of the metric counts: last or best
    value: Word = "last"
    #: failed trials in a row after which the sweep gives up
    max_failed: Int64 = 5
    #: seconds that a trial has to leave when it is stopped early
    grace_seconds: float = 5.0
    #: idempotency key: a repeated request creates no second sweep
    key: Word = ""
    dry_run: bool = False


class SweepSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a wish."""

    metric: str
    goal: str
    space: dict[str, Any]
    sampler: str
    seed: int
    stop: StopRule
    trials: int | None
    gpu_hours: float | None
    seconds: float | None
    slots: int
    values_as: str
    value: str
    max_failed: int
    grace_seconds: float
    #: role of the creator's token; trials are submitted with no more than that
    role: str = "member"

    @property
    def sign(self) -> float:
        """1 where less is better, else -1: values times this are losses."""
        return 1.0 if self.goal == "minimize" else -1.0

    def parsed(self) -> Space:
        """Return the space."""
        return parse_space(self.space)


def check_sweep(wish: SweepRequest, *, has_optuna: bool) -> SweepSpec:
    """Check every field and return what is kept."""
    if wish.name and not JOB_NAME.match(wish.name):
        raise InvalidInput(
            f"name {wish.name[:80]!r} is not allowed: 1-128 letters, digits and . _ -, no blanks"
        )
    if not _METRIC.match(wish.metric):
        raise InvalidInput("metric names what the script logs, as in `metric: val_loss`")
    space = parse_space(wish.space)
    sampler = _sampler(wish, has_optuna=has_optuna)
    stop = parse_rule(wish.stop)
    _within("slots", wish.slots, 1, MAX_SLOTS)
    _within("max_failed", wish.max_failed, 1, MAX_TRIALS)
    _within("grace_seconds", wish.grace_seconds, 0, 3600)
    _within("seed", wish.seed, 0, 2**31 - 1)
    if wish.job.array or wish.job.after or wish.job.hold:
        raise InvalidInput("a sweep's job takes no array, after or hold: its trials are an array")
    spec = SweepSpec(
        metric=wish.metric,
        goal=_one_of("goal", _SHORT.get(wish.goal, wish.goal), GOALS),
        space=space.document(),
        sampler=sampler,
        seed=wish.seed,
        stop=stop,
        trials=_trials(wish, space, sampler, stop),
        gpu_hours=_amount("gpu_hours", wish.budget.gpu_hours, 1e7),
        seconds=_amount("time", wish.budget.seconds, YEAR),
        slots=wish.slots,
        values_as=_one_of("values_as", wish.values_as, VALUES_AS),
        value=_one_of("value", wish.value, ("last", "best")),
        max_failed=wish.max_failed,
        grace_seconds=wish.grace_seconds,
    )  # fmt: skip
    if spec.trials is None and spec.gpu_hours is None and spec.seconds is None:
        raise InvalidInput(
            "a sweep needs a budget: trials, gpu_hours or time, as in `budget: {trials: 50}`"
        )
    fill(wish.job.command, space, {}, is_checked=True)
    return spec


def _sampler(wish: SweepRequest, *, has_optuna: bool) -> str:
    if not wish.sampler:
        return "tpe" if has_optuna else "random"
    sampler = _one_of("sampler", wish.sampler, SAMPLERS)
    if sampler not in OWN_SAMPLERS and not has_optuna:
        raise InvalidInput(
            f"sampler {sampler} needs Optuna on the server: pip install 'trackyard[sweeps]' there,"
            " or use `sampler: random`"
        )
    return sampler


def _trials(wish: SweepRequest, space: Space, sampler: str, stop: StopRule) -> int | None:
    trials = wish.budget.trials
    if trials is not None:
        _within("budget.trials", trials, 1, MAX_TRIALS)
    if sampler == "grid":
        points = len(space.grid())
        return points if trials is None else min(points, trials)
    if stop.method == "pbt" and trials is not None and trials < wish.slots:
        raise InvalidInput(
            f"a population of {wish.slots} (slots) needs at least as many trials, and the budget"
            f" has {trials}"
        )
    return trials


def _one_of(field: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise InvalidInput(
            f"{field} {value[:40]!r} is none of {', '.join(known)}; {nearest(value, known)}"
        )
    return value


def _within(field: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InvalidInput(f"{field} must lie between {low:g} and {high:g}, not {value:g}")


def _amount(field: str, value: float | None, most: float) -> float | None:
    if value is not None and not 0 < value <= most:
        raise InvalidInput(f"budget.{field} must lie above 0 and below {most:g}")
    return value


def fill(
    command: list[str], space: Space, point: Mapping[str, Value], *, is_checked: bool = False
) -> tuple[list[str], set[str]]:
    """Put values where a command names them as `{lr}`; return it and the names it used.

    With `is_checked` an unknown name that looks like a misspelt parameter is refused.
    """
    names, used = space.names(), set[str]()

    def put(match: re.Match[str]) -> str:
        name = match[1]
        if name in point:
            used.add(name)
            return words(point[name])
        if name in names:
            used.add(name)
            return ""
        return match[0]

    filled = [_PLACE.sub(put, part) for part in command]
    if is_checked and used and set(names) - used:
        left = ", ".join(sorted(set(names) - used))
        raise InvalidInput(
            f"the command names {', '.join(sorted(used))} in braces but not {left}: name all"
            " parameters, or none"
        )
    return filled, used


def words(value: Value) -> str:
    """Return a value as a command line and the environment write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def applied(wish: JobRequest, spec: SweepSpec, point: Point) -> JobRequest:
    """Return what one trial submits: the sweep's job with the chosen values."""
    command, used = fill(wish.command, spec.parsed(), point)
    env = dict(wish.env)
    if not used:
        if spec.values_as == "flags":
            command += [w for name, v in point.items() for w in (f"--{name}", words(v))]
        elif spec.values_as == "assignments":
            command += [f"{name}={words(v)}" for name, v in point.items()]
        elif spec.values_as == "env":
            env |= {variable(name): words(v) for name, v in point.items()}
    return msgspec.structs.replace(wish, command=command, env=env)


def variable(name: str) -> str:
    """Return the variable that carries a parameter."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name).upper()
