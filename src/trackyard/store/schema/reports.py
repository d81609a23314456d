"""The table of reports: pages of Markdown that a team writes about its runs.

Owns its shape; knows no query. Shares the metadata of `schema`, which imports this module.
"""

from __future__ import annotations

from sqlalchemy import Index, Table, UniqueConstraint

from trackyard.store.schema.columns import big_id, integer, ref, words
from trackyard.store.schema.columns import metadata as shared

Table(
    "reports",
    shared,
    big_id(),
    words("report_id"),
    ref("team_id", "teams.id"),
    words("title"),
    #: Markdown with fenced blocks for charts and run sets
    words("text"),
    #: grows with every save; a save that names an older one is refused
    integer("version"),
    #: who wrote it first, and who saved it last
    words("user_name"),
    words("changed_by"),
    integer("created_ms"),
    integer("changed_ms"),
    UniqueConstraint("report_id"),
    Index(None, "team_id", "changed_ms"),
)
