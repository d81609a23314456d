"""Alerts as the server offers them: rules, incidents, silences, channels, messages.

Owns who may do what with them. Judging rules is the loop's, sending the outbox's.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from trackyard.access.principal import Principal, Role
from trackyard.core.alerts import check_via, parse
from trackyard.core.errors import Denied, InvalidInput, NotFound
from trackyard.notify.alerts import channels as channel_rows
from trackyard.notify.alerts import incidents, records
from trackyard.notify.alerts.channels import AlertChannel, Channels
from trackyard.notify.alerts.incidents import Incident
from trackyard.notify.alerts.outbox import DeliveryView, Outbox, list_deliveries
from trackyard.notify.alerts.records import INBOX, MAX_RULES, SEVERITIES, AlertRule
from trackyard.outbound.client import Answer
from trackyard.queue.watched import resolve_scope as job_scope
from trackyard.store.database import Database, ReadConnection, Tx
from trackyard.tracking.watched import is_run_of

LISTED = 500
DAY_MS = 24 * 3600 * 1000
MAX_SILENCE_MS = 30 * DAY_MS
MAX_JOB_ALERTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRequest:
    """A rule that someone asks for."""

    text: str
    #: a job's, array's or run's id; empty: the whole team
    scope: str = ""
    all_teams: bool = False
    via: tuple[str, ...] = ()
    severity: str = SEVERITIES[0]
    cooldown_seconds: float | None = None
    group_seconds: float | None = None
    escalate_seconds: float | None = None
    escalate_via: tuple[str, ...] = ()


class SilenceView(msgspec.Struct, frozen=True):
    """A silence that somebody asked for."""

    id: str
    rule_id: str
    subject_id: str
    reason: str
    until_ms: int
    actor: str
    is_all_teams: bool


class Alerts:
    """The alerts of teams."""

    def __init__(self, database: Database, channels: Channels, outbox: Outbox) -> None:
        self._db = database
        self.channels = channels
        self.outbox = outbox

    # -- rules ------------------------------------------------------------------------------

    async def rules(self, principal: Principal) -> list[AlertRule]:
        """Return the rules that are about the caller's team."""
        return await self._db.read(lambda reader: records.team_rules(reader, principal.team_id))

    async def add(self, principal: Principal, asked: RuleRequest) -> AlertRule:
        """Make a rule; it is about what happens from now on."""
        _check_asked(principal, asked)
        now_ms = self._db.clock.time_ms()
        team_id = None if asked.all_teams else principal.team_id
        more: dict[str, Any] = {
            "scope": asked.scope,
            "via": asked.via,
            "severity": asked.severity,
            "escalate_via": asked.escalate_via,
        }
        for name, seconds in (
            ("cooldown_ms", asked.cooldown_seconds),
            ("group_ms", asked.group_seconds),
            ("escalate_ms", asked.escalate_seconds),
        ):
            if seconds is not None:
                more[name] = _milliseconds(seconds)
        rule = records.new_rule(
            asked.text, team_id=team_id, actor=principal.name, now_ms=now_ms, **more
        )

        def operation(tx: Tx) -> AlertRule:
            made = replace(rule, scope=_resolve_scope(tx, principal, rule.scope))
            self._check_channels(tx, made.team_id, (*made.via, *made.escalate_via))
            _check_room(tx, made)
            records.insert_rules(tx, [made])
            _event(tx, "alert.added", principal, made.id, team_id=made.team_id, alert=made.text)
            return made

        return await self._db.write(operation)

    async def remove(self, principal: Principal, rule_id: str) -> None:
        """Remove a rule; its incidents stay in the list."""

        def operation(tx: Tx) -> None:
            rule = _own_rule(tx, principal, rule_id)
            tx.run("DELETE FROM alert_rules WHERE id = ?", (rule_id,))
            tx.run(
                "UPDATE alert_incidents SET state = 'resolved', resolved_ms = ?,"
                " escalate_at_ms = NULL WHERE rule_id IS NULL AND state <> 'resolved'",
                (tx.now_ms,),
            )
            _event(tx, "alert.removed", principal, rule_id, team_id=rule.team_id, alert=rule.text)

        await self._db.write(operation, frees=True)

    async def check_texts(self, principal: Principal, texts: Sequence[str]) -> None:
        """Refuse alerts of a submission that name channels there are not."""
        if len(texts) > MAX_JOB_ALERTS:
            raise InvalidInput(f"a job has at most {MAX_JOB_ALERTS} alerts")
        names = [name for text in texts for name in parse(text).via]
        if names:
            await self._db.read(
                lambda reader: self._check_channels(reader, principal.team_id, names)
            )

    def _check_channels(
        self, reader: ReadConnection | Tx, team_id: int | None, names: Sequence[str]
    ) -> None:
        for name in names:
            if not self.channels.is_known(reader, team_id, name):
                known = [one.name for one in channel_rows.list_channels(reader, team_id or 0)]
                raise InvalidInput(
                    f"there is no channel {name!r} for this rule; there is"
                    f" {', '.join([INBOX, *known])}. `yard alert channel add` makes one"
                )

    # -- incidents --------------------------------------------------------------------------

    async def incidents(
        self, principal: Principal, *, state: str = "", job: str = "", run: str = ""
    ) -> list[Incident]:
        """Return incidents of the caller's team and of nodes, the newest first."""
        where, values = ["(team_id = ? OR team_id IS NULL)"], [principal.team_id]
        found: list[Any] = list(values)
        if state == "open":
            where.append("state <> 'resolved'")
        if job:
            where.append("job_id = ?")
            found.append(job)
        if run:
            where.append("subject_kind = 'run' AND subject_id = ?")
            found.append(run)

        def query(reader: ReadConnection) -> list[Incident]:
            rows = reader.all(
                f"SELECT {incidents.FIELDS} FROM alert_incidents WHERE {' AND '.join(where)}"
                f" ORDER BY id DESC LIMIT {LISTED}",
                tuple(found),
            )
            return [Incident(*row) for row in rows]

        return await self._db.read(query)

    async def acknowledge(self, principal: Principal, incident_id: int) -> Incident:
        """Take care of an incident: it is not escalated any more."""

        def operation(tx: Tx) -> Incident:
            found = _own_incident(tx, principal, incident_id)
            incidents.acknowledge(tx, found, principal.name)
            return incidents.load(tx, [incident_id])[0]

        return await self._db.write(operation)

    async def silence(
        self,
        principal: Principal,
        *,
        rule_id: str,
        subject_id: str,
        seconds: float,
        reason: str,
        all_teams: bool,
    ) -> SilenceView:
        """Send nothing about a rule, a subject or everything, for a time."""
        if all_teams and not principal.is_admin:
            raise Denied("silence for all teams is the platform admin's to ask for")
        if not rule_id and not subject_id:
            principal.need(Role.maintainer, "silencing every alert of the team")
        until = self._db.clock.time_ms() + _milliseconds(seconds)
        made = SilenceView(
            id=f"si-{secrets.token_hex(6)}",
            rule_id=rule_id,
            subject_id=subject_id,
            reason=reason[:500],
            until_ms=until,
            actor=principal.name,
            is_all_teams=all_teams,
        )
        team_id = None if all_teams else principal.team_id

        def operation(tx: Tx) -> SilenceView:
            if rule_id and records.find_rule(tx, rule_id) is None:
                raise NotFound(f"there is no alert {rule_id[:80]!r}; `yard alert list` shows them")
            tx.run(
                "INSERT INTO alert_silences (id, team_id, rule_id, subject_id, reason, until_ms,"
                " actor, created_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    made.id,
                    team_id,
                    rule_id,
                    subject_id,
                    made.reason,
                    until,
                    principal.name,
                    tx.now_ms,
                ),
            )
            _event(tx, "alert.silenced", principal, made.id, team_id=team_id, until_ms=until)
            return made

        return await self._db.write(operation)

    async def silences(self, principal: Principal) -> list[SilenceView]:
        """Return the silences that hold now."""
        now_ms = self._db.clock.time_ms()

        def query(reader: ReadConnection) -> list[SilenceView]:
            rows = reader.all(
                "SELECT id, rule_id, subject_id, reason, until_ms, actor, team_id"
                " FROM alert_silences WHERE until_ms > ? AND (team_id = ? OR team_id IS NULL)"
                f" ORDER BY until_ms LIMIT {LISTED}",
                (now_ms, principal.team_id),
            )
            return [SilenceView(*(*row[:6], row[6] is None)) for row in rows]

        return await self._db.read(query)

    async def unsilence(self, principal: Principal, silence_id: str) -> None:
        """End a silence early."""

        def operation(tx: Tx) -> None:
            row = tx.one("SELECT team_id FROM alert_silences WHERE id = ?", (silence_id,))
            if row is None or (row[0] is None and not principal.is_admin):
                raise NotFound(f"there is no silence {silence_id[:80]!r}")
            if row[0] is not None and row[0] != principal.team_id:
                raise NotFound(f"there is no silence {silence_id[:80]!r}")
            tx.run("DELETE FROM alert_silences WHERE id = ?", (silence_id,))

        await self._db.write(operation, frees=True)

    # -- channels and messages --------------------------------------------------------------

    async def list_channels(self, principal: Principal) -> list[AlertChannel]:
        """Return the channels that the caller's team may use."""
        return await self._db.read(
            lambda reader: channel_rows.list_channels(reader, principal.team_id)
        )

    async def add_channel(
        self,
        principal: Principal,
        *,
        name: str,
        kind: str,
        target: str,
        secret: str,
        all_teams: bool,
    ) -> AlertChannel:
        """Make a channel, of the team's or, by an admin, for all teams."""
        if all_teams and not principal.is_admin:
            raise Denied("a channel for all teams is the platform admin's to make")
        team_id = None if all_teams else principal.team_id
        made = await self.channels.make(
            team_id=team_id,
            name=name,
            kind=kind,
            target=target,
            secret=secret,
            actor=principal.name,
        )

        def operation(tx: Tx) -> AlertChannel:
            channel_rows.insert_channel(tx, made)
            _event(
                tx, "alert.channel_added", principal, made.id, team_id=team_id, channel=made.name
            )
            return made

        return await self._db.write(operation)

    async def remove_channel(self, principal: Principal, name: str) -> None:
        """Remove a channel; rules that name it go on, and their messages fail."""

        def operation(tx: Tx) -> None:
            found = channel_rows.find_channel(tx, principal.team_id, name)
            if found is None or (found.team_id is None and not principal.is_admin):
                raise NotFound(f"there is no channel {name[:80]!r} of this team's")
            channel_rows.delete_channel(tx, found.id)
            _event(
                tx,
                "alert.channel_removed",
                principal,
                found.id,
                team_id=found.team_id,
                channel=found.name,
            )

        await self._db.write(operation, frees=True)

    async def test(self, principal: Principal, name: str) -> Answer:
        """Send an example to a channel and return what came of it."""
        admin_wide = principal.is_admin and name in self.channels.settings.commands
        return await self.outbox.try_out(None if admin_wide else principal.team_id, name)

    async def deliveries(self, principal: Principal) -> list[DeliveryView]:
        """Return the last messages."""
        is_admin = principal.is_admin
        return await self._db.read(
            lambda reader: list_deliveries(reader, principal.team_id, all_teams=is_admin)
        )


