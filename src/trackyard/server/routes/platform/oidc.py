"""Single sign-on in the browser: to the provider, and back with a code."""

from __future__ import annotations

import hmac
from typing import Any

import msgspec

from trackyard.access.identities import Identities
from trackyard.access.sealing import Seal
from trackyard.core.errors import BadRequest, Denied, InternalFault, NotFound, Unauthenticated
from trackyard.server.access import SIGN_ON_COOKIE, session_cookie, sign_on_of
from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.oidc import Provider, Trip, read_oidc
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services

PATH = "/api/v1/oidc"
TRIP_MS = 10 * 60_000


class SignOn(msgspec.Struct):
    """Whether there is single sign-on here."""

    is_offered: bool


class OidcRoutes:
    """Handlers of single sign-on."""

    def __init__(self, services: Services) -> None:
        settings = services.settings
        self._sessions, self._gate, self._clock = services.sessions, services.gate, services.clock
        self._prefix = settings.prefix
        self._seal = Seal(settings.secrets_key_path)
        self._provider: Provider | None = None
        found = read_oidc(settings.oidc)
        if found is not None:
            back = f"{settings.url}{PATH}/callback"
            self._provider = Provider(found, redirect_url=back, clock=services.clock)
            self._identities = Identities(services.database, services.directory, found.rules)

    async def offered(self, request: Request) -> Response:
        """GET /api/v1/oidc: whether the sign-in page offers single sign-on."""
        return JSONResponse(SignOn(self._provider is not None))

    async def start(self, request: Request) -> Response:
        """GET /api/v1/oidc/start: send the browser to the provider."""
        provider = self._open()
        trip = provider.new_trip()
        sealed = self._seal.close(msgspec.json.encode(trip).decode(), purpose=SIGN_ON_COOKIE)
        # Lax: the provider's page sends the browser back to us.
        cookie = f"{SIGN_ON_COOKIE}={sealed}; {self._scope}; Max-Age={TRIP_MS // 1000}"
        return _go(await provider.address(trip), [cookie])

    async def callback(self, request: Request) -> Response:
        """GET /api/v1/oidc/callback: the browser is back, with a code or with a refusal."""
        provider, trip = self._open(), self._trip(request)
        state = request.arg("state") or ""
        if not hmac.compare_digest(state.encode(), trip.state.encode()):
            raise Unauthenticated("this sign-in was not begun in this browser; begin again")
        code = request.arg("code")
        if not code:
            word = (request.arg("error") or "no code")[:100]
            raise Unauthenticated(f"the provider did not sign you in ({word}); begin again")
        user_id = await self._identities.admit(await provider.person(code, trip))
        self._gate.forget()
        secret = await self._sessions.open_for(user_id, "")
        if await self._sessions.find(secret, None) is None:
            raise Denied("you have no team here any more; ask an admin")
        cookies = [
            session_cookie(secret, secure=self._gate.secure),
            f"{SIGN_ON_COOKIE}=; {self._scope}; Max-Age=0",
        ]
        return _go(f"{self._prefix}/", cookies)

    @property
    def _scope(self) -> str:
        secure = "; Secure" if self._gate.secure else ""
        return f"Path={self._prefix}{PATH}; HttpOnly; SameSite=Lax{secure}"

    def _open(self) -> Provider:
        if self._provider is None:
            raise NotFound("there is no single sign-on here; an admin sets up [oidc]")
        return self._provider

    def _trip(self, request: Request) -> Trip:
        sealed = sign_on_of(request.header("cookie") or "")
        if sealed is None:
            raise BadRequest("this browser has no sign-in under way; begin again")
        try:
            text = self._seal.open(sealed, purpose=SIGN_ON_COOKIE)
            trip = msgspec.json.decode(text, type=Trip)
        except (InternalFault, msgspec.DecodeError) as fault:
            raise BadRequest("this browser's sign-in cannot be read; begin again") from fault
        if self._clock.time_ms() - trip.started_ms > TRIP_MS:
            raise Unauthenticated("the sign-in took too long; begin again")
        return trip


def _go(place: str, cookies: list[str]) -> Response:
    headers = [("location", place), ("cache-control", "no-store")]
    return Response(b"", status=303, headers=[*headers, *(("set-cookie", one) for one in cookies)])


def routes(services: Services) -> list[Route]:
    """Return the routes of single sign-on."""
    do = OidcRoutes(services)

    def route(path: str, handler: Any, **more: Any) -> Route:
        return Route(
            method="GET", path=path, handler=handler, permission=Permission.PUBLIC, **more
        )

    answers = {"code": "from the provider", "state": "of this sign-in", "error": "a refusal"}
    return [
        route(PATH, do.offered, gives=SignOn),
        route(f"{PATH}/start", do.start),
        route(f"{PATH}/callback", do.callback, query=answers),
    ]
