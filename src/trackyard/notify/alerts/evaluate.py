"""Evaluates a rule: a pure function of its memory of a subject and one new fact.

Owns Memory, the facts and the sentences of incidents. Knows neither tables nor time but what it
is given, so a restart or another server continues where the last one stopped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from trackyard.core.alerts import BUDGETS, LEASES, NODES, STATES, Condition, ConditionKind
from trackyard.core.log_patterns import BY_NAME
from trackyard.core.reasons import duration_words

#: Values of a window that a rule on change remembers.
SAMPLES = 16


class RuleMemory(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rule's memory of one subject."""

    #: since when the condition holds without a break
    bad_since_ms: int | None = None
    #: whether an incident was opened for it and the condition has not ended since
    is_firing: bool = False
    #: the last sign of life as it was seen, and when
    mark: str = ""
    mark_ms: int = 0
    #: the greatest or least value that was judged
    peak: float | None = None
    #: whether values from before the first look count: the rule is older than the run
    counts_past: bool = False
    #: times and values of the window
    samples: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class MetricObservation:
    """The latest point of the metric, with the extremes of its history; None: no point yet."""

    step: int
    time_ms: int
    value: float
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True, slots=True)
class NoPoint:
    """The run has no point of the metric yet; it began then."""

    since_ms: int


@dataclass(frozen=True, slots=True)
class ProgressMark:
    """A mark that changes with every step, point or byte of log."""

    mark: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class WaitingObservation:
    """A job that stands in the queue since then."""

    since_ms: int


@dataclass(frozen=True, slots=True)
class EventObservation:
    """An event about the subject."""

    kind: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LogMatch:
    """A line of the log that matches the rule's pattern."""

    line: str


@dataclass(frozen=True, slots=True)
class SubjectEnded:
    """The subject ended, or the rule no longer applies to it."""


Fact = (
    MetricObservation
    | NoPoint
    | ProgressMark
    | WaitingObservation
    | EventObservation
    | LogMatch
    | SubjectEnded
)


@dataclass(frozen=True, slots=True)
class AlertChange:
    """The effect of a fact: an incident begins or ends."""

    fires: bool
    sentence: str


Judged = tuple[RuleMemory, AlertChange | None]


def evaluate(condition: Condition, memory: RuleMemory, fact: Fact, now_ms: int) -> Judged:
    """Return the rule's new memory and the change, if any."""
    if isinstance(fact, SubjectEnded):
        return _settle(memory, holds=False, cleared="It ended.")
    return _JUDGES[condition.kind](condition, memory, fact, now_ms)


def _settle(memory: RuleMemory, *, holds: bool, fired: str = "", cleared: str = "") -> Judged:
    """Open an incident when the condition becomes true, end it when it becomes false."""
    if holds and not memory.is_firing:
        return msgspec.structs.replace(memory, is_firing=True), AlertChange(True, fired)
    if not holds and memory.is_firing:
        after = msgspec.structs.replace(memory, is_firing=False, bad_since_ms=None)
        return after, AlertChange(False, cleared)
    if not holds and memory.bad_since_ms is not None:
        return msgspec.structs.replace(memory, bad_since_ms=None), None
    return memory, None


def _threshold(condition: Condition, memory: RuleMemory, fact: Fact, now_ms: int) -> Judged:
    if not isinstance(fact, MetricObservation):
        return memory, None
    is_above = condition.operator.startswith(">")
    peak = fact.most if is_above else fact.least
    known = memory.peak is not None or memory.counts_past
    is_spike = (
        condition.seconds == 0
        and known
        and peak is not None
        and peak != memory.peak
        and _compare(peak, condition)
    )
    if peak != memory.peak:
        memory = msgspec.structs.replace(memory, peak=peak)
    if math.isnan(fact.value):
        return memory, None
    is_bad = _compare(fact.value, condition)
    if is_bad and memory.bad_since_ms is None:
        memory = msgspec.structs.replace(memory, bad_since_ms=now_ms)
    lasted = now_ms - (memory.bad_since_ms or now_ms)
    holds = is_spike or (is_bad and (memory.is_firing or lasted >= condition.seconds * 1000))
    if is_bad and not holds:
        return memory, None
    limit = f"{condition.operator} {condition.value:g}"
    shown = peak if is_spike and not is_bad and peak is not None else fact.value
    words = f"{condition.metric} is {shown:.6g} ({limit}) at step {fact.step}"
    if is_spike and not is_bad:
        words = f"{condition.metric} reached {shown:.6g} ({limit}) by step {fact.step}"
    if condition.seconds:
        words += f", for {duration_words(round(lasted / 1000))}"
    return _settle(
        memory,
        holds=holds,
        fired=f"{words}.",
        cleared=f"{condition.metric} is {fact.value:.6g} again at step {fact.step}.",
    )


