"""Logged models: what MLflow 3 clients make with every log_model. Owns their life from pending to
ready or deleted, their tags and parameters; their files are the artifact store's, their metrics
come in with the run's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from trackyard.access.principal import Principal
from trackyard.access.reach import check_reach, reaches
from trackyard.core.errors import InvalidInput, NotFound
from trackyard.core.ids import MODEL_ID, new_model_id, new_name
from trackyard.registry.logged_search import (
    WIRE_PREFIX,
    DatasetFilter,
    LoggedSortKey,
    load_logged,
    search_logged,
)
from trackyard.registry.rules import check_logged_name, check_tags
from trackyard.store.database import Database, ReadConnection, Tx
from trackyard.store.idempotency.rule import Create
from trackyard.store.transaction import FEW_ROWS
from trackyard.tracking.experiments import require_active
from trackyard.tracking.validation import MAX_PARAM, check_name, clip

STATUSES = ("PENDING", "READY", "UPLOAD_FAILED")


class LoggedRow(NamedTuple):
    """What a request needs to know of a logged model."""

    id: str
    experiment_id: int
    artifact_uri: str
    source_run: str


class LoggedModels:
    """The models that a team's runs logged."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self,
        principal: Principal,
        *,
        experiment_id: int,
        name: str | None = None,
        model_type: str = "",
        source_run: str = "",
        tags: Sequence[tuple[str, str]] = (),
        params: Sequence[tuple[str, str]] = (),
        create: Create | None = None,
    ) -> dict[str, Any]:
        """Create a logged model that waits for its files, and return it."""
        called = check_logged_name(name) if name else new_name()
        tagged = check_tags(tags)
        given = _check_params(params)

        def operation(tx: Tx) -> dict[str, Any]:
            first = create and create.retried(tx, lambda known: _is_pending(tx, principal, known))
            if first:
                return load_logged(tx, principal, [first])[0]
            location = require_active(tx, principal, experiment_id)[2]
            if principal.scope is not None:
                check_reach(tx, principal, source_run)
            model_id = new_model_id()
            tx.run(
                "INSERT INTO logged_models (id, team_id, experiment_id, name, artifact_uri,"
                " status, status_message, model_type, source_run, lifecycle, created_ms,"
                " updated_ms) VALUES (?, ?, ?, ?, ?, 'PENDING', '', ?, ?, 'active', ?, ?)",
                (
                    model_id,
                    principal.team_id,
                    experiment_id,
                    called,
                    f"{location}/models/{model_id}/artifacts",
                    model_type,
                    source_run,
                    tx.now_ms,
                    tx.now_ms,
                ),
            )
            _write(tx, "logged_model_tags", model_id, tagged)
            _write(tx, "logged_model_params", model_id, given)
            _event(tx, "logged_model.created", principal, model_id, name=called, run_id=source_run)
            if create is not None:
                create.made(model_id)
            return load_logged(tx, principal, [model_id])[0]

        return await self._database.write(operation, is_long=len(tagged) + len(given) > FEW_ROWS)

    async def get(
        self, principal: Principal, model_id: str, *, allow_deleted: bool = False
    ) -> dict[str, Any]:
        """Return a logged model."""

        def query(reader: ReadConnection) -> dict[str, Any]:
            find_logged(reader, principal, model_id, allow_deleted=allow_deleted)
            return load_logged(reader, principal, [model_id])[0]

        return await self._database.peek(query)

    async def finalize(self, principal: Principal, model_id: str, status: str) -> dict[str, Any]:
        """Say whether a logged model's files are complete, and return it."""
        if status not in STATUSES:
            raise InvalidInput(
                f"Invalid value {status[:80]!r} for parameter 'status' supplied: it is one of"
                f" {', '.join(WIRE_PREFIX + known for known in STATUSES)}"
            )

        def operation(tx: Tx) -> dict[str, Any]:
            find_own(tx, principal, model_id)
            tx.run(
                "UPDATE logged_models SET status = ?, updated_ms = ? WHERE id = ?",
                (status, tx.now_ms, model_id),
            )
            _event(tx, "logged_model.updated", principal, model_id, status=status)
            return load_logged(tx, principal, [model_id])[0]

        return await self._database.write(operation)

    async def delete(self, principal: Principal, model_id: str) -> None:
        """Delete a logged model; its files stay until they are collected."""

        def operation(tx: Tx) -> None:
            find_own(tx, principal, model_id)
            tx.run(
                "UPDATE logged_models SET lifecycle = 'deleted', updated_ms = ? WHERE id = ?",
                (tx.now_ms, model_id),
            )
            _event(tx, "logged_model.deleted", principal, model_id)

        await self._database.write(operation)

    async def search(
        self,
        principal: Principal,
        *,
        experiment_ids: Sequence[int],
        filter_text: str | None,
        datasets: Sequence[DatasetFilter],
        order_by: Sequence[LoggedSortKey],
        max_results: int,
        page_token: str | None,
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Return a page of logged models and the token of the next page."""
        return await self._database.read(
            lambda reader: search_logged(
                reader,
                principal,
                experiment_ids=experiment_ids,
                filter_text=filter_text,
                datasets=datasets,
                order_by=order_by,
                max_results=max_results,
                page_token=page_token,
            )
        )

    async def set_tags(
        self, principal: Principal, model_id: str, tags: Sequence[tuple[str, str]]
    ) -> None:
        """Set tags of a logged model."""
        tagged = check_tags(tags)

        def operation(tx: Tx) -> None:
            find_own(tx, principal, model_id)
            if tagged:
                _write(tx, "logged_model_tags", model_id, tagged)
                _event(tx, "logged_model.updated", principal, model_id, tags=sorted(tagged))

        await self._database.write(operation, is_long=len(tagged) > FEW_ROWS)

    async def delete_tag(self, principal: Principal, model_id: str, key: str) -> None:
        """Remove a tag of a logged model; one that is not there is an error, as in MLflow."""

        def operation(tx: Tx) -> None:
            find_own(tx, principal, model_id)
            gone = tx.run(
                "DELETE FROM logged_model_tags WHERE model_id = ? AND key = ?", (model_id, key)
            )
            if not gone:
                raise NotFound(
                    f"No tag with key {key[:80]!r} found for model with ID {model_id!r}."
                )
            _event(tx, "logged_model.updated", principal, model_id, tag_removed=key)

        await self._database.write(operation)

    async def log_params(
        self, principal: Principal, model_id: str, params: Sequence[tuple[str, str]]
    ) -> None:
        """Add parameters to a logged model; a parameter never changes its value."""
        given = _check_params(params)

        def operation(tx: Tx) -> None:
            find_own(tx, principal, model_id)
            known: dict[str, str] = dict(
                tx.all(
                    "SELECT key, value FROM logged_model_params WHERE model_id = ?", (model_id,)
                )
            )
            for key, value in given.items():
                if known.get(key, value) != value:
                    raise InvalidInput(
                        f"Changing param values is not allowed. Param with key='{key}' was"
                        f" already logged with value='{known[key][:80]}' for model {model_id}."
                    )
            fresh = {key: value for key, value in given.items() if key not in known}
            if fresh:
                _write(tx, "logged_model_params", model_id, fresh)
                _event(tx, "logged_model.updated", principal, model_id, params=sorted(fresh))

        await self._database.write(operation, is_long=len(given) > FEW_ROWS)

    async def root(self, principal: Principal, model_id: str) -> str:
        """Return the artifact uri of a logged model the caller may read."""
        return await self._database.peek(
            lambda reader: find_logged(reader, principal, model_id).artifact_uri
        )


def find_logged(
    reader: Tx | ReadConnection,
    principal: Principal,
    model_id: str,
    *,
    allow_deleted: bool = False,
) -> LoggedRow:
    """Return a logged model of the caller's team."""
    row = MODEL_ID.match(model_id) and reader.one(
        "SELECT id, experiment_id, artifact_uri, source_run, lifecycle FROM logged_models"
        " WHERE id = ? AND team_id = ?",
        (model_id, principal.team_id),
    )
    if not row or (row[4] == "deleted" and not allow_deleted):
        raise NotFound(f"Logged model with ID '{model_id[:80]}' not found.")
    return LoggedRow(row[0], row[1], row[2], row[3])


def find_own(tx: Tx, principal: Principal, model_id: str) -> LoggedRow:
    """Return a logged model the caller may change: an attempt may change its own run's alone."""
    found = find_logged(tx, principal, model_id)
    if not reaches(tx, principal, found.source_run):
        raise NotFound(f"Logged model with ID '{model_id}' not found.")
    return found


def _is_pending(tx: Tx, principal: Principal, model_id: str) -> bool:
    row = tx.one(
        "SELECT 1 FROM logged_models WHERE id = ? AND team_id = ? AND status = 'PENDING'"
        " AND lifecycle = 'active'",
        (model_id, principal.team_id),
    )
    return row is not None


def _check_params(params: Sequence[tuple[str, str]]) -> dict[str, str]:
    given: dict[str, str] = {}
    for position, (key, value) in enumerate(params):
        check_name(key, f"params[{position}].key")
        text = clip(value, MAX_PARAM)
        if given.get(key, text) != text:
            raise InvalidInput(f"Duplicate parameter keys have been submitted: ['{key}']")
        given[key] = text
    return given


def _write(tx: Tx, table: str, model_id: str, pairs: dict[str, str]) -> None:
    tx.many(
        f"INSERT INTO {table} (model_id, key, value) VALUES (?, ?, ?)"
        " ON CONFLICT (model_id, key) DO UPDATE SET value = excluded.value",
        [(model_id, key, value) for key, value in pairs.items()],
    )


def _event(tx: Tx, kind: str, principal: Principal, model_id: str, **data: Any) -> None:
    tx.event(
        kind,
        team_id=principal.team_id,
        actor=principal.name,
        subject="logged_model",
        subject_id=model_id,
        **data,
    )
