"""Who an artifact belongs to: a run, a logged model or a trace of a team. Owns who may reach
it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from trackyard.access.principal import Principal
from trackyard.access.reach import own_experiment, reaches
from trackyard.core.errors import InvalidInput, NotFound
from trackyard.core.ids import MODEL_ID, RUN_ID, TRACE_ID
from trackyard.store.database import ReadConnection, Tx

#: What MLflow takes for a run id at all; what is not one is refused before it is looked for.
_ID_LIKE = re.compile(r"[a-zA-Z0-9][\w\-]{0,255}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactOwner:
    """A run, logged model or trace that holds artifacts."""

    id: str
    #: `run`, `logged_model` or `trace`
    kind: str
    team_id: int
    experiment_id: int
    #: `active` or `deleted`
    lifecycle: str
    #: root of its artifacts, as clients know it
    uri: str

    def check_active(self) -> None:
        """Refuse writes below something that was deleted."""
        if self.lifecycle != "active":
            raise InvalidInput(
                f"The {self.kind.replace('_', ' ')} {self.id} must be in the 'active' state."
                f" Current state is {self.lifecycle}."
            )

    def check_experiment(self, principal: Principal, experiment: str) -> None:
        """Refuse a path whose experiment is not the owner's; `0` is the caller's own Default."""
        inner = principal.default_experiment if experiment == "0" else int(experiment)
        if inner != self.experiment_id:
            raise _absent(self.id)


def find_owner(reader: ReadConnection | Tx, principal: Principal, owner_id: str) -> ArtifactOwner:
    """Return the owner of an id within the caller's reach; any other is not found."""
    if _ID_LIKE.match(owner_id) is None:
        raise InvalidInput(f"Invalid run ID: {owner_id[:300]!r}")
    if MODEL_ID.match(owner_id):
        owner, run_id = _logged_model(reader, owner_id)
    elif RUN_ID.match(owner_id):
        owner, run_id = _run(reader, owner_id)
    elif TRACE_ID.match(owner_id):
        return _trace(reader, principal, owner_id)
    else:
        raise _absent(owner_id)
    if owner.team_id != principal.team_id:
        raise _absent(owner_id)
    if not reaches(reader, principal, run_id):
        raise _absent(owner_id)
    return owner


def _run(reader: ReadConnection | Tx, run_id: str) -> tuple[ArtifactOwner, str]:
    row = reader.one(
        "SELECT team_id, experiment_id, lifecycle, artifact_uri FROM runs WHERE uuid = ?",
        (run_id,),
    )
    if row is None:
        raise _absent(run_id)
    owner = ArtifactOwner(
        id=run_id, kind="run", team_id=row[0], experiment_id=row[1], lifecycle=row[2], uri=row[3]
    )
    return owner, run_id


def _logged_model(reader: ReadConnection | Tx, model_id: str) -> tuple[ArtifactOwner, str]:
    row = reader.one(
        "SELECT team_id, experiment_id, lifecycle, artifact_uri, source_run FROM logged_models"
        " WHERE id = ?",
        (model_id,),
    )
    if row is None:
        raise _absent(model_id)
    owner = ArtifactOwner(
        id=model_id,
        kind="logged_model",
        team_id=row[0],
        experiment_id=row[1],
        lifecycle=row[2],
        uri=row[3],
    )
    return owner, row[4]


def _trace(reader: ReadConnection | Tx, principal: Principal, trace_id: str) -> ArtifactOwner:
    row = reader.one(
        "SELECT t.team_id, t.experiment_id, x.value FROM traces t LEFT JOIN trace_tags x"
        " ON x.trace_id = t.id AND x.key = 'mlflow.artifactLocation' WHERE t.id = ?",
        (trace_id,),
    )
    bound = own_experiment(reader, principal)
    if row is None or row[0] != principal.team_id or bound not in (None, row[1]):
        raise _absent(trace_id)
    return ArtifactOwner(
        id=trace_id,
        kind="trace",
        team_id=row[0],
        experiment_id=row[1],
        lifecycle="active",
        uri=row[2] or "",
    )


def _absent(owner_id: str) -> NotFound:
    if TRACE_ID.match(owner_id):
        return NotFound(f"Trace with ID '{owner_id}' not found.")
    if MODEL_ID.match(owner_id):
        return NotFound(f"Logged model with ID '{owner_id}' not found.")
    return NotFound(f"Run with id={owner_id} not found")
