"""The tables of data sets: versions, stored contents, uses, and the nodes that hold copies.

Owns their shape; knows no query. Shares the metadata of `schema`, which imports this module.
"""

from __future__ import annotations

from sqlalchemy import Column, Index, PrimaryKeyConstraint, Table, Text, UniqueConstraint

from trackyard.store.schema.columns import big_id, integer, ref, words
from trackyard.store.schema.columns import metadata as shared

Table(
    "data_sets",
    shared,
    big_id(),
    ref("team_id", "teams.id"),
    words("name"),
    words("user_name"),
    integer("created_ms"),
    #: number of the newest version ever made; numbers are not given twice
    integer("last_version"),
    UniqueConstraint("team_id", "name"),
)
Table(
    "data_versions",
    shared,
    big_id(),
    ref("data_set_id", "data_sets.id"),
    ref("team_id", "teams.id"),
    integer("version"),
    #: SHA-256 of the manifest, and the blob that holds it
    words("digest"),
    words("manifest_blob"),
    integer("manifest_bytes"),
    integer("files"),
    integer("size_bytes"),
    words("layout"),
    #: files by split and class; JSON
    words("classes"),
    #: where it came from, as its owner called it
    words("source"),
    words("user_name"),
    integer("created_ms"),
    integer("used_ms"),
    UniqueConstraint("data_set_id", "version"),
    UniqueConstraint("data_set_id", "digest"),
    Index(None, "team_id", "digest"),
)
Table(
    "data_packs",
    shared,
    #: blobs that hold contents, several in one, and manifests
    Column("blob", Text, primary_key=True),
    ref("team_id", "teams.id"),
    integer("size"),
    words("sha256"),
    integer("created_ms"),
)
Table(
    "data_contents",
    shared,
    ref("team_id", "teams.id"),
    words("sha256"),
    #: the pack that holds it, and where in it
    words("blob"),
    integer("start"),
    integer("size"),
    #: when it was stored or last asked for by somebody who adds a data set
    integer("seen_ms"),
    PrimaryKeyConstraint("team_id", "sha256"),
    Index(None, "blob"),
)
Table(
    "data_uses",
    shared,
    ref("version_id", "data_versions.id"),
    words("run_uuid"),
    #: empty where a run named the data set by itself
    words("job_id"),
    integer("created_ms"),
    PrimaryKeyConstraint("version_id", "run_uuid"),
    Index(None, "run_uuid"),
)
Table(
    "data_places",
    shared,
    #: nodes whose cache holds a version, as their runners last told
    ref("team_id", "teams.id"),
    words("node"),
    words("digest"),
    integer("seen_ms"),
    PrimaryKeyConstraint("team_id", "node", "digest"),
)
