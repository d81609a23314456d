"""Registered models, their versions and aliases, prompts and logged models of other trackers.

Numbers of versions are kept, those of deleted ones too, so that none is given out twice. Sources
are recorded and never opened.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from trackyard.access.principal import Principal
from trackyard.core.errors import Conflict, InvalidInput
from trackyard.core.ids import MODEL_ID
from trackyard.core.strict_json import check_text
from trackyard.registry.rules import (
    MAX_LOGGED_NAME,
    MAX_VERSION,
    STAGE_DELETED,
    STAGES,
    check_alias,
    check_description,
    check_model_name,
    check_tags,
)
from trackyard.store.bounds import Int64, Line, Text, Word
from trackyard.store.database import ReadConnection, Tx
from trackyard.tracking.experiments import inner_experiment_id, require
from trackyard.tracking.importing import provenance
from trackyard.tracking.importing.provenance import ImportOutcome, KnownImport, digest_of
from trackyard.tracking.importing.records import MAX_ITEMS, Lifecycle, Params, Tags
from trackyard.tracking.importing.runs import check_left
from trackyard.tracking.metrics.model_metrics import write_model_points
from trackyard.tracking.validation import check_name

_STATUSES = ("PENDING", "READY", "UPLOAD_FAILED")


class ImportedVersion(msgspec.Struct):
    """A version as its source has it."""

    version: Annotated[int, Meta(ge=1, le=MAX_VERSION)]
    created_ms: Int64 = 0
    updated_ms: Int64 = 0
    description: Text = ""
    user: Line = ""
    stage: Word = "None"
    source: Line = ""
    run_id: Word = ""
    run_link: Line = ""
    model_id: Word = ""
    status: Word = "READY"
    status_message: Line = ""
    storage_location: Line = ""
    tags: Tags = {}


class ImportedModel(msgspec.Struct):
    """A registered model or prompt, with some of its versions."""

    name: Word
    description: Text = ""
    created_ms: Int64 = 0
    updated_ms: Int64 = 0
    tags: Tags = {}
    aliases: Annotated[dict[Word, Int64], Meta(max_length=MAX_ITEMS)] = {}
    versions: Annotated[list[ImportedVersion], Meta(max_length=MAX_ITEMS)] = []


class ImportedModels(msgspec.Struct):
    """Some registered models."""

    models: Annotated[list[ImportedModel], Meta(max_length=MAX_ITEMS)]


class ImportedModelMetric(msgspec.Struct):
    """A metric of a logged model; null stands for NaN."""

    key: Word
    value: float | None
    time_ms: Int64
    step: Int64 = 0
    run_id: Word = ""
    dataset_name: Line | None = None
    dataset_digest: Word | None = None


class ImportedLoggedModel(msgspec.Struct):
    """A logged model as its source has it, without its files."""

    model_id: Word
    experiment_id: Word
    name: Line = ""
    model_type: Line = ""
    source_run: Word = ""
    status: Literal["PENDING", "READY", "UPLOAD_FAILED"] = "READY"
    status_message: Line = ""
    lifecycle: Lifecycle = "active"
    created_ms: Int64 = 0
    updated_ms: Int64 = 0
    #: where its files stay; empty for this server's own store
    artifact_uri: Line = ""
    tags: Tags = {}
    params: Params = {}
    metrics: Annotated[list[ImportedModelMetric], Meta(max_length=20_000)] = []


class ImportedLoggedModels(msgspec.Struct):
    """Some logged models."""

    models: Annotated[list[ImportedLoggedModel], Meta(max_length=MAX_ITEMS)]


# -- registered models ------------------------------------------------------------------------


def put_model(tx: Tx, principal: Principal, item: ImportedModel) -> ImportOutcome:
    """Import a registered model with the versions that came with it."""
    _check_model(item)
    row = tx.one(
        "SELECT id FROM models WHERE team_id = ? AND name = ?", (principal.team_id, item.name)
    )
    known = provenance.find(tx, principal, "model", item.name)
    if row is not None and known is None:
        raise Conflict("the team has a model or prompt of this name; rename one of the two")
    if row is not None and known is not None and known.target != str(item.created_ms):
        raise Conflict("a model of this name was imported from another source; rename it there")
    digest = digest_of((item.description, item.updated_ms, item.tags, item.aliases))
    changed = row is None or known is None or known.digest != digest
    if row is None:
        inner = tx.insert(
            "INSERT INTO models (team_id, name, description, created_ms, updated_ms, last_version)"
            " VALUES (?, ?, ?, ?, ?, 0)",
            (principal.team_id, item.name, item.description, item.created_ms, item.updated_ms),
        )
    else:
        inner = int(row[0])
    count = sum(_put_version(tx, principal, inner, item.name, one) for one in item.versions)
    if changed:
        _write_model(tx, inner, item)
        provenance.note(
            tx, principal, "model", item.name, KnownImport(str(item.created_ms), digest)
        )
    if not (changed or count):
        return ImportOutcome(id=item.name, outcome="unchanged")
    _event(tx, "model.imported", principal, ("model", item.name), versions=count)
    return ImportOutcome(id=item.name, outcome="created" if row is None else "updated")


def _check_model(item: ImportedModel) -> None:
    check_model_name(item.name)
    check_description(item.description)
    check_tags(list(item.tags.items()))
    for alias in item.aliases:
        check_alias(alias)
    for one in item.versions:
        if one.stage not in (*STAGES, STAGE_DELETED):
            raise InvalidInput(f"version {one.version} has the unknown stage {one.stage[:80]!r}")
        check_description(one.description)
        check_tags(list(one.tags.items()))
        check_text(one.source + one.storage_location + one.run_link + one.user + one.status)


def _write_model(tx: Tx, inner: int, item: ImportedModel) -> None:
    tx.run(
        "UPDATE models SET description = ?, updated_ms = ? WHERE id = ?",
        (item.description, item.updated_ms, inner),
    )
    tx.many(
        "INSERT INTO model_tags (model_id, key, value) VALUES (?, ?, ?)"
        " ON CONFLICT (model_id, key) DO UPDATE SET value = excluded.value",
        [(inner, key, value) for key, value in item.tags.items()],
    )
    tx.many(
        "INSERT INTO model_aliases (model_id, alias, version) VALUES (?, ?, ?)"
        " ON CONFLICT (model_id, alias) DO UPDATE SET version = excluded.version",
        [(inner, alias, version) for alias, version in item.aliases.items()],
    )


def _put_version(
    tx: Tx, principal: Principal, model: int, name: str, item: ImportedVersion
) -> bool:
    """Import a version under its number; return whether anything was written."""
    key, digest = f"{name}/{item.version}", digest_of(item)
    known = provenance.find(tx, principal, "model_version", key)
    if known is not None and known.digest == digest:
        return False
    row = tx.one(
        "SELECT id FROM model_versions WHERE model_id = ? AND version = ?", (model, item.version)
    )
    if row is not None and known is None:
        return False  # a version that was registered here keeps its number
    facts = _version_facts(item)
    if row is None:
        inner = tx.insert(
            "INSERT INTO model_versions (created_ms, updated_ms, description, user_name, stage,"
            " source, run_uuid, run_link, logged_model_id, status, status_message,"
            " storage_location, model_id, version)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*facts, model, item.version),
        )
    else:
        inner = int(row[0])
        tx.run(
            "UPDATE model_versions SET created_ms = ?, updated_ms = ?, description = ?,"
            " user_name = ?, stage = ?, source = ?, run_uuid = ?, run_link = ?,"
            " logged_model_id = ?, status = ?, status_message = ?, storage_location = ?"
            " WHERE id = ?",
            (*facts, inner),
        )
    tx.many(
        "INSERT INTO model_version_tags (version_id, key, value) VALUES (?, ?, ?)"
        " ON CONFLICT (version_id, key) DO UPDATE SET value = excluded.value",
        [(inner, tag, value) for tag, value in item.tags.items()],
    )
    tx.run(
        "UPDATE models SET last_version = ? WHERE id = ? AND last_version < ?",
        (item.version, model, item.version),
    )
    provenance.note(tx, principal, "model_version", key, KnownImport(str(item.version), digest))
    return True


def _version_facts(item: ImportedVersion) -> tuple[Any, ...]:
    if item.stage == STAGE_DELETED:
        # A tombstone: its number stays taken, all else is gone.
        empty = ("",) * 4
        return (item.created_ms, item.updated_ms, "", "", STAGE_DELETED, *empty, "READY", "", "")
    return (
        item.created_ms,
        item.updated_ms,
        item.description,
        item.user,
        item.stage,
        item.source,
        item.run_id,
        item.run_link,
        item.model_id,
        item.status,
        item.status_message,
        item.storage_location,
    )


def deleted_versions(reader: ReadConnection, principal: Principal) -> dict[str, list[int]]:
    """Return the numbers of deleted versions by the name of their model."""
    found: dict[str, list[int]] = {}
    for name, version in reader.all(
        "SELECT m.name, v.version FROM model_versions v JOIN models m ON m.id = v.model_id"
        " WHERE m.team_id = ? AND v.stage = ? ORDER BY m.name, v.version",
        (principal.team_id, STAGE_DELETED),
    ):
        found.setdefault(name, []).append(version)
    return found


# -- logged models ----------------------------------------------------------------------------


def put_logged(
    tx: Tx, principal: Principal, item: ImportedLoggedModel, schemes: Collection[str]
) -> ImportOutcome:
    """Import a logged model under its own id."""
    _check_logged(item, schemes)
    experiment = inner_experiment_id(principal, item.experiment_id)
    location = require(tx, principal, experiment)[2]
    row = tx.one("SELECT team_id FROM logged_models WHERE id = ?", (item.model_id,))
    if row is not None and row[0] != principal.team_id:
        raise Conflict("its id belongs to a model of another team on this server")
    digest = digest_of(item)
    known = provenance.find(tx, principal, "logged_model", item.model_id)
    if row is not None and known is not None and known.digest == digest:
        return ImportOutcome(id=item.model_id, outcome="unchanged")
    tx.run(
        "INSERT INTO logged_models (id, team_id, experiment_id, name, artifact_uri, status,"
        " status_message, model_type, source_run, lifecycle, created_ms, updated_ms)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
        " name = excluded.name, status = excluded.status,"
        " status_message = excluded.status_message, lifecycle = excluded.lifecycle,"
        " updated_ms = excluded.updated_ms",
        (
            item.model_id,
            principal.team_id,
            experiment,
            item.name,
            item.artifact_uri or f"{location}/models/{item.model_id}/artifacts",
            item.status,
            item.status_message,
            item.model_type,
            item.source_run,
            item.lifecycle,
            item.created_ms,
            item.updated_ms,
        ),
    )
    _write_logged(tx, item)
    provenance.note(
        tx, principal, "logged_model", item.model_id, KnownImport(item.model_id, digest)
    )
    _event(tx, "logged_model.imported", principal, ("logged_model", item.model_id))
    return ImportOutcome(id=item.model_id, outcome="created" if row is None else "updated")


def _check_logged(item: ImportedLoggedModel, schemes: Collection[str]) -> None:
    if MODEL_ID.match(item.model_id) is None:
        raise InvalidInput(f"a logged model's id is not like {item.model_id[:80]!r}")
    if len(item.name) > MAX_LOGGED_NAME:
        raise InvalidInput(f"its name has more than {MAX_LOGGED_NAME} characters")
    if item.artifact_uri:
        check_left(item.artifact_uri, schemes)
    check_tags(list(item.tags.items()))
    for key in [*item.params, *(one.key for one in item.metrics)]:
        check_name(key, "key")
    for text in (item.name, item.model_type, item.status_message, *item.params.values()):
        check_text(text)


def _write_logged(tx: Tx, item: ImportedLoggedModel) -> None:
    for table, pairs in (("logged_model_tags", item.tags), ("logged_model_params", item.params)):
        tx.many(
            f"INSERT INTO {table} (model_id, key, value) VALUES (?, ?, ?)"
            " ON CONFLICT (model_id, key) DO UPDATE SET value = excluded.value",
            [(item.model_id, key, value) for key, value in pairs.items()],
        )
    write_model_points(
        tx,
        [
            (
                item.model_id,
                one.key,
                one.time_ms,
                one.step,
                one.value,
                one.run_id,
                one.dataset_name,
                one.dataset_digest,
            )
            for one in item.metrics
        ],
    )


def _event(tx: Tx, kind: str, principal: Principal, subject: tuple[str, str], **data: Any) -> None:
    tx.event(
        kind,
        team_id=principal.team_id,
        actor=principal.name,
        subject=subject[0],
        subject_id=subject[1],
        **data,
    )
