"""The tables. Owns their shape on both databases; knows no query.

Times are milliseconds since the epoch. Names of metrics, parameters and tags are kept once, in
`names`.
A metric point lands in `metric_log` (one row per request) and is moved by compaction into
`metric_blocks`.
"""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Float,
    ForeignKey,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from trackyard.store.schema.columns import BIG, metadata
from trackyard.store.schema.columns import big_id as _id
from trackyard.store.schema.columns import integer as _int
from trackyard.store.schema.columns import ref as _ref
from trackyard.store.schema.columns import words as _text


def _short_values(table: str) -> Index:
    """Find runs by a tag or parameter without reading the table; long values stay out of it."""
    short = text("length(value) <= 200")
    return Index(
        f"ix_{table}_short_values",
        "name_id",
        "run_id",
        "value",
        sqlite_where=short,
        postgresql_where=short,
    )


Table("settings", metadata, Column("key", Text, primary_key=True), _text("value"))

# Who may do what -----------------------------------------------------------------------------

Table(
    "teams",
    metadata,
    _id(),
    _text("name"),
    _int("created_ms"),
    #: the inner id behind experiment `0` of this team
    _int("default_experiment_id", nullable=True),
    _text("settings"),
    UniqueConstraint("name"),
)
Table(
    "users",
    metadata,
    _id(),
    _text("name"),
    _int("is_admin"),
    _int("created_ms"),
    _int("disabled_ms", nullable=True),
    UniqueConstraint("name"),
)
Table(
    "members",
    metadata,
    _ref("team_id", "teams.id"),
    _ref("user_id", "users.id"),
    _text("role"),
    PrimaryKeyConstraint("team_id", "user_id"),
    Index(None, "user_id"),
)
Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    _text("digest"),
    #: user | attempt
    _text("kind"),
    _ref("user_id", "users.id", nullable=True),
    _ref("team_id", "teams.id"),
    _text("role"),
    _text("label"),
    #: for attempt tokens: {"run_id", "attempt", "rank", "purpose"}; JSON
    _text("scope", nullable=True),
    _int("created_ms"),
    _int("expires_ms", nullable=True),
    _int("used_ms", nullable=True),
    _int("revoked_ms", nullable=True),
    #: the token it was issued with, which it never outlives; none for a root
    _text("parent_id", nullable=True),
    UniqueConstraint("digest"),
    Index(None, "parent_id"),
)
Table(
    "identities",
    metadata,
    #: a person as an identity provider knows it, and the user here
    _text("issuer"),
    _text("subject"),
    _ref("user_id", "users.id"),
    _int("created_ms"),
    PrimaryKeyConstraint("issuer", "subject"),
)
Table(
    "secrets",
    metadata,
    _ref("team_id", "teams.id"),
    _text("name"),
    #: the value, sealed under a key outside the database
    _text("sealed"),
    _int("created_ms"),
    _int("updated_ms"),
    _text("actor"),
    PrimaryKeyConstraint("team_id", "name"),
)
Table(
    "sessions",
    metadata,
    Column("digest", Text, primary_key=True),
    _ref("user_id", "users.id"),
    _text("csrf"),
    _int("created_ms"),
    _int("seen_ms"),
    _int("expires_ms"),
)
Table(
    "signins",
    metadata,
    Column("digest", Text, primary_key=True),
    _ref("user_id", "users.id"),
    _int("expires_ms"),
    _int("used_ms", nullable=True),
)

# What happened -------------------------------------------------------------------------------

Table(
    "events",
    metadata,
    _id(),
    _int("time_ms"),
    _int("team_id", nullable=True),
    _text("actor"),
    _text("kind"),
    _text("subject"),
    _text("subject_id"),
    _text("data"),
    Index(None, "team_id", "id"),
    Index(None, "subject", "subject_id", "id"),
    #: stalls alone, which usage is counted by
    Index(
        "ix_events_stalls",
        "time_ms",
        sqlite_where=text("kind IN ('job.stalled', 'job.recovered')"),
        postgresql_where=text("kind IN ('job.stalled', 'job.recovered')"),
    ),
    sqlite_autoincrement=True,
)
Table(
    "lost_answers",
    metadata,
    #: digest of caller, route and body of a create call whose answer was handed to nobody
    Column("digest", Text, primary_key=True),
    #: what it made, for its retry
    Column("result", Text, primary_key=True),
    _int("created_ms"),
    Index(None, "created_ms"),
)

