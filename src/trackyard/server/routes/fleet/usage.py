"""Usage, cost, budgets and the fleet over time, over HTTP.

A team sees its own usage and the sums of the fleet; admins see everybody's and set prices,
budgets and close months.
"""

from __future__ import annotations

from typing import Any

import msgspec

from trackyard.core.errors import InvalidInput, NotFound
from trackyard.insight.fleet_map import FleetHistory
from trackyard.insight.rates import RateCard
from trackyard.insight.report import Filter, UsageReport
from trackyard.insight.service import LONGEST_MS, LiveTrace
from trackyard.insight.usage import DIMENSIONS, as_csv, parse_by
from trackyard.queue.shares.budgets import TeamBudget, as_json, month_of
from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.routes.body import decode
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services

DAY_MS = 86_400_000
MOST_POINTS = 400
_USAGE_QUERY = {
    "month": "a month as in 2026-10; the present one unless a window is given",
    "since": "begin of a window in ms, instead of a month",
    "until": "end of the window in ms, now unless given",
    "by": f"group by one or several of {', '.join(DIMENSIONS)}, with commas; default team",
    "of_team": "only this team",
    "user": "only this user",
    "project": "only this project (experiment)",
    "job": "only this job, by id or name",
    "format": "json (default) or csv",
}
_FLEET_QUERY = {
    "since": "begin in ms, a week before the end unless given",
    "until": "end in ms, now unless given",
    "points": f"stretches of time, up to {MOST_POINTS}, default 168",
}
_TRACE_QUERY = {"days": "days back, up to 400, default 30", "limit": "most jobs, default 20000"}


class ClosedMonthView(msgspec.Struct):
    """A closed month."""

    month: str
    closed_ms: int
    closed_by: str


class MonthList(msgspec.Struct):
    """The closed months."""

    months: list[ClosedMonthView]


class BudgetView(msgspec.Struct):
    """A budget and what was used of it."""

    team: str
    gpu_hours: float | None
    cost: float | None
    warn_at: float
    hold: bool
    month: str
    used_gpu_hours: float
    used_cost: float
    used_ratio: float
    counted_ms: int
    #: ok, warned or exhausted
    state: str


class BudgetList(msgspec.Struct):
    """The budgets a caller may see."""

    budgets: list[BudgetView]


