"""A pass that no single job can stop: what cannot be weighed is set aside, the rest is decided.

Owns which waiting jobs broke a pass and at which version of their row, so that a job is tried
again once it changed, and that decisions are proved before anyone acts on them.
`trackyard.scheduling` decides; this only chooses what it is shown.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from trackyard.control.snapshot import LoadedSnapshot
from trackyard.core.reasons import Code, Reason
from trackyard.scheduling import Decisions, Snapshot, WaitingJob, decide
from trackyard.scheduling.decisions import Ranking
from trackyard.scheduling.preemption.proof import Fault, hold_to_rules

log = logging.getLogger(__name__)

#: Passes that one search for the jobs behind a failure may cost.
MOST_TRIES = 64
_WORDS = 300


class Weigher:
    """Decides a snapshot; remembers the jobs that a pass cannot weigh."""

    def __init__(self) -> None:
        #: version of the row and what went wrong, by job
        self._aside: dict[str, tuple[int, str]] = {}
        #: what was wrong with the last decisions, by their own rules
        self.faults: list[Fault] = []

    def decide(self, loaded: LoadedSnapshot) -> tuple[LoadedSnapshot, Decisions]:
        """Return what was decided on, without the jobs set aside, and the decisions for all."""
        self._aside = {
            job: known
            for job, known in self._aside.items()
            if job in loaded.waiting and loaded.waiting[job].version == known[0]
        }
        snapshot = _without(loaded.snapshot, self._aside)
        try:
            decisions = decide(snapshot)
        except Exception as fault:
            log.exception("a pass failed; the jobs behind it are looked for")
            snapshot = self._search(loaded, snapshot, fault)
            decisions = decide(snapshot)
        decisions, self.faults = hold_to_rules(snapshot, decisions)
        for one in self.faults:
            log.error("a decision broke a rule and was dropped: job %s: %s", one.job, one.sentence)
        told = {**loaded.aside, **{job: words for job, (_, words) in self._aside.items()}}
        if snapshot is not loaded.snapshot:
            loaded = replace(loaded, snapshot=snapshot)
        return loaded, _with_aside(decisions, told) if told else decisions

    def _search(self, loaded: LoadedSnapshot, snapshot: Snapshot, fault: Exception) -> Snapshot:
        """Find the jobs without which the pass works, and set them aside."""
        # What fails with nobody waiting is no waiting job's fault: it goes to the caller.
        decide(replace(snapshot, waiting=()))
        search = _Search(snapshot)
        sound = search.sound(snapshot.waiting)
        kept = {one.job.id for one in sound}
        words = _words(fault)
        for one in snapshot.waiting:
            job = one.job.id
            if job not in kept:
                version = loaded.waiting[job].version
                self._aside[job] = (version, search.faults.get(job, words))
        return replace(snapshot, waiting=sound)


class _Search:
    """Halves the line until each job that fails stands alone."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._tries = 0
        self.faults: dict[str, str] = {}

    def sound(self, waiting: Sequence[WaitingJob]) -> tuple[WaitingJob, ...]:
        """Return those with which a pass works; where tries run out, whole parts are left out."""
        fault = self._try(waiting)
        if fault is None:
            return tuple(waiting)
        if len(waiting) == 1 or self._tries >= MOST_TRIES:
            self.faults.update((one.job.id, _words(fault)) for one in waiting)
            return ()
        middle = len(waiting) // 2
        first, second = self.sound(waiting[:middle]), self.sound(waiting[middle:])
        if first and second:
            fault = self._try((*first, *second))
            if fault is not None:
                # They fail only together: the earlier ones go on.
                self.faults.update((one.job.id, _words(fault)) for one in second)
                return first
        return (*first, *second)

    def _try(self, waiting: Sequence[WaitingJob]) -> Exception | None:
        self._tries += 1
        try:
            decide(replace(self._snapshot, waiting=tuple(waiting)))
        except Exception as fault:  # noqa: BLE001 - whatever it is, it must not stop the queue
            return fault
        return None


def _without(snapshot: Snapshot, jobs: dict[str, tuple[int, str]]) -> Snapshot:
    if not jobs:
        return snapshot
    kept = tuple(one for one in snapshot.waiting if one.job.id not in jobs)
    return replace(snapshot, waiting=kept)


def _with_aside(decisions: Decisions, told: dict[str, str]) -> Decisions:
    """Add the jobs set aside: their reason, and their place after everybody else."""
    aside = {job: (Reason(code=Code.SET_ASIDE, what=words),) for job, words in told.items()}
    line = decisions.line
    return replace(
        decisions,
        reasons={**decisions.reasons, **aside},
        line=Ranking(lambda: (*line, *sorted(aside))),
    )


def _words(fault: Exception) -> str:
    return f"{type(fault).__name__}: {fault}"[:_WORDS]
