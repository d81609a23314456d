"""What the queue's settings promise, over HTTP: the live policy, queues and shares in words."""

from __future__ import annotations

import msgspec

from trackyard.core.errors import Denied, NotFound
from trackyard.queue.shares.promises import PromiseTerms, QueuePromise, promises
from trackyard.queue.shares.queues import load_queues, load_shares
from trackyard.queue.submit.queue_rules import queue_rules
from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.store.database import ReadConnection


class TeamPromises(msgspec.Struct):
    """What one team is promised in one queue."""

    team: str
    queue: str
    topics: list[QueuePromise]


class PolicyReply(msgspec.Struct):
    """The policy in force and what it promises."""

    policy: str
    promises: list[TeamPromises]


class PolicyRoutes:
    """Handlers of the policy."""

    def __init__(self, services: Services) -> None:
        self._db = services.database
        self._policy = services.jobs.scheduler.board.policy

    async def explain(self, request: Request) -> Response:
        """GET /api/v1/policy?queue=&team=: one's own team, and for admins all."""
        principal = request.principal
        queue, team = request.arg("queue"), request.arg("team")
        if team and team != principal.team and not principal.is_admin:
            raise Denied(
                f"what team {team[:80]} is promised is for its members and admins; leave --team"
                f" out for {principal.team}"
            )

        def load(reader: ReadConnection) -> PolicyReply:
            shares = load_shares(reader)
            if team and team not in shares:
                raise NotFound(f"no team named {team[:80]!r}; `yard team ls` shows the teams")
            queues = {queue: queue_rules(reader, queue)} if queue else load_queues(reader)
            own = [team] if team else list(shares) if principal.is_admin else [principal.team]
            return PolicyReply(
                policy=self._policy.name,
                promises=[
                    TeamPromises(
                        team=name,
                        queue=line,
                        topics=promises(
                            PromiseTerms(
                                policy=self._policy,
                                queue=line,
                                rules=rules,
                                team=name,
                                share=shares[name],
                                shares=shares,
                            )
                        ),
                    )
                    for name in own
                    for line, rules in queues.items()
                    if not rules.teams or name in rules.teams
                ],
            )

        return JSONResponse(await self._db.read(load))


def routes(services: Services) -> list[Route]:
    """Return the routes of the policy."""
    do = PolicyRoutes(services)
    return [
        Route(
            method="GET",
            path="/api/v1/policy",
            handler=do.explain,
            permission=Permission.READ,
            gives=PolicyReply,
        )
    ]
