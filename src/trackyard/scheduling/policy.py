"""The settings of a policy: how the line is ordered, filled, reserved and preempted.

Owns Policy, its enums and the named presets. Holds no state and decides nothing by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import log2

from trackyard.core.errors import InvalidInput
from trackyard.core.resources import Style

MINUTE = 60.0
HOUR = 60 * MINUTE
DAY = 24 * HOUR


class QueueOrder(StrEnum):
    """Who goes first within a priority class."""

    #: by submission
    FIFO = "fifo"
    #: the team with the least decayed use per share
    FAIR = "fair"
    #: the team with the smallest dominant share of what runs now
    DOMINANT = "dominant"
    #: the shortest predicted job
    SHORTEST = "shortest"
    #: the shortest predicted job, weighed by its team's use of its share and by its waiting
    DEFAULT = "default"


class Backfill(StrEnum):
    """What may pass a job that does not fit."""

    #: nothing: strict order
    STRICT = "strict"
    #: whatever fits; a large job may wait long
    SKIP = "skip"
    #: whatever does not delay the first waiting job of each class and of each quota's owner
    EASY = "easy"
    #: whatever does not delay any of the first waiting jobs
    CONSERVATIVE = "conservative"


@dataclass(frozen=True, kw_only=True, slots=True)
class PreemptionRules:
    """When a running job may be stopped for another."""

    #: a higher class may stop a lower one
    lower_classes: bool = True
    #: a team within its quota may take back what others borrowed
    reclaim: bool = True
    #: but only for a job that waited this long, so that quotas do not chase each other
    reclaim_after_seconds: float = 1800.0
    #: a job that has saved may yield to a much shorter one of its own class
    yield_to_shorter: bool = True
    #: how many times longer the victim's predicted remaining time must be
    yield_ratio: float = 2.0
    #: and how many times longer than the work that the stop loses, restart included
    loss_ratio: float = 10.0
    #: what stopping and starting again costs a job beside the work since its last save
    restart_seconds: float = 60.0
    #: nobody is stopped for one of its own class before having run this long, and twice as long
    #: after each stop
    min_run_seconds: float = 600.0
    #: nobody is stopped more often than this within an hour, for whatever reason
    max_stops_per_hour: int = 4
    #: time to save a checkpoint before the stop; 0 frees the GPUs at once
    grace_seconds: float = 60.0
    #: attempts to find victims in one pass, a bound on its cost
    attempts_per_pass: int = 4
    #: most jobs stopped for one
    max_victims: int = 64

    @property
    def is_on(self) -> bool:
        """Whether anyone at all may be stopped for another."""
        return self.lower_classes or self.reclaim or self.yield_to_shorter


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """One way to run a queue."""

    #: name in reports
    name: str = "default"
    #: who goes first
    order: QueueOrder = QueueOrder.DEFAULT
    #: what may pass the head
    backfill: Backfill = Backfill.EASY
    #: most reservations held at once under conservative backfill
    reservations: int = 32
    #: where jobs go
    style: Style = Style.LEAST_FRAGMENTATION
    #: who may be stopped
    preemption: PreemptionRules = field(default_factory=PreemptionRules)
    #: default order: waiting this long halves a job's length in the order
    halving_seconds: float = 2 * DAY
    #: default order: jobs of fewer GPU-seconds than this are taken to be alike
    shortest_length: float = MINUTE
    #: use counts half after this long
    half_life_seconds: float = 7 * DAY
    #: default order: how far use of the share may stretch or shrink a length (1: not at all)
    share_stretch: float = 2.0

    def passing_seconds(self, length: float) -> float:
        """How much later others may be submitted and still go before a job of this length.

        The length is in GPU-seconds. A job of the same class that is submitted later than that
        starts before it only where that does not delay it.
        """
        length = max(length, self.shortest_length)
        return self.halving_seconds * log2(length / self.shortest_length)


NO_PREEMPTION = PreemptionRules(lower_classes=False, reclaim=False, yield_to_shorter=False)

PRESETS: dict[str, Policy] = {
    "fifo": Policy(
        name="fifo", order=QueueOrder.FIFO, backfill=Backfill.STRICT, preemption=NO_PREEMPTION
    ),
    "fifo-skip": Policy(
        name="fifo-skip", order=QueueOrder.FIFO, backfill=Backfill.SKIP, preemption=NO_PREEMPTION
    ),
    "easy": Policy(name="easy", order=QueueOrder.FIFO, preemption=NO_PREEMPTION),
    "conservative": Policy(
        name="conservative",
        order=QueueOrder.FIFO,
        backfill=Backfill.CONSERVATIVE,
        preemption=NO_PREEMPTION,
    ),
    "sjf": Policy(name="sjf", order=QueueOrder.SHORTEST, preemption=NO_PREEMPTION),
    "fair": Policy(name="fair", order=QueueOrder.FAIR, preemption=NO_PREEMPTION),
    "drf": Policy(name="drf", order=QueueOrder.DOMINANT, preemption=NO_PREEMPTION),
    "default": Policy(),
}


def preset(name: str) -> Policy:
    """Return a named policy."""
    try:
        return PRESETS[name]
    except KeyError:
        known = ", ".join(sorted(PRESETS))
        message = f"There is no policy `{name}`; choose among {known}"
        raise InvalidInput(message) from None


def with_style(policy: Policy, style: Style) -> Policy:
    """Return the policy with another placement."""
    return replace(policy, style=style)
