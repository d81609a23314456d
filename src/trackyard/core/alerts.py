"""Conditions of alerts: what they are and how people write them. Pure; knows no table.

Owns the little language of `--alert`, as in `loss > 10 for 5m via ops`. Every refusal says what
may be written instead.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum

from trackyard.core.errors import InvalidInput
from trackyard.core.log_patterns import BY_NAME, SHIPPED, check_regex

MAX_TEXT = 500
MAX_VIA = 8
MAX_METRIC = 250
DAY = 86_400.0
MAX_SECONDS = 30 * DAY
CHANNEL_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}\Z")


class ConditionKind(StrEnum):
    """What a condition looks at."""

    THRESHOLD = "threshold"
    CHANGE = "change"
    NAN = "nan"
    ABSENCE = "absence"
    STALL = "stall"
    STATE = "state"
    LOG = "log"
    NODE = "node"
    LEASE = "lease"
    BUDGET = "budget"
    WAIT = "wait"


#: Kinds that look at a run's metrics, and those that hold once and are then over.
METRIC_KINDS = frozenset(
    (ConditionKind.THRESHOLD, ConditionKind.CHANGE, ConditionKind.NAN, ConditionKind.ABSENCE)
)
MOMENTARY = frozenset(
    (ConditionKind.STATE, ConditionKind.LOG, ConditionKind.LEASE, ConditionKind.BUDGET)
)
#: Words of a rule -> the events it reacts to, and the events that end its incident.
STATES = {
    "running": ("job.running",),
    "succeeded": ("job.succeeded", "run.finished:FINISHED"),
    "failed": ("job.failed", "run.finished:FAILED"),
    "stopped": ("job.stopped", "run.finished:KILLED"),
    "preempted": ("job.preempting",),
    "requeued": ("job.requeued",),
    "lost": ("attempt.lost",),
    "blocked": ("job.blocked",),
    "oom": ("job.out_of_memory",),
}
NODES = {
    "lost": (("node.lost",), ("node.joined",)),
    "quarantined": (("node.quarantined",), ("node.unquarantined",)),
    "unhealthy": (("node.check_failed",), ("node.check_passed",)),
    "drained": (("node.drained",), ("node.undrained",)),
}
LEASES = {
    "starts": ("lease.started",),
    "ending": ("lease.ending",),
    "ends": ("lease.ended",),
    "degraded": ("lease.degraded", "lease.failed"),
    "idle": ("lease.idle",),
}
BUDGETS = {"warned": ("budget.warned",), "exhausted": ("budget.exhausted",)}
_ALSO = {"start": "starts", "end": "ends", "started": "starts", "ended": "ends"}
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY}
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)(s|m|h|d))+\Z")
_PIECE = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d)")
_VIA = re.compile(r"(.*?)\s+via\s+([a-z0-9._,\s-]+)\Z", re.DOTALL)
_THRESHOLD = re.compile(r"([^\s<>][^<>]*?)\s*(>=|<=|>|<)\s*([^\s<>]+)(?:\s+for\s+(\S+))?\Z")
_CHANGE = re.compile(
    r"(\S.*?)\s+(rises|drops)\s+(?:by\s+)?(\d+(?:\.\d+)?)\s*%\s+(?:in|within)\s+(\S+)\Z"
)
_NAN = re.compile(r"(?:(\S.*?)\s+is\s+)?nan(?:\s+(\S.*))?\Z", re.IGNORECASE)
_ABSENCE = re.compile(r"no\s+(\S.*?)\s+for\s+(\S+)\Z")
_STALL = re.compile(r"stall(?:ed|s)?(?:\s+(?:for\s+)?(\S+))?\Z")
_WAIT = re.compile(r"(?:queue\s+)?waits?\s*>?\s*(\S+)\Z")
_LOG = re.compile(r"log\s+(.+)\Z", re.DOTALL)
EXAMPLES = (
    "loss > 10 for 5m",
    "loss rises 50% in 10m",
    "nan",
    "no loss for 15m",
    "stall 20m",
    "state failed",
    "log xid",
    "log 'loss scale'",
    "node unhealthy",
    "lease ending",
    "budget warned",
    "wait > 2h",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What has to hold, taken apart."""

    kind: ConditionKind
    #: metric it looks at; of `nan`, empty stands for every loss
    metric: str = ""
    operator: str = ""
    value: float = 0.0
    #: how long it must hold, the window of a change, or the length of an absence or wait
    seconds: float = 0.0
    #: states, things that happen to nodes, leases or budgets
    words: tuple[str, ...] = ()
    #: a shipped pattern's name, or a regular expression
    pattern: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRule:
    """A rule as people write it: the condition and where it is told."""

    condition: Condition
    #: the text without `via`
    text: str
    via: tuple[str, ...] = ()


def parse(text: str) -> ParsedRule:
    """Read a rule, or say what can be written."""
    given = text.strip()
    if not given or len(given) > MAX_TEXT or not given.isprintable():
        raise InvalidInput(f"an alert is one line of at most {MAX_TEXT} characters")
    via: tuple[str, ...] = ()
    if found := _VIA.match(given):
        given = found[1].strip()
        via = tuple(word for word in re.split(r"[,\s]+", found[2]) if word)
        check_via(via)
    for read in _READERS:
        condition = read(given)
        if condition is not None:
            return ParsedRule(condition=condition, text=given, via=via)
    raise InvalidInput(
        f"the alert {given[:80]!r} is not understood; write for example "
        + ", ".join(f"`{one}`" for one in EXAMPLES)
    )


