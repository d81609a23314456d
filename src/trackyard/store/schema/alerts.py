"""The tables of alerts, inboxes and log policies.

Owns their shape; knows no query. Shares the metadata of `schema`, which imports this module.
"""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, PrimaryKeyConstraint, Table, Text
from sqlalchemy import UniqueConstraint as Unique

from trackyard.store.schema.columns import big_id, integer, ref, words
from trackyard.store.schema.columns import metadata as shared

Table(
    "alert_channels",
    shared,
    Column("id", Text, primary_key=True),
    #: NULL: for rules of the admin's
    ref("team_id", "teams.id", nullable=True),
    words("name"),
    #: `email`, `slack`, `teams` or `webhook`
    words("kind"),
    #: where it goes, sealed: addresses of chat services are secrets
    words("target"),
    #: what people are shown of it
    words("shown"),
    #: sealed; NULL where deliveries are not signed
    words("secret", nullable=True),
    words("actor"),
    integer("created_ms"),
    Index(None, "team_id", "name"),
)
Table(
    "alert_rules",
    shared,
    Column("id", Text, primary_key=True),
    #: NULL: for all teams
    ref("team_id", "teams.id", nullable=True),
    #: a job, an array or a run it is about; empty: all of the team
    words("scope"),
    #: the condition as it was written
    words("text"),
    #: names of channels; JSON list
    words("via"),
    #: `warning` or `critical`
    words("severity"),
    integer("cooldown_ms"),
    #: how long a first message waits for others of the rule
    integer("group_ms"),
    #: after how long nobody's acknowledgement is told elsewhere; NULL: never
    integer("escalate_ms", nullable=True),
    words("escalate_via"),
    integer("enabled"),
    words("actor"),
    integer("created_ms"),
    Unique("scope", "text", "team_id"),
    Index(None, "team_id", "created_ms"),
)
Table(
    "alert_states",
    shared,
    #: what a rule remembers of one subject; JSON of notify.alerts.evaluate.RuleMemory
    Column("rule_id", Text, ForeignKey("alert_rules.id", ondelete="CASCADE"), nullable=False),
    words("subject"),
    words("memory"),
    PrimaryKeyConstraint("rule_id", "subject"),
)
Table(
    "alert_incidents",
    shared,
    big_id(),
    Column("rule_id", Text, ForeignKey("alert_rules.id", ondelete="SET NULL"), nullable=True),
    #: the team of the subject; NULL for nodes
    ref("team_id", "teams.id", nullable=True),
    words("text"),
    words("severity"),
    #: `run`, `job`, `node`, `lease` or `budget`, and which
    words("subject_kind"),
    words("subject_id"),
    words("subject_name"),
    #: the job's id, where the subject is a run of one or a job
    words("job_id"),
    words("sentence"),
    #: `open`, `acknowledged` or `resolved`
    words("state"),
    integer("times"),
    integer("opened_ms"),
    integer("last_ms"),
    #: when it was told last; NULL: never, because it was silenced
    integer("told_ms", nullable=True),
    words("acked_by", nullable=True),
    integer("acked_ms", nullable=True),
    integer("resolved_ms", nullable=True),
    #: when it is escalated; NULL: not, or done
    integer("escalate_at_ms", nullable=True),
    Index(None, "state", "escalate_at_ms"),
    Index(None, "rule_id", "subject_id", "id"),
    Index(None, "team_id", "id"),
    Index(None, "job_id", "id"),
)
Table(
    "alert_silences",
    shared,
    Column("id", Text, primary_key=True),
    #: NULL: the admin's, for all teams
    ref("team_id", "teams.id", nullable=True),
    #: empty: every rule, and every subject
    words("rule_id"),
    words("subject_id"),
    words("reason"),
    integer("until_ms"),
    words("actor"),
    integer("created_ms"),
    Index(None, "until_ms"),
)
Table(
    "alert_deliveries",
    shared,
    big_id(),
    ref("team_id", "teams.id", nullable=True),
    words("rule_id"),
    #: name and kind of the channel
    words("channel"),
    words("channel_kind"),
    #: `opened`, `resolved`, `escalated` or `test`
    words("what"),
    #: incidents it tells of; JSON list
    words("incidents"),
    #: `pending`, `delivered` or `failed`
    words("state"),
    integer("tries"),
    #: when it is due, or when whoever sends it now is taken for dead
    integer("next_ms"),
    integer("created_ms"),
    integer("ended_ms", nullable=True),
    integer("answer_status", nullable=True),
    words("error"),
    Index(None, "state", "next_ms"),
    Index(None, "team_id", "id"),
)
Table(
    "alert_cursor",
    shared,
    #: one row: the last event of the log that rules have seen
    Column("name", Text, primary_key=True),
    integer("after_event"),
)
Table(
    "inbox",
    shared,
    big_id(),
    ref("user_id", "users.id"),
    ref("team_id", "teams.id", nullable=True),
    #: `alert` or `mention`
    words("kind"),
    words("title"),
    #: page of the web UI
    words("link"),
    #: incident or note it is about
    words("about"),
    integer("created_ms"),
    integer("read_ms", nullable=True),
    Index(None, "user_id", "id"),
    Unique("user_id", "about"),
)
Table(
    "log_policies",
    shared,
    Column("id", Text, primary_key=True),
    #: NULL: all teams; empty queue: all queues
    ref("team_id", "teams.id", nullable=True),
    words("queue"),
    #: a shipped pattern's name, or a regular expression
    words("pattern"),
    #: label of the attempt; empty: none
    words("label"),
    integer("exclude_node"),
    integer("stop_retries"),
    #: what is shown in place of the attempt's own sentence; empty: that one
    words("message"),
    words("actor"),
    integer("created_ms"),
)
