"""The tables of the Ray door: what Ray's clients call their jobs and packages, per team.

Owns their shape; knows no query. Shares the metadata of `schema`, which imports this module last.
"""

from __future__ import annotations

from sqlalchemy import Index, PrimaryKeyConstraint, Table

from trackyard.store.schema.columns import integer, ref, words
from trackyard.store.schema.columns import metadata as shared

Table(
    "ray_jobs",
    shared,
    ref("team_id", "teams.id"),
    #: the client's own id, or the job's where the client gave none
    words("submission_id"),
    words("job_id"),
    integer("created_ms"),
    #: when a client deleted it from Ray's list; the job itself stays
    integer("deleted_ms", nullable=True),
    PrimaryKeyConstraint("team_id", "submission_id"),
    Index(None, "job_id"),
)
Table(
    "ray_packages",
    shared,
    ref("team_id", "teams.id"),
    #: Ray's name, a 64-bit hash that anybody can collide with; `digest` says what it holds
    words("name"),
    words("digest"),
    words("user_name"),
    integer("created_ms"),
    PrimaryKeyConstraint("team_id", "name"),
)
