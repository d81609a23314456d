"""Rules and the subjects they are about, as rows and as values.

Owns `alert_rules` and `alert_states`. What follows from a rule is `incidents`' business.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from trackyard.core.alerts import MOMENTARY, Condition, parse
from trackyard.core.errors import InvalidInput
from trackyard.notify.alerts.evaluate import RuleMemory
from trackyard.queue.watched import WatchedJob
from trackyard.store.database import ReadConnection, Tx
from trackyard.tracking.watched import WatchedRun

#: The channel that everybody has: the inbox in the web UI, and the browser's notices.
INBOX = "inbox"
SEVERITIES = ("warning", "critical")
COOLDOWN_MS = 10 * 60_000
#: How long the first message of a team's rule waits for others, so that one message tells all.
GROUP_MS = 15_000
MAX_RULES = 500
_COLUMNS = (
    "id, team_id, scope, text, via, severity, cooldown_ms, group_ms, escalate_ms, escalate_via,"
    " enabled, actor, created_ms"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """A rule as it is judged."""

    id: str
    #: None: for all teams
    team_id: int | None
    #: a job, an array or a run; empty: all of the team
    scope: str
    text: str
    via: tuple[str, ...]
    severity: str
    cooldown_ms: int
    group_ms: int
    escalate_ms: int | None
    escalate_via: tuple[str, ...]
    enabled: bool
    actor: str
    created_ms: int
    condition: Condition

    @property
    def is_momentary(self) -> bool:
        """Tell whether what it reacts to is over once it has happened."""
        return self.condition.kind in MOMENTARY

    def row(self) -> tuple[Any, ...]:
        """Return its columns."""
        return (
            self.id,
            self.team_id,
            self.scope,
            self.text,
            _encode(self.via),
            self.severity,
            self.cooldown_ms,
            self.group_ms,
            self.escalate_ms,
            _encode(self.escalate_via),
            int(self.enabled),
            self.actor,
            self.created_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentSubject:
    """What an incident is about."""

    kind: str
    id: str
    name: str
    team_id: int | None
    job_id: str = ""
    array_id: str = ""
    run_uuid: str = ""
    user_name: str = ""

    @property
    def scopes(self) -> tuple[str, ...]:
        """Every scope of rules that it falls under, but for its team's."""
        found = (self.job_id, self.array_id, self.run_uuid)
        return tuple(dict.fromkeys(one for one in found if one))


def of_job(job: WatchedJob) -> IncidentSubject:
    """Return a job as the subject of an incident."""
    return IncidentSubject(
        kind="job",
        id=job.job_id,
        name=job.name,
        team_id=job.team_id,
        job_id=job.job_id,
        array_id=job.array_id,
        run_uuid=job.run_uuid,
        user_name=job.user_name,
    )


def of_run(run: WatchedRun) -> IncidentSubject:
    """Return a run without a job as the subject of an incident."""
    return IncidentSubject(
        kind="run",
        id=run.uuid,
        name=run.name,
        team_id=run.team_id,
        run_uuid=run.uuid,
        user_name=run.user_name,
    )


def new_rule(text: str, *, team_id: int | None, actor: str, now_ms: int, **more: Any) -> AlertRule:
    """Make a rule of its text; `via` in the text wins."""
    parsed = parse(text)
    scope = more.pop("scope", "")
    fields: dict[str, Any] = {
        "via": (),
        "severity": SEVERITIES[0],
        "cooldown_ms": COOLDOWN_MS,
        "group_ms": 0 if scope else GROUP_MS,
        "escalate_ms": None,
        "escalate_via": (),
    } | more
    if parsed.via:
        fields["via"] = parsed.via
    return AlertRule(
        id=f"al-{secrets.token_hex(6)}",
        team_id=team_id,
        scope=scope,
        text=parsed.text,
        condition=parsed.condition,
        enabled=True,
        actor=actor,
        created_ms=now_ms,
        **fields,
    )