def check_via(via: tuple[str, ...]) -> None:
    """Refuse names that no channel can have."""
    if len(via) > MAX_VIA or not all(CHANNEL_NAME.match(one) for one in via):
        raise InvalidInput(f"`via` takes at most {MAX_VIA} names of channels, as in `via ops,me`")


def seconds_of(text: str, *, what: str) -> float:
    """Read `90s`, `5m`, `1h30m` or `2d`."""
    if _DURATION.match(text) is None:
        raise InvalidInput(f"{what} {text[:40]!r} is no length of time: write 90s, 5m or 1h30m")
    total = sum(float(number) * _UNITS[unit] for number, unit in _PIECE.findall(text))
    if not 1 <= total <= MAX_SECONDS:
        raise InvalidInput(f"{what} {text[:40]!r} must lie between 1s and 30d")
    return total


def _threshold(text: str) -> Condition | None:
    found = _THRESHOLD.match(text)
    if found is None or found[1] in ("wait", "waits", "queue wait"):
        return None
    try:
        value = float(found[3])
    except ValueError:
        raise InvalidInput(f"{found[3][:40]!r} in the alert {text[:80]!r} is no number") from None
    if math.isnan(value):
        raise InvalidInput(f"compare with a number; `{found[1]} is nan` looks for NaN")
    length = seconds_of(found[4], what="the time after `for`") if found[4] else 0.0
    return Condition(
        kind=ConditionKind.THRESHOLD,
        metric=_metric(found[1]),
        operator=found[2],
        value=value,
        seconds=length,
    )


def _change(text: str) -> Condition | None:
    found = _CHANGE.match(text)
    if found is None:
        return None
    percent = float(found[3])
    if not 0 < percent <= 100_000 or (found[2] == "drops" and percent > 100):
        raise InvalidInput(f"a change of {percent:g}% cannot be watched for")
    return Condition(
        kind=ConditionKind.CHANGE,
        metric=_metric(found[1]),
        operator=found[2],
        value=percent / 100,
        seconds=seconds_of(found[4], what="the time after `in`"),
    )


def _nan(text: str) -> Condition | None:
    found = _NAN.match(text)
    if found is None or (found[1] and found[2]):
        return None
    name = found[1] or found[2] or ""
    return Condition(kind=ConditionKind.NAN, metric=_metric(name) if name else "")


def _absence(text: str) -> Condition | None:
    found = _ABSENCE.match(text)
    if found is None:
        return None
    length = seconds_of(found[2], what="the time after `for`")
    return Condition(kind=ConditionKind.ABSENCE, metric=_metric(found[1]), seconds=length)


def _stall(text: str) -> Condition | None:
    found = _STALL.match(text)
    if found is None:
        return None
    length = seconds_of(found[1], what="the time after `stall`") if found[1] else 0.0
    return Condition(kind=ConditionKind.STALL, seconds=length)


def _wait(text: str) -> Condition | None:
    found = _WAIT.match(text)
    if found is None:
        return None
    return Condition(kind=ConditionKind.WAIT, seconds=seconds_of(found[1], what="the wait"))


def _log(text: str) -> Condition | None:
    found = _LOG.match(text)
    if found is None:
        return None
    pattern = found[1].strip()
    if pattern in BY_NAME:
        return Condition(kind=ConditionKind.LOG, pattern=pattern)
    if len(pattern) > 1 and pattern[0] == pattern[-1] and pattern[0] in "'\"/":
        pattern = pattern[1:-1]
    elif re.fullmatch(r"[a-z-]+", pattern):
        names = ", ".join(one.name for one in SHIPPED)
        raise InvalidInput(
            f"there is no log pattern {pattern[:40]!r}: they are {names}; write your own in"
            " quotes, as in log 'loss scale'"
        )
    check_regex(pattern)
    return Condition(kind=ConditionKind.LOG, pattern=pattern)


def _worded(text: str) -> Condition | None:
    head, _, rest = text.partition(" ")
    kinds: dict[str, tuple[ConditionKind, tuple[str, ...]]] = {
        "state": (ConditionKind.STATE, tuple(STATES)),
        "node": (ConditionKind.NODE, tuple(NODES)),
        "lease": (ConditionKind.LEASE, tuple(LEASES)),
        "budget": (ConditionKind.BUDGET, tuple(BUDGETS)),
    }
    if not rest and head in STATES:
        head, rest = "state", head
    if head not in kinds:
        return None
    kind, known = kinds[head]
    words = [_ALSO.get(word, word) for word in re.split(r"[,\s]+", rest.strip()) if word]
    if kind is ConditionKind.NODE and words == ["any"]:
        words = list(known)
    unknown = [word for word in words if word not in known]
    if unknown or not words:
        raise InvalidInput(f"after `{head}` comes one or more of {', '.join(known)}")
    return Condition(kind=kind, words=tuple(dict.fromkeys(words)))


def _metric(name: str) -> str:
    if len(name) > MAX_METRIC:
        raise InvalidInput(f"a metric's name has at most {MAX_METRIC} characters")
    return name


_READERS = (_log, _worded, _absence, _stall, _wait, _change, _threshold, _nan)