class UsageRoutes:
    """Handlers of usage."""

    def __init__(self, services: Services) -> None:
        self._usage = services.usage
        self._clock = services.clock

    async def show(self, request: Request) -> Response:
        """GET /api/v1/usage: GPU-hours, goodput and cost of a month or a window."""
        by = parse_by(request.arg("by") or "team")
        wanted = self._wanted(request)
        since, month = request.arg("since"), request.arg("month")
        if since is not None and month is not None:
            raise InvalidInput("give a month or a window, not both")
        if since is not None:
            until = request.number("until", self._clock.time_ms())
            report = await self._usage.report(request.number("since", 0), until, by, wanted)
        else:
            name = month or month_of(self._clock.time_ms())
            report = await self._usage.month(name, by, wanted)
        kind = request.arg("format") or "json"
        if kind == "csv":
            text = as_csv(report.groups, by, report.currency)
            return Response(text.encode(), content_type="text/csv; charset=utf-8")
        if kind != "json":
            raise InvalidInput("format is json or csv")
        return JSONResponse(report)

    def _wanted(self, request: Request) -> Filter:
        """Return whose usage may be shown: without admin rights one's own team's."""
        principal, team = request.principal, request.arg("of_team") or ""
        if not principal.is_admin:
            if team and team != principal.team:
                raise NotFound(
                    f"no usage of team {team[:80]!r} is yours to see; admins see that of all teams"
                )
            team = principal.team
        return Filter(
            team=team,
            user=request.arg("user") or "",
            project=request.arg("project") or "",
            job=request.arg("job") or "",
        )

    async def months(self, request: Request) -> Response:
        """GET /api/v1/usage/months: the closed ones."""
        found = await self._usage.closed_months()
        return JSONResponse(MonthList([ClosedMonthView(*one) for one in found]))

    async def close(self, request: Request) -> Response:
        """POST /api/v1/usage/months/{month}/close: freeze a month that is over."""
        month, actor = request.params["month"], request.principal.name
        return JSONResponse(ClosedMonthView(*await self._usage.close_month(month, actor=actor)))

    async def rates(self, request: Request) -> Response:
        """GET /api/v1/usage/rates: the rate card in force."""
        return JSONResponse(await self._usage.rates())

    async def put_rates(self, request: Request) -> Response:
        """PUT /api/v1/usage/rates: another rate card; closed months keep theirs."""
        card = await decode(request, RateCard)
        await self._usage.set_rates(card, actor=request.principal.name)
        return JSONResponse(card)

    async def budgets(self, request: Request) -> Response:
        """GET /api/v1/budgets: all for an admin, else one's own."""
        principal = request.principal
        found = [
            msgspec.convert(as_json(row), BudgetView)
            for row in await self._usage.budgets()
            if principal.is_admin or row.team == principal.team
        ]
        return JSONResponse(BudgetList(found))

    async def put_budget(self, request: Request) -> Response:
        """PUT /api/v1/teams/{team}/budget: what a team may use in a month."""
        budget = await decode(request, TeamBudget)
        team, actor = request.params["team"], request.principal.name
        await self._usage.set_budget(team, budget, actor=actor)
        return JSONResponse(budget)

    async def fleet(self, request: Request) -> Response:
        """GET /api/v1/fleet/history: what each GPU was doing, and who waited."""
        until = min(request.number("until", self._clock.time_ms()), self._clock.time_ms())
        since = request.number("since", max(0, until - 7 * DAY_MS))
        points = request.number("points", 168)
        if since >= until or until - since > LONGEST_MS:
            raise InvalidInput("since must be before until, by at most 400 days")
        if not 1 <= points <= MOST_POINTS:
            raise InvalidInput(f"points must be between 1 and {MOST_POINTS}")
        return JSONResponse(await self._usage.fleet(since, until, points))

    async def trace(self, request: Request) -> Response:
        """GET /api/v1/fleet/trace: past jobs and present nodes, for a replay."""
        days, limit = request.number("days", 30), request.number("limit", 20_000)
        if not 1 <= days <= 400 or not 1 <= limit <= 20_000:
            raise InvalidInput("days go from 1 to 400, limit from 1 to 20000")
        return JSONResponse(await self._usage.live_trace(days, limit))


def routes(services: Services) -> list[Route]:
    """Return the routes of usage."""
    do = UsageRoutes(services)

    def route(method: str, path: str, handler: Any, permission: Permission, **types: Any) -> Route:
        return Route(
            method=method, path=f"/api/v1/{path}", handler=handler, permission=permission, **types
        )

    read, admin = Permission.READ, Permission.ADMIN
    close, put = "usage/months/{month}/close", "teams/{team}/budget"
    return [
        route("GET", "usage", do.show, read, gives=UsageReport, query=_USAGE_QUERY),
        route("GET", "usage/months", do.months, read, gives=MonthList),
        route("POST", close, do.close, admin, gives=ClosedMonthView),
        route("GET", "usage/rates", do.rates, read, gives=RateCard),
        route("PUT", "usage/rates", do.put_rates, admin, takes=RateCard, gives=RateCard),
        route("GET", "budgets", do.budgets, read, gives=BudgetList),
        route("PUT", put, do.put_budget, admin, takes=TeamBudget, gives=TeamBudget),
        route("GET", "fleet/history", do.fleet, read, gives=FleetHistory, query=_FLEET_QUERY),
        route("GET", "fleet/trace", do.trace, admin, gives=LiveTrace, query=_TRACE_QUERY),
    ]
