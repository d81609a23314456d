"""Which waiting jobs a lease would move: the queue's own forecast, with the lease and without.

Decides nothing: it asks the scheduler's code twice and compares.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from trackyard.control.loop import LastPass, SchedulingLoop
from trackyard.core.lease import Lease
from trackyard.leases.views import JobEffect
from trackyard.leases.wishes import LeaseCaller
from trackyard.leases.wording import length
from trackyard.scheduling.forecast.eta import forecast
from trackyard.scheduling.snapshot import Snapshot

#: Longer lines are not run ahead for a dry run.
MOST_WAITING = 100
MOST_EVENTS = 1000
#: A start that moves by less is not worth a word.
NOTABLE_SECONDS = 60.0


class LeaseImpact:
    """Says what a lease does to the line."""

    def __init__(self, scheduler: SchedulingLoop) -> None:
        self._scheduler = scheduler

    async def __call__(self, lease: Lease, who: LeaseCaller) -> list[JobEffect]:
        """Return the waiting jobs that would start later, or elsewhere in time, for a lease."""
        looked = await self._scheduler.view()
        snapshot = looked.loaded.snapshot
        jobs = [one.job.id for one in snapshot.waiting]
        if not jobs or len(jobs) > MOST_WAITING:
            return []
        without = tuple(one for one in snapshot.leases if one.id != lease.id)
        before, after = await asyncio.gather(
            asyncio.to_thread(_starts, replace(snapshot, leases=without), jobs),
            asyncio.to_thread(_starts, replace(snapshot, leases=(*without, lease)), jobs),
        )
        found = []
        for job in jobs:
            was, will = before.get(job), after.get(job)
            if was is None or (will is not None and will - was < NOTABLE_SECONDS):
                continue
            found.append(_effect(looked, job, was, will, who))
        return found


def _starts(snapshot: Snapshot, jobs: list[str]) -> dict[str, float | None]:
    found = forecast(snapshot, jobs, most_events=MOST_EVENTS)
    return {job: found[job].expected for job in jobs}


def _effect(
    looked: LastPass, job: str, was: float, will: float | None, who: LeaseCaller
) -> JobEffect:
    row = looked.loaded.waiting[job]
    asked = next(one.job for one in looked.loaded.snapshot.waiting if one.job.id == job)
    is_open = who.is_admin or row.team_id == who.team_id
    if will is None:
        words = "would not start while the lease lasts"
    else:
        words = f"starts about {length(int((will - was) * 1000))} later"
    return JobEffect(
        job_id=job if is_open else "",
        name=row.name if is_open else "",
        user=row.user_name if is_open else "",
        team=asked.team if is_open else "another team",
        node_ids=[],
        effect="waits",
        at_ms=None if will is None else int(will * 1000),
        sentence=words,
    )
