"""Times and refusals in words. Owns how a moment is said in a reader's zone and what a refusal
carries; knows no rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from trackyard.core.errors import LeaseRefused
from trackyard.leases.plan.calendar import PromisedLease, RunningJob, Slot

_NAMES = 6


def zone_of(name: str) -> tzinfo:
    """Return the zone a reader named; UTC where there is none of that name."""
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def spoken(time_ms: int, zone: tzinfo = UTC) -> str:
    """Format a moment with its offset: `Sun 1 Mar 2026 14:00 +01:00`."""
    local = datetime.fromtimestamp(time_ms / 1000, zone)
    offset = local.strftime("%z")
    return f"{local:%a} {local.day} {local:%b %Y %H:%M} {offset[:3]}:{offset[3:5]}"


def span(start_ms: int, end_ms: int, zone: tzinfo = UTC) -> str:
    """Format a span, with the day of its end only if that differs."""
    start = datetime.fromtimestamp(start_ms / 1000, zone)
    end = datetime.fromtimestamp(end_ms / 1000, zone)
    if start.date() == end.date() and start.utcoffset() == end.utcoffset():
        offset = end.strftime("%z")
        return f"{spoken(start_ms, zone)[:-7]} to {end:%H:%M} {offset[:3]}:{offset[3:5]}"
    return f"{spoken(start_ms, zone)} to {spoken(end_ms, zone)}"


def length(ms: int) -> str:
    """Format a duration: `2 days 3 h`, `1 h 30 min`, `5 min`."""
    minutes = max(0, ms) // 60_000
    days, rest = divmod(minutes, 1440)
    hours, minutes = divmod(rest, 60)
    words = []
    if days:
        words.append(f"{days} day{'s' if days > 1 else ''}")
    if hours:
        words.append(f"{hours} h")
    if minutes and not days:
        words.append(f"{minutes} min")
    return " ".join(words) or "less than a minute"


def names(nodes: Iterable[str]) -> str:
    """List nodes, not too many."""
    found = list(nodes)
    more = f" and {len(found) - _NAMES} more" if len(found) > _NAMES else ""
    return ", ".join(found[:_NAMES]) + more


def whose(promise: PromisedLease) -> str:
    """Say which lease, and whose."""
    return f"lease {promise.name} of {promise.user} (team {promise.team})"


def slot_fact(slot: Slot, zone: tzinfo) -> dict[str, Any]:
    """Describe a slot as data, with a sentence."""
    return {
        "starts_ms": slot.starts_ms,
        "ends_ms": slot.ends_ms,
        "nodes": list(slot.nodes),
        "free_until_ms": slot.free_until_ms,
        "sentence": f"{span(slot.starts_ms, slot.ends_ms, zone)} on {names(slot.nodes)}",
    }


def promise_fact(promise: PromisedLease, nodes: Sequence[str]) -> dict[str, Any]:
    """Say which lease is in the way, for programs."""
    return {
        "lease_id": promise.lease_id,
        "name": promise.name,
        "user": promise.user,
        "team": promise.team,
        "starts_ms": promise.starts_ms,
        "ends_ms": promise.ends_ms,
        "nodes": list(nodes),
    }


def job_fact(
    one: RunningJob, *, effect: str, at_ms: int | None, sentence: str, team: str, sees_all: bool
) -> dict[str, Any]:
    """Describe the effect on a job; of another team's only that there is one."""
    open_ = sees_all or one.team == team
    return {
        "job_id": one.job_id if open_ else "",
        "name": one.name if open_ else "",
        "user": one.user if open_ else "",
        "team": one.team if open_ else "another team",
        "node_ids": list(one.nodes),
        "effect": effect,
        "at_ms": at_ms,
        "sentence": sentence,
    }


def refusal(
    kind: str,
    sentence: str,
    remedy: str,
    *,
    conflicts: Sequence[dict[str, Any]] = (),
    jobs: Sequence[dict[str, Any]] = (),
    slots: Sequence[dict[str, Any]] = (),
) -> LeaseRefused:
    """Make the refusal: one sentence, a remedy, and the facts behind them."""
    return LeaseRefused(
        f"{sentence}. {remedy}.",
        details={
            "refusal": kind,
            "sentence": f"{sentence}.",
            "remedy": f"{remedy}.",
            "conflicts": list(conflicts),
            "jobs": list(jobs),
            "slots": list(slots),
        },
    )
