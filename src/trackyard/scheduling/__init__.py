"""Decide what runs where and why the rest waits: a pure function of a snapshot."""

from trackyard.scheduling.decisions import Admission, Cause, Claim, Decisions, Reservation, Stop
from trackyard.scheduling.forecast.durations import DurationModel, Estimate
from trackyard.scheduling.policy import Backfill, Order, Policy, Preemption, preset
from trackyard.scheduling.scheduler import Scheduler, decide
from trackyard.scheduling.snapshot import Queue, Running, Snapshot, Team, Waiting

__all__ = [
    "Admission",
    "Backfill",
    "Cause",
    "Claim",
    "Decisions",
    "DurationModel",
    "Estimate",
    "Order",
    "Policy",
    "Preemption",
    "Queue",
    "Reservation",
    "Running",
    "Scheduler",
    "Snapshot",
    "Stop",
    "Team",
    "Waiting",
    "decide",
    "preset",
]
