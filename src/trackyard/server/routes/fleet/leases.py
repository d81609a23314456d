"""Leases over HTTP: make, change, hand over, give back, look up, and the feed for calendars."""

from __future__ import annotations

from typing import Any

import msgspec

from trackyard.access.principal import Role
from trackyard.core.errors import InvalidInput
from trackyard.leases.feed import calendar_text
from trackyard.leases.records import load_leases
from trackyard.leases.rules import DAY_MS
from trackyard.leases.views import LeaseAnswer, LeaseList, LeaseView, RulesView, SlotList
from trackyard.leases.wishes import (
    LeaseChange,
    LeaseEnd,
    LeaseExtension,
    LeaseShrinking,
    LeaseTransfer,
    NewLease,
    NodeChoice,
)
from trackyard.server.http.messages import JSONResponse, Request, Response, whole_number
from trackyard.server.routes.body import decode
from trackyard.server.routes.fleet.lease_calendar import CalendarDrawer, CalendarView, who
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.store.bounds import Word

FEED_PATH = "/api/v1/leases/feed.ics"
#: How much of the past a feed shows.
FEED_DAYS = 30
FEED_TOKEN_DAYS = 366


class FeedToken(msgspec.Struct):
    """A token that opens the feed alone, shown once."""

    id: str
    token: str
    path: str
    user: str
    sentence: str


class FeedRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A feed to be opened."""

    label: Word = "calendar feed"


class LeaseRoutes:
    """Handlers of leases."""

    def __init__(self, services: Services) -> None:
        self._leases = services.leases
        self._db = services.database
        self._directory = services.directory
        self._drawer = CalendarDrawer(services)

    # -- looking ----------------------------------------------------------------------------

    async def list(self, request: Request) -> Response:
        """GET /api/v1/leases: those that are not over, by start."""
        start, end = number(request, "from_ms"), number(request, "to_ms")
        found = await self._leases.list(
            who(request.principal),
            mine=request.arg("mine") == "1",
            team=request.arg("for_team") or "",
            node=request.arg("node") or "",
            states=request.query.get("state", []),
            span_ms=None if start is None or end is None else (start, end),
            all_=request.arg("all") == "1",
            zone=request.arg("zone") or "",
        )
        return JSONResponse(found)

    async def show(self, request: Request) -> Response:
        """GET /api/v1/leases/{lease}: by id, or by name within the team."""
        name, zone = request.params["lease"], request.arg("zone") or ""
        found = await self._leases.find(who(request.principal), name, zone)
        found.jobs = await self._drawer.jobs_of(found, request.principal)
        return JSONResponse(found)

    async def free(self, request: Request) -> Response:
        """GET /api/v1/leases/free: the next free slots of a shape."""
        minutes = number(request, "minutes")
        count = number(request, "count")
        if count is not None and not 1 <= count <= 10_000:
            raise InvalidInput("count is a number of nodes, 1 or more")
        choice = NodeChoice(
            nodes=list(request.query.get("node", ())),
            type=request.arg("type") or "",
            where=request.arg("where") or "",
            count=count,
        )
        found = await self._leases.free(
            who(request.principal),
            choice,
            minutes=60 if minutes is None else minutes,
            from_ms=number(request, "from_ms"),
            within_days=number(request, "within_days") or 14,
            zone=request.arg("zone") or "",
        )
        return JSONResponse(found)

    async def rules(self, request: Request) -> Response:
        """GET /api/v1/leases/rules: what is allowed, and what the team has used."""
        return JSONResponse(await self._leases.rules_for(who(request.principal)))

    async def calendar(self, request: Request) -> Response:
        """GET /api/v1/leases/calendar: nodes as rows, with leases, jobs and outages."""
        now_ms = self._db.clock.time_ms()
        start = number(request, "from_ms")
        start = now_ms if start is None else start
        end = number(request, "to_ms")
        end = start + 7 * DAY_MS if end is None else end
        if not start < end <= start + 400 * DAY_MS:
            raise InvalidInput("the window ends after it begins, within 400 days")
        choice = NodeChoice(
            nodes=list(request.query.get("node", ())),
            type=request.arg("type") or "",
            where=request.arg("where") or "",
        )
        drawn = await self._drawer.draw(request.principal, choice, (start, end))
        return JSONResponse(drawn)

    # -- changing ---------------------------------------------------------------------------

    async def create(self, request: Request) -> Response:
        """POST /api/v1/leases: promise nodes, or with dry_run say what would become of it."""
        wish = await decode(request, NewLease)
        return JSONResponse(await self._leases.create(who(request.principal), wish))

    async def extend(self, request: Request) -> Response:
        """POST /api/v1/leases/{lease}/extend: a later end."""
        wish, name = await decode(request, LeaseExtension), request.params["lease"]
        return JSONResponse(await self._leases.extend(who(request.principal), name, wish))

    async def shrink(self, request: Request) -> Response:
        """POST /api/v1/leases/{lease}/shrink: an earlier end, a later start, fewer nodes."""
        wish, name = await decode(request, LeaseShrinking), request.params["lease"]
        return JSONResponse(await self._leases.shrink(who(request.principal), name, wish))

    async def move(self, request: Request) -> Response:
        """POST /api/v1/leases/{lease}/move: another time, other nodes, another name."""
        wish, name = await decode(request, LeaseChange), request.params["lease"]
        return JSONResponse(await self._leases.move(who(request.principal), name, wish))

    async def transfer(self, request: Request) -> Response:
        """POST /api/v1/leases/{lease}/transfer: another holder."""
        wish, name = await decode(request, LeaseTransfer), request.params["lease"]
        return JSONResponse(await self._leases.transfer(who(request.principal), name, wish))

    async def release(self, request: Request) -> Response:
        """POST /api/v1/leases/{lease}/release: give it back."""
        wish, name = await decode(request, LeaseEnd), request.params["lease"]
        return JSONResponse(await self._leases.release(who(request.principal), name, wish))

    async def recall(self, request: Request) -> Response:
        """POST /api/v1/leases/{lease}/recall: call lent nodes back."""
        wish, name = await decode(request, LeaseEnd), request.params["lease"]
        caller = who(request.principal)
        return JSONResponse(await self._leases.recall(caller, name, wish.zone))

    # -- the feed ---------------------------------------------------------------------------

    async def feed(self, request: Request) -> Response:
        """GET /api/v1/leases/feed.ics: the team's leases for calendar programs."""
        principal, now_ms = request.principal, self._db.clock.time_ms()
        since = now_ms - FEED_DAYS * DAY_MS
        records = await self._db.read(
            lambda reader: load_leases(
                reader, "l.team_id = ? AND l.ends_ms > ?", (principal.team_id, since)
            )
        )
        host = (request.header("host") or "trackyard").rpartition(":")[0] or "trackyard"
        text = calendar_text(records, team=principal.team, host=host, now_ms=now_ms)
        headers = [
            ("content-type", "text/calendar; charset=utf-8"),
            ("content-disposition", 'inline; filename="leases.ics"'),
            ("cache-control", "private, max-age=60"),
        ]
        return Response(text.encode(), headers=headers)

    async def open_feed(self, request: Request) -> Response:
        """POST /api/v1/leases/feed: a token that opens the feed and nothing else."""
        wish, principal = await decode(request, FeedRequest), request.principal
        if len(wish.label) > 200 or not wish.label.isprintable():
            raise InvalidInput("a label is one line of at most 200 characters")
        made = await self._directory.create_token(
            user=principal.name,
            team=principal.team,
            role=Role.viewer.name,
            label=wish.label,
            actor=principal.name,
            days=FEED_TOKEN_DAYS,
            kind="feed",
            parent_id=principal.issues_with,
        )
        return JSONResponse(
            FeedToken(
                id=made["id"],
                token=made["token"],
                path=FEED_PATH,
                user="feed",
                sentence="Give the calendar program this address, the user name `feed` and the"
                f" token as password; `yard token revoke {made['id']}` ends it.",
            )
        )


