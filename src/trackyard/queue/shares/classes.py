"""Who may use which priority class, and how much of the top class a team may use in a week.

Owns the rule (the queue's, else the team's, else the product's) and the budget of urgent
GPU-hours. With a budget every urgent job states a time limit, and what open jobs may still use
counts as used, so that a budget cannot be outrun by submitting many jobs at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from trackyard.access.principal import Principal, Role
from trackyard.core.errors import Denied, InvalidInput
from trackyard.core.job import PriorityClass
from trackyard.core.resources import WHOLE
from trackyard.queue.records import decode_placement, load_specs
from trackyard.queue.shares.settings import QueueSettings, TeamShare
from trackyard.queue.specification import JobSpec
from trackyard.store.database import ReadConnection, Tx

#: The least role for a class where neither queue nor team says otherwise; others: member.
PRODUCT_RULES: Mapping[str, str] = {"urgent": "maintainer"}
BUDGET_DAYS = 7
_WEEK_MS = BUDGET_DAYS * 86_400_000
_HOUR_MS = 3_600_000


class ClassRule(NamedTuple):
    """Who may use a class, and who says so."""

    #: member, maintainer, owner or admin
    role: str
    #: queue, team or product
    source: str


def rule_of(level: PriorityClass, queue: QueueSettings, share: TeamShare) -> ClassRule:
    """Return who may use a class in this queue for this team."""
    name = level.name.lower()
    for source, rules in (("queue", queue.classes), ("team", share.classes)):
        if name in rules:
            return ClassRule(rules[name], source)
    return ClassRule(PRODUCT_RULES.get(name, "member"), "product")


def check_class(
    principal: Principal,
    level: PriorityClass,
    *,
    queue_name: str,
    queue: QueueSettings,
    share: TeamShare,
) -> None:
    """Refuse a caller who may not use a class."""
    if principal.is_admin:
        return
    name, rule = level.name.lower(), rule_of(level, queue, share)
    if rule.role != "admin" and principal.may(Role.parse(rule.role)):
        return
    needs = "is for admins" if rule.role == "admin" else f"needs the role {rule.role}"
    lower = _best_allowed(principal, level, queue, share)
    raise Denied(
        f"priority {name} in queue {queue_name} {needs}; {principal.name} is"
        f" {principal.role.name} in team {principal.team}. Use --priority {lower}, or ask"
        f" {'an admin' if rule.role == 'admin' else f'a {rule.role} of the team'} to submit it"
    )


def _best_allowed(
    principal: Principal, level: PriorityClass, queue: QueueSettings, share: TeamShare
) -> str:
    for lower in sorted((one for one in PriorityClass if one < level), reverse=True):
        role = rule_of(lower, queue, share).role
        if role != "admin" and principal.may(Role.parse(role)):
            return lower.name.lower()
    return PriorityClass.SCAVENGE.name.lower()


class UrgentUse(NamedTuple):
    """Urgent GPU-hours of a team in the last week."""

    used: float
    #: what its waiting and running urgent jobs may still use
    open: float


def urgent_use(
    reader: ReadConnection | Tx, team_id: int, now_ms: int, *, but_job: int | None = None
) -> UrgentUse:
    """Add up what a team's urgent jobs used and may still use; one job may be left out."""
    top, since = int(PriorityClass.URGENT), now_ms - _WEEK_MS
    used, running = 0.0, dict[int, float]()
    for job, placement, admitted, ended in reader.all(
        "SELECT a.job, a.placement, a.admitted_ms, a.ended_ms FROM attempts a"
        " JOIN jobs j ON j.id = a.job WHERE j.team_id = ? AND coalesce(a.priority, j.priority) = ?"
        " AND (a.ended_ms IS NULL OR a.ended_ms > ?)",
        (team_id, top, since),
    ):
        gpus = decode_placement(placement).gpu_milli_total / WHOLE
        hours = gpus * max(0, (ended or now_ms) - max(admitted, since)) / _HOUR_MS
        used += hours
        if ended is None:
            running[job] = hours
    still = 0.0
    rows = reader.all(
        "SELECT id, spec_id FROM jobs WHERE team_id = ? AND priority = ?"
        " AND state IN ('queued', 'starting', 'running', 'stopping')",
        (team_id, top),
    )
    specs = load_specs(reader, {spec for _, spec in rows})
    for job, spec in rows:
        if job != but_job:
            still += max(0.0, _hours(specs[spec]) - running.get(job, 0.0))
    return UrgentUse(used, still)


def check_budget(
    reader: ReadConnection | Tx,
    team_id: int,
    team: str,
    share: TeamShare,
    spec: JobSpec,
    *,
    now_ms: int,
    jobs: int = 1,
    but_job: int | None = None,
) -> None:
    """Refuse an urgent job beyond its team's budget."""
    budget = share.urgent_gpu_hours
    if budget is None or not spec.gpus:
        return
    if spec.time_limit_seconds is None:
        raise InvalidInput(
            f"team {team} has a budget of {budget:g} urgent GPU-hours in {BUDGET_DAYS} days, so an"
            " urgent job states a time limit: add --time, or use --priority high"
        )
    needed = _hours(spec) * jobs
    use = urgent_use(reader, team_id, now_ms, but_job=but_job)
    left = max(0.0, budget - use.used - use.open)
    if needed > left:
        raise Denied(
            f"it may use {needed:.3g} urgent GPU-hours and team {team} has {left:.3g} of"
            f" {budget:g} left ({use.used:.3g} used in the last {BUDGET_DAYS} days, {use.open:.3g}"
            " promised to open jobs). Use --priority high, a shorter --time, or ask an admin to"
            " raise the budget (`yard team set --urgent-budget`)"
        )


def _hours(spec: JobSpec) -> float:
    return spec.request.total_gpus * (spec.time_limit_seconds or 0.0) / 3600
