"""The quick form of the calls that training scripts make most: create a run, log to it, end it.

Owns what this process knows of runs and experiments without asking the database, and forgets it
as soon as a careful write changes them. Each function here returns NOT_QUICK when it does not
know enough; the careful form in `runs` and `ingest` then decides, so every refusal is worded
there or by the same checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from trackyard.access.principal import Principal
from trackyard.core.ids import new_run_id
from trackyard.store.database import NOT_QUICK, Database, Tx
from trackyard.store.idempotency.rule import Create
from trackyard.store.sqlite import journal
from trackyard.store.sqlite.changes import EVERYTHING
from trackyard.tracking.experiments import outer_experiment_id
from trackyard.tracking.metrics.ingest import (
    PointRows,
    Series,
    checked_params,
    fresh_params,
    point_rows,
    record_logged,
)
from trackyard.tracking.metrics.log_rows import pack_log
from trackyard.tracking.names import Names
from trackyard.tracking.runs import (
    ENDED,
    RUN_NAME_TAG,
    USER_TAG,
    RunData,
    RunInfo,
    RunRow,
    RunView,
    agree_on_name,
    record,
)
from trackyard.tracking.validation import MAX_TAG, check_name, clip

#: Runs known at a time, and parameters of a run above which they are no longer kept in mind.
KNOWN_RUNS = 20_000
KNOWN_PARAMS = 500
#: Points from which on a batch is written to its table at once: it fills a row by itself.
LARGE_BATCH = 50


class KnownRun:
    """An active run, as this process last saw or made it."""

    __slots__ = ("experiment_id", "info", "inner", "params", "team_id")

    def __init__(self, inner: int, experiment_id: int, team_id: int) -> None:
        self.inner = inner
        self.experiment_id = experiment_id
        self.team_id = team_id
        #: the run's own facts and all its parameters, if it was made here
        self.info: RunInfo | None = None
        self.params: dict[int, str] | None = None


class QuickRuns:
    """What may be done to runs without looking at the database."""

    def __init__(self, database: Database, names: Names) -> None:
        self._names = names
        self._runs: dict[str, KnownRun] = {}
        #: (team, experiment) -> artifact location of active experiments
        self._locations: dict[tuple[int, int], str] = {}
        #: uuid of known runs by inner id
        self._uuids: dict[int, str] = {}
        database.undo_hooks.append(self._forget)
        database.changes.on_run.append(self._forget_run)
        database.changes.on_experiment.append(self._locations.clear)

    # -- what is known ----------------------------------------------------------------------

    def learn(self, principal: Principal, run_id: str, row: RunRow) -> None:
        """Remember an active run that a careful write has just looked up."""
        if run_id not in self._runs:
            self._keep(run_id, KnownRun(row.id, row.experiment_id, principal.team_id))

    def learn_experiment(self, principal: Principal, inner: int, location: str) -> None:
        """Remember an active experiment."""
        self._locations[principal.team_id, inner] = location

    def _keep(self, run_id: str, run: KnownRun) -> None:
        if len(self._runs) >= KNOWN_RUNS:
            oldest = next(iter(self._runs))
            del self._uuids[self._runs.pop(oldest).inner]
        self._runs[run_id] = run
        self._uuids[run.inner] = run_id

    def _forget(self) -> None:
        self._runs.clear()
        self._uuids.clear()
        self._locations.clear()

    def _forget_run(self, inner: int) -> None:
        """Forget a run that a careful write changes, or all of them."""
        if inner == EVERYTHING:
            self._runs.clear()
            self._uuids.clear()
            return
        run_id = self._uuids.pop(inner, None)
        if run_id is not None:
            del self._runs[run_id]

    def _find(self, principal: Principal, run_id: str) -> KnownRun | None:
        """Return a run the caller may log to, if that is known for sure."""
        run = self._runs.get(run_id)
        if run is None or run.team_id != principal.team_id:
            return None
        scope = principal.scope
        if scope is not None and (scope.run_id != run_id or scope.attempt > 1):
            return None
        return run

    def _pairs(self, inner: int, pairs: Sequence[tuple[str, str]]) -> list[Any] | None:
        """Return the rows of tags, or None if one has a new name."""
        rows = []
        for position, (key, value) in enumerate(pairs):
            name_id = self._names.known(check_name(key, f"tags[{position}].key"))
            if name_id is None:
                return None
            rows.append((inner, name_id, clip(value, MAX_TAG)))
        return rows

    # -- logging ----------------------------------------------------------------------------

    def log(
        self,
        tx: Tx,
        principal: Principal,
        run_id: str,
        *,
        series: Series,
        params: Sequence[tuple[str, str]] = (),
        tags: Sequence[tuple[str, str]] = (),
    ) -> Any:
        """Log a checked batch to a run."""
        run = self._find(principal, run_id)
        if run is None:
            return NOT_QUICK
        known = self._names.known
        name_ids = [known(name) for name in series]
        if None in name_ids:
            return NOT_QUICK
        inner = run.inner
        fresh = self._new_params(run, run_id, params) if params else ()
        tagged = self._pairs(inner, tags) if tags else ()
        if fresh is None or tagged is None or any(key == RUN_NAME_TAG for key, _ in tags):
            return NOT_QUICK
        if series:
            scope = principal.scope
            attempt, rank = (scope.attempt, scope.rank) if scope is not None else (0, 0)
            rows = point_rows(inner, series, name_ids)  # type: ignore[arg-type]
            _log_points(tx, rows, (inner, attempt, rank))
        if fresh:
            assert run.params is not None
            run.params.update(fresh)
            tx.later(
                journal.PARAM, [(inner, name_id, value) for name_id, value in fresh], run=inner
            )
            if len(run.params) > KNOWN_PARAMS:
                run.params = None
        if tagged:
            tx.later(journal.TAG, tagged, run=inner)
        if fresh or tags:
            record_logged(tx, principal, run_id, run.experiment_id, params=params, tags=tags)
        return None

    def _new_params(
        self, run: KnownRun, run_id: str, params: Sequence[tuple[str, str]]
    ) -> list[tuple[int, str]] | None:
        """Return the parameters that are not there yet, or None if that is not known."""
        if run.params is None:
            return None
        rows: dict[int, tuple[str, str]] = {}
        for key, value in checked_params(params).items():
            name_id = self._names.known(key)
            if name_id is None:
                return None
            rows[name_id] = (key, value)
        before = run.params
        stored = [(name_id, before[name_id]) for name_id in rows if name_id in before]
        return fresh_params(run_id, rows, stored)

    # -- the run itself ---------------------------------------------------------------------

    def create(
        self,
        tx: Tx,
        principal: Principal,
        *,
        experiment_id: int,
        run_name: str | None,
        user: str | None,
        start_ms: int,
        tags: Sequence[tuple[str, str]],
        create: Create,
    ) -> Any:
        """Create a run and return it whole."""
        location = self._locations.get((principal.team_id, experiment_id))
        if principal.scope is not None or location is None or not create.is_first():
            return NOT_QUICK
        tagged = dict(tags)
        name = agree_on_name(run_name, tagged.get(RUN_NAME_TAG))
        tagged[RUN_NAME_TAG] = name
        checked = self._pairs(0, list(tagged.items()))
        if checked is None:
            return NOT_QUICK
        run_id, inner = new_run_id(), tx.new_id("runs")
        info = RunInfo(
            run_id,
            outer_experiment_id(principal, experiment_id),
            name,
            user or tagged.get(USER_TAG) or principal.name,
            "RUNNING",
            start_ms,
            msgspec.UNSET,
            f"{location}/{run_id}/artifacts",
            "active",
            run_id,
        )
        run = KnownRun(inner, experiment_id, principal.team_id)
        run.info, run.params = info, {}
        self._keep(run_id, run)
        create.made(run_id)
        tx.later(
            journal.RUN, (_run_row(inner, experiment_id, principal.team_id, info),), run=inner
        )
        tx.later(
            journal.TAG, [(inner, name_id, value) for _, name_id, value in checked], run=inner
        )
        record(tx, "run.created", principal, run_id, experiment_id, name=name)
        by_name = sorted(zip((row[1] for row in checked), tagged, checked, strict=True))
        shown = [{"key": key, "value": row[2]} for _, key, row in by_name]
        return RunView(info, RunData(tags=shown))

    def update(
        self,
        tx: Tx,
        principal: Principal,
        run_id: str,
        *,
        status: str | None,
        end_ms: int | None,
    ) -> Any:
        """Change a run's state or end, and return its facts."""
        run = self._find(principal, run_id)
        if run is None or run.info is None or principal.scope is not None:
            return NOT_QUICK
        info = run.info
        changes: dict[str, Any] = {}
        if status is not None:
            changes["status"] = status
        if end_ms is not None:
            changes["end_ms"] = end_ms
        if not changes:
            return info
        run.info = msgspec.structs.replace(
            info,
            status=info.status if status is None else status,
            end_time=info.end_time if end_ms is None else end_ms,
        )
        tx.later(journal.RUN_STATE, ((status, end_ms, run.inner),), run=run.inner)
        ended = status in ENDED and info.status not in ENDED
        kind = "run.finished" if ended else "run.updated"
        record(tx, kind, principal, run_id, run.experiment_id, **changes)
        return run.info


def _log_points(tx: Tx, rows: PointRows, place: tuple[int, int, int]) -> None:
    """Write a batch's points, or let them wait; latest values wait, as each costs two pages."""
    stretch = (*place, rows.points, pack_log(rows.packed))
    if rows.points >= LARGE_BATCH:
        tx.insert(journal.INSERT_POINTS, stretch)
    else:
        tx.later(journal.POINTS, (stretch,), run=place[0])
    tx.later(journal.LATEST, rows.latest, run=place[0])


def _run_row(inner: int, experiment_id: int, team_id: int, info: RunInfo) -> tuple[Any, ...]:
    return (
        inner,
        info.run_id,
        experiment_id,
        team_id,
        info.run_name,
        info.user_id,
        info.start_time,
        info.artifact_uri,
    )
