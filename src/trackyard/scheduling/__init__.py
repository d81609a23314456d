"""Decide what runs where and why the rest waits: a pure function of a snapshot."""

from trackyard.scheduling.decisions import (
    Admission,
    Cause,
    Decisions,
    Reservation,
    RoomClaim,
    Stop,
)
from trackyard.scheduling.forecast.durations import DurationEstimate, DurationModel
from trackyard.scheduling.policy import Backfill, Policy, PreemptionRules, QueueOrder, preset
from trackyard.scheduling.scheduler import PassScheduler, decide
from trackyard.scheduling.snapshot import ActiveJob, Queue, Snapshot, Team, WaitingJob

__all__ = [
    "ActiveJob",
    "Admission",
    "Backfill",
    "Cause",
    "Decisions",
    "DurationEstimate",
    "DurationModel",
    "PassScheduler",
    "Policy",
    "PreemptionRules",
    "Queue",
    "QueueOrder",
    "Reservation",
    "RoomClaim",
    "Snapshot",
    "Stop",
    "Team",
    "WaitingJob",
    "decide",
    "preset",
]