Table(
    "journal",
    metadata,
    _id(),
    #: rows that are not in their tables yet; msgpack of store.sqlite.journal
    Column("data", LargeBinary, nullable=False),
)
Table(
    "rejected_writes",
    metadata,
    #: what the journal held and no table would take, kept for a person to look at
    _id(),
    Column("data", LargeBinary, nullable=False),
    _text("reason"),
    _int("created_ms"),
)

# Tracking ------------------------------------------------------------------------------------

Table("names", metadata, _id(), _text("name"), UniqueConstraint("name"))
Table(
    "experiments",
    metadata,
    Column("id", BIG, primary_key=True, autoincrement=False),
    _ref("team_id", "teams.id"),
    _text("name"),
    _text("artifact_location"),
    _text("lifecycle"),
    _int("created_ms"),
    _int("updated_ms"),
    UniqueConstraint("team_id", "name"),
)
Table(
    "experiment_tags",
    metadata,
    _ref("experiment_id", "experiments.id"),
    _text("key"),
    _text("value"),
    PrimaryKeyConstraint("experiment_id", "key"),
)
Table(
    "runs",
    metadata,
    _id(),
    Column("uuid", Text, nullable=False),
    _ref("experiment_id", "experiments.id"),
    _int("team_id"),
    _text("name"),
    _text("user_name"),
    _text("status"),
    _int("start_ms", nullable=True),
    _int("end_ms", nullable=True),
    _text("lifecycle"),
    _int("deleted_ms", nullable=True),
    _text("artifact_uri"),
    UniqueConstraint("uuid"),
    Index(None, "experiment_id", "start_ms"),
    Index(None, "team_id", "start_ms"),
)
Table(
    "params",
    metadata,
    _ref("run_id", "runs.id"),
    _int("name_id"),
    _text("value"),
    PrimaryKeyConstraint("run_id", "name_id"),
    _short_values("params"),
    sqlite_with_rowid=False,
)
Table(
    "tags",
    metadata,
    _ref("run_id", "runs.id"),
    _int("name_id"),
    _text("value"),
    PrimaryKeyConstraint("run_id", "name_id"),
    _short_values("tags"),
    sqlite_with_rowid=False,
)
Table(
    "metric_latest",
    metadata,
    _ref("run_id", "runs.id"),
    _int("name_id"),
    _int("step"),
    _int("time_ms"),
    #: NULL stands for NaN
    Column("value", Float(53), nullable=True),
    Column("least", Float(53), nullable=True),
    Column("most", Float(53), nullable=True),
    #: the latest point as the JSON that clients get, so that a page of runs needs no formatting
    _text("wire", nullable=True),
    PrimaryKeyConstraint("run_id", "name_id"),
    Index(None, "name_id", "value", "run_id"),
    sqlite_with_rowid=False,
)
Table(
    "metric_log",
    metadata,
    _id(),
    _int("run_id"),
    _int("attempt"),
    _int("rank"),
    _int("points"),
    Column("data", LargeBinary, nullable=False),
    Index(None, "run_id"),
    sqlite_autoincrement=True,
)
Table(
    "metric_blocks",
    metadata,
    _id(),
    _int("run_id"),
    _int("name_id"),
    _int("attempt"),
    _int("rank"),
    _int("points"),
    _int("first_step"),
    _int("last_step"),
    _int("first_ms"),
    _int("last_ms"),
    Column("data", LargeBinary, nullable=False),
    Column("summary", LargeBinary, nullable=False),
    Index(None, "run_id", "name_id"),
    sqlite_autoincrement=True,
)
Table(
    "rollbacks",
    metadata,
    #: points of earlier attempts beyond this step were rolled back when `attempt` began
    _ref("run_id", "runs.id"),
    _int("attempt"),
    _int("step"),
    PrimaryKeyConstraint("run_id", "attempt"),
)
Table(
    "datasets",
    metadata,
    _id(),
    _ref("experiment_id", "experiments.id"),
    _text("name"),
    _text("digest"),
    _text("source_type"),
    _text("source"),
    _text("schema", nullable=True),
    _text("profile", nullable=True),
    UniqueConstraint("experiment_id", "name", "digest"),
)
Table(
    "run_datasets",
    metadata,
    _id(),
    _ref("run_id", "runs.id"),
    _ref("dataset_id", "datasets.id"),
    #: JSON list of {key, value}
    _text("tags"),
    UniqueConstraint("run_id", "dataset_id"),
)
Table(
    "run_models",
    metadata,
    _ref("run_id", "runs.id"),
    _text("model_id"),
    #: input | output
    _text("direction"),
    _int("step"),
    PrimaryKeyConstraint("run_id", "direction", "model_id"),
    Index(None, "model_id"),
)

