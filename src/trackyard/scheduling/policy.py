"""The settings of a policy: how the line is ordered, filled, reserved and preempted.

Owns Policy, its enums and the named presets. Holds no state and decides nothing by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from trackyard.core.errors import InvalidInput
from trackyard.core.job import PriorityClass
from trackyard.core.resources import Style

HOUR = 3600.0
DAY = 24 * HOUR


class Order(StrEnum):
    """Who goes first within a priority class."""

    #: by submission
    FIFO = "fifo"
    #: the team with the least decayed use per share
    FAIR = "fair"
    #: the team with the smallest dominant share of what runs now
    DOMINANT = "dominant"
    #: the shortest predicted job
    SHORTEST = "shortest"
    #: predicted length weighed by the team's use of its share, with a bound on waiting
    DEFAULT = "default"


class Backfill(StrEnum):
    """What may pass a job that does not fit."""

    #: nothing: strict order
    STRICT = "strict"
    #: whatever fits; a large job may wait long
    SKIP = "skip"
    #: whatever does not delay the first waiting job
    EASY = "easy"
    #: whatever does not delay any of the first waiting jobs
    CONSERVATIVE = "conservative"


@dataclass(frozen=True, kw_only=True, slots=True)
class Preemption:
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
    #: a job that waited past its bound takes the place of one that has saved and runs for long
    take_turns: bool = True
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
        return self.lower_classes or self.reclaim or self.yield_to_shorter or self.take_turns


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """One way to run a queue."""

    #: name in reports
    name: str = "default"
    #: who goes first
    order: Order = Order.DEFAULT
    #: what may pass the head
    backfill: Backfill = Backfill.EASY
    #: the head earns its reservation after waiting this long; under the default order when overdue
    reserve_after_seconds: float = 0.0
    #: most reservations held at once under conservative backfill
    reservations: int = 32
    #: where jobs go
    style: Style = Style.LEAST_FRAGMENTATION
    #: who may be stopped
    preemption: Preemption = field(default_factory=Preemption)
    #: the first job of each class, and of each team within its quota, that finds no room gets a
    #: reservation, and nothing that would delay it starts
    reserve_first: bool = False
    #: default order: a job of the normal class that waited this long goes before its class; other
    #: classes wait so many times as long as `WAIT_BY_CLASS` says
    starvation_seconds: float = 1 * DAY
    #: default order: and this many times its own expected length, and as long as it has run
    starvation_lengths: float = 10.0
    #: default order: but for its length nobody waits longer than this
    longest_wait_seconds: float = 5 * DAY
    #: default order: part of the GPUs that such jobs may hold before they wait their turn again,
    #: so that an overloaded yard still serves short jobs
    overdue_share: float = 0.25
    #: use counts half after this long
    half_life_seconds: float = 7 * DAY
    #: default order: how far use of the share may stretch or shrink a length (1: not at all)
    share_stretch: float = 2.0
    #: default order: waiting this long halves a job's length in the order
    halving_seconds: float = 1 * DAY

    def wait_bound(
        self, priority: int, length_seconds: float = 0.0, attained_seconds: float = 0.0
    ) -> float:
        """How long a job of this class and expected length waits before it goes first."""
        own = self.starvation_seconds * WAIT_BY_CLASS[priority]
        for_length = self.starvation_lengths * length_seconds + attained_seconds
        return own + min(for_length, self.longest_wait_seconds)


#: How long a class waits before it goes first, as a part of what the normal class waits.
WAIT_BY_CLASS: dict[int, float] = {
    PriorityClass.SCAVENGE: 7.0,
    PriorityClass.LOW: 3.0,
    PriorityClass.NORMAL: 1.0,
    PriorityClass.HIGH: 1 / 4,
    PriorityClass.URGENT: 1 / 24,
}

NO_PREEMPTION = Preemption(
    lower_classes=False, reclaim=False, yield_to_shorter=False, take_turns=False
)

PRESETS: dict[str, Policy] = {
    "fifo": Policy(
        name="fifo", order=Order.FIFO, backfill=Backfill.STRICT, preemption=NO_PREEMPTION
    ),
    "fifo-skip": Policy(
        name="fifo-skip", order=Order.FIFO, backfill=Backfill.SKIP, preemption=NO_PREEMPTION
    ),
    "easy": Policy(
        name="easy",
        order=Order.FIFO,
        backfill=Backfill.EASY,
        preemption=NO_PREEMPTION,
    ),
    "conservative": Policy(
        name="conservative",
        order=Order.FIFO,
        backfill=Backfill.CONSERVATIVE,
        preemption=NO_PREEMPTION,
    ),
    "sjf": Policy(
        name="sjf", order=Order.SHORTEST, backfill=Backfill.SKIP, preemption=NO_PREEMPTION
    ),
    "sjf-learned": Policy(
        name="sjf-learned", order=Order.SHORTEST, backfill=Backfill.SKIP, preemption=NO_PREEMPTION
    ),
    "srtf": Policy(
        name="srtf",
        order=Order.SHORTEST,
        backfill=Backfill.SKIP,
        preemption=Preemption(
            yield_to_shorter=True, yield_ratio=1.0, min_run_seconds=0.0, grace_seconds=0.0
        ),
    ),
    "fair": Policy(
        name="fair", order=Order.FAIR, backfill=Backfill.SKIP, preemption=NO_PREEMPTION
    ),
    "drf": Policy(
        name="drf", order=Order.DOMINANT, backfill=Backfill.SKIP, preemption=NO_PREEMPTION
    ),
    "default": Policy(reserve_first=True),
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
