"""The tables of the fleet: nodes, how their health checks stand, and the log of verdicts.

Owns their shape; knows no query. Shares the metadata of `schema`, which imports this module.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, PrimaryKeyConstraint, Table, Text

from trackyard.store.schema.columns import big_id, integer, words
from trackyard.store.schema.columns import metadata as shared

Table(
    "nodes",
    shared,
    Column("id", Text, primary_key=True),
    words("engine"),
    #: what the engine says: ready or down
    words("engine_state"),
    #: what keeps work off it: ready, drained or quarantined
    words("state"),
    words("note"),
    words("actor"),
    #: JSON of the engine's report
    words("report"),
    integer("joined_ms"),
    integer("changed_ms"),
    #: labels that an operator set; JSON of text by name
    Column("labels", Text, nullable=False, server_default="{}"),
    #: when a drain ends by itself
    integer("until_ms", nullable=True),
    #: who set the state: an operator's word is not undone by a health check
    Column("state_by", Text, nullable=False, server_default="operator"),
    #: since when it is in that state
    Column("state_ms", BigInteger, nullable=False, server_default="0"),
    #: GPUs it had when it was whole
    Column("expected_gpus", BigInteger, nullable=False, server_default="0"),
)
Table(
    "node_checks",
    shared,
    words("node_id"),
    #: a word of core.health.CheckName
    words("name"),
    #: ok, warn or fail
    words("verdict"),
    words("sentence"),
    Column("number", Float(53), nullable=True),
    words("unit"),
    #: who looked: engine, runner, server or job
    words("source"),
    integer("at_ms"),
    #: since when the verdict is this one
    integer("since_ms"),
    #: looks in a row that failed, and that did not
    integer("failed"),
    integer("passed"),
    #: a count up to here was seen and accepted by an operator
    Column("accepted", Float(53), nullable=False),
    PrimaryKeyConstraint("node_id", "name"),
)
Table(
    "node_verdicts",
    shared,
    big_id(),
    words("node_id"),
    words("name"),
    words("verdict"),
    words("sentence"),
    Column("number", Float(53), nullable=True),
    words("unit"),
    words("source"),
    #: the attempt around which it was seen; empty for none
    words("attempt_id"),
    integer("at_ms"),
    #: job and team of that attempt: whose word it is
    Column("job_id", Text, nullable=False, server_default=""),
    integer("team_id", nullable=True),
    Index(None, "node_id", "id"),
    Index(None, "at_ms"),
)
