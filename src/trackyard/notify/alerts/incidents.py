"""Incidents: opened once, counted, notified, acknowledged, escalated, resolved.

Owns `alert_incidents` and `alert_silences`, and writes what is to be sent into
`alert_deliveries`. All inside the transaction of whoever calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from trackyard.access import recipients
from trackyard.notify import inbox
from trackyard.notify.alerts.records import INBOX, AlertRule, IncidentSubject
from trackyard.store.database import ReadConnection, Tx

#: Incidents in one message at most, and how long one-off incidents stay open.
MOST_GROUPED, OPEN_MS = 100, 24 * 3600 * 1000
KEEP_MS = 90 * 24 * 3600 * 1000
FIELDS = (
    "id, rule_id, team_id, text, severity, subject_kind, subject_id, subject_name, job_id,"
    " sentence, state, times, opened_ms, last_ms, told_ms, acked_by, acked_ms, resolved_ms"
)


class Incident(msgspec.Struct, frozen=True):
    """An incident as it is shown and sent."""

    id: int
    rule_id: str | None
    team_id: int | None
    #: the condition as it was written
    text: str
    severity: str
    subject_kind: str
    subject_id: str
    subject_name: str
    job_id: str
    sentence: str
    #: `open`, `acknowledged` or `resolved`
    state: str
    times: int
    opened_ms: int
    last_ms: int
    #: null: it was silenced
    told_ms: int | None
    acked_by: str | None
    acked_ms: int | None
    resolved_ms: int | None

    @property
    def page(self) -> str:
        """Return the page of the web UI that is about its subject."""
        return {
            "job": f"/app/jobs/{self.subject_id}",
            "run": f"/app/runs/{self.subject_id}",
            "node": f"/app/nodes?node={self.subject_id}",
            "lease": "/app/leases",
        }.get(self.subject_kind, "/app/alerts")


def fire(tx: Tx, rule: AlertRule, subject: IncidentSubject, sentence: str) -> None:
    """Open an incident and notify, unless one is open or was resolved within the cooldown."""
    last = tx.one(
        "SELECT id, state, opened_ms, told_ms, resolved_ms FROM alert_incidents"
        f" WHERE rule_id = ? AND subject_id = ? ORDER BY id DESC LIMIT 1{tx.dialect.for_update}",
        (rule.id, subject.id),
    )
    if last is not None and _is_same(rule, last, tx.now_ms):
        state = "open" if last[1] == "resolved" and not rule.is_momentary else last[1]
        tx.run(
            "UPDATE alert_incidents SET times = times + 1, last_ms = ?, sentence = ?, state = ?,"
            " resolved_ms = CASE WHEN ? = 'open' THEN NULL ELSE resolved_ms END WHERE id = ?",
            (tx.now_ms, sentence[:2000], state, state, last[0]),
        )
        return
    if last is not None and last[1] != "resolved":
        _close(tx, last[0])
    is_silent = is_silenced(tx, rule, subject)
    escalate = None if rule.escalate_ms is None or is_silent else tx.now_ms + rule.escalate_ms
    incident = tx.insert(
        "INSERT INTO alert_incidents (rule_id, team_id, text, severity, subject_kind, subject_id,"
        " subject_name, job_id, sentence, state, times, opened_ms, last_ms, told_ms,"
        " escalate_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'open', 1, ?, ?, ?, ?)",
        (
            rule.id,
            subject.team_id,
            rule.text,
            rule.severity,
            subject.kind,
            subject.id,
            subject.name,
            subject.job_id,
            sentence[:2000],
            tx.now_ms,
            tx.now_ms,
            None if is_silent else tx.now_ms,
            escalate,
        ),
    )
    _event(tx, "alert.fired", incident, rule=rule, subject=subject, sentence=sentence)
    if not is_silent:
        tell(tx, rule, incident, "opened", rule.via or (INBOX,))


def _is_same(rule: AlertRule, last: Sequence[Any], now_ms: int) -> bool:
    """Tell whether this continues the last incident rather than starting a new one."""
    _, state, opened_ms, told_ms, resolved_ms = last
    if rule.is_momentary:
        return bool(now_ms - (told_ms or opened_ms) < rule.cooldown_ms)
    return state != "resolved" or bool(now_ms - (resolved_ms or 0) < rule.cooldown_ms)


def clear(
    tx: Tx, rule: AlertRule, subject: IncidentSubject, sentence: str, *, ended: bool
) -> None:
    """Resolve the open incident, and notify its channels unless the subject itself ended."""
    row = tx.one(
        "SELECT id, told_ms FROM alert_incidents WHERE rule_id = ? AND subject_id = ?"
        f" AND state <> 'resolved' ORDER BY id DESC LIMIT 1{tx.dialect.for_update}",
        (rule.id, subject.id),
    )
    if row is None:
        return
    _close(tx, row[0])
    _event(tx, "alert.resolved", row[0], rule=rule, subject=subject, sentence=sentence)
    channels = tuple(name for name in rule.via if name != INBOX)
    if row[1] is not None and not ended and channels:
        tx.run("UPDATE alert_incidents SET sentence = ? WHERE id = ?", (sentence[:2000], row[0]))
        tell(tx, rule, row[0], "resolved", channels)


def _close(tx: Tx, incident: int) -> None:
    tx.run(
        "UPDATE alert_incidents SET state = 'resolved', resolved_ms = ?, escalate_at_ms = NULL"
        " WHERE id = ?",
        (tx.now_ms, incident),
    )


def acknowledge(tx: Tx, incident: Incident, actor: str) -> None:
    """Acknowledge an incident, which cancels its escalation."""
    if incident.state != "open":
        return
    tx.run(
        "UPDATE alert_incidents SET state = 'acknowledged', acked_by = ?, acked_ms = ?,"
        " escalate_at_ms = NULL WHERE id = ? AND state = 'open'",
        (actor, tx.now_ms, incident.id),
    )
    tx.event(
        "alert.acknowledged",
        team_id=incident.team_id,
        actor=actor,
        subject=incident.subject_kind,
        subject_id=incident.subject_id,
        name=incident.subject_name,
        incident=incident.id,
        alert=incident.text,
    )


def escalate(tx: Tx, rule: AlertRule, incident: Incident) -> None:
    """Notify the escalation channels of an unacknowledged incident."""
    tx.run("UPDATE alert_incidents SET escalate_at_ms = NULL WHERE id = ?", (incident.id,))
    tx.event(
        "alert.escalated",
        team_id=incident.team_id,
        actor="system",
        subject=incident.subject_kind,
        subject_id=incident.subject_id,
        name=incident.subject_name,
        incident=incident.id,
        alert=incident.text,
    )
    tell(tx, rule, incident.id, "escalated", rule.escalate_via or rule.via or (INBOX,))


def due_escalations(reader: ReadConnection | Tx) -> list[Incident]:
    """Return unacknowledged incidents by the time of their escalation."""
    rows = reader.all(
        f"SELECT {FIELDS} FROM alert_incidents WHERE state = 'open' AND escalate_at_ms IS NOT NULL"
        " ORDER BY escalate_at_ms LIMIT 100"
    )
    return [Incident(*row) for row in rows]


def escalate_due(tx: Tx, rules: dict[str, AlertRule]) -> None:
    """Escalate incidents that nobody acknowledged in time."""
    rows = tx.all(
        f"SELECT {FIELDS} FROM alert_incidents WHERE state = 'open' AND escalate_at_ms <= ?"
        " ORDER BY escalate_at_ms LIMIT 100",
        (tx.now_ms,),
    )
    for row in rows:
        incident = Incident(*row)
        rule = rules.get(incident.rule_id or "")
        if rule is None:
            tx.run("UPDATE alert_incidents SET escalate_at_ms = NULL WHERE id = ?", (incident.id,))
        else:
            escalate(tx, rule, incident)


def forget_old(tx: Tx, momentary: Sequence[str]) -> None:
    """Close one-off incidents after a day, and delete old resolved ones."""
    for rule_id in momentary:
        tx.run(
            "UPDATE alert_incidents SET state = 'resolved', resolved_ms = ?,"
            " escalate_at_ms = NULL WHERE rule_id = ? AND state <> 'resolved' AND last_ms < ?",
            (tx.now_ms, rule_id, tx.now_ms - OPEN_MS),
        )
    tx.run(
        "DELETE FROM alert_incidents WHERE state = 'resolved' AND last_ms < ?",
        (tx.now_ms - KEEP_MS,),
    )
    tx.run("DELETE FROM alert_silences WHERE until_ms < ?", (tx.now_ms - OPEN_MS,))


def is_silenced(reader: ReadConnection | Tx, rule: AlertRule, subject: IncidentSubject) -> bool:
    """Tell whether a rule or subject is silenced."""
    now_ms = reader.now_ms if isinstance(reader, Tx) else 0
    row = reader.one(
        "SELECT 1 FROM alert_silences WHERE until_ms > ? AND (team_id IS NULL OR team_id = ?)"
        " AND rule_id IN ('', ?) AND subject_id IN ('', ?, ?) LIMIT 1",
        (now_ms, subject.team_id, rule.id, subject.id, subject.run_uuid),
    )
    return row is not None


def tell(tx: Tx, rule: AlertRule, incident: int, what: str, via: Sequence[str]) -> None:
    """Queue notifications, grouped with those still pending for the same channel."""
    for name in via:
        if name == INBOX:
            _into_inboxes(tx, rule, incident, what)
        elif not _joined(tx, rule, incident, what, name):
            tx.insert(
                "INSERT INTO alert_deliveries (team_id, rule_id, channel, channel_kind, what,"
                " incidents, state, tries, next_ms, created_ms, error)"
                " VALUES (?, ?, ?, '', ?, ?, 'pending', 0, ?, ?, '')",
                (
                    rule.team_id,
                    rule.id,
                    name,
                    what,
                    msgspec.json.encode([incident]).decode(),
                    tx.now_ms + (rule.group_ms if what == "opened" else 0),
                    tx.now_ms,
                ),
            )


def _joined(tx: Tx, rule: AlertRule, incident: int, what: str, name: str) -> bool:
    row = tx.one(
        "SELECT id, incidents FROM alert_deliveries WHERE state = 'pending' AND tries = 0"
        " AND next_ms > ? AND rule_id = ? AND channel = ? AND what = ?"
        f" ORDER BY id DESC LIMIT 1{tx.dialect.for_update}",
        (tx.now_ms, rule.id, name, what),
    )
    if row is None:
        return False
    known = msgspec.json.decode(row[1])
    if len(known) >= MOST_GROUPED:
        return False
    tx.run(
        "UPDATE alert_deliveries SET incidents = ? WHERE id = ?",
        (msgspec.json.encode([*known, incident]).decode(), row[0]),
    )
    return True


def _into_inboxes(tx: Tx, rule: AlertRule, incident: int, what: str) -> None:
    found = load(tx, [incident])[0]
    if rule.scope:
        team = found.team_id if found.team_id is not None else 0
        users = recipients.members_by_name(tx, team, [rule.actor])
    elif rule.team_id is not None:
        users = recipients.team_members(tx, rule.team_id)
    else:
        users = recipients.admins(tx)
    inbox.add(
        tx,
        users,
        team_id=found.team_id,
        kind="alert",
        title=f"{found.subject_name}: {found.sentence}",
        link=found.page,
        about=f"incident:{incident}:{what}",
    )
    tx.insert(
        "INSERT INTO alert_deliveries (team_id, rule_id, channel, channel_kind, what, incidents,"
        " state, tries, next_ms, created_ms, ended_ms, error)"
        " VALUES (?, ?, 'inbox', 'inbox', ?, ?, 'delivered', 1, ?, ?, ?, '')",
        (
            rule.team_id,
            rule.id,
            what,
            msgspec.json.encode([incident]).decode(),
            tx.now_ms,
            tx.now_ms,
            tx.now_ms,
        ),
    )


def load(reader: ReadConnection | Tx, ids: Sequence[int]) -> list[Incident]:
    """Return incidents by their ids."""
    if not ids:
        return []
    marks = ",".join("?" * len(ids))
    rows = reader.all(
        f"SELECT {FIELDS} FROM alert_incidents WHERE id IN ({marks}) ORDER BY id", tuple(ids)
    )
    return [Incident(*row) for row in rows]


def _event(
    tx: Tx, kind: str, incident: int, *, rule: AlertRule, subject: IncidentSubject, sentence: str
) -> None:
    """Write the event of an incident's change."""
    tx.event(
        kind,
        team_id=subject.team_id,
        actor="system",
        subject=subject.kind,
        subject_id=subject.id,
        name=subject.name,
        incident=incident,
        alert=rule.text,
        severity=rule.severity,
        run_id=subject.run_uuid,
        sentence=sentence,
    )
