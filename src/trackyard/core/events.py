"""The catalogue of events: one line per kind. An event is one fact that happened; the log of
them is append-only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: kind -> what happened, as one phrase. The docs test fails on a kind that docs/events.md does
#: not name.
EVENT_KINDS: dict[str, str] = {
    "team.created": "a team was created",
    "team.updated": "a team's share, quota or limits changed",
    "user.created": "a user was created",
    "user.updated": "a user was changed or disabled",
    "member.set": "a user joined a team or changed role",
    "member.removed": "a user left a team",
    "token.created": "an access token was issued",
    "token.revoked": "an access token was revoked",
    "session.started": "a user signed in to the web UI",
    "session.ended": "a user signed out",
    "experiment.created": "an experiment was created",
    "experiment.updated": "an experiment was renamed",
    "experiment.deleted": "an experiment was deleted (it can be restored)",
    "experiment.restored": "an experiment was restored",
    "experiment.tagged": "a tag of an experiment was set or removed",
    "run.created": "a run was created",
    "run.updated": "a run was renamed or changed state",
    "run.finished": "a run reached an end state",
    "run.logged": "parameters, tags or new metric names were logged to a run",
    "run.inputs": "inputs or outputs were recorded on a run",
    "run.deleted": "a run was deleted (it can be restored)",
    "run.restored": "a run was restored",
    "run.purged": "a deleted run was removed for good",
    "artifact.written": "an artifact was written",
    "artifact.deleted": "an artifact was deleted",
    "model.created": "a registered model was created",
    "model.updated": "a registered model was renamed, described or tagged",
    "model.deleted": "a registered model was deleted",
    "model_version.created": "a model version was created",
    "model_version.updated": "a model version was described, tagged or moved to a stage",
    "model_version.deleted": "a model version was deleted",
    "model_alias.set": "an alias was pointed at a model version",
    "model_alias.deleted": "an alias was removed",
    "logged_model.created": "a logged model was created",
    "logged_model.updated": "a logged model was finalised, tagged or given parameters",
    "logged_model.deleted": "a logged model was deleted",
    "access.denied": "a request was refused for want of permission",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One fact, as it is written beside the state it changed."""

    #: a key of EVENT_KINDS
    kind: str
    #: team the fact belongs to; None for the platform
    team_id: int | None
    #: who did it: a user's name, `attempt:<id>` or `system`
    actor: str
    #: what it is about: `run`, `experiment`, `model`, ...
    subject: str
    #: id of that thing as users know it
    subject_id: str
    #: further facts, JSON-ready
    data: dict[str, Any] = field(default_factory=dict)
