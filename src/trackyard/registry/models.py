"""Registered models: create, describe, rename, tag, alias, delete. Owns their state changes and
events; versions are in `versions`, searching in `search`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trackyard.access.principal import Principal
from trackyard.core.errors import AlreadyExists
from trackyard.registry.rules import (
    LOGGED_VALUE,
    PROMPT_TAG,
    check_alias,
    check_description,
    check_model_name,
    check_new_alias,
    check_tags,
    check_version,
)
from trackyard.registry.search import search_models
from trackyard.registry.versions import Versions, find_model, find_version, model_event
from trackyard.registry.views import load_models
from trackyard.store.database import Database, Tx
from trackyard.store.idempotency.rule import Create
from trackyard.store.transaction import FEW_ROWS
from trackyard.tracking.validation import check_name


class Registry:
    """The team's registered models; `versions` holds what can be done with their versions."""

    def __init__(self, database: Database, *, sources_must_exist: bool = True) -> None:
        self._database = database
        self.versions = Versions(database, must_exist=sources_must_exist)

    async def create(
        self,
        principal: Principal,
        name: str,
        *,
        tags: Sequence[tuple[str, str]] = (),
        description: str = "",
        create: Create | None = None,
    ) -> dict[str, Any]:
        """Create a registered model and return it; a retry returns the first try's."""
        check_model_name(name)
        tagged = check_tags(tags)
        check_description(description)

        def operation(tx: Tx) -> dict[str, Any]:
            first = create and create.retried(
                tx, lambda inner: _is_there(tx, principal, name, int(inner))
            )
            if first:
                return load_models(tx, [int(first)])[0]
            _refuse_taken(tx, principal, name, is_prompt=tagged.get(PROMPT_TAG) == "true")
            inner = tx.insert(
                "INSERT INTO models (team_id, name, description, created_ms, updated_ms,"
                " last_version) VALUES (?, ?, ?, ?, ?, 0)",
                (principal.team_id, name, description, tx.now_ms, tx.now_ms),
            )
            tx.many(
                "INSERT INTO model_tags (model_id, key, value) VALUES (?, ?, ?)",
                [(inner, key, value) for key, value in tagged.items()],
            )
            model_event(tx, "model.created", principal, name)
            if create is not None:
                create.made(str(inner))
            return load_models(tx, [inner])[0]

        return await self._database.write(operation, is_long=len(tagged) > FEW_ROWS)

    async def get(self, principal: Principal, name: str) -> dict[str, Any]:
        """Return a registered model."""
        check_model_name(name)
        return await self._database.peek(
            lambda reader: load_models(reader, [find_model(reader, principal, name)])[0]
        )

    async def update(self, principal: Principal, name: str, description: str) -> dict[str, Any]:
        """Describe a registered model and return it."""
        check_model_name(name)
        check_description(description)

        def operation(tx: Tx) -> dict[str, Any]:
            inner = find_model(tx, principal, name)
            tx.run(
                "UPDATE models SET description = ?, updated_ms = ? WHERE id = ?",
                (description, tx.now_ms, inner),
            )
            model_event(tx, "model.updated", principal, name, description=description)
            return load_models(tx, [inner])[0]

        return await self._database.write(operation)

    async def rename(self, principal: Principal, name: str, new_name: str) -> dict[str, Any]:
        """Give a registered model another name; its versions go with it."""
        check_model_name(name)
        check_model_name(new_name, "new_name")

        def operation(tx: Tx) -> dict[str, Any]:
            inner = find_model(tx, principal, name)
            if new_name != name:
                _refuse_taken(tx, principal, new_name)
            tx.run(
                "UPDATE models SET name = ?, updated_ms = ? WHERE id = ?",
                (new_name, tx.now_ms, inner),
            )
            tx.run(
                "UPDATE model_versions SET updated_ms = ? WHERE model_id = ?", (tx.now_ms, inner)
            )
            model_event(tx, "model.updated", principal, new_name, renamed_from=name)
            return load_models(tx, [inner])[0]

        return await self._database.write(operation, is_long=True)

    async def delete(self, principal: Principal, name: str) -> None:
        """Delete a registered model with its versions, tags and aliases."""
        check_model_name(name)

        def operation(tx: Tx) -> None:
            inner = find_model(tx, principal, name)
            tx.run("DELETE FROM models WHERE id = ?", (inner,))
            model_event(tx, "model.deleted", principal, name)

        await self._database.write(operation, is_long=True)

    async def search(
        self,
        principal: Principal,
        *,
        filter_text: str | None,
        order_by: Sequence[str],
        max_results: int,
        page_token: str | None,
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Return a page of registered models and the token of the next page."""
        return await self._database.read(
            lambda reader: search_models(
                reader,
                principal,
                filter_text=filter_text,
                order_by=order_by,
                max_results=max_results,
                page_token=page_token,
            )
        )

    async def set_tag(self, principal: Principal, name: str, key: str, value: str) -> None:
        """Set a tag of a registered model."""
        check_model_name(name)
        check_tags([(key, value)])

        def operation(tx: Tx) -> None:
            inner = find_model(tx, principal, name)
            tx.run(
                "INSERT INTO model_tags (model_id, key, value) VALUES (?, ?, ?)"
                " ON CONFLICT (model_id, key) DO UPDATE SET value = excluded.value",
                (inner, key, value),
            )
            model_event(tx, "model.updated", principal, name, tag=key, value=value[:LOGGED_VALUE])

        await self._database.write(operation)

    async def delete_tag(self, principal: Principal, name: str, key: str) -> None:
        """Remove a tag of a registered model; one that is not there is no error."""
        check_model_name(name)
        check_name(key, "key")

        def operation(tx: Tx) -> None:
            inner = find_model(tx, principal, name)
            if tx.run("DELETE FROM model_tags WHERE model_id = ? AND key = ?", (inner, key)):
                model_event(tx, "model.updated", principal, name, tag_removed=key)

        await self._database.write(operation)

    async def set_alias(self, principal: Principal, name: str, alias: str, version: str) -> None:
        """Point an alias at a version; it leaves the one it pointed at."""
        check_model_name(name)
        check_new_alias(alias)
        number = check_version(version)

        def operation(tx: Tx) -> None:
            found = find_version(tx, principal, name, number)
            tx.run(
                "INSERT INTO model_aliases (model_id, alias, version) VALUES (?, ?, ?)"
                " ON CONFLICT (model_id, alias) DO UPDATE SET version = excluded.version",
                (found.model_id, alias, number),
            )
            model_event(tx, "model_alias.set", principal, name, alias=alias, version=number)

        await self._database.write(operation)

    async def delete_alias(self, principal: Principal, name: str, alias: str) -> None:
        """Remove an alias; one that is not there is no error."""
        check_model_name(name)
        check_alias(alias)

        def operation(tx: Tx) -> None:
            inner = find_model(tx, principal, name)
            gone = tx.run(
                "DELETE FROM model_aliases WHERE model_id = ? AND alias = ?", (inner, alias)
            )
            if gone:
                model_event(tx, "model_alias.deleted", principal, name, alias=alias)

        await self._database.write(operation)


def _is_there(tx: Tx, principal: Principal, name: str, inner: int) -> bool:
    row = tx.one(
        "SELECT 1 FROM models WHERE id = ? AND team_id = ? AND name = ?",
        (inner, principal.team_id, name),
    )
    return row is not None


def _refuse_taken(tx: Tx, principal: Principal, name: str, *, is_prompt: bool = False) -> None:
    row = tx.one(
        "SELECT t.value FROM models m LEFT JOIN model_tags t ON t.model_id = m.id AND t.key = ?"
        " WHERE m.team_id = ? AND m.name = ?",
        (PROMPT_TAG, principal.team_id, name),
    )
    if row is None:
        return
    was_prompt = row[0] == "true"
    if was_prompt != is_prompt:
        old, new = ("prompt", "registered model") if was_prompt else ("registered model", "prompt")
        raise AlreadyExists(
            f"Tried to create a {new} with name {name!r}, but the name is already taken by a"
            f" {old}. A model and a prompt cannot have the same name."
        )
    kind = "Prompt" if was_prompt else "Registered Model"
    raise AlreadyExists(f"{kind} (name={name}) already exists.")
