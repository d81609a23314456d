"""The tables of webhooks and what was sent to them.

Owns their shape; knows no query. Shares the metadata of `schema`, which imports this module.
"""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, Table, Text

from trackyard.store.schema.columns import integer, ref, words
from trackyard.store.schema.columns import metadata as shared

Table(
    "webhooks",
    shared,
    Column("id", Text, primary_key=True),
    ref("team_id", "teams.id"),
    words("name"),
    words("description"),
    words("url"),
    #: what it is told of, as a list of `entity.action`; JSON
    words("events"),
    #: `ACTIVE` or `DISABLED`
    words("status"),
    #: sealed; NULL where deliveries are not signed
    words("secret", nullable=True),
    #: the last event of the log that deliveries were made of
    integer("after_event"),
    words("actor"),
    integer("created_ms"),
    integer("updated_ms"),
    Index(None, "team_id", "created_ms"),
)
Table(
    "webhook_deliveries",
    shared,
    Column("id", Text, primary_key=True),
    Column("webhook_id", Text, ForeignKey("webhooks.id", ondelete="CASCADE"), nullable=False),
    words("event"),
    words("body"),
    #: `pending`, `delivered` or `failed`
    words("state"),
    integer("tries"),
    #: when it is due, or when whoever sends it now is taken for dead
    integer("next_ms"),
    integer("created_ms"),
    integer("ended_ms", nullable=True),
    #: what the other side answered last
    integer("answer_status", nullable=True),
    words("error"),
    Index(None, "state", "next_ms"),
    Index(None, "webhook_id", "created_ms"),
)