# Artifacts -----------------------------------------------------------------------------------

Table(
    "artifacts",
    metadata,
    _id(),
    _int("team_id"),
    #: the experiment's inner id, the first segment of an artifact uri
    _int("experiment_id"),
    #: run uuid or logged-model id that holds it
    _text("owner"),
    #: path below the owner's root, `/`-separated
    _text("path"),
    #: opaque name of the bytes in the blob store
    _text("blob"),
    _int("size"),
    _text("sha256"),
    _int("created_ms"),
    UniqueConstraint("owner", "path"),
)
Table(
    "uploads",
    metadata,
    Column("id", Text, primary_key=True),
    _int("team_id"),
    _int("experiment_id"),
    _text("owner"),
    _text("path"),
    #: JSON: the blob store's own state of the multipart upload
    _text("state"),
    _int("created_ms"),
)

# Registry ------------------------------------------------------------------------------------

Table(
    "models",
    metadata,
    _id(),
    _ref("team_id", "teams.id"),
    _text("name"),
    _text("description"),
    _int("created_ms"),
    _int("updated_ms"),
    #: highest version ever given out; numbers are never used twice
    _int("last_version"),
    UniqueConstraint("team_id", "name"),
)
Table(
    "model_tags",
    metadata,
    _ref("model_id", "models.id"),
    _text("key"),
    _text("value"),
    PrimaryKeyConstraint("model_id", "key"),
)
Table(
    "model_aliases",
    metadata,
    _ref("model_id", "models.id"),
    _text("alias"),
    _int("version"),
    PrimaryKeyConstraint("model_id", "alias"),
)
Table(
    "model_versions",
    metadata,
    _id(),
    _ref("model_id", "models.id"),
    _int("version"),
    _int("created_ms"),
    _int("updated_ms"),
    _text("description"),
    _text("user_name"),
    _text("stage"),
    _text("source"),
    _text("run_uuid"),
    _text("run_link"),
    _text("logged_model_id"),
    _text("status"),
    _text("status_message"),
    _text("storage_location"),
    UniqueConstraint("model_id", "version"),
    Index(None, "run_uuid"),
    Index(None, "logged_model_id"),
)
Table(
    "model_version_tags",
    metadata,
    _ref("version_id", "model_versions.id"),
    _text("key"),
    _text("value"),
    PrimaryKeyConstraint("version_id", "key"),
)

# Logged models (MLflow 3) --------------------------------------------------------------------

Table(
    "logged_models",
    metadata,
    Column("id", Text, primary_key=True),
    _int("team_id"),
    _ref("experiment_id", "experiments.id"),
    _text("name"),
    _text("artifact_uri"),
    _text("status"),
    _text("status_message"),
    _text("model_type"),
    _text("source_run"),
    _text("lifecycle"),
    _int("created_ms"),
    _int("updated_ms"),
    Index(None, "experiment_id", "created_ms"),
    Index(None, "source_run"),
)
Table(
    "logged_model_tags",
    metadata,
    Column("model_id", Text, ForeignKey("logged_models.id", ondelete="CASCADE")),
    _text("key"),
    _text("value"),
    PrimaryKeyConstraint("model_id", "key"),
)
Table(
    "logged_model_params",
    metadata,
    Column("model_id", Text, ForeignKey("logged_models.id", ondelete="CASCADE")),
    _text("key"),
    _text("value"),
    PrimaryKeyConstraint("model_id", "key"),
)
Table(
    "logged_model_metrics",
    metadata,
    _id(),
    Column("model_id", Text, ForeignKey("logged_models.id", ondelete="CASCADE"), nullable=False),
    _text("key"),
    _int("time_ms"),
    _int("step"),
    Column("value", Float(53), nullable=True),
    _text("run_uuid"),
    _text("dataset_name", nullable=True),
    _text("dataset_digest", nullable=True),
    UniqueConstraint("model_id", "key", "time_ms", "step", "run_uuid"),
)