def _check_asked(principal: Principal, asked: RuleRequest) -> None:
    if asked.all_teams and not principal.is_admin:
        raise Denied("an alert for all teams is the platform admin's to make")
    if asked.all_teams and asked.scope:
        raise InvalidInput("an alert is for all teams or for one job or run, not both")
    if not asked.scope and not asked.all_teams:
        principal.need(Role.maintainer, "an alert for the whole team")
    if asked.severity not in SEVERITIES:
        raise InvalidInput(f"severity is one of {', '.join(SEVERITIES)}")
    check_via((*asked.via, *asked.escalate_via)[:8])
    check_via(asked.via)
    if asked.escalate_seconds is None and asked.escalate_via:
        raise InvalidInput("say after how long it is escalated, too")


def _milliseconds(seconds: float) -> int:
    found = int(seconds * 1000)
    if not 0 <= found <= MAX_SILENCE_MS:
        raise InvalidInput("a length of time lies between 0 and 30 days")
    return found


def _check_room(tx: Tx, rule: AlertRule) -> None:
    """Keep the number of rules that people make within bounds, and say none twice."""
    twin = tx.one(
        "SELECT id FROM alert_rules WHERE coalesce(team_id, 0) = ? AND scope = ? AND text = ?",
        (rule.team_id or 0, rule.scope, rule.text),
    )
    if twin is not None:
        raise InvalidInput(f"this alert exists already, as {twin[0]}")
    row = tx.one(
        "SELECT count(*) FROM alert_rules WHERE coalesce(team_id, 0) = ? AND enabled = 1",
        (rule.team_id or 0,),
    )
    most = MAX_RULES if not rule.scope else MAX_RULES * 40
    if row is not None and row[0] >= most:
        raise InvalidInput(f"a team has at most {most} alerts; remove one first")


