"""What scripts do to runs: create one, log to it, change its state. One method a call.

Owns the choice of how a call is written. `quick` decides by what this process knows and leaves its
rows to the journal; where it knows too little, `runs` and `metrics.ingest` look into the database.
Callers never see the difference, and both leave the same rows. Knows no HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from trackyard.access.principal import Principal
from trackyard.access.reach import adopt_run, own_experiment
from trackyard.core.errors import Denied, NotFound
from trackyard.store.database import Database, Tx
from trackyard.store.idempotency.rule import Create
from trackyard.store.sqlite.journal import UPSERT_TAG
from trackyard.store.transaction import FEW_ROWS
from trackyard.tracking.experiments import require_active
from trackyard.tracking.metrics.ingest import Series, record_logged, write_batch
from trackyard.tracking.metrics.model_metrics import ModelPoint, check_models, log_model_metrics
from trackyard.tracking.names import Names
from trackyard.tracking.quick import QuickRuns
from trackyard.tracking.runs import (
    RunInfo,
    RunView,
    create_run,
    find_active_run,
    is_untouched,
    record,
    update_run,
)

Pairs = Sequence[tuple[str, str]]
_MODEL_HISTORY = "mlflow.log-model.history"


class RunWrites:
    """Writes to the runs of every team."""

    def __init__(
        self, database: Database, names: Names, on_points: Callable[[int, str, int], None]
    ) -> None:
        self._db = database
        self._names = names
        self._quick = QuickRuns(database, names)
        self._on_points = on_points

    async def log(
        self,
        principal: Principal,
        run_id: str,
        *,
        series: Series | None = None,
        points: int = 0,
        params: Pairs = (),
        tags: Pairs = (),
        model_points: Sequence[ModelPoint] = (),
    ) -> None:
        """Log a checked batch to a run; `points` says how many points its series have in all."""
        quick, names, columns = self._quick, self._names, series or {}

        def look(tx: Tx) -> None:
            if model_points:
                check_models(tx, principal.team_id, {point.model_id for point in model_points})
            row = write_batch(
                tx, names, principal, run_id, series=columns, params=params, tags=tags
            )
            quick.learn(principal, run_id, row)
            if model_points:
                log_model_metrics(
                    tx, team_id=principal.team_id, run_uuid=run_id, points=model_points
                )

        def know(tx: Tx) -> Any:
            return quick.log(tx, principal, run_id, series=columns, params=params, tags=tags)

        await self._db.write(
            look,
            None if model_points else know,
            is_long=len(model_points) > FEW_ROWS or self._has_many_new(columns),
        )
        if columns:
            self._on_points(principal.team_id, run_id, points)

    def _has_many_new(self, series: Series) -> bool:
        """Tell whether a batch brings more new metric names than are looked up in passing."""
        if len(series) <= FEW_ROWS:
            return False
        return sum(self._names.known(name) is None for name in series) > FEW_ROWS

    async def create(
        self,
        principal: Principal,
        create: Create,
        *,
        experiment_id: int,
        run_name: str | None,
        user: str | None,
        start_ms: int | None,
        tags: Pairs,
        claim: Callable[[Tx], str | None],
    ) -> str | RunView:
        """Create a run and return it, or its id where it has to be loaded.

        `claim` returns the run that a job's script is given instead of a new one, if it is.
        """
        quick = self._quick

        def know(tx: Tx) -> Any:
            return quick.create(
                tx,
                principal,
                experiment_id=experiment_id,
                run_name=run_name,
                user=user,
                start_ms=tx.now_ms if start_ms is None else start_ms,
                tags=tags,
                create=create,
            )

        def look(tx: Tx) -> str:
            first = create.retried(tx, lambda run_id: _is_as_made(tx, principal, run_id))
            if first is not None:
                return first
            bound = own_experiment(tx, principal)
            if bound is not None and bound != experiment_id:
                raise Denied("a job's script creates runs in the job's own experiment alone")
            run_id = claim(tx)
            if run_id is None:
                run_id = create_run(
                    tx,
                    self._names,
                    principal,
                    experiment_id=experiment_id,
                    run_name=run_name,
                    user=user,
                    start_ms=start_ms,
                    tags=tags,
                )
                adopt_run(tx, principal, run_id)
                location = require_active(tx, principal, experiment_id)[2]
                quick.learn_experiment(principal, experiment_id, location)
            create.made(run_id)
            return run_id

        return await self._db.write(look, know, is_long=len(tags) > FEW_ROWS)

    async def update(
        self,
        principal: Principal,
        run_id: str,
        *,
        status: str | None,
        end_ms: int | None,
        run_name: str | None,
        also: Callable[[Tx], None],
    ) -> RunInfo | None:
        """Change a run's state, end or name; return its facts where they are known.

        `also` is what else changes with a run that had to be looked up.
        """

        def look(tx: Tx) -> None:
            update_run(
                tx,
                self._names,
                principal,
                run_id,
                status=status,
                end_ms=end_ms,
                run_name=run_name,
            )
            also(tx)

        def know(tx: Tx) -> Any:
            return self._quick.update(tx, principal, run_id, status=status, end_ms=end_ms)

        return await self._db.write(look, None if run_name else know)

    async def delete_tag(self, principal: Principal, run_id: str, key: str) -> None:
        """Remove a tag of a run."""

        def change(tx: Tx) -> None:
            run = find_active_run(tx, principal, run_id)
            gone = tx.run(
                "DELETE FROM tags WHERE run_id = ? AND name_id ="
                " (SELECT id FROM names WHERE name = ?)",
                (run.id, key),
            )
            if not gone:
                raise NotFound(f"No tag with name: {key} in run with id {run_id}")
            record(tx, "run.logged", principal, run_id, run.experiment_id, removed=[key])

        await self._db.write(change)

    async def note_model(self, principal: Principal, run_id: str, model: dict[str, Any]) -> None:
        """Add a 2.x client's note of a model to the list that a tag of the run holds."""
        names = self._names

        def change(tx: Tx) -> None:
            run = find_active_run(tx, principal, run_id)
            row = tx.one(
                "SELECT value FROM tags WHERE run_id = ? AND name_id ="
                " (SELECT id FROM names WHERE name = ?)",
                (run.id, _MODEL_HISTORY),
            )
            models = [*(_models_in(row[0]) if row else ()), model]
            text = msgspec.json.encode(models).decode()
            # Written past the limit on tag values: half a list would be no list.
            tx.run(UPSERT_TAG, (run.id, names.id(tx, _MODEL_HISTORY), text))
            record_logged(
                tx, principal, run_id, run.experiment_id, params=(), tags=[(_MODEL_HISTORY, text)]
            )

        await self._db.write(change)


def _is_as_made(tx: Tx, principal: Principal, run_id: str) -> bool:
    """Tell whether a run may be given to the retry of the call that made it."""
    own = principal.scope is not None and principal.scope.run_id == run_id
    return own or is_untouched(tx, run_id)


def _models_in(text: str) -> list[Any]:
    """Return the models a tag lists; a script may have set the tag to anything."""
    try:
        models = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return []
    return models if isinstance(models, list) else []
