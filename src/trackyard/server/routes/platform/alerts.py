"""Alerts over HTTP: rules, incidents, silences, channels, messages and the caller's inbox."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from trackyard.core.alerts import MAX_TEXT, MAX_VIA
from trackyard.core.errors import InvalidInput, NotFound
from trackyard.core.log_patterns import SHIPPED
from trackyard.notify.alerts.channels import AlertChannel
from trackyard.notify.alerts.incidents import Incident
from trackyard.notify.alerts.outbox import DeliveryView
from trackyard.notify.alerts.records import AlertRule
from trackyard.notify.alerts.service import RuleRequest, SilenceView
from trackyard.notify.inbox import InboxView
from trackyard.outbound.addresses import MAX_URL
from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.routes.body import decode
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.store.bounds import Int64, Word

Names = Annotated[list[Word], Meta(max_length=MAX_VIA)]


class NewRule(msgspec.Struct, forbid_unknown_fields=True):
    """A rule to make."""

    #: the condition, as in `loss > 10 for 5m`
    text: Annotated[str, Meta(max_length=MAX_TEXT)]
    #: id of a job, array or run; empty: the whole team
    scope: Word = ""
    all_teams: bool = False
    #: names of channels; empty: inboxes
    via: Names = []
    severity: Word = "warning"
    cooldown_seconds: float | None = None
    group_seconds: float | None = None
    escalate_seconds: float | None = None
    escalate_via: Names = []


class RuleView(msgspec.Struct):
    """A rule."""

    id: str
    text: str
    kind: str
    scope: str
    is_all_teams: bool
    via: list[str]
    severity: str
    cooldown_seconds: float
    group_seconds: float
    escalate_seconds: float | None
    escalate_via: list[str]
    enabled: bool
    actor: str
    created_ms: int


class PatternView(msgspec.Struct):
    """A log pattern that ships."""

    name: str
    title: str
    regex: str


class RuleList(msgspec.Struct):
    """The rules about a team, and the log patterns that ship."""

    rules: list[RuleView]
    patterns: list[PatternView]


class IncidentList(msgspec.Struct):
    """Incidents, the newest first."""

    incidents: list[Incident]


class SilenceRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A silence to ask for."""

    seconds: float
    rule_id: Word = ""
    #: id of a job, run, node or lease
    subject_id: Word = ""
    reason: Word = ""
    all_teams: bool = False


class SilenceList(msgspec.Struct):
    """Silences that hold now."""

    silences: list[SilenceView]


class ChannelRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A channel to make."""

    name: Word
    #: `email`, `slack`, `teams` or `webhook`
    kind: Word
    #: addresses of people, or the address of a webhook
    target: Annotated[str, Meta(max_length=MAX_URL)]
    #: what deliveries to a webhook are signed with
    secret: Word = ""
    all_teams: bool = False


class ChannelView(msgspec.Struct):
    """A channel, without what is secret of it."""

    name: str
    kind: str
    shown: str
    is_signed: bool
    is_all_teams: bool
    actor: str
    created_ms: int


class ChannelList(msgspec.Struct):
    """Channels that a team's rules may name."""

    channels: list[ChannelView]


class DeliveryList(msgspec.Struct):
    """Messages, the newest first."""

    deliveries: list[DeliveryView]


class TestReply(msgspec.Struct):
    """What came of a message that was sent to try a channel out."""

    success: bool
    status: int | None
    error: str


class InboxReadRequest(msgspec.Struct, forbid_unknown_fields=True):
    """How far an inbox was read."""

    up_to: Int64


