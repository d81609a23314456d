"""The table of routes. A route without a permission cannot be built, and a request that
matches none never
reaches a handler. Knows nothing of what handlers do.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from trackyard.access.principal import Purpose
from trackyard.server.http.messages import Request, Response

#: Bytes of a body that is read whole, where a route names no other limit, and of a public one.
BODY_LIMIT, PUBLIC_BODY_LIMIT = 1024 * 1024, 4 * 1024
#: Bytes of all header lines, cookies among them, and those of a caller without a credential.
HEADER_LIMIT, PUBLIC_HEADER_LIMIT = 32 * 1024, 8 * 1024

#: What routes of WebSockets are found by: a path may have one beside those of its methods.
WEBSOCKET = "WEBSOCKET"
Handler = Callable[[Request], Awaitable[Response]]


class Permission(IntEnum):
    """What a route asks of its caller, from least to most."""

    PUBLIC = 0  # no credential: health, version, sign-in, static files
    READ = 1  # viewer of the team
    LOG = 2  # member: log, upload, register
    CURATE = 3  # maintainer: promote, delete
    OWN = 4  # owner: members and tokens of the team
    ADMIN = 5  # platform admin


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method and path with its handler and the permission it needs."""

    method: str
    path: str
    handler: Handler
    permission: Permission
    #: whether the token of a job's command may call it (the handler checks the run)
    attempts: bool = False
    #: whether the token of the runner around a command may call it
    runners: bool = False
    #: whether a ticket may call it, by which a runner gets its credential
    tickets: bool = False
    #: whether a token for the calendar feed may call it
    feeds: bool = False
    #: pages of a job's app: served on the apps' own host, or to programs with a token for it
    apps: bool = False
    #: request and reply types; every field of a request has its bounds, which a test looks at
    takes: Any = None
    gives: Any = None
    #: query parameters of a documented route: name -> one line
    query: dict[str, str] = field(default_factory=dict)
    #: a WebSocket route: the handler takes over the connection
    websocket: bool = False
    #: read for as long as a page is open, so held to the rules of a WebSocket
    stays_open: bool = False
    #: errors are one plain sentence, for clients that print what they get
    plain: bool = False
    #: bytes of a body that is read whole, and of all header lines; None for the usual
    body_limit: int | None = None
    header_limit: int | None = None
    #: what a task that serves it is called
    label: str = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.permission, Permission):
            raise TypeError(f"route {self.method} {self.path} declares no permission")
        if self.permission is Permission.PUBLIC and (self.attempts or self.runners):
            raise TypeError(f"route {self.method} {self.path} is public and needs no token kind")
        object.__setattr__(self, "label", f"{self.method} {self.path}")
        is_public = self.permission is Permission.PUBLIC
        if self.body_limit is None:
            object.__setattr__(self, "body_limit", PUBLIC_BODY_LIMIT if is_public else BODY_LIMIT)
        if self.header_limit is None:
            limit = PUBLIC_HEADER_LIMIT if is_public else HEADER_LIMIT
            object.__setattr__(self, "header_limit", limit)

    def takes_attempt(self, purpose: Purpose) -> bool:
        """Tell whether an attempt's token made for this purpose opens the route."""
        if purpose is Purpose.TICKET:
            return self.tickets
        return (self.attempts and purpose is not Purpose.RUNNER) or (
            self.runners and purpose is not Purpose.COMMAND
        )


class Router:
    """Finds the route of a request: exact paths by dictionary, patterns by their first
    segments.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes: list[Route] = list(routes)
        self._exact: dict[tuple[str, str], Route] = {}
        self._patterns: dict[str, list[tuple[re.Pattern[str], Route]]] = {}
        for route in self.routes:
            self._add(route)
        for patterns in self._patterns.values():
            # The most literal pattern first, so that /a/{id}/tags wins over /a/{path...}.
            patterns.sort(key=lambda entry: _weight(entry[1].path), reverse=True)

    def _add(self, route: Route) -> None:
        if "{" not in route.path:
            key = (WEBSOCKET if route.websocket else route.method, route.path)
            if key in self._exact:
                raise ValueError(f"two routes claim {route.method} {route.path}")
            self._exact[key] = route
            return
        kind = WEBSOCKET if route.websocket else route.method
        self._patterns.setdefault(kind, []).append((_compile(route.path), route))

    def find(
        self, method: str, path: str, *, is_socket: bool = False
    ) -> tuple[Route, dict[str, str]] | None:
        """Return the route and its path parameters, or None."""
        if is_socket:
            method = WEBSOCKET
        route = self._exact.get((method, path))
        if route is not None:
            return route, {}
        for pattern, candidate in self._patterns.get(method, ()):
            match = pattern.match(path)
            if match is not None:
                return candidate, match.groupdict()
        return None

    def methods(self, path: str) -> list[str]:
        """Return the methods that a path takes."""
        known = {route.method for route in self.routes if route.path == path}
        for method, patterns in self._patterns.items():
            if any(pattern.match(path) for pattern, _ in patterns):
                known.add("GET" if method == WEBSOCKET else method)
        return sorted(known)


def _compile(path: str) -> re.Pattern[str]:
    """Turn `{name}` into one segment and `{name...}` into the rest of the path."""
    pieces = re.split(r"(\{[a-z_]+(?:\.\.\.)?\})", path)
    pattern = ""
    for piece in pieces:
        if piece.startswith("{"):
            name = piece[1:-1]
            rest = name.endswith("...")
            pattern += f"(?P<{name.removesuffix('...')}>{'.+' if rest else '[^/]+'})"
        else:
            pattern += re.escape(piece)
    return re.compile(pattern + r"\Z", re.DOTALL)


def _weight(path: str) -> tuple[int, int]:
    return (0 if "..." in path else 1, len(re.sub(r"\{[^}]*\}", "", path)))