def _resolve_scope(tx: Tx, principal: Principal, scope: str) -> str:
    """Return a job's, array's or run's id as rules know it; another team's is not found."""
    if not scope:
        return ""
    found = job_scope(tx, principal.team_id, scope)
    if found is not None:
        return found
    if not is_run_of(tx, principal.team_id, scope):
        raise NotFound(f"there is no job or run {scope[:80]!r} in team {principal.team}")
    return scope


def _own_rule(reader: ReadConnection | Tx, principal: Principal, rule_id: str) -> AlertRule:
    rule = records.find_rule(reader, rule_id)
    is_visible = rule is not None and rule.team_id in (None, principal.team_id)
    if rule is None or not is_visible:
        raise NotFound(f"there is no alert {rule_id[:80]!r}; `yard alert list` shows them")
    if rule.team_id is None and not principal.is_admin:
        raise Denied("this alert is the platform admin's; silence it instead")
    if not rule.scope and rule.team_id is not None:
        principal.need(Role.maintainer, "removing an alert of the whole team")
    return rule


def _own_incident(reader: ReadConnection | Tx, principal: Principal, incident_id: int) -> Incident:
    found = incidents.load(reader, [incident_id])
    if not found or found[0].team_id not in (None, principal.team_id):
        raise NotFound(f"there is no incident {incident_id}; `yard alert list` shows them")
    return found[0]


def _event(
    tx: Tx, kind: str, principal: Principal, alert_id: str, *, team_id: int | None, **data: Any
) -> None:
    tx.event(
        kind,
        team_id=team_id,
        actor=principal.name,
        subject="alert",
        subject_id=alert_id,
        **data,
    )
