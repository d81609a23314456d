"""Makes a failing history small: leaves out whatever the failure does not need.

Owns the greedy search. A smaller history counts only if it breaks the same invariant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from trackyard.simulate.check.history import CheckHistory, EventKind
from trackyard.simulate.check.machine import HistoryOutcome

Runner = Callable[[CheckHistory], HistoryOutcome]
#: Runs that one search may take.
MOST_RUNS = 400


def shrink(outcome: HistoryOutcome, run: Runner, *, most_runs: int = MOST_RUNS) -> HistoryOutcome:
    """Return the smallest failing history found, as it ran."""
    return _Search(outcome, run, most_runs).search()


class _Search:
    def __init__(self, outcome: HistoryOutcome, run: Runner, most_runs: int) -> None:
        self._best = outcome
        self._name = outcome.violations[0].invariant
        self._run = run
        self._left = most_runs

    def search(self) -> HistoryOutcome:
        size = -1
        while size != len(self._best.history.events) and self._left > 0:
            size = len(self._best.history.events)
            self._drop_events()
        self._simplify()
        return self._best

    def _fails(self, history: CheckHistory) -> bool:
        if self._left <= 0:
            return False
        self._left -= 1
        outcome = self._run(history)
        if any(one.invariant == self._name for one in outcome.violations):
            self._best = outcome
            return True
        return False

    def _drop_events(self) -> None:
        """Leave out events: halves first, then ever smaller parts, at last one by one."""
        part = max(1, len(self._best.history.events) // 2)
        while True:
            at = 0
            while at < len(self._best.history.events) and self._left > 0:
                history = self._best.history
                dropped = set(range(at, min(at + part, len(history.events))))
                smaller = history.without(dropped)
                has_jobs = any(one.kind is EventKind.SUBMIT for one in smaller.events)
                if not (has_jobs and self._fails(smaller)):
                    at += part
            if part == 1:
                return
            part //= 2

    def _simplify(self) -> None:
        """Leave out what the jobs and the cluster do not need."""
        history = self._best.history
        teams = {one.planned.job.team for one in history.events if one.planned is not None}
        self._fails(
            replace(history, teams=tuple(team for team in history.teams if team.id in teams))
        )
        for node in self._best.history.nodes:
            kept = tuple(one for one in self._best.history.nodes if one.id != node.id)
            named = any(
                event.subject == node.id or (event.lease and node.id in event.lease.nodes)
                for event in self._best.history.events
            )
            if kept and not named:
                self._fails(replace(self._best.history, nodes=kept))
        for at in range(len(self._best.history.events)):
            self._plainer(at)

    def _plainer(self, at: int) -> None:
        """Try a job without its special terms."""
        planned = self._best.history.events[at].planned
        if planned is None:
            return
        job = planned.job
        for plain in (
            replace(planned, fails_after=(), retries=0),
            replace(planned, restart_seconds=0.0),
            replace(planned, job=replace(job, dependencies=())),
            replace(planned, job=replace(job, not_before=0.0, held=False)),
            replace(planned, job=replace(job, array="", array_cap=0)),
            replace(planned, job=replace(job, estimate_seconds=None)),
            replace(planned, job=replace(job, request=replace(job.request, cpu_milli=0))),
        ):
            if plain == planned:
                continue
            events = list(self._best.history.events)
            events[at] = replace(events[at], planned=plain)
            if self._fails(replace(self._best.history, events=tuple(events))):
                self._plainer(at)
                return