def load_rules(reader: ReadConnection | Tx, *, only_enabled: bool = True) -> list[AlertRule]:
    """Return every rule, the oldest first."""
    where = " WHERE enabled = 1" if only_enabled else ""
    rows = reader.all(f"SELECT {_COLUMNS} FROM alert_rules{where} ORDER BY created_ms, id")
    return [rule for row in rows if (rule := read_rule(row)) is not None]


def team_rules(reader: ReadConnection | Tx, team_id: int, *, limit: int = 1000) -> list[AlertRule]:
    """Return the rules that are about a team: its own and the admin's."""
    rows = reader.all(
        f"SELECT {_COLUMNS} FROM alert_rules WHERE team_id = ? OR team_id IS NULL"
        f" ORDER BY enabled DESC, created_ms DESC, id LIMIT {limit}",
        (team_id,),
    )
    return [rule for row in rows if (rule := read_rule(row)) is not None]


def find_rule(reader: ReadConnection | Tx, rule_id: str) -> AlertRule | None:
    """Return a rule by its id."""
    row = reader.one(f"SELECT {_COLUMNS} FROM alert_rules WHERE id = ?", (rule_id,))
    return None if row is None else read_rule(row)


def is_in_force(reader: ReadConnection | Tx, rule_id: str) -> bool:
    """Tell whether a rule is still there and switched on."""
    row = reader.one("SELECT 1 FROM alert_rules WHERE id = ? AND enabled = 1", (rule_id,))
    return row is not None


def read_rule(row: Any) -> AlertRule | None:
    """Return a rule from its columns; one that this release cannot read is left out."""
    try:
        condition = parse(row[3]).condition
    except InvalidInput:
        return None
    return AlertRule(
        id=row[0],
        team_id=row[1],
        scope=row[2],
        text=row[3],
        via=tuple(msgspec.json.decode(row[4])),
        severity=row[5],
        cooldown_ms=row[6],
        group_ms=row[7],
        escalate_ms=row[8],
        escalate_via=tuple(msgspec.json.decode(row[9])),
        enabled=bool(row[10]),
        actor=row[11],
        created_ms=row[12],
        condition=condition,
    )


def insert_rules(tx: Tx, rules: Iterable[AlertRule]) -> None:
    """Keep rules; one that says the same of the same scope is there once."""
    rows = [rule.row() for rule in rules]
    if rows:
        marks = ", ".join("?" * len(rows[0]))
        tx.many(
            f"INSERT INTO alert_rules ({_COLUMNS}) VALUES ({marks}) ON CONFLICT DO NOTHING", rows
        )


def load_memories(reader: ReadConnection | Tx) -> dict[tuple[str, str], RuleMemory]:
    """Return what all rules remember."""
    rows = reader.all("SELECT rule_id, subject, memory FROM alert_states")
    return {(row[0], row[1]): msgspec.json.decode(row[2], type=RuleMemory) for row in rows}


def write_memories(tx: Tx, memories: Mapping[tuple[str, str], RuleMemory | None]) -> None:
    """Keep what rules remember; None forgets."""
    kept = [
        (rule, subject, msgspec.json.encode(memory).decode())
        for (rule, subject), memory in memories.items()
        if memory is not None
    ]
    gone = [key for key, memory in memories.items() if memory is None]
    if kept:
        # A rule may have been removed while it was judged.
        tx.many(
            "INSERT INTO alert_states (rule_id, subject, memory)"
            " SELECT r.id, CAST(? AS TEXT), CAST(? AS TEXT) FROM alert_rules r WHERE r.id = ?"
            " ON CONFLICT (rule_id, subject) DO UPDATE SET memory = excluded.memory",
            [(subject, memory, rule) for rule, subject, memory in kept],
        )
    if gone:
        tx.many("DELETE FROM alert_states WHERE rule_id = ? AND subject = ?", gone)


def disable_scopes(tx: Tx, scopes: Iterable[str]) -> None:
    """Switch off the rules of jobs and runs that ended."""
    rows = [(scope,) for scope in scopes]
    if rows:
        tx.many("UPDATE alert_rules SET enabled = 0 WHERE scope = ? AND enabled = 1", rows)


def _encode(names: tuple[str, ...]) -> str:
    return msgspec.json.encode(list(names)).decode()
