"""The table of what was imported from other trackers.

Owns its shape; knows no query. Shares the metadata of `schema`, which imports this module.
"""

from __future__ import annotations

from sqlalchemy import PrimaryKeyConstraint, Table

from trackyard.store.schema.columns import integer, ref, words
from trackyard.store.schema.columns import metadata as shared

Table(
    "imported",
    shared,
    ref("team_id", "teams.id"),
    #: experiment, run, model, model_version, logged_model or trace
    words("kind"),
    #: what it was called at its source
    words("source_key"),
    #: what it is called here
    words("target"),
    #: SHA-256 of what the source said of it, so that only what changed there is written again
    words("digest"),
    integer("imported_ms"),
    PrimaryKeyConstraint("team_id", "kind", "source_key"),
)
