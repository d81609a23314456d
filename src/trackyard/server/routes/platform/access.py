"""Sessions, tokens, users and teams over HTTP."""

from __future__ import annotations

from typing import Any

import msgspec

import trackyard
from trackyard.access.principal import Principal, Role
from trackyard.access.tokens import well_formed
from trackyard.core.errors import Denied, InvalidInput, Unauthenticated
from trackyard.core.ids import has_controls
from trackyard.server.access import COOKIE, session_cookie, session_of
from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.routes.body import decode
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.store.bounds import Int64, Word


class SignIn(msgspec.Struct):
    """A one-time code, or a token."""

    code: Word | None = None
    token: Word | None = None


class TeamRole(msgspec.Struct):
    """A team and the caller's role in it."""

    name: str
    role: str


class SessionInfo(msgspec.Struct):
    """Who the caller is."""

    user: str
    team: str
    role: str
    is_admin: bool
    teams: list[TeamRole]
    version: str
    csrf: str | None = None


class NewToken(msgspec.Struct):
    """What a token is to be good for."""

    label: Word = ""
    role: Word = "member"
    user: Word | None = None
    team: Word | None = None
    days: Int64 | None = 90


class NewUser(msgspec.Struct):
    """A user to create."""

    name: Word
    is_admin: bool = False


class UserChange(msgspec.Struct):
    """A change of a user."""

    disabled: bool


class NewTeam(msgspec.Struct):
    """A team to create."""

    name: Word


class MemberRole(msgspec.Struct):
    """A member's role."""

    role: Word


class AccessRoutes:
    """Handlers of people and credentials."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._directory = services.directory
        self._sessions = services.sessions
        self._gate = services.gate

    # -- sessions ---------------------------------------------------------------------------

    async def sign_in(self, request: Request) -> Response:
        """POST /api/v1/session: trade a one-time code or a token for a session cookie."""
        wish = await decode(request, SignIn)
        secret = await self._proven(request, wish)
        cookie = session_cookie(secret, secure=self._gate.secure)
        principal = await self._sessions.find(secret, None)
        if principal is None:
            raise Denied("this user belongs to no team yet; ask an admin to add one")
        return JSONResponse(await self._info(principal), headers=[("set-cookie", cookie)])

    async def _proven(self, request: Request, wish: SignIn) -> str:
        """Open a session, or slow down who guesses: at one token's id before it is looked up, at
        anything else once it turned out wrong, so that nobody keeps others out.
        """
        token = (wish.token or "").strip()
        account = token.split("_")[1] if well_formed(token) and not wish.code else ""
        if account:
            self._gate.check_signin(request, account)
        try:
            return await self._open(wish)
        except Unauthenticated:
            if not account:
                self._gate.check_signin(request, account)
            self._gate.note_failure(request, account)
            raise

    async def _open(self, wish: SignIn) -> str:
        if wish.code:
            return await self._sessions.open_with_code(wish.code)
        if not wish.token or not well_formed(wish.token.strip()):
            raise Unauthenticated(
                "that is not a Trackyard token; `yard token create` or the file `token` in the"
                " server's home folder has one"
            )
        principal = await self._directory.authenticate(wish.token.strip())
        if principal is None or principal.user_id is None or principal.is_feed or principal.app:
            raise Unauthenticated("the token is expired, revoked or not a user's")
        return await self._sessions.open_for(principal.user_id, principal.token_id)

    async def session(self, request: Request) -> Response:
        """GET /api/v1/session: who am I, and in which teams."""
        return JSONResponse(await self._info(request.principal))

    async def _info(self, principal: Principal) -> SessionInfo:
        teams = [TeamRole(principal.team, principal.role.name)]
        is_session = principal.user_id is not None and principal.csrf is not None
        if is_session and not principal.is_narrow:
            for user in await self._directory.users():
                if user["name"] == principal.name:
                    teams = [TeamRole(name, role) for name, role in user["teams"].items()]
            if principal.is_admin:
                known = {team.name for team in teams}
                for team in await self._directory.teams():
                    if team["name"] not in known:
                        teams.append(TeamRole(team["name"], "admin"))
        return SessionInfo(
            user=principal.name,
            team=principal.team,
            role=principal.role.name,
            is_admin=principal.is_admin,
            teams=teams,
            version=trackyard.__version__,
            csrf=principal.csrf,
        )

    async def sign_out(self, request: Request) -> Response:
        """DELETE /api/v1/session."""
        secret = session_of(request.header("cookie") or "")
        if secret is not None:
            await self._sessions.end(secret, actor=request.principal.name)
        gone = f"{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"
        return JSONResponse({}, headers=[("set-cookie", gone)])

    async def new_code(self, request: Request) -> Response:
        """POST /api/v1/session/codes: a one-time sign-in code for the caller."""
        user_id = request.principal.user_id
        if user_id is None:
            raise Denied("only users sign in")
        by = request.principal.issues_with or ""
        return JSONResponse({"code": await self._sessions.new_code(user_id, token_id=by)})

    # -- tokens -----------------------------------------------------------------------------

    async def create_token(self, request: Request) -> Response:
        """POST /api/v1/tokens: for oneself, or as an owner for a member of the team."""
        wish, principal = await decode(request, NewToken), request.principal
        role = Role.parse(wish.role)
        user, team = wish.user or principal.name, wish.team or principal.team
        if user != principal.name or team != principal.team:
            principal.need(Role.owner, "issuing a token for someone else")
            if team != principal.team and not principal.is_admin:
                raise Denied(f"{principal.name} does not manage team {team}")
        if role > principal.role and not principal.is_admin:
            raise Denied(f"{principal.name} is {principal.role.name} and cannot grant {role.name}")
        if wish.days is not None and not 1 <= wish.days <= 3650:
            raise InvalidInput("days must be between 1 and 3650, or null for no end")
        if has_controls(wish.label):
            raise InvalidInput("the label holds control characters; leave them out")
        made = await self._directory.create_token(
            user=user,
            team=team,
            role=wish.role,
            label=wish.label[:200],
            actor=principal.name,
            days=wish.days,
            members_only=user != principal.name and not principal.is_admin,
            team_only=principal.is_narrow,
            parent_id=principal.issues_with,
        )
        return JSONResponse(made)

    async def tokens(self, request: Request) -> Response:
        """GET /api/v1/tokens: one's own; an owner sees the team's."""
        principal = request.principal
        mine = None if principal.may(Role.owner) else principal.user_id
        found = await self._directory.tokens(team_id=principal.team_id, user_id=mine)
        return JSONResponse({"tokens": found})

    async def revoke_token(self, request: Request) -> Response:
        """DELETE /api/v1/tokens/{token_id}."""
        principal = request.principal
        await self._directory.revoke_token(
            request.params["token_id"],
            actor=principal.name,
            team_id=None if principal.is_admin else principal.team_id,
            user_id=None if principal.may(Role.owner) else principal.user_id,
        )
        self._gate.forget()
        return JSONResponse({})

    # -- users and teams --------------------------------------------------------------------

    async def users(self, request: Request) -> Response:
        """GET /api/v1/users."""
        return JSONResponse({"users": await self._directory.users()})

    async def create_user(self, request: Request) -> Response:
        """POST /api/v1/users."""
        wish = await decode(request, NewUser)
        await self._directory.create_user(
            wish.name, actor=request.principal.name, is_admin=wish.is_admin
        )
        return JSONResponse({"name": wish.name})

    async def change_user(self, request: Request) -> Response:
        """PATCH /api/v1/users/{name}."""
        wish = await decode(request, UserChange)
        if request.params["name"] == request.principal.name and wish.disabled:
            raise InvalidInput("you cannot shut yourself out; another admin can")
        await self._directory.disable_user(
            request.params["name"], actor=request.principal.name, disabled=wish.disabled
        )
        self._gate.forget()
        return JSONResponse({})

    async def teams(self, request: Request) -> Response:
        """GET /api/v1/teams: all for an admin, else one's own."""
        principal = request.principal
        found = await self._directory.teams()
        if not principal.is_admin:
            found = [team for team in found if team["name"] == principal.team]
        return JSONResponse({"teams": found})

    async def create_team(self, request: Request) -> Response:
        """POST /api/v1/teams."""
        wish = await decode(request, NewTeam)
        await self._directory.create_team(wish.name, actor=request.principal.name)
        return JSONResponse({"name": wish.name})

    async def members(self, request: Request) -> Response:
        """GET /api/v1/members: of the caller's team."""
        found = await self._directory.members(request.principal.team_id)
        return JSONResponse({"members": found})

    async def set_member(self, request: Request) -> Response:
        """PUT /api/v1/teams/{team}/members/{user}."""
        wish, principal = await decode(request, MemberRole), request.principal
        self._manages(principal, request.params["team"])
        if Role.parse(wish.role) is Role.owner and not principal.may(Role.owner):
            raise Denied("only an owner makes owners")
        await self._directory.set_member(
            request.params["team"], request.params["user"], wish.role, actor=principal.name
        )
        self._gate.forget()
        return JSONResponse({})

    async def remove_member(self, request: Request) -> Response:
        """DELETE /api/v1/teams/{team}/members/{user}."""
        principal = request.principal
        self._manages(principal, request.params["team"])
        await self._directory.remove_member(
            request.params["team"], request.params["user"], actor=principal.name
        )
        self._gate.forget()
        return JSONResponse({})

    def _manages(self, principal: Principal, team: str) -> None:
        if team != principal.team and not principal.is_admin:
            raise Denied(f"{principal.name} does not manage team {team[:80]}")


