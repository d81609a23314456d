"""What names, aliases, stages, tags and version numbers of the registry may look like, with
MLflow's messages. Pure.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Sequence
from urllib.parse import unquote

import msgspec

from trackyard.core.errors import InvalidInput
from trackyard.core.ids import has_controls
from trackyard.core.spelling import has_hidden, passes_for
from trackyard.tracking.validation import check_name

STAGE_NONE = "None"
STAGE_ARCHIVED = "Archived"
STAGES = (STAGE_NONE, "Staging", "Production", STAGE_ARCHIVED)
ACTIVE_STAGES = ("Staging", "Production")
#: The stage of a tombstone: its number stays taken, all else is gone.
STAGE_DELETED = "Deleted_Internal"
PROMPT_TAG = "mlflow.prompt.is_prompt"
#: Characters of a tag's value that the event log keeps.
LOGGED_VALUE = 5000

MAX_MODEL_NAME = 256
MAX_TAG_VALUE = 100_000
MAX_ALIAS = 255
MAX_DESCRIPTION = 100_000
MAX_LOGGED_NAME = 500
MAX_VERSION = 2**31 - 1

_ALIAS = re.compile(r"[\w\-]+\Z")
_VERSION_ALIAS = re.compile(r"[vV]\d+\Z")
_LOGGED_NAME_BANNED = ("/", ":", ".", "%", '"', "'")
_BY_NAME = {stage.lower(): stage for stage in STAGES}


def check_model_name(name: str, parameter: str = "name") -> str:
    """Refuse a name MLflow refuses, or one that is another name in a different spelling."""
    if name.strip() == "":
        raise InvalidInput(f"Missing value for required parameter '{parameter}'.")
    if "/" in name or ":" in name:
        raise InvalidInput(f"Invalid model name '{name[:80]}'. Names cannot contain '/' or ':'.")
    if posixpath.normpath(name) != name or name in (".", "..") or name.startswith(".."):
        raise _bad_name(name, parameter, "it would resolve to another name when used as a path")
    if len(name) > MAX_MODEL_NAME:
        raise InvalidInput(
            f"'{parameter}' exceeds the maximum length of {MAX_MODEL_NAME} characters"
        )
    _check_spelling(name, parameter, unquote(name))
    return name


def _check_spelling(name: str, parameter: str, spelled: str | None) -> None:
    """Refuse a name that people could take for another; `spelled` is it without quoting."""
    if has_controls(name):
        raise _bad_name(name, parameter, "it holds control characters")
    if has_hidden(name):
        raise _bad_name(name, parameter, "it holds characters that nobody sees; leave them out")
    plain = name if spelled is None else unicodedata.normalize("NFKC", spelled).strip()
    other = plain if plain != name else passes_for(name)
    if other is not None:
        raise _bad_name(name, parameter, f"it could pass for {other[:80]!r}; use that spelling")


def _bad_name(name: str, parameter: str, why: str) -> InvalidInput:
    shown = msgspec.json.encode(name.encode(errors="replace").decode()[:80]).decode()
    return InvalidInput(f"Invalid value {shown} for parameter '{parameter}' supplied: {why}")


def check_logged_name(name: str) -> str:
    """Refuse a logged model's name that MLflow refuses."""
    if not name or any(char in name for char in _LOGGED_NAME_BANNED):
        raise InvalidInput(
            f"Invalid model name ({name[:80]!r}) provided. Model name must be a non-empty string"
            f" and cannot contain the following characters: {_LOGGED_NAME_BANNED}"
        )
    # A script's own name for it: any form of a letter will do, as long as it is seen.
    _check_spelling(name, "name", None)
    if len(name) > MAX_LOGGED_NAME:
        raise InvalidInput(f"'name' exceeds the maximum length of {MAX_LOGGED_NAME} characters")
    return name


def check_alias(alias: str) -> str:
    """Refuse an alias outside MLflow's grammar."""
    if alias == "":
        raise InvalidInput("Registered model alias name cannot be empty.")
    if _ALIAS.match(alias) is None:
        raise InvalidInput(
            f"Invalid alias name: '{alias[:80]}'. Names may only contain alphanumerics,"
            " underscores (_), and dashes (-)."
        )
    if len(alias) > MAX_ALIAS:
        raise InvalidInput(
            f"'Registered model alias name' exceeds the maximum length of {MAX_ALIAS} characters"
        )
    return alias


def check_new_alias(alias: str) -> str:
    """Refuse an alias that MLflow keeps for itself."""
    check_alias(alias)
    _check_spelling(alias, "alias", alias)
    if alias.lower() == "latest":
        raise InvalidInput("'latest' alias name (case insensitive) is reserved.")
    if _VERSION_ALIAS.match(alias):
        raise InvalidInput(f"Version alias name '{alias}' is reserved.")
    return alias


def check_stage(stage: str) -> str:
    """Return a stage in its canonical spelling."""
    canonical = _BY_NAME.get(stage.lower())
    if canonical is None:
        raise InvalidInput(
            f"Invalid Model Version stage: {stage[:80]}. Value must be one of {', '.join(STAGES)}."
        )
    return canonical


def check_archiving(stage: str) -> None:
    """Refuse to archive other versions unless the stage is one that holds a version in use."""
    if check_stage(stage) not in ACTIVE_STAGES:
        raise InvalidInput(
            "Model version transition cannot archive existing model versions because"
            f" '{stage}' is not an Active stage. Valid stages are {list(ACTIVE_STAGES)}"
        )


def check_version(version: str) -> int:
    """Return a version number that may have come as text."""
    if re.fullmatch(r"[+-]?[0-9]{1,18}", version.strip(), re.ASCII) is None:
        raise InvalidInput(f"Parameter 'version' must be an integer, got '{version[:80]}'.")
    return int(version)


def check_tags(tags: Sequence[tuple[str, str]], *, limit: int = MAX_TAG_VALUE) -> dict[str, str]:
    """Return tags as a mapping, the last of a key winning."""
    for position, (key, value) in enumerate(tags):
        check_name(key, "key" if len(tags) == 1 else f"tags[{position}].key")
        if len(value) > limit:
            raise InvalidInput(f"'value' exceeds the maximum length of {limit} characters")
    return dict(tags)


def check_description(text: str) -> str:
    """Refuse a description beyond its limit."""
    if len(text) > MAX_DESCRIPTION:
        raise InvalidInput(
            f"'description' exceeds the maximum length of {MAX_DESCRIPTION} characters"
        )
    return text
