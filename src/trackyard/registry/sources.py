"""Where a model version may come from. Owns the grammar of sources and what they resolve to.

A source names something this server keeps for the caller's team: `runs:/<run>/<path>`,
`models:/m-<id>`, `models:/<name>/<version>`, `models:/<name>@<alias>`,
`mlflow-artifacts:/<experiment>/<run>/artifacts/<path>` and
`mlflow-artifacts:/<experiment>/models/m-<id>/artifacts`; or it is the address of files that
another system keeps (a bucket, a hub), which is recorded and never opened. Local paths are
refused.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from trackyard.access.principal import Principal
from trackyard.access.reach import check_reach
from trackyard.artifacts import tree
from trackyard.core.errors import InvalidInput, NotFound
from trackyard.core.ids import EXPERIMENT_ID, MODEL_ID, RUN_ID
from trackyard.core.storage_uri import MAX_URI, is_local, is_plain, scheme_of
from trackyard.registry.rules import STAGE_DELETED, STAGES, check_alias
from trackyard.store.database import ReadConnection, Tx
from trackyard.tracking.experiments import inner_experiment_id

#: What a version's status message says of files this server does not keep, or did not find.
ELSEWHERE = "held elsewhere, not checked"
NOT_FOUND = "not found when it was registered"
#: What MLflow's clients give as the source of a prompt, which has no files.
PROMPT_SOURCES = frozenset(("dummy-source", "prompt-template"))
#: How many names of each kind a refusal lists.
LISTED = 10

_KEPT = ("runs", "models", "mlflow-artifacts")
_SCHEME = re.compile(r"(runs|models|mlflow-artifacts):/(?=[^/])")
_BANNED = re.compile(r"[\x00-\x1f\x7f\\?#;]|%[0-9A-Fa-f]{2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSource:
    """Artifacts below a run's root."""

    run_id: str
    path: str
    #: experiment id as the source writes it, when it does
    experiment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedSource:
    """Artifacts of a logged model."""

    model_id: str
    path: str = ""
    experiment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionSource:
    """Another version of the registry."""

    name: str
    version: int | None = None
    alias: str | None = None
    stage: str | None = None


Source = RunSource | LoggedSource | VersionSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOrigin:
    """What a source resolved to."""

    #: the source as it is kept
    source: str
    #: run that made the model, or empty
    run_id: str
    #: logged model behind it, or empty
    model_id: str
    #: where clients download it from
    location: str
    #: what there is to say about its files
    note: str = ""


def is_elsewhere(text: str) -> bool:
    """Tell whether a source is in the hands of another system; refuse what MLflow refuses."""
    if is_local(text):
        raise InvalidInput(
            f"Invalid model version source: '{_shown(text)}'. To use a local path as a model"
            " version source, the run_id request parameter has to be specified and the local path"
            " has to be contained within the artifact directory of the run specified by the"
            " run_id. This server keeps no run's artifacts under a local path: log the files to a"
            " run and register runs:/<run_id>/<path>"
        )
    if not is_plain(text):
        raise InvalidInput(
            f"Invalid model version source: '{_shown(text)}'. If supplying a source as an http,"
            " https, local file path, ftp, objectstore, or mlflow-artifacts uri, an absolute path"
            " must be provided without relative path references present. Please provide an"
            " absolute path."
        )
    return scheme_of(text) not in _KEPT


def check_prompt_source(text: str) -> None:
    """Refuse a prompt with a source: it has no files."""
    if text not in PROMPT_SOURCES:
        raise InvalidInput(
            f"Invalid prompt source: '{_shown(text)}'. Prompt sources must use an MLflow"
            f" placeholder: {' or '.join(sorted(PROMPT_SOURCES))}"
        )


def parse_source(text: str) -> Source:
    """Read a source that this server keeps, or refuse it; looks at nothing but the text."""
    scheme = _SCHEME.match(text)
    if scheme is None or len(text) > MAX_URI or _BANNED.search(text) or text != text.strip():
        raise _invalid(text)
    rest = text[scheme.end() :]
    # A slash at the end names the same folder; clients of old append one.
    segments = rest.removesuffix("/").split("/")
    if any(_is_bad_segment(segment) for segment in segments):
        raise _invalid(text)
    if scheme[1] == "runs":
        return _run_source(text, segments)
    if scheme[1] == "models":
        return _model_source(text, segments)
    return _artifact_source(text, segments)


