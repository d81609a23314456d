"""Registered models and versions as clients see them. Owns loading whole ones in few queries;
changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from trackyard.registry.rules import STAGE_DELETED
from trackyard.store.database import ReadConnection, Tx

#: Rows asked for in one query, below every database's limit of parameters.
_CHUNK = 500

_VERSION = (
    "v.id, v.model_id, m.name, v.version, v.created_ms, v.updated_ms, v.description, v.user_name,"
    " v.stage, v.source, v.run_uuid, v.run_link, v.logged_model_id, v.status, v.status_message"
)


def load_models(reader: Tx | ReadConnection, ids: Sequence[int]) -> list[dict[str, Any]]:
    """Return registered models in the order of their ids."""
    rows = _rows(
        reader,
        "SELECT id, name, description, created_ms, updated_ms FROM models WHERE id IN ({})",
        ids,
    )
    tags = _pairs(
        reader,
        "SELECT model_id, key, value FROM model_tags WHERE model_id IN ({}) ORDER BY key",
        ids,
    )
    aliases = _rows(
        reader,
        "SELECT model_id, alias, version FROM model_aliases WHERE model_id IN ({}) ORDER BY alias",
        ids,
    )
    latest = latest_versions(reader, ids)
    shaped: dict[int, dict[str, Any]] = {}
    for inner, name, description, created, updated in rows:
        model: dict[str, Any] = {
            "name": name,
            "creation_timestamp": created,
            "last_updated_timestamp": updated,
        }
        if description:
            model["description"] = description
        if inner in latest:
            model["latest_versions"] = latest[inner]
        if inner in tags:
            model["tags"] = tags[inner]
        shaped[inner] = model
    for inner, alias, version in aliases:
        named = shaped[inner].setdefault("aliases", [])
        named.append({"alias": alias, "version": str(version)})
    return [shaped[inner] for inner in ids if inner in shaped]


def latest_versions(
    reader: Tx | ReadConnection, model_ids: Sequence[int]
) -> dict[int, list[dict[str, Any]]]:
    """Return, per model, the newest version of each stage."""
    newest = _rows(
        reader,
        "SELECT v.model_id, v.id FROM model_versions v JOIN (SELECT model_id, stage,"
        " MAX(version) AS version FROM model_versions WHERE model_id IN ({})"
        " GROUP BY model_id, stage) n ON n.model_id = v.model_id AND n.version = v.version"
        f" WHERE v.stage <> '{STAGE_DELETED}' ORDER BY v.model_id, v.version",
        model_ids,
    )
    versions = load_versions(reader, [row[1] for row in newest])
    found: dict[int, list[dict[str, Any]]] = {}
    for (model_id, _), version in zip(newest, versions, strict=True):
        found.setdefault(model_id, []).append(version)
    return found


def load_versions(reader: Tx | ReadConnection, ids: Sequence[int]) -> list[dict[str, Any]]:
    """Return model versions in the order of their ids."""
    rows = _rows(
        reader,
        f"SELECT {_VERSION} FROM model_versions v JOIN models m ON m.id = v.model_id"
        " WHERE v.id IN ({})",
        ids,
    )
    tags = _pairs(
        reader,
        "SELECT version_id, key, value FROM model_version_tags WHERE version_id IN ({})"
        " ORDER BY key",
        ids,
    )
    aliases: dict[tuple[int, int], list[str]] = {}
    for model_id, alias, version in _rows(
        reader,
        "SELECT model_id, alias, version FROM model_aliases WHERE model_id IN ({}) ORDER BY alias",
        sorted({row[1] for row in rows}),
    ):
        aliases.setdefault((model_id, version), []).append(alias)
    shaped = {
        row[0]: _shape_version(row, tags.get(row[0]), aliases.get((row[1], row[3])))
        for row in rows
    }
    return [shaped[inner] for inner in ids if inner in shaped]


def _shape_version(
    row: tuple[Any, ...], tags: list[dict[str, str]] | None, aliases: list[str] | None
) -> dict[str, Any]:
    version: dict[str, Any] = {
        "name": row[2],
        "version": str(row[3]),
        "creation_timestamp": row[4],
        "last_updated_timestamp": row[5],
        "description": row[6],
        "user_id": row[7],
        "current_stage": row[8],
        "source": row[9],
        "run_id": row[10],
        "status": row[13],
        "run_link": row[11],
    }
    if row[12]:
        version["model_id"] = row[12]
    if row[14]:
        version["status_message"] = row[14]
    if tags:
        version["tags"] = tags
    if aliases:
        version["aliases"] = aliases
    return version


def _rows(reader: Tx | ReadConnection, sql: str, ids: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Run a query over any number of ids, a chunk at a time."""
    found: list[tuple[Any, ...]] = []
    for chunk in chunks(ids):
        found.extend(reader.all(sql.replace("{}", ",".join("?" * len(chunk)), 1), chunk))
    return found


def _pairs(
    reader: Tx | ReadConnection, sql: str, ids: Sequence[Any]
) -> dict[Any, list[dict[str, str]]]:
    """Run a query for owner, key and value, and return each owner's pairs on the wire."""
    found: dict[Any, list[dict[str, str]]] = {}
    for owner, key, value in _rows(reader, sql, ids):
        found.setdefault(owner, []).append({"key": key, "value": value})
    return found


def chunks(ids: Sequence[Any]) -> Iterable[Sequence[Any]]:
    """Cut a list of ids into pieces a query can take."""
    return (ids[at : at + _CHUNK] for at in range(0, len(ids), _CHUNK))
