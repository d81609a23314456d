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
    "Admission",
    "Backfill",
    "Cause",
    "RoomClaim",
    "Decisions",
    "DurationModel",
    "DurationEstimate",
    "QueueOrder",
    "Policy",
    "PreemptionRules",
    "Queue",
    "Reservation",
    "ActiveJob",
    "PassScheduler",
    "Snapshot",
    "Stop",
    "Team",
    "WaitingJob",
    "decide",
    "preset",
]
