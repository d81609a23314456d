"""Versions of registered models: create, describe, tag, move through stages, delete. Owns their
state changes and their numbers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from trackyard.access.principal import Principal
from trackyard.core.errors import InvalidInput, NotFound
from trackyard.registry.rules import (
    LOGGED_VALUE,
    PROMPT_TAG,
    STAGE_ARCHIVED,
    STAGE_DELETED,
    STAGE_NONE,
    STAGES,
    check_alias,
    check_archiving,
    check_description,
    check_model_name,
    check_stage,
    check_tags,
    check_version,
)
from trackyard.registry.search import search_versions
from trackyard.registry.sources import (
    ModelOrigin,
    check_prompt_source,
    is_elsewhere,
    resolve,
)
from trackyard.registry.views import latest_versions, load_versions
from trackyard.store.database import Database, ReadConnection, Tx
from trackyard.store.idempotency.rule import Create
from trackyard.store.transaction import FEW_ROWS
from trackyard.tracking.validation import check_name

READY = "READY"
_VERSIONS_TAG = "mlflow.modelVersions"


class ModelVersionRow(NamedTuple):
    """What a write needs to know of a version."""

    id: int
    model_id: int
    stage: str


class VersionDraft(NamedTuple):
    """What a caller says of a version to be made."""

    name: str
    source: str
    run_id: str = ""
    model_id: str = ""
    tags: Sequence[tuple[str, str]] = ()
    run_link: str = ""
    description: str = ""


class Versions:
    """What can be done with versions of registered models."""

    def __init__(self, database: Database, *, must_exist: bool = True) -> None:
        self._database = database
        #: whether a source that this server keeps must be there
        self._must_exist = must_exist

    async def create(
        self, principal: Principal, new: VersionDraft, create: Create | None = None
    ) -> dict[str, Any]:
        """Create the next version of a model and return it; a retry returns the first try's."""
        check_model_name(new.name)
        tagged = check_tags(new.tags)
        check_description(new.description)
        is_prompt = tagged.get(PROMPT_TAG, "").lower() == "true"
        if is_prompt:
            check_prompt_source(new.source)
        else:
            is_elsewhere(new.source)

        def operation(tx: Tx) -> dict[str, Any]:
            first = create and create.retried(
                tx, lambda inner: _is_as_made(tx, principal, new.name, int(inner))
            )
            if first:
                return load_versions(tx, [int(first)])[0]
            origin = _origin(tx, principal, new, is_prompt, must_exist=self._must_exist)
            inner = _create(tx, principal, new, tagged, origin)
            if create is not None:
                create.made(str(inner))
            return load_versions(tx, [inner])[0]

        return await self._database.write(operation, is_long=len(tagged) > FEW_ROWS)

    async def get(self, principal: Principal, name: str, version: str) -> dict[str, Any]:
        """Return a version."""
        check_model_name(name)
        number = check_version(version)
        return await self._database.peek(
            lambda reader: load_versions(
                reader, [find_version(reader, principal, name, number).id]
            )[0]
        )

    async def by_alias(self, principal: Principal, name: str, alias: str) -> dict[str, Any]:
        """Return the version an alias points at; `latest` is the one with the highest number."""
        check_model_name(name)
        check_alias(alias)
        return await self._database.peek(lambda reader: _by_alias(reader, principal, name, alias))

    async def latest(
        self, principal: Principal, name: str, stages: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """Return the newest version of each stage asked for, of all stages by default."""
        check_model_name(name)
        wanted = {check_stage(stage) for stage in stages} or set(STAGES)

        def query(reader: ReadConnection) -> list[dict[str, Any]]:
            inner = find_model(reader, principal, name)
            found = latest_versions(reader, [inner]).get(inner, [])
            return [version for version in found if version["current_stage"] in wanted]

        return await self._database.peek(query)

    async def download_uri(self, principal: Principal, name: str, version: str) -> str:
        """Return the uri that clients download a version's files from."""
        check_model_name(name)
        number = check_version(version)

        def query(reader: ReadConnection) -> str:
            found = find_version(reader, principal, name, number)
            row = reader.one(
                "SELECT storage_location, source FROM model_versions WHERE id = ?", (found.id,)
            )
            assert row is not None
            return str(row[0] or row[1])

        return await self._database.peek(query)

    async def search(
        self,
        principal: Principal,
        *,
        filter_text: str | None,
        order_by: Sequence[str],
        max_results: int,
        page_token: str | None,
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Return a page of versions and the token of the next page."""
        return await self._database.read(
            lambda reader: search_versions(
                reader,
                principal,
                filter_text=filter_text,
                order_by=order_by,
                max_results=max_results,
                page_token=page_token,
            )
        )

    async def update(
        self, principal: Principal, name: str, version: str, description: str
    ) -> dict[str, Any]:
        """Describe a version and return it."""
        check_model_name(name)
        number = check_version(version)
        check_description(description)

        def operation(tx: Tx) -> dict[str, Any]:
            found = find_version(tx, principal, name, number)
            tx.run(
                "UPDATE model_versions SET description = ?, updated_ms = ? WHERE id = ?",
                (description, tx.now_ms, found.id),
            )
            version_event(
                tx, "model_version.updated", principal, name, number, description=description
            )
            return load_versions(tx, [found.id])[0]

        return await self._database.write(operation)

    async def transition(
        self, principal: Principal, name: str, version: str, stage: str, *, archive: bool = False
    ) -> dict[str, Any]:
        """Move a version to a stage, archiving those that hold it if asked, and return it."""
        check_model_name(name)
        number = check_version(version)
        wanted = check_stage(stage)
        if archive:
            check_archiving(stage)

        def operation(tx: Tx) -> dict[str, Any]:
            found = find_version(tx, principal, name, number)
            if archive:
                _archive_others(tx, principal, name, found, wanted)
            tx.run(
                "UPDATE model_versions SET stage = ?, updated_ms = ? WHERE id = ?",
                (wanted, tx.now_ms, found.id),
            )
            touch(tx, found.model_id)
            version_event(
                tx,
                "model_version.updated",
                principal,
                name,
                number,
                stage=wanted,
                stage_before=found.stage,
            )
            return load_versions(tx, [found.id])[0]

        return await self._database.write(operation)

    async def delete(self, principal: Principal, name: str, version: str) -> None:
        """Delete a version with its tags and aliases; its number is never given out again."""
        check_model_name(name)
        number = check_version(version)

        def operation(tx: Tx) -> None:
            found = find_version(tx, principal, name, number)
            tx.run(
                "DELETE FROM model_aliases WHERE model_id = ? AND version = ?",
                (found.model_id, number),
            )
            tx.run("DELETE FROM model_version_tags WHERE version_id = ?", (found.id,))
            tx.run(
                "UPDATE model_versions SET stage = ?, updated_ms = ?, description = '',"
                " user_name = '', source = '', run_uuid = '', run_link = '', logged_model_id = '',"
                " status_message = '', storage_location = '' WHERE id = ?",
                (STAGE_DELETED, tx.now_ms, found.id),
            )
            touch(tx, found.model_id)
            version_event(tx, "model_version.deleted", principal, name, number)

        await self._database.write(operation)

    async def set_tag(
        self, principal: Principal, name: str, version: str, key: str, value: str
    ) -> None:
        """Set a tag of a version."""
        check_model_name(name)
        number = check_version(version)
        check_tags([(key, value)])

        def operation(tx: Tx) -> None:
            found = find_version(tx, principal, name, number)
            tx.run(
                "INSERT INTO model_version_tags (version_id, key, value) VALUES (?, ?, ?)"
                " ON CONFLICT (version_id, key) DO UPDATE SET value = excluded.value",
                (found.id, key, value),
            )
            version_event(
                tx,
                "model_version.updated",
                principal,
                name,
                number,
                tag=key,
                value=value[:LOGGED_VALUE],
            )

        await self._database.write(operation)

    async def delete_tag(self, principal: Principal, name: str, version: str, key: str) -> None:
        """Remove a tag of a version; one that is not there is no error."""
        check_model_name(name)
        number = check_version(version)
        check_name(key, "key")

        def operation(tx: Tx) -> None:
            found = find_version(tx, principal, name, number)
            gone = tx.run(
                "DELETE FROM model_version_tags WHERE version_id = ? AND key = ?", (found.id, key)
            )
            if gone:
                version_event(
                    tx, "model_version.updated", principal, name, number, tag_removed=key
                )

        await self._database.write(operation)


# -- inside a transaction ---------------------------------------------------------------------


def find_model(
    reader: Tx | ReadConnection, principal: Principal, name: str, *, for_update: bool = False
) -> int:
    """Return the inner id of a registered model of the caller's team."""
    lock = reader.dialect.for_update if for_update else ""
    row = reader.one(
        f"SELECT id FROM models WHERE team_id = ? AND name = ?{lock}", (principal.team_id, name)
    )
    if row is None:
        raise NotFound(f"Registered Model with name={name} not found")
    return int(row[0])


def find_version(
    reader: Tx | ReadConnection, principal: Principal, name: str, number: int
) -> ModelVersionRow:
    """Return a living version of a model of the caller's team."""
    row = reader.one(
        "SELECT v.id, v.model_id, v.stage FROM model_versions v JOIN models m ON m.id = v.model_id"
        " WHERE m.team_id = ? AND m.name = ? AND v.version = ? AND v.stage <> ?",
        (principal.team_id, name, number, STAGE_DELETED),
    )
    if row is None:
        raise NotFound(f"Model Version (name={name}, version={number}) not found")
    return ModelVersionRow(*row)


def touch(tx: Tx, model_id: int) -> None:
    """Mark a model as changed now."""
    tx.run("UPDATE models SET updated_ms = ? WHERE id = ?", (tx.now_ms, model_id))


def model_event(tx: Tx, kind: str, principal: Principal, name: str, **data: Any) -> None:
    """Record what happened to a registered model."""
    tx.event(
        kind,
        team_id=principal.team_id,
        actor=principal.name,
        subject="model",
        subject_id=name,
        **data,
    )


def version_event(
    tx: Tx, kind: str, principal: Principal, name: str, version: int, **data: Any
) -> None:
    """Record what happened to a version."""
    tx.event(
        kind,
        team_id=principal.team_id,
        actor=principal.name,
        subject="model_version",
        subject_id=f"{name}/{version}",
        **data,
    )


def _origin(
    tx: Tx, principal: Principal, new: VersionDraft, is_prompt: bool, *, must_exist: bool
) -> ModelOrigin:
    find_model(tx, principal, new.name, for_update=True)
    if is_prompt:
        return ModelOrigin(source=new.source, run_id="", model_id="", location="")
    return resolve(
        tx,
        principal,
        new.source,
        run_id=new.run_id,
        model_id=new.model_id,
        must_exist=must_exist,
    )


def _create(
    tx: Tx, principal: Principal, new: VersionDraft, tagged: dict[str, str], origin: ModelOrigin
) -> int:
    model_id = find_model(tx, principal, new.name)
    row = tx.one("SELECT last_version FROM models WHERE id = ?", (model_id,))
    assert row is not None
    number = row[0] + 1
    tx.run(
        "UPDATE models SET last_version = ?, updated_ms = ? WHERE id = ?",
        (number, tx.now_ms, model_id),
    )
    inner = tx.insert(
        "INSERT INTO model_versions (model_id, version, created_ms, updated_ms, description,"
        " user_name, stage, source, run_uuid, run_link, logged_model_id, status, status_message,"
        " storage_location) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            model_id,
            number,
            tx.now_ms,
            tx.now_ms,
            new.description,
            principal.name,
            STAGE_NONE,
            origin.source,
            origin.run_id,
            new.run_link,
            origin.model_id,
            READY,
            origin.note,
            origin.location,
        ),
    )
    tx.many(
        "INSERT INTO model_version_tags (version_id, key, value) VALUES (?, ?, ?)",
        [(inner, key, value) for key, value in tagged.items()],
    )
    if origin.model_id:
        _note_on_model(tx, origin.model_id, new.name, number)
    version_event(
        tx,
        "model_version.created",
        principal,
        new.name,
        number,
        source=origin.source,
        run_id=origin.run_id,
        model_id=origin.model_id,
    )
    return inner


def _note_on_model(tx: Tx, model_id: str, name: str, number: int) -> None:
    """List a version in its logged model's tag, where MLflow's clients look for it."""
    row = tx.one(
        "SELECT value FROM logged_model_tags WHERE model_id = ? AND key = ?",
        (model_id, _VERSIONS_TAG),
    )
    try:
        listed = json.loads(row[0]) if row is not None else []
    except ValueError:
        listed = []  # a script may have set the tag to anything
    listed = [*(listed if isinstance(listed, list) else []), {"name": name, "version": number}]
    tx.run(
        "INSERT INTO logged_model_tags (model_id, key, value) VALUES (?, ?, ?)"
        " ON CONFLICT (model_id, key) DO UPDATE SET value = excluded.value",
        (model_id, _VERSIONS_TAG, json.dumps(listed)),
    )


def _is_as_made(tx: Tx, principal: Principal, name: str, inner: int) -> bool:
    """Tell whether a version is as it was made: not moved, described, aliased or deleted."""
    row = tx.one(
        "SELECT 1 FROM model_versions v JOIN models m ON m.id = v.model_id"
        " WHERE v.id = ? AND m.team_id = ? AND m.name = ? AND v.stage = ?"
        " AND v.updated_ms = v.created_ms AND NOT EXISTS (SELECT 1 FROM model_aliases a"
        " WHERE a.model_id = v.model_id AND a.version = v.version)",
        (inner, principal.team_id, name, STAGE_NONE),
    )
    return row is not None


def _by_alias(
    reader: ReadConnection, principal: Principal, name: str, alias: str
) -> dict[str, Any]:
    inner = find_model(reader, principal, name)
    if alias.lower() == "latest":
        row = reader.one(
            "SELECT MAX(version) FROM model_versions WHERE model_id = ? AND stage <> ?",
            (inner, STAGE_DELETED),
        )
        if row is None or row[0] is None:
            raise NotFound(f"Latest version not found for model {name}.")
    else:
        row = reader.one(
            "SELECT version FROM model_aliases WHERE model_id = ? AND alias = ?", (inner, alias)
        )
        if row is None:
            raise InvalidInput(f"Registered model alias {alias} not found.")
    found = find_version(reader, principal, name, row[0])
    return load_versions(reader, [found.id])[0]


def _archive_others(
    tx: Tx, principal: Principal, name: str, chosen: ModelVersionRow, stage: str
) -> None:
    others = tx.all(
        "SELECT id, version FROM model_versions WHERE model_id = ? AND stage = ? AND id <> ?",
        (chosen.model_id, stage, chosen.id),
    )
    for inner, number in others:
        tx.run(
            "UPDATE model_versions SET stage = ?, updated_ms = ? WHERE id = ?",
            (STAGE_ARCHIVED, tx.now_ms, inner),
        )
        version_event(
            tx,
            "model_version.updated",
            principal,
            name,
            number,
            stage=STAGE_ARCHIVED,
            stage_before=stage,
        )
