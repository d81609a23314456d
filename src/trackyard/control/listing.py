"""Lists of jobs: the newest first, or the line in order of start.

Owns how a list of ten thousand stays quick: a job that has not changed is not read or shaped
again, and the line comes from the last look at the queue. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from trackyard.control.forecast.forecasts import Forecaster, QueueForecast
from trackyard.control.loop import LastPass
from trackyard.core.job import JobState
from trackyard.core.reasons import EVALUATING, Reason
from trackyard.queue.records import HOLDING, JOB_COLUMNS, SHOWN, STATES, JobRow
from trackyard.queue.views import (
    JobList,
    JobView,
    ReasonView,
    job_view,
    load_facts,
    reason_view,
)
from trackyard.store.database import Database, ReadConnection

#: Jobs whose shape is kept.
KEPT = 50_000
_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """Which jobs, and in what order."""

    #: None: of all teams
    team_id: int | None
    states: Sequence[str] = ()
    #: columns of the jobs table and their values
    filters: Mapping[str, str] = field(default_factory=dict)
    since_ms: int = 0
    before: int | None = None
    limit: int = 100
    #: the line in order of start, instead of the newest first; waiting jobs only
    by_position: bool = False
    #: what ended, the last to end first, instead of the newest first
    by_end: bool = False
    #: with by_end: when the last job of the page before ended, and its number
    before_end: tuple[int, int] | None = None
    #: only waiting jobs that start when someone does something, or only the others
    stuck: bool | None = None
    with_eta: bool = False


class JobLists:
    """Shapes lists, remembering the jobs that have not changed."""

    def __init__(self, database: Database, ahead: Forecaster) -> None:
        self._db = database
        self._views: dict[int, tuple[int, JobView]] = {}
        self.foresight = QueueForecast(ahead)

    async def show(self, wish: ListQuery, looked: LastPass) -> JobList:
        """Return the jobs asked for."""
        load = self._line if wish.by_position else self._newest
        found = await self._db.read(lambda reader: load(reader, wish, looked))
        if wish.with_eta:
            waiting = [job for job in found.jobs if job.state == "queued"]
            known = await self.foresight.of(looked, [job.job_id for job in waiting])
            for job in waiting:
                job.eta = known.get(job.job_id)
        return found

    def _newest(self, reader: ReadConnection, wish: ListQuery, looked: LastPass) -> JobList:
        where, params = _condition(wish)
        counts = _counts(reader, where, params)
        if wish.states:
            inner = [state.value for state in JobState if SHOWN[state] in wish.states]
            where += f" AND state IN ({','.join('?' * len(inner))})"
            params += inner
        order = "id DESC"
        if wish.by_end:
            order = "ended_ms DESC, id DESC"
            where += " AND ended_ms IS NOT NULL"
        if wish.before_end is not None:
            ended_ms, number = wish.before_end
            where += " AND (ended_ms < ? OR (ended_ms = ? AND id < ?))"
            params += [ended_ms, ended_ms, number]
        elif wish.before is not None:
            where += " AND id < ?"
            params.append(wish.before)
        marks = reader.all(
            f"SELECT id, version, ended_ms FROM jobs WHERE {where} ORDER BY {order} LIMIT ?",
            [*params, wish.limit],
        )
        shown = self._shown(reader, [mark[:2] for mark in marks], looked)
        older = None
        if len(marks) == wish.limit:
            number, _, ended_ms = marks[-1]
            older = f"{ended_ms}-{number}" if wish.by_end else str(number)
        return JobList(jobs=shown, counts=counts, next=older)

    def _line(self, reader: ReadConnection, wish: ListQuery, looked: LastPass) -> JobList:
        where, params = _condition(wish)
        chosen: list[JobRow] = []
        after, last, reached = wish.before or 0, None, 0
        for place, job_id in enumerate(looked.decisions.line, start=1):
            row = looked.loaded.waiting.get(job_id)
            if row is None or place <= after or not _matches(row, wish, looked):
                continue
            if len(chosen) == wish.limit:
                last = str(reached)
                break
            chosen.append(row)
            reached = place
        shown = self._shown(reader, [(row.id, row.version) for row in chosen], looked)
        # What started or was stopped since the look is no part of the line any more.
        waiting = [view for view in shown if view.state == "queued"]
        return JobList(jobs=waiting, counts=_counts(reader, where, params), next=last)

    def _shown(
        self, reader: ReadConnection, marks: Sequence[Sequence[int]], looked: LastPass
    ) -> list[JobView]:
        found: dict[int, JobView] = {}
        stale: list[int] = []
        for inner, version in marks:
            known = self._views.get(inner)
            if known is not None and known[0] == version:
                found[inner] = known[1]
            else:
                stale.append(inner)
        if len(self._views) > KEPT:
            self._views.clear()
        for row, view in self._load(reader, stale):
            found[row.id] = view
            # What runs has a step and nodes that change without its row.
            if row.state not in HOLDING:
                self._views[row.id] = (row.version, view)
        told = _Told(looked)
        return [told.of(found[inner]) for inner, _ in marks if inner in found]

    def _load(
        self, reader: ReadConnection, inner: Sequence[int]
    ) -> Iterable[tuple[JobRow, JobView]]:
        for at in range(0, len(inner), _PAGE):
            part = inner[at : at + _PAGE]
            marks = ",".join("?" * len(part))
            found = reader.all(f"SELECT {JOB_COLUMNS} FROM jobs WHERE id IN ({marks})", part)
            rows = [JobRow(*row) for row in found]
            facts = load_facts(reader, rows)
            yield from ((row, job_view(row, facts)) for row in rows)


class _Told:
    """Puts place and reason of one look on views; thousands of jobs may share a reason."""

    def __init__(self, looked: LastPass) -> None:
        self._reasons = looked.decisions.reasons
        self._positions = looked.positions
        self._shapes: dict[int, ReasonView] = {}

    def of(self, view: JobView) -> JobView:
        """Return a copy of a kept view with what the look says of it."""
        if view.state != "queued":
            return view
        view = copy(view)
        found = self._reasons.get(view.job_id)
        reason = found[0] if found else EVALUATING
        shape = self._shapes.get(id(reason))
        if shape is None:
            shape = self._shapes[id(reason)] = reason_view(reason)
        view.reason = shape
        view.position = self._positions.get(view.job_id)
        return view


def told(view: JobView, looked: LastPass) -> JobView:
    """Return a job with its place and its dominant reason, if it waits."""
    return _Told(looked).of(view)


def reasons_of(job_id: str, looked: LastPass) -> list[Reason]:
    """Return why a waiting job waits, the dominant reason first."""
    return list(looked.decisions.reasons.get(job_id) or (EVALUATING,))


def _condition(wish: ListQuery) -> tuple[str, list[Any]]:
    where, params = ["1 = 1"], []  # type: list[str], list[Any]
    if wish.team_id is not None:
        where.append("team_id = ?")
        params.append(wish.team_id)
    for column, value in wish.filters.items():
        where.append(f"{column} = ?")
        params.append(value)
    if wish.since_ms:
        where.append("(submitted_ms >= ? OR ended_ms >= ?)")
        params += [wish.since_ms, wish.since_ms]
    return " AND ".join(where), params


def _counts(reader: ReadConnection, where: str, params: Sequence[Any]) -> dict[str, int]:
    counts = dict.fromkeys(STATES, 0)
    for state, number in reader.all(
        f"SELECT state, count(*) FROM jobs WHERE {where} GROUP BY state", params
    ):
        counts[SHOWN[JobState(state)]] += number
    return counts


def _matches(row: JobRow, wish: ListQuery, looked: LastPass) -> bool:
    if wish.team_id is not None and row.team_id != wish.team_id:
        return False
    if row.submitted_ms < wish.since_ms:
        return False
    if any(getattr(row, column) != value for column, value in wish.filters.items()):
        return False
    return wish.stuck is None or wish.stuck == _is_stuck(row, looked)


def _is_stuck(row: JobRow, looked: LastPass) -> bool:
    """Tell whether a waiting job starts only when someone does something."""
    reason = reasons_of(row.job_id, looked)[0]
    return bool(row.held) or reason.needs_action