def _compare(value: float, condition: Condition) -> bool:
    limit = condition.value
    return {
        ">": value > limit,
        ">=": value >= limit,
        "<": value < limit,
        "<=": value <= limit,
    }[condition.operator]


def _change(condition: Condition, memory: RuleMemory, fact: Fact, now_ms: int) -> Judged:
    if not isinstance(fact, MetricObservation) or math.isnan(fact.value):
        return memory, None
    window = int(condition.seconds * 1000)
    samples = tuple(one for one in memory.samples if now_ms - one[0] <= window)
    rises = condition.operator == "rises"
    base = (min if rises else max)((value for _, value in samples), default=None)
    if not samples or now_ms - samples[-1][0] >= window // SAMPLES:
        samples = (*samples, (now_ms, fact.value))[-SAMPLES - 1 :]
    if samples != memory.samples:
        memory = msgspec.structs.replace(memory, samples=samples)
    if base is None:
        return memory, None
    delta = (fact.value - base) if rises else (base - fact.value)
    holds = base != 0 and delta >= condition.value * abs(base)
    share = f"{100 * delta / abs(base):.0f}%" if base else ""
    verb = "rose" if rises else "dropped"
    return _settle(
        memory,
        holds=holds,
        fired=(
            f"{condition.metric} {verb} {share} within {duration_words(condition.seconds)},"
            f" from {base:.6g} to {fact.value:.6g} at step {fact.step}."
        ),
        cleared=f"{condition.metric} is {fact.value:.6g} at step {fact.step}.",
    )


def _nan(condition: Condition, memory: RuleMemory, fact: Fact, now_ms: int) -> Judged:  # noqa: ARG001
    if isinstance(fact, EventObservation) and fact.kind == "job.loss_nan":
        words = str(fact.data.get("sentence") or "A loss is NaN.")
        return _settle(memory, holds=True, fired=words)
    if not isinstance(fact, MetricObservation):
        return memory, None
    name = condition.metric or "A loss"
    return _settle(
        memory,
        holds=math.isnan(fact.value),
        fired=f"{name} is NaN at step {fact.step}.",
        cleared=f"{name} is a number again at step {fact.step}.",
    )


def _absence(condition: Condition, memory: RuleMemory, fact: Fact, now_ms: int) -> Judged:
    if isinstance(fact, NoPoint):
        fact = ProgressMark("", fact.since_ms)
    elif isinstance(fact, MetricObservation):
        fact = ProgressMark(f"{fact.step}:{fact.time_ms}:{fact.value!r}", now_ms)
    if not isinstance(fact, ProgressMark):
        return memory, None
    words = f"No new point of {condition.metric} for {duration_words(condition.seconds)}."
    cleared = f"{condition.metric} is logged again."
    return _silent(condition, memory, fact, now_ms, fired=words, cleared=cleared)


def _stall(condition: Condition, memory: RuleMemory, fact: Fact, now_ms: int) -> Judged:
    if isinstance(fact, EventObservation) and not condition.seconds:
        if fact.kind not in ("job.stalled", "job.recovered"):
            return memory, None
        words = str(fact.data.get("sentence") or "")
        return _settle(memory, holds=fact.kind == "job.stalled", fired=words, cleared=words)
    if not isinstance(fact, ProgressMark) or not condition.seconds:
        return memory, None
    words = f"No step, metric point or log line for {duration_words(condition.seconds)}."
    return _silent(
        condition, memory, fact, now_ms, fired=words, cleared="It is making progress again."
    )


