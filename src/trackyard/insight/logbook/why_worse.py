"""Why did it get worse? What else changed around a spike or a slow-down. Pure rules, each with
its evidence; docs/logbook.md states them. A suspect is a hint: it was there at the time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

import msgspec

from trackyard.insight.logbook.facts import AttemptFact, Curve, EventFact
from trackyard.insight.logbook.words import figure, grouped, lasted, listed

#: How far back, and how far on, a cause is looked for, unless the run is shorter or longer.
LEAST_MS, MOST_MS, SHARE = 2 * 60_000, 30 * 60_000, 0.05
#: Changes of machine metrics that count, as a share of the value before (degrees for heat).
MACHINE_SHARE, HEAT_DEGREES = 0.15, 5.0
#: A rank lags where it differs by so much from the median of all.
LAG_SHARE = 0.2
MAX_SUSPECTS = 30
_RANK = re.compile(r"rank[_/.-]?(\d+)", re.IGNORECASE)
_MEMBER = re.compile(r"system/(\d+)/")
_STEP_TIME = re.compile(r"(step|iter|batch)[_/ ]?(time|seconds|ms)|time[_/]step", re.IGNORECASE)
_DATA = re.compile(r"epoch|shard|data|tokens_seen|samples_seen|position|offset", re.IGNORECASE)
_HEAT = re.compile(r"temperature")
_SHARED = re.compile(r"clock|power|utilization|memory_usage_percentage|disk|network")


class Suspect(msgspec.Struct, frozen=True):
    """Something that changed around then."""

    #: node, neighbour, data, checkpoint, temperature, machine, rank, attempt, config
    kind: str
    sentence: str
    #: when it changed, and how long before the moment (negative: after it)
    time_ms: int | None
    before_ms: int | None
    #: 0 to 1: how much it stands out; the order of the list
    weight: float


class WhyWorse(msgspec.Struct):
    """What else changed around a moment of a run."""

    run_id: str
    metric: str
    step: int
    time_ms: int
    since_ms: int
    until_ms: int
    sentence: str
    suspects: list[Suspect]
    #: what could not be looked at, in words
    missing: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What is known around a moment of a run."""

    run_id: str
    job_id: str
    metric: str
    step: int
    time_ms: int
    since_ms: int
    until_ms: int
    attempts: Sequence[AttemptFact] = ()
    #: events of run and job
    events: Sequence[EventFact] = ()
    #: of the nodes it was on
    node_events: Sequence[EventFact] = ()
    #: admissions and ends of other jobs on the same nodes; those of other teams without a name
    neighbours: Sequence[EventFact] = ()
    #: every other metric of the run around then: (times, values) by name
    series: Mapping[str, tuple[Sequence[int], Sequence[float]]] = field(default_factory=dict)


def window(time_ms: int, start_ms: int, end_ms: int) -> tuple[int, int]:
    """Return where to look: a twentieth of the run on either side, within bounds."""
    reach = round(min(MOST_MS, max(LEAST_MS, SHARE * (end_ms - start_ms))))
    return time_ms - reach, time_ms + reach


def nearest(curve: Curve, step: int) -> int | None:
    """Return the place of the first point at or after a step, else of the last."""
    if not curve.steps:
        return None
    return next((at for at, one in enumerate(curve.steps) if one >= step), len(curve.steps) - 1)


def explain(moment: Moment) -> WhyWorse:
    """List what else changed, what stands out most first."""
    found = [
        *_attempts(moment),
        *_own_events(moment),
        *_nodes(moment),
        *_neighbours(moment),
        *_machine(moment),
        *_lagging(moment),
        *_data(moment),
    ]
    found.sort(key=lambda one: (-one.weight, abs(one.before_ms or 0), one.sentence))
    missing = []
    if not any(name.startswith("system/") for name in moment.series):
        missing.append("The run has no samples of its machine around then.")
    elif not any(_HEAT.search(name) or "clock" in name for name in moment.series):
        missing.append("Temperatures and clocks of its GPUs were not sampled.")
    if not moment.attempts:
        missing.append("The run has no job, so its node and its neighbours are unknown.")
    where = f"Around step {grouped(moment.step)}"
    if found:
        sentence = (
            f"{where}, {'one thing' if len(found) == 1 else f'{len(found)} things'} changed."
        )
    else:
        sentence = f"{where}, nothing else is known to have changed."
    return WhyWorse(
        run_id=moment.run_id,
        metric=moment.metric,
        step=moment.step,
        time_ms=moment.time_ms,
        since_ms=moment.since_ms,
        until_ms=moment.until_ms,
        sentence=sentence,
        suspects=found[:MAX_SUSPECTS],
        missing=missing,
    )


