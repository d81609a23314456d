"""Named policies for a replay: which rules, what may be known, and what preemption costs.

Owns `setting_for` and `replay`. Reads the time only to say how long a replay took.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from trackyard.core.errors import InvalidInput
from trackyard.core.node import Node
from trackyard.core.resources import Style
from trackyard.scheduling.policy import (
    NO_PREEMPTION,
    PRESETS,
    Backfill,
    Policy,
    PreemptionRules,
    QueueOrder,
)
from trackyard.scheduling.snapshot import Team
from trackyard.simulate.measures import Measures, measure
from trackyard.simulate.overtaking import Overtaking
from trackyard.simulate.packing import PLACEMENTS
from trackyard.simulate.replay import EAGER, FREE, Costs, Habits, Replay, Replayed, Setting
from trackyard.simulate.trace import JobTrace

#: Baselines of the literature, which no queue runs: a large job may wait for ever.
BASELINES: dict[str, Policy] = {
    "sjf-oracle": Policy(
        name="sjf-oracle",
        order=QueueOrder.SHORTEST,
        backfill=Backfill.SKIP,
        preemption=NO_PREEMPTION,
    ),
    "sjf-learned": Policy(
        name="sjf-learned",
        order=QueueOrder.SHORTEST,
        backfill=Backfill.SKIP,
        preemption=NO_PREEMPTION,
    ),
    "srtf": Policy(
        name="srtf",
        order=QueueOrder.SHORTEST,
        backfill=Backfill.SKIP,
        preemption=PreemptionRules(
            yield_ratio=1.0,
            loss_ratio=0.0,
            restart_seconds=0.0,
            min_run_seconds=0.0,
            max_stops_per_hour=1_000_000,
            grace_seconds=0.0,
        ),
    ),
}
_KNOWN = {**PRESETS, **BASELINES}
#: These know true run times, as the literature's baselines do.
_ORACLES = ("sjf-oracle", "srtf", "easy", "conservative")
#: This one preempts at no cost: a bound, not a policy.
_FREE = ("srtf",)

POLICIES = tuple(sorted(_KNOWN))
STYLES = {"bestfit": Style.PACK, "default": Style.LEAST_FRAGMENTATION, "spread": Style.SPREAD}


def setting_for(
    name: str,
    *,
    habits: Habits | None = None,
    costs: Costs | None = None,
    style: str = "default",
    teams: tuple[Team, ...] = (),
) -> Setting:
    """Return the setting that a policy's name stands for."""
    if name not in _KNOWN:
        message = f"There is no policy `{name}`; choose among {', '.join(POLICIES)}"
        raise InvalidInput(message)
    if style not in STYLES:
        message = f"There is no placement `{style}`; choose among {', '.join(PLACEMENTS)}"
        raise InvalidInput(message)
    return Setting(
        policy=replace(_KNOWN[name], style=STYLES[style]),
        oracle=name in _ORACLES,
        habits=EAGER if name in _FREE else (habits or Habits()),
        costs=FREE if name in _FREE else (costs or Costs()),
        teams=teams,
    )


def replay(
    trace: JobTrace,
    nodes: tuple[Node, ...],
    setting: Setting,
    *,
    progress: Callable[[int], None] | None = None,
    overtaking: Overtaking | None = None,
) -> tuple[Measures, Replayed]:
    """Replay a trace and measure it."""
    started = time.process_time()
    with _seldom_collected():
        outcome = Replay(trace, nodes, setting, overtaking=overtaking).run(progress)
    return measure(outcome, replay_seconds=time.process_time() - started), outcome


@contextlib.contextmanager
def _seldom_collected() -> Iterator[None]:
    """Look for cycles seldom: a replay makes millions of small objects and hardly any cycle."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(500_000, 50, 1_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def even_quotas(trace: JobTrace, nodes: tuple[Node, ...]) -> tuple[Team, ...]:
    """Give each team of a trace a quota by its part of the GPU time, borrowing allowed."""
    work: dict[str, float] = {}
    for job in trace.jobs:
        work[job.team] = work.get(job.team, 0.0) + job.gpu_share * job.duration
    total = sum(work.values()) or 1.0
    gpus = sum(len(node.gpus) for node in nodes)
    return tuple(
        Team(
            id=team, quota_gpus=max(round(gpus * part / total), 1), weight=max(part / total, 1e-6)
        )
        for team, part in sorted(work.items())
    )