def number(request: Request, name: str) -> int | None:
    """Read a whole number from the query."""
    text = request.arg(name)
    if text is None or not text:
        return None
    found = whole_number(text.removeprefix("-"))
    if found is None:
        raise InvalidInput(f"{name} is a whole number, not {text[:40]!r}")
    return -found if text.startswith("-") else found


def routes(services: Services) -> list[Route]:
    """Return the routes of leases."""
    do, read, log = LeaseRoutes(services), Permission.READ, Permission.LOG

    def route(method: str, path: str, handler: Any, permission: Permission, **types: Any) -> Route:
        return Route(
            method=method,
            path=f"/api/v1/leases{path}",
            handler=handler,
            permission=permission,
            **types,
        )

    zone = {"zone": "zone in which sentences name times, such as Europe/Berlin"}
    shape = {"type": "kind of node", "where": "expression", "node": "node ids, repeatable"}
    listed = {
        "mine": "1: the caller's own",
        "for_team": "of this team",
        "node": "on this node",
        "state": "in these states, repeatable",
        "from_ms": "overlapping the span from here",
        "to_ms": "to here",
        "all": "1: also those that are over",
        **zone,
    }
    window = {"from_ms": "first moment", "to_ms": "first moment after"}
    free = {
        **shape,
        "count": "nodes",
        "minutes": "length",
        "from_ms": "not before",
        "within_days": "how far to look",
        **zone,
    }
    return [
        route("GET", "", do.list, read, gives=LeaseList, query=listed),
        route("POST", "", do.create, log, takes=NewLease, gives=LeaseAnswer),
        route("GET", "/free", do.free, read, gives=SlotList, query=free),
        route("GET", "/rules", do.rules, read, gives=RulesView),
        route(
            "GET", "/calendar", do.calendar, read, gives=CalendarView, query={**shape, **window}
        ),
        route("GET", "/feed.ics", do.feed, read, feeds=True),
        route("POST", "/feed", do.open_feed, read, takes=FeedRequest, gives=FeedToken),
        route("GET", "/{lease}", do.show, read, gives=LeaseView, query=zone),
        route("POST", "/{lease}/extend", do.extend, log, takes=LeaseExtension, gives=LeaseAnswer),
        route("POST", "/{lease}/shrink", do.shrink, log, takes=LeaseShrinking, gives=LeaseAnswer),
        route("POST", "/{lease}/move", do.move, log, takes=LeaseChange, gives=LeaseAnswer),
        route(
            "POST", "/{lease}/transfer", do.transfer, log, takes=LeaseTransfer, gives=LeaseAnswer
        ),
        route("POST", "/{lease}/release", do.release, log, takes=LeaseEnd, gives=LeaseAnswer),
        route("POST", "/{lease}/recall", do.recall, log, takes=LeaseEnd, gives=LeaseAnswer),
    ]