def _silent(
    condition: Condition,
    memory: RuleMemory,
    sign: ProgressMark,
    now_ms: int,
    *,
    fired: str,
    cleared: str,
) -> Judged:
    if sign.mark != memory.mark or not memory.mark_ms:
        memory = msgspec.structs.replace(
            memory, mark=sign.mark, mark_ms=min(sign.since_ms, now_ms)
        )
    holds = now_ms - memory.mark_ms >= condition.seconds * 1000
    return _settle(memory, holds=holds, fired=fired, cleared=cleared)


def _wait(condition: Condition, memory: RuleMemory, fact: Fact, now_ms: int) -> Judged:
    if isinstance(fact, EventObservation) and fact.kind in ("job.admitted", "job.running"):
        return _settle(memory, holds=False, cleared="It has been admitted.")
    if not isinstance(fact, WaitingObservation):
        return memory, None
    waited = now_ms - fact.since_ms
    holds = waited >= condition.seconds * 1000
    words = f"It has been waiting in the queue for {duration_words(round(waited / 1000))}."
    return _settle(memory, holds=holds, fired=words)


#: What an incident says of each state.
STATE_WORDS = {
    "running": "It is running.",
    "succeeded": "It succeeded.",
    "failed": "It failed.",
    "stopped": "It was stopped.",
    "preempted": "It is being preempted.",
    "requeued": "It was requeued.",
    "lost": "An attempt was lost.",
    "blocked": "It is blocked.",
    "oom": "It ran out of memory.",
}


def _state(condition: Condition, memory: RuleMemory, fact: Fact, now_ms: int) -> Judged:  # noqa: ARG001
    if not isinstance(fact, EventObservation):
        return memory, None
    spoken = f"{fact.kind}:{fact.data.get('status', '')}"
    for word in condition.words:
        if fact.kind in STATES[word] or spoken in STATES[word]:
            more = str(fact.data.get("sentence") or "")
            return memory, AlertChange(True, f"{STATE_WORDS[word]} {more}".strip())
    return memory, None


def _log(condition: Condition, memory: RuleMemory, fact: Fact, now_ms: int) -> Judged:  # noqa: ARG001
    if not isinstance(fact, LogMatch):
        return memory, None
    known = BY_NAME.get(condition.pattern)
    words = f"{known.title}: {fact.line}" if known else f"Log line: {fact.line}"
    return _settle(memory, holds=True, fired=words)


def _node(condition: Condition, memory: RuleMemory, fact: Fact, now_ms: int) -> Judged:  # noqa: ARG001
    if not isinstance(fact, EventObservation):
        return memory, None
    for word in condition.words:
        begins, ends = NODES[word]
        more = str(fact.data.get("sentence") or fact.data.get("reason") or "")
        if fact.kind in begins:
            return _settle(memory, holds=True, fired=f"The node is {word}. {more}".strip())
        if fact.kind in ends:
            return _settle(memory, holds=False, cleared=f"The node is no longer {word}.")
    return memory, None


def _worded(words: Mapping[str, tuple[str, ...]], what: str) -> Callable[..., Judged]:
    def judge(condition: Condition, memory: RuleMemory, fact: Fact, now_ms: int) -> Judged:  # noqa: ARG001
        if isinstance(fact, EventObservation):
            for word in condition.words:
                if fact.kind in words[word]:
                    more = str(fact.data.get("sentence") or "")
                    return memory, AlertChange(True, f"The {what} {word}. {more}".strip())
        return memory, None

    return judge


_JUDGES: Mapping[ConditionKind, Callable[[Condition, RuleMemory, Fact, int], Judged]] = {
    ConditionKind.THRESHOLD: _threshold,
    ConditionKind.CHANGE: _change,
    ConditionKind.NAN: _nan,
    ConditionKind.ABSENCE: _absence,
    ConditionKind.STALL: _stall,
    ConditionKind.STATE: _state,
    ConditionKind.LOG: _log,
    ConditionKind.NODE: _node,
    ConditionKind.LEASE: _worded(LEASES, "lease"),
    ConditionKind.BUDGET: _worded(BUDGETS, "budget was"),
    ConditionKind.WAIT: _wait,
}