def _suspect(moment: Moment, kind: str, sentence: str, at: int | None, weight: float) -> Suspect:
    ago = None if at is None else moment.time_ms - at
    if ago is not None:
        # What came after the moment did not cause it, but may tell of the same fault.
        reach = max(1, moment.until_ms - moment.time_ms)
        weight *= (1 - 0.5 * min(1.0, abs(ago) / reach)) * (1.0 if ago >= 0 else 0.6)
    return Suspect(kind, sentence, at, ago, round(weight, 3))


def _within(moment: Moment, time_ms: int | None) -> bool:
    return time_ms is not None and moment.since_ms <= time_ms <= moment.until_ms


def _attempts(moment: Moment) -> list[Suspect]:
    found = []
    for before, after in pairwise(moment.attempts):
        if not _within(moment, after.started_ms):
            continue
        moved = set(after.nodes) != set(before.nodes)
        step = after.resume_step
        resumed = "" if step is None else f", resumed from the checkpoint of step {grouped(step)}"
        words = f"Attempt {after.number} began{resumed}"
        if moved:
            words += f", and moved from {listed(before.nodes)} to {listed(after.nodes)}"
        kind = "node" if moved else "checkpoint" if step is not None else "attempt"
        found.append(_suspect(moment, kind, f"{words}.", after.started_ms, 1.0))
    return found


def _own_events(moment: Moment) -> list[Suspect]:
    found = []
    for event in moment.events:
        if not _within(moment, event.time_ms):
            continue
        if event.kind == "checkpoint.saved":
            step = event.number("step") or 0
            words = f"A checkpoint was saved at step {grouped(step)}."
            found.append(_suspect(moment, "checkpoint", words, event.time_ms, 0.4))
        elif event.kind in ("job.stalled", "job.loss_nan", "job.preempting", "claim.granted"):
            words = event.text("sentence") or event.kind
            found.append(_suspect(moment, "attempt", words, event.time_ms, 0.8))
        elif event.kind == "run.logged" and event.words("params"):
            words = f"Parameters were logged: {listed(event.words('params'))}."
            found.append(_suspect(moment, "config", words, event.time_ms, 0.7))
    return found


def _nodes(moment: Moment) -> list[Suspect]:
    found = []
    for event in moment.node_events:
        if _within(moment, event.time_ms):
            told = event.text("sentence") or event.kind.removeprefix("node.").replace("_", " ")
            is_bad = event.kind in ("node.check_failed", "node.quarantined", "node.lost")
            words = told if event.subject_id in told else f"{event.subject_id}: {told}"
            found.append(_suspect(moment, "node", words, event.time_ms, 1.0 if is_bad else 0.5))
    return found


def _neighbours(moment: Moment) -> list[Suspect]:
    found = []
    for event in moment.neighbours:
        if not _within(moment, event.time_ms) or event.subject_id == moment.job_id:
            continue
        own = {node for one in moment.attempts for node in one.nodes}
        nodes = [node for node in event.words("nodes") if node in own]
        if not nodes:
            continue
        who = f"job {event.text('name')}" if event.text("name") else "a job of another team"
        did = "started" if event.kind == "job.admitted" else "ended"
        words = f"{who[0].upper()}{who[1:]} {did} on the same node, {listed(nodes)}."
        found.append(_suspect(moment, "neighbour", words, event.time_ms, 0.7))
    return found