def _is_bad_segment(segment: str) -> bool:
    if segment == "" or len(segment.encode(errors="replace")) > 255:
        return True
    plain = unicodedata.normalize("NFKC", segment).strip()
    return plain in ("", ".", "..") or "/" in plain or "\\" in plain


def _run_source(text: str, segments: list[str]) -> RunSource:
    if RUN_ID.match(segments[0]) is None:
        raise _invalid(text)
    return RunSource(run_id=segments[0], path="/".join(segments[1:]))


def _model_source(text: str, segments: list[str]) -> LoggedSource | VersionSource:
    if len(segments) == 1 and MODEL_ID.match(segments[0]):
        return LoggedSource(model_id=segments[0])
    if len(segments) == 1:
        name, at, alias = segments[0].rpartition("@")
        if not at or not name or ":" in name:
            raise _invalid(text)
        return VersionSource(name=name, alias=check_alias(alias))
    if len(segments) != 2 or ":" in segments[0]:
        raise _invalid(text)
    name, which = segments
    if re.fullmatch(r"[0-9]{1,18}", which, re.ASCII):
        return VersionSource(name=name, version=int(which))
    if which.startswith("@"):
        return VersionSource(name=name, alias=check_alias(which[1:]))
    if which.lower() == "latest":
        return VersionSource(name=name)
    stage = next((stage for stage in STAGES if stage.lower() == which.lower()), None)
    if stage is None:
        raise _invalid(text)
    return VersionSource(name=name, stage=stage)


def _artifact_source(text: str, segments: list[str]) -> RunSource | LoggedSource:
    if EXPERIMENT_ID.match(segments[0]) is None:
        raise _invalid(text)
    rest = segments[1:]
    if len(rest) >= 2 and RUN_ID.match(rest[0]) and rest[1] == "artifacts":
        return RunSource(run_id=rest[0], path="/".join(rest[2:]), experiment=segments[0])
    is_model = len(rest) >= 3 and rest[0] == "models" and rest[2] == "artifacts"
    if is_model and MODEL_ID.match(rest[1]):
        return LoggedSource(model_id=rest[1], path="/".join(rest[3:]), experiment=segments[0])
    raise _invalid(text)


def _shown(text: str) -> str:
    return text[:200].encode(errors="replace").decode()


def _invalid(text: str) -> InvalidInput:
    return InvalidInput(
        f"Invalid model version source: '{_shown(text)}'. What this server keeps is named"
        " runs:/<run_id>/<path>, models:/<model_id>, models:/<name>/<version> or by the artifact"
        " uri of a run or a logged model; anything else needs the address of another store"
    )


# -- what it resolves to ----------------------------------------------------------------------


def resolve(
    reader: Tx | ReadConnection,
    principal: Principal,
    text: str,
    *,
    run_id: str,
    model_id: str,
    must_exist: bool = True,
) -> ModelOrigin:
    """Find what a source names within the caller's team, or say why it cannot be registered.

    `run_id` and `model_id` are what the caller claims. They must agree with a source that this
    server keeps; with `must_exist` off, one that is not found is recorded as it was given.
    """
    if is_elsewhere(text):
        if model_id:
            _find_logged(reader, principal, model_id)
        if run_id and principal.scope is not None:
            check_reach(reader, principal, run_id)
        return ModelOrigin(
            source=text, run_id=run_id, model_id=model_id, location=text, note=ELSEWHERE
        )
    try:
        return _resolve_kept(reader, principal, text, run_id=run_id, model_id=model_id)
    except (InvalidInput, NotFound):
        if must_exist or principal.scope is not None or _is_version(text):
            raise
        return ModelOrigin(
            source=text, run_id=run_id, model_id=model_id, location=text, note=NOT_FOUND
        )


def _is_version(text: str) -> bool:
    """Tell whether a source names another version, which exists or does not on any server."""
    try:
        return isinstance(parse_source(text), VersionSource)
    except InvalidInput:
        return False


