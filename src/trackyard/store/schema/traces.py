"""The tables of traces and what is judged by them: assessments, evaluation data sets, scorers.

Owns their shape; knows no query. Shares the metadata of `schema`, which imports this module.
"""

from __future__ import annotations

from sqlalchemy import (
    Column,
    ForeignKey,
    Index,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

from trackyard.store.schema.columns import big_id, integer, ref, words
from trackyard.store.schema.columns import metadata as shared


def _trace() -> Column[str]:
    return Column("trace_id", Text, ForeignKey("traces.id", ondelete="CASCADE"), nullable=False)


def _dataset() -> Column[str]:
    return Column(
        "dataset_id", Text, ForeignKey("eval_datasets.id", ondelete="CASCADE"), nullable=False
    )


Table(
    "traces",
    shared,
    #: `tr-` and as a rule 32 hex digits, which the client makes up
    Column("id", Text, primary_key=True),
    integer("team_id"),
    ref("experiment_id", "experiments.id"),
    words("name"),
    words("state"),
    integer("time_ms"),
    #: NULL while it runs
    integer("duration_ms", nullable=True),
    words("client_request_id"),
    words("request_preview"),
    words("response_preview"),
    Index(None, "experiment_id", "time_ms"),
)
Table(
    "trace_tags",
    shared,
    _trace(),
    words("key"),
    words("value"),
    PrimaryKeyConstraint("trace_id", "key"),
)
Table(
    "trace_metadata",
    shared,
    _trace(),
    words("key"),
    words("value"),
    PrimaryKeyConstraint("trace_id", "key"),
)
Table(
    "trace_runs",
    shared,
    #: the run in which a trace was made, and runs that it was linked to later
    _trace(),
    words("run_uuid"),
    PrimaryKeyConstraint("trace_id", "run_uuid"),
    Index(None, "run_uuid"),
)
Table(
    "trace_links",
    shared,
    #: links to a run that were made before the trace itself came in
    integer("team_id"),
    words("trace_id"),
    words("run_uuid"),
    integer("created_ms"),
    PrimaryKeyConstraint("trace_id", "team_id", "run_uuid"),
)
Table(
    "trace_spans",
    shared,
    _trace(),
    words("span_id"),
    integer("start_ns"),
    #: the span as clients get it; JSON
    words("data"),
    PrimaryKeyConstraint("trace_id", "span_id"),
)
Table(
    "assessments",
    shared,
    Column("id", Text, primary_key=True),
    _trace(),
    #: feedback or expectation
    words("kind"),
    words("name"),
    #: what filters compare: a text as it is, anything else as JSON
    words("value"),
    integer("created_ms"),
    #: the assessment as clients get it; JSON
    words("data"),
    Index(None, "trace_id"),
)
Table(
    "eval_datasets",
    shared,
    Column("id", Text, primary_key=True),
    ref("team_id", "teams.id"),
    words("name"),
    #: JSON objects; NULL until there are records
    words("schema", nullable=True),
    words("profile", nullable=True),
    words("digest"),
    words("created_by"),
    words("updated_by"),
    integer("created_ms"),
    integer("updated_ms"),
    #: names are not unique, as in MLflow
    Index(None, "team_id", "name"),
)
Table(
    "eval_dataset_tags",
    shared,
    _dataset(),
    words("key"),
    words("value"),
    PrimaryKeyConstraint("dataset_id", "key"),
)
Table(
    "eval_dataset_experiments",
    shared,
    _dataset(),
    ref("experiment_id", "experiments.id"),
    PrimaryKeyConstraint("dataset_id", "experiment_id"),
)
Table(
    "eval_records",
    shared,
    Column("id", Text, primary_key=True),
    _dataset(),
    #: digest of the inputs: one record for each
    words("input_digest"),
    #: the record as clients get it, without its ids and times; JSON
    words("data"),
    integer("created_ms"),
    integer("updated_ms"),
    UniqueConstraint("dataset_id", "input_digest"),
)
Table(
    "scorers",
    shared,
    big_id(),
    ref("experiment_id", "experiments.id"),
    #: one for all versions of a name
    words("scorer_id"),
    words("name"),
    integer("version"),
    words("serialized"),
    integer("created_ms"),
    UniqueConstraint("experiment_id", "name", "version"),
)