class AlertRoutes:
    """Handlers of alerts."""

    def __init__(self, services: Services) -> None:
        self._alerts = services.alerts
        self._inbox = services.inbox

    async def rules(self, request: Request) -> Response:
        """GET /api/v1/alerts: the rules about the caller's team."""
        found = await self._alerts.rules(request.principal)
        patterns = [PatternView(one.name, one.title, one.regex) for one in SHIPPED]
        return JSONResponse(RuleList([rule_view(one) for one in found], patterns))

    async def add(self, request: Request) -> Response:
        """POST /api/v1/alerts: make a rule about what happens from now on."""
        wish = await decode(request, NewRule)
        asked = RuleRequest(
            text=wish.text,
            scope=wish.scope,
            all_teams=wish.all_teams,
            via=tuple(wish.via),
            severity=wish.severity,
            cooldown_seconds=wish.cooldown_seconds,
            group_seconds=wish.group_seconds,
            escalate_seconds=wish.escalate_seconds,
            escalate_via=tuple(wish.escalate_via),
        )
        return JSONResponse(rule_view(await self._alerts.add(request.principal, asked)))

    async def remove(self, request: Request) -> Response:
        """DELETE /api/v1/alerts/{alert}: remove a rule."""
        await self._alerts.remove(request.principal, request.params["alert"])
        return JSONResponse({})

    async def incidents(self, request: Request) -> Response:
        """GET /api/v1/incidents: the newest first; `state=open`, `job` and `run` narrow it."""
        found = await self._alerts.incidents(
            request.principal,
            state=request.arg("state") or "",
            job=request.arg("job") or "",
            run=request.arg("run") or "",
        )
        return JSONResponse(IncidentList(found))

    async def acknowledge(self, request: Request) -> Response:
        """POST /api/v1/incidents/{incident}/acknowledge: look after it."""
        text = request.params["incident"]
        if not text.isdecimal() or len(text) > 18:
            raise NotFound(f"there is no incident {text[:80]!r}; `yard alert list` shows them")
        return JSONResponse(await self._alerts.acknowledge(request.principal, int(text)))

    async def silences(self, request: Request) -> Response:
        """GET /api/v1/silences: those that hold now."""
        return JSONResponse(SilenceList(await self._alerts.silences(request.principal)))

    async def silence(self, request: Request) -> Response:
        """POST /api/v1/silences: send nothing about a rule or a subject for a time."""
        wish = await decode(request, SilenceRequest)
        if not wish.seconds > 0:
            raise InvalidInput("say for how long, in seconds")
        made = await self._alerts.silence(
            request.principal,
            rule_id=wish.rule_id,
            subject_id=wish.subject_id,
            seconds=wish.seconds,
            reason=wish.reason,
            all_teams=wish.all_teams,
        )
        return JSONResponse(made)

    async def unsilence(self, request: Request) -> Response:
        """DELETE /api/v1/silences/{silence}: end it early."""
        await self._alerts.unsilence(request.principal, request.params["silence"])
        return JSONResponse({})

    async def channels(self, request: Request) -> Response:
        """GET /api/v1/alert-channels: those that the team's rules may name."""
        found = await self._alerts.list_channels(request.principal)
        return JSONResponse(ChannelList([channel_view(one) for one in found]))

    async def add_channel(self, request: Request) -> Response:
        """POST /api/v1/alert-channels: make a channel."""
        wish = await decode(request, ChannelRequest)
        made = await self._alerts.add_channel(
            request.principal,
            name=wish.name,
            kind=wish.kind,
            target=wish.target,
            secret=wish.secret,
            all_teams=wish.all_teams,
        )
        return JSONResponse(channel_view(made))

    async def remove_channel(self, request: Request) -> Response:
        """DELETE /api/v1/alert-channels/{channel}: remove a channel."""
        await self._alerts.remove_channel(request.principal, request.params["channel"])
        return JSONResponse({})

    async def test(self, request: Request) -> Response:
        """POST /api/v1/alert-channels/{channel}/test: send an example now."""
        answer = await self._alerts.test(request.principal, request.params["channel"])
        return JSONResponse(TestReply(answer.is_good, answer.status, answer.error))

    async def deliveries(self, request: Request) -> Response:
        """GET /api/v1/alert-deliveries: messages, the newest first."""
        return JSONResponse(DeliveryList(await self._alerts.deliveries(request.principal)))

    async def inbox(self, request: Request) -> Response:
        """GET /api/v1/inbox: what the bell shows."""
        return JSONResponse(await self._inbox.show(request.principal))

    async def read_inbox(self, request: Request) -> Response:
        """POST /api/v1/inbox/read: mark lines as read."""
        wish = await decode(request, InboxReadRequest)
        await self._inbox.mark_read(request.principal, wish.up_to)
        return JSONResponse(await self._inbox.show(request.principal))


def rule_view(rule: AlertRule) -> RuleView:
    """Show a rule."""
    return RuleView(
        id=rule.id,
        text=rule.text,
        kind=rule.condition.kind.value,
        scope=rule.scope,
        is_all_teams=rule.team_id is None,
        via=list(rule.via),
        severity=rule.severity,
        cooldown_seconds=rule.cooldown_ms / 1000,
        group_seconds=rule.group_ms / 1000,
        escalate_seconds=None if rule.escalate_ms is None else rule.escalate_ms / 1000,
        escalate_via=list(rule.escalate_via),
        enabled=rule.enabled,
        actor=rule.actor,
        created_ms=rule.created_ms,
    )


def channel_view(channel: AlertChannel) -> ChannelView:
    """Show a channel; where it goes is shown without what is secret of it."""
    return ChannelView(
        name=channel.name,
        kind=channel.kind,
        shown=channel.shown,
        is_signed=channel.secret is not None,
        is_all_teams=channel.team_id is None,
        actor=channel.actor,
        created_ms=channel.created_ms,
    )


def routes(services: Services) -> list[Route]:
    """Return the routes of alerts."""
    do = AlertRoutes(services)

    def route(method: str, path: str, handler: Any, permission: Permission, **types: Any) -> Route:
        return Route(
            method=method, path=f"/api/v1/{path}", handler=handler, permission=permission, **types
        )

    read, log, curate = Permission.READ, Permission.LOG, Permission.CURATE
    channel, empty = "alert-channels/{channel}", dict[str, Any]
    narrow = {
        "state": "`open` for those that are not resolved",
        "job": "id of a job",
        "run": "id of a run",
    }
    return [
        route("GET", "alerts", do.rules, read, gives=RuleList),
        route("POST", "alerts", do.add, log, takes=NewRule, gives=RuleView),
        route("DELETE", "alerts/{alert}", do.remove, log, gives=empty),
        route("GET", "incidents", do.incidents, read, gives=IncidentList, query=narrow),
        route("POST", "incidents/{incident}/acknowledge", do.acknowledge, log, gives=Incident),
        route("GET", "silences", do.silences, read, gives=SilenceList),
        route("POST", "silences", do.silence, log, takes=SilenceRequest, gives=SilenceView),
        route("DELETE", "silences/{silence}", do.unsilence, log, gives=empty),
        route("GET", "alert-channels", do.channels, read, gives=ChannelList),
        route(
            "POST",
            "alert-channels",
            do.add_channel,
            curate,
            takes=ChannelRequest,
            gives=ChannelView,
        ),
        route("DELETE", channel, do.remove_channel, curate, gives=empty),
        route("POST", f"{channel}/test", do.test, log, gives=TestReply),
        route("GET", "alert-deliveries", do.deliveries, read, gives=DeliveryList),
        route("GET", "inbox", do.inbox, read, gives=InboxView),
        route("POST", "inbox/read", do.read_inbox, read, takes=InboxReadRequest, gives=InboxView),
    ]
