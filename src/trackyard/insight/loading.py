"""Reads what an account of GPU time is made from. Owns no table and no rule.

The packages that own attempts, nodes and leases read them; this puts them together.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from trackyard.access.directory import team_names
from trackyard.fleet import past as fleet_past
from trackyard.insight.goodput import AttemptSpan, LeaseSpan, NodeSpan, Share, UsageHistory
from trackyard.insight.usage import LedgerNames, NodeHardware, UsageHolder
from trackyard.leases.past import past_holds
from trackyard.queue.records import decode_placement
from trackyard.queue.shares import past as jobs_past
from trackyard.store.database import ReadConnection

#: Ends after which the work since the last checkpoint is to be done again.
_CUT_SHORT = frozenset(("failed", "lost", "preempted"))


class LoadedHistory(NamedTuple):
    """A history, the names for it, and who was interrupted."""

    history: UsageHistory
    facts: LedgerNames
    attempts: list[jobs_past.PastAttempt]
    failures: list[tuple[str, int, str]]


def load_history(
    reader: ReadConnection, since_ms: int, until_ms: int, now_ms: int
) -> LoadedHistory:
    """Read everything that bears on a window of time."""
    rows = jobs_past.past_attempts(reader, since_ms, until_ms)
    oldest = min((row.admitted_ms for row in rows), default=since_ms)
    saves = jobs_past.saves(reader, oldest)
    stalls = jobs_past.stalls(reader, oldest)
    spans = [
        _span(
            row,
            saves.last.get((row.job, row.number)),
            tuple(saves.pauses.get((row.job, row.number), ())),
            tuple(stalls.get((row.job_id, row.number), ())),
        )
        for row in rows
    ]
    holds = past_holds(reader, since_ms, until_ms, now_ms)
    history = UsageHistory(
        attempts=spans,
        nodes=_nodes(fleet_past.node_lives(reader, now_ms), spans, now_ms),
        leases=[LeaseSpan(one.node, one.since_ms, one.until_ms, one.lease) for one in holds],
        idle=jobs_past.idle_hours(reader, since_ms, until_ms),
    )
    teams, owners = team_names(reader), jobs_past.claim_owners(reader)
    facts = LedgerNames(
        attempts={row.id: _holder(row, teams, owners) for row in rows},
        leases={
            one.lease: UsageHolder(teams.get(one.team_id, ""), one.user_name, lease=one.lease_id)
            for one in holds
        },
        machines={
            node: NodeHardware(one.gpu_type, one.is_spot)
            for node, one in fleet_past.hardware(reader).items()
        },
    )
    return LoadedHistory(history, facts, rows, fleet_past.failures(reader, since_ms, until_ms))


@lru_cache(maxsize=65_536)
def _span(
    row: jobs_past.PastAttempt,
    saved_until_ms: int | None,
    saving: tuple[tuple[int, int], ...],
    stalls: tuple[tuple[int, int | None], ...],
) -> AttemptSpan:
    """Return an attempt for the account; the same rows give the same one, with what it knows."""
    return AttemptSpan(
        key=row.id,
        shares=tuple(
            Share(share.node, share.gpus, share.gpu_milli)
            for share in decode_placement(row.placement).shares
        ),
        admitted_ms=row.admitted_ms,
        # Without the runner's word the engine's: it had the attempt, and the rest was setting up.
        unpacked_ms=row.launched_ms if row.unpacked_ms is None else row.unpacked_ms,
        started_ms=row.started_ms,
        first_step_ms=row.first_step_ms,
        stop_ms=row.stop_ms,
        ended_ms=row.ended_ms,
        saved=bool(row.saved),
        cut_short=row.state in _CUT_SHORT,
        saved_until_ms=saved_until_ms,
        saving=saving,
        stalls=stalls,
    )


def _nodes(
    lives: dict[str, list[fleet_past.Stretch]], spans: list[AttemptSpan], now_ms: int
) -> dict[str, list[NodeSpan]]:
    found = {node: [NodeSpan(*one) for one in stretches] for node, stretches in lives.items()}
    # A node that nothing is known of any more had at least what jobs held there.
    unknown: dict[str, tuple[int, int, int]] = {}
    for span in spans:
        ended = now_ms if span.ended_ms is None else span.ended_ms
        for share in span.shares:
            if share.node not in found and share.gpus:
                low, high, gpus = unknown.get(share.node, (span.admitted_ms, ended, 0))
                most = max(gpus, max(share.gpus) + 1)
                unknown[share.node] = (min(low, span.admitted_ms), max(high, ended), most)
    found |= {node: [NodeSpan(*one)] for node, one in unknown.items()}
    return found


def _holder(
    row: jobs_past.PastAttempt, teams: dict[int, str], owners: dict[int, jobs_past.ClaimOwner]
) -> UsageHolder:
    owner = owners.get(row.job)
    return UsageHolder(
        team=teams.get(row.team_id, ""),
        user=row.user_name,
        project=row.project or "",
        queue=row.queue,
        job=owner.job_id if owner else row.job_id,
        job_name=owner.name if owner else row.job_name,
        cause=row.cause or "",
    )
