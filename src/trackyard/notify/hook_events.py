"""What webhooks are told of, in MLflow's words: which events there are, and how an event of our
log becomes the body of a delivery. Reads the registry's tables; changes nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from trackyard.core.errors import InvalidInput
from trackyard.registry.rules import PROMPT_TAG
from trackyard.store.database import ReadConnection, Tx

PROMPT_TEXT = "mlflow.prompt.text"
#: Tags by which clients keep what belongs to a prompt; they are not the user's.
_PROMPT_TAGS = frozenset((PROMPT_TAG, PROMPT_TEXT, "_mlflow_prompt_type"))

_NAMED = {"name": "example_model"}
_PROMPT = {"name": "example_prompt"}
_NUMBER = {"version": "1"}
_PAIR = {"key": "example_key", "value": "example_value"}
_KEY = {"key": "example_key"}
_ALIAS = {"alias": "example_alias"}
_TAGS = {"tags": {"example_key": "example_value"}}
#: Every event with the data of a test delivery.
EXAMPLES: dict[str, dict[str, Any]] = {
    "registered_model.created": {**_NAMED, **_TAGS, "description": "An example registered model"},
    "model_version.created": {
        **_NAMED,
        **_NUMBER,
        "source": "models:/123",
        "run_id": "abcd1234abcd5678",
        **_TAGS,
        "description": "An example model version",
    },
    "model_version_tag.set": {**_NAMED, **_NUMBER, **_PAIR},
    "model_version_tag.deleted": {**_NAMED, **_NUMBER, **_KEY},
    "model_version_alias.created": {**_NAMED, **_ALIAS, **_NUMBER},
    "model_version_alias.deleted": {**_NAMED, **_ALIAS},
    "prompt.created": {**_PROMPT, **_TAGS, "description": "An example prompt"},
    "prompt_version.created": {
        **_PROMPT,
        **_NUMBER,
        "template": "Hello {{name}}!",
        **_TAGS,
        "description": "An example prompt version",
    },
    "prompt_tag.set": {**_PROMPT, **_PAIR},
    "prompt_tag.deleted": {**_PROMPT, **_KEY},
    "prompt_version_tag.set": {**_PROMPT, **_NUMBER, **_PAIR},
    "prompt_version_tag.deleted": {**_PROMPT, **_NUMBER, **_KEY},
    "prompt_alias.created": {**_PROMPT, **_ALIAS, **_NUMBER},
    "prompt_alias.deleted": {**_PROMPT, **_ALIAS},
}
#: Events of MLflow's that never happen here: the gateway's budgets.
NEVER = frozenset(("budget_policy.exceeded",))
#: The events of our log that any of these come from.
KINDS = (
    "model.created",
    "model.updated",
    "model_version.created",
    "model_version.updated",
    "model_alias.set",
    "model_alias.deleted",
)


def read_events(given: Any) -> list[str]:
    """Read the events of a webhook, `{"entity": "MODEL_VERSION", "action": "CREATED"}` each."""
    if not isinstance(given, list) or not given:
        raise InvalidInput(
            f"Webhook events must be a non-empty list of WebhookEvent objects: {given!s:.80}."
        )
    return list(dict.fromkeys(read_event(one) for one in given))


def read_event(one: Any) -> str:
    """Read one event."""
    entity = str(one.get("entity", "") if isinstance(one, dict) else "").lower()
    action = str(one.get("action", "") if isinstance(one, dict) else "").lower()
    event = f"{entity}.{action}"
    if event not in EXAMPLES and event not in NEVER:
        actions = sorted(
            name.partition(".")[2] for name in EXAMPLES if name.startswith(f"{entity}.")
        )
        raise InvalidInput(
            f"Invalid action '{action[:40]}' for entity '{entity[:40]}'. Valid actions"
            f" are: {actions}"
        )
    return event


def write_event(event: str) -> dict[str, str]:
    """Return an event on the wire."""
    entity, _, action = event.partition(".")
    return {"entity": entity.upper(), "action": action.upper()}


def body_of(event: str, data: dict[str, Any], time_ms: int) -> str:
    """Return the body of a delivery."""
    entity, _, action = event.partition(".")
    moment = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat()
    said = {"entity": entity, "action": action, "timestamp": moment, "data": data}
    return msgspec.json.encode(said).decode()


def translate(
    reader: Tx | ReadConnection, team_id: int, kind: str, subject: str, data: dict[str, Any]
) -> tuple[str, dict[str, Any]] | None:
    """Return a webhook's event and its data for an event of our log, or None."""
    name, _, version = (
        subject.rpartition("/") if kind.startswith("model_version.") else (subject, "", "")
    )
    row = reader.one(
        "SELECT m.id, m.description, t.value FROM models m LEFT JOIN model_tags t"
        " ON t.model_id = m.id AND t.key = ? WHERE m.team_id = ? AND m.name = ?",
        (PROMPT_TAG, team_id, name),
    )
    model_id, description, mark = row if row is not None else (0, "", None)
    is_prompt = mark == "true"
    thing = "prompt" if is_prompt else "registered_model"
    numbered = "prompt_version" if is_prompt else "model_version"
    said: dict[str, Any] = {"name": name}
    if kind == "model.created":
        tags = _tags(reader, "model_tags", "model_id", model_id, is_prompt)
        return f"{thing}.created", {**said, "tags": tags, "description": description}
    if kind == "model_version.created":
        return f"{numbered}.created", _new_version(reader, said, model_id, int(version), is_prompt)
    if kind in ("model_alias.set", "model_alias.deleted"):
        entity = "prompt_alias" if is_prompt else "model_version_alias"
        said["alias"] = data.get("alias", "")
        if kind == "model_alias.deleted":
            return f"{entity}.deleted", said
        return f"{entity}.created", {**said, "version": str(data.get("version", ""))}
    if kind == "model_version.updated":
        said["version"] = version
        return _tagged(f"{numbered}_tag", said, data)
    return _tagged("prompt_tag", said, data) if is_prompt else None


def _tagged(
    entity: str, said: dict[str, Any], data: dict[str, Any]
) -> tuple[str, dict[str, Any]] | None:
    if "tag_removed" in data:
        return f"{entity}.deleted", {**said, "key": data["tag_removed"]}
    if "tag" in data:
        return f"{entity}.set", {**said, "key": data["tag"], "value": data.get("value", "")}
    return None


def _new_version(
    reader: Tx | ReadConnection, said: dict[str, Any], model_id: int, version: int, is_prompt: bool
) -> dict[str, Any]:
    row = reader.one(
        "SELECT id, source, run_uuid, description FROM model_versions"
        " WHERE model_id = ? AND version = ?",
        (model_id, version),
    )
    inner, source, run_id, description = row if row is not None else (0, "", "", "")
    found = {**said, "version": str(version)}
    if is_prompt:
        whole = _tags(reader, "model_version_tags", "version_id", inner, is_prompt=False)
        found["template"] = whole.get(PROMPT_TEXT)
    else:
        found |= {"source": source, "run_id": run_id or None}
    tags = _tags(reader, "model_version_tags", "version_id", inner, is_prompt)
    return {**found, "tags": tags, "description": description or None}


def _tags(
    reader: Tx | ReadConnection, table: str, owner: str, inner: int, is_prompt: bool
) -> dict[str, str]:
    rows = reader.all(f"SELECT key, value FROM {table} WHERE {owner} = ? ORDER BY key", (inner,))
    return {key: value for key, value in rows if not (is_prompt and key in _PROMPT_TAGS)}