def routes(services: Services) -> list[Route]:
    """Return the routes of people and credentials."""
    do = AccessRoutes(services)
    read, own, admin = Permission.READ, Permission.OWN, Permission.ADMIN

    def route(
        method: str,
        path: str,
        handler: Any,
        permission: Permission,
        *,
        takes: Any = None,
        gives: Any = dict[str, Any],
    ) -> Route:
        return Route(
            method=method,
            path=f"/api/v1/{path}",
            handler=handler,
            permission=permission,
            takes=takes,
            gives=gives,
        )

    return [
        route("POST", "session", do.sign_in, Permission.PUBLIC, takes=SignIn, gives=SessionInfo),
        route("GET", "session", do.session, read, takes=None, gives=SessionInfo),
        route("DELETE", "session", do.sign_out, read),
        route("POST", "session/codes", do.new_code, read),
        route("POST", "tokens", do.create_token, read, takes=NewToken),
        route("GET", "tokens", do.tokens, read),
        route("DELETE", "tokens/{token_id}", do.revoke_token, read),
        route("GET", "users", do.users, admin),
        route("POST", "users", do.create_user, admin, takes=NewUser),
        route("PATCH", "users/{name}", do.change_user, admin, takes=UserChange),
        route("GET", "teams", do.teams, read),
        route("POST", "teams", do.create_team, admin, takes=NewTeam),
        route("GET", "members", do.members, read),
        route("PUT", "teams/{team}/members/{user}", do.set_member, own, takes=MemberRole),
        route("DELETE", "teams/{team}/members/{user}", do.remove_member, own),
    ]