def _resolve_kept(
    reader: Tx | ReadConnection, principal: Principal, text: str, *, run_id: str, model_id: str
) -> ModelOrigin:
    source = parse_source(text)
    if run_id and not isinstance(source, VersionSource):
        _find_run(reader, principal, run_id)
    if model_id:
        _find_logged(reader, principal, model_id)
    if isinstance(source, RunSource):
        origin = _from_run(reader, principal, text, source)
    elif isinstance(source, LoggedSource):
        origin = _from_logged(reader, principal, text, source)
    else:
        origin = _from_version(reader, principal, source)
    if model_id and model_id != origin.model_id:
        raise _disagrees(text, "model_id")
    if run_id and run_id != origin.run_id:
        if not origin.model_id or not _is_model_of(reader, run_id, origin.model_id):
            raise _disagrees(text, "run_id")
        origin = ModelOrigin(
            source=origin.source,
            run_id=run_id,
            model_id=origin.model_id,
            location=origin.location,
            note=origin.note,
        )
    if principal.scope is not None:
        check_reach(reader, principal, origin.run_id)
    return origin


def _from_run(
    reader: Tx | ReadConnection, principal: Principal, text: str, source: RunSource
) -> ModelOrigin:
    inner, experiment_id, root = _find_run(reader, principal, source.run_id)
    if not _same_experiment(principal, source.experiment, experiment_id):
        raise NotFound(f"Run with id={source.run_id} not found in that experiment")
    if is_elsewhere(root):
        # The experiment's clients keep its files themselves; nobody here can look for them.
        location = f"{root}/{source.path}" if source.path else root
        return ModelOrigin(
            source=text, run_id=source.run_id, model_id="", location=location, note=ELSEWHERE
        )
    if tree.exists(reader, source.run_id, source.path):
        location = f"{root}/{source.path}" if source.path else root
        return ModelOrigin(source=text, run_id=source.run_id, model_id="", location=location)
    # Models that newer clients log lie under their own id; the run only names them.
    for model_id, _, model_root in _models_of(
        reader, principal, inner, source.run_id, source.path
    ):
        if tree.exists(reader, model_id, ""):
            return ModelOrigin(
                source=text, run_id=source.run_id, model_id=model_id, location=model_root
            )
    raise InvalidInput(_what_the_run_holds(reader, principal, inner, source))


def _from_logged(
    reader: Tx | ReadConnection, principal: Principal, text: str, source: LoggedSource
) -> ModelOrigin:
    experiment_id, root, run_id = _find_logged(reader, principal, source.model_id)
    if not _same_experiment(principal, source.experiment, experiment_id):
        raise NotFound(f"Logged model with ID '{source.model_id}' not found in that experiment.")
    location = f"{root}/{source.path}" if source.path else root
    if is_elsewhere(root):
        return ModelOrigin(
            source=text,
            run_id=run_id,
            model_id=source.model_id,
            location=location,
            note=ELSEWHERE,
        )
    if not tree.exists(reader, source.model_id, source.path):
        held = _top_level(reader, source.model_id)
        missing = f"no artifact {source.path!r}" if source.path else "no artifacts yet"
        listing = f"; it holds {_list(held)}" if held else ""
        raise InvalidInput(
            f"Logged model {source.model_id} has {missing}{listing}; log the model's files, then"
            " register it"
        )
    return ModelOrigin(source=text, run_id=run_id, model_id=source.model_id, location=location)


def _from_version(
    reader: Tx | ReadConnection, principal: Principal, source: VersionSource
) -> ModelOrigin:
    found = reader.one(
        "SELECT id FROM models WHERE team_id = ? AND name = ?", (principal.team_id, source.name)
    )
    if found is None:
        raise NotFound(f"Registered Model with name={source.name[:80]} not found")
    number = source.version
    if source.alias is not None and source.alias.lower() != "latest":
        alias = reader.one(
            "SELECT version FROM model_aliases WHERE model_id = ? AND alias = ?",
            (found[0], source.alias),
        )
        if alias is None:
            raise InvalidInput(f"Registered model alias {source.alias} not found.")
        number = alias[0]
    condition, values = "", [found[0], STAGE_DELETED]
    if number is not None:
        condition, values = " AND version = ?", [*values, number]
    elif source.stage is not None:
        condition, values = " AND stage = ?", [*values, source.stage]
    row = reader.one(
        "SELECT version, run_uuid, logged_model_id, storage_location, status_message"
        " FROM model_versions"
        f" WHERE model_id = ? AND stage <> ?{condition} ORDER BY version DESC LIMIT 1",
        values,
    )
    if row is None:
        which = number or source.stage or "latest"
        raise NotFound(f"Model Version (name={source.name}, version={which}) not found")
    version, run_id, model_id, location, note = row
    return ModelOrigin(
        source=f"models:/{source.name}/{version}",
        run_id=run_id,
        model_id=model_id,
        location=location,
        note=note,
    )