def _split(
    moment: Moment, times: Sequence[int], values: Sequence[float]
) -> tuple[float, float] | None:
    """Return the medians before and after the moment, where both are known."""
    before: list[float] = []
    after: list[float] = []
    for time_ms, value in zip(times, values, strict=True):
        if not math.isnan(value) and moment.since_ms <= time_ms <= moment.until_ms:
            (before if time_ms < moment.time_ms else after).append(value)
    return (median(before), median(after)) if before and after else None


def _machine(moment: Moment) -> list[Suspect]:
    found = []
    for name, (times, values) in moment.series.items():
        if not name.startswith("system/"):
            continue
        medians = _split(moment, times, values)
        if medians is None:
            continue
        before, after = medians
        label = name.removeprefix("system/").replace("_", " ")
        if _HEAT.search(name):
            if abs(after - before) >= HEAT_DEGREES:
                words = f"{label} went from {figure(before)} to {figure(after)} °C."
                weight = min(1.0, abs(after - before) / 20)
                found.append(_suspect(moment, "temperature", words, None, weight))
        elif _SHARED.search(name) and before:
            share = (after - before) / abs(before)
            # Percentages near zero double by nothing.
            if abs(share) >= MACHINE_SHARE and abs(after - before) >= 2:
                words = f"{label} went from {figure(before)} to {figure(after)} ({share:+.0%})."
                found.append(_suspect(moment, "machine", words, None, min(0.9, abs(share))))
    found.sort(key=lambda one: -one.weight)
    return found[:10]


def _lagging(moment: Moment) -> list[Suspect]:
    """Ranks whose step takes longer, or whose GPUs do less, than those of the others."""
    groups: dict[str, dict[int, float]] = {}
    for name, (times, values) in moment.series.items():
        by_rank = _RANK.search(name) if _STEP_TIME.search(name) else None
        member = _MEMBER.match(name) if ("clock" in name or "power" in name) else None
        match = by_rank or member
        after = [
            value
            for time_ms, value in zip(times, values, strict=True)
            if moment.time_ms <= time_ms <= moment.until_ms and not math.isnan(value)
        ]
        if match is not None and after:
            label = name.replace(match[0], "", 1)
            groups.setdefault(label, {})[int(match[1])] = median(after)
    found = []
    for label, ranks in groups.items():
        usual = median(ranks.values()) if len(ranks) >= 3 else 0.0
        for rank, value in ranks.items():
            share = (value - usual) / usual if usual else 0.0
            is_time = bool(_STEP_TIME.search(label))
            if (share if is_time else -share) < LAG_SHARE:
                continue
            what = label.strip("/_. ").replace("_", " ") or "it"
            words = f"Rank {rank} lags: {what} is {figure(value)} against a median of"
            weight = min(1.0, abs(share))
            found.append(_suspect(moment, "rank", f"{words} {figure(usual)}.", None, weight))
    return found


def _data(moment: Moment) -> list[Suspect]:
    """Where the data stood: an epoch or shard that changed, or a position that jumped."""
    found = []
    for name, (times, values) in moment.series.items():
        if name.startswith("system/") or not _DATA.search(name):
            continue
        points = [
            (time_ms, value)
            for time_ms, value in zip(times, values, strict=True)
            if moment.since_ms <= time_ms <= moment.until_ms and not math.isnan(value)
        ]
        jumps = [
            (abs(new - old), at, old, new)
            for (_, old), (at, new) in pairwise(points)
            if math.floor(new) != math.floor(old)
        ]
        if not jumps:
            continue
        usual = median(jump[0] for jump in jumps)
        size, at, old, new = max(jumps)
        # A counter that goes on as ever is no news; an epoch that turns, or a leap, is.
        if len(jumps) <= 2 or size >= 5 * usual:
            words = f"{name} went from {figure(old)} to {figure(new)}"
            ago = moment.time_ms - at
            when = f" {lasted(ago)} before" if ago >= 1000 else ""
            found.append(_suspect(moment, "data", f"{words}{when}.", at, 0.6))
    return found