def _find_run(
    reader: Tx | ReadConnection, principal: Principal, run_id: str
) -> tuple[int, int, str]:
    if RUN_ID.match(run_id) is None:
        raise InvalidInput(f"Invalid value {run_id[:80]!r} for parameter 'run_id' supplied")
    row = reader.one(
        "SELECT id, experiment_id, artifact_uri FROM runs WHERE uuid = ? AND team_id = ?",
        (run_id, principal.team_id),
    )
    if row is None:
        raise NotFound(f"Run with id={run_id} not found")
    return row[0], row[1], row[2]


def _find_logged(
    reader: Tx | ReadConnection, principal: Principal, model_id: str
) -> tuple[int, str, str]:
    if MODEL_ID.match(model_id) is None:
        raise InvalidInput(f"Invalid value {model_id[:80]!r} for parameter 'model_id' supplied")
    row = reader.one(
        "SELECT experiment_id, artifact_uri, source_run FROM logged_models"
        " WHERE id = ? AND team_id = ? AND lifecycle = 'active'",
        (model_id, principal.team_id),
    )
    if row is None:
        raise NotFound(f"Logged model with ID '{model_id}' not found.")
    return row[0], row[1], row[2]


def _same_experiment(principal: Principal, written: str | None, experiment_id: int) -> bool:
    return written is None or inner_experiment_id(principal, written) == experiment_id


def _models_of(
    reader: Tx | ReadConnection, principal: Principal, inner: int, run_id: str, name: str | None
) -> list[tuple[str, str, str]]:
    """Return id, name and root of the models a run logged, the one of the highest step first."""
    named = "" if name is None else " AND m.name = ?"
    rows = reader.all(
        "SELECT m.id, m.name, m.artifact_uri FROM logged_models m"
        " LEFT JOIN run_models o ON o.model_id = m.id AND o.run_id = ? AND o.direction = 'output'"
        " WHERE m.team_id = ? AND m.lifecycle = 'active'"
        f" AND (m.source_run = ? OR o.run_id IS NOT NULL){named}"
        " ORDER BY COALESCE(o.step, -1) DESC, m.created_ms DESC, m.id",
        (inner, principal.team_id, run_id, *(() if name is None else (name,))),
    )
    return [(row[0], row[1], row[2]) for row in rows]


def _is_model_of(reader: Tx | ReadConnection, run_id: str, model_id: str) -> bool:
    """Tell whether a run made, or was recorded as having put out, a logged model."""
    row = reader.one(
        "SELECT 1 FROM logged_models WHERE id = ? AND source_run = ? UNION ALL"
        " SELECT 1 FROM run_models o JOIN runs r ON r.id = o.run_id"
        " WHERE r.uuid = ? AND o.model_id = ? AND o.direction = 'output'",
        (model_id, run_id, run_id, model_id),
    )
    return row is not None


def _what_the_run_holds(
    reader: Tx | ReadConnection, principal: Principal, inner: int, source: RunSource
) -> str:
    held = _top_level(reader, source.run_id)
    models = _models_of(reader, principal, inner, source.run_id, None)
    parts = []
    if held:
        parts.append(f"the artifacts {_list(held)}")
    if models:
        named = [f"{name} (models:/{model_id})" for model_id, name, _ in models]
        parts.append(f"the logged models {_list(named)}")
    missing = f"no artifact {source.path!r}" if source.path else "no artifacts"
    holding = " and ".join(parts) if parts else "nothing"
    return (
        f"Run {source.run_id} has {missing}, so there is no model to register: it holds {holding}"
    )


def _top_level(reader: Tx | ReadConnection, owner: str) -> list[str]:
    """Return what an owner holds directly below its root; folders end in a slash."""
    return [
        f"{entry.path}/" if entry.is_dir else entry.path
        for entry in tree.children(reader, owner, "")
    ]


def _list(names: list[str]) -> str:
    shown = ", ".join(names[:LISTED])
    return f"{shown} and more" if len(names) > LISTED else shown


def _disagrees(text: str, argument: str) -> InvalidInput:
    return InvalidInput(
        f"Invalid model version source: '{text[:200]}'. The {argument} request parameter must"
        " identify the resource that contains the source."
    )
