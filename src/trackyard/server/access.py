"""The gate every request passes: Host and Origin first, then the credential, then the permission.

Owns the order of credentials and their short cache. Knows no route's business.
"""

from __future__ import annotations

import base64
import binascii
from collections import OrderedDict
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from trackyard.access.directory import Directory
from trackyard.access.principal import Principal, Role
from trackyard.access.sessions import Sessions
from trackyard.access.tokens import redact, well_formed
from trackyard.core.clock import Clock
from trackyard.core.errors import Conflict, Denied, TooMany, Unauthenticated, YardError
from trackyard.server.http.messages import Request
from trackyard.server.routing import Permission, Route
from trackyard.server.tunnels.app_hosts import AppHosts

COOKIE = "yard_session"
APP_COOKIE = "yard_app"
SIGN_ON_COOKIE = "yard_sign_on"
RAY_COOKIE = "ray-authentication-token"
#: Headers that a browser sends with a write and a Ray client does not.
_BROWSERS = ("origin", "referer", "sec-fetch-site", "sec-fetch-mode")
#: How long a verified token is believed without asking the database again, in seconds.
TRUST_SECONDS = 1.0
CACHE_SIZE = 4096
#: Failed sign-ins allowed per account and address within the window, in seconds.
SIGNIN_TRIES, SIGNIN_WINDOW = 10, 60.0
#: Refusals noted per caller within the window, in seconds, and of all callers together.
NOTES, ALL_NOTES, NOTES_WINDOW = 3, 300, 60.0

#: How much of a line of proxies is looked at, from its end.
MAX_FORWARDED = 1024

_NEEDED = {
    Permission.READ: Role.viewer,
    Permission.LOG: Role.member,
    Permission.CURATE: Role.maintainer,
    Permission.OWN: Role.owner,
}
_SAFE = frozenset(("GET", "HEAD"))
_NO_CREDENTIAL = (
    "this call needs a credential: set MLFLOW_TRACKING_TOKEN or RAY_AUTH_TOKEN (or a Bearer"
    " header) to a Trackyard token; `yard env` prints the lines"
)
_BAD_CREDENTIAL = (
    "the credential is not valid: it is mistyped, expired or revoked; `yard token create` makes"
    " a new one"
)


class AccessGate:
    """Decides whether a request may go on, and as whom."""

    def __init__(
        self,
        *,
        directory: Directory,
        sessions: Sessions,
        clock: Clock,
        hosts: frozenset[str],
        apps: AppHosts | None = None,
        secure: bool = False,
        proxies: Iterable[str] = (),
        forwarders: Iterable[str] = (),
    ) -> None:
        self._directory = directory
        self._sessions = sessions
        self._clock = clock
        #: host names this server answers to, lower case, without ports; `*` never appears here
        self.hosts = hosts
        self._apps = apps or AppHosts("", is_secure=secure)
        #: whether browsers reach us by https, so that cookies must never travel otherwise
        self.secure = secure
        #: who may speak to us in the clear besides this machine; anyone where we speak TLS
        self._proxies = tuple(ip_network(proxy) for proxy in proxies)
        self._known_peers: dict[str, bool] = {}
        #: whose word on the caller's address is taken
        self._forwarders = tuple(ip_network(proxy) for proxy in (*proxies, *forwarders))
        self._trusted: OrderedDict[str, tuple[float, Principal]] = OrderedDict()
        self._failures: dict[tuple[str, str], list[float]] = {}
        self.used: dict[str, int] = {}
        self._noted: dict[str, int] = {}
        self._noted_since = 0.0

    # -- browser rules ----------------------------------------------------------------------

    def check_origin(self, request: Request, *, is_socket: bool = False) -> None:
        """Refuse foreign hosts, and writes and WebSockets that a foreign page may have caused."""
        if self._proxies and not self._is_proxy(request.peer.rpartition(":")[0]):
            raise Denied("this server is reached through its proxy, by https")
        host = request.header("host")
        if host is None or not self._own_host(host):
            raise Denied(
                "this server does not answer to that host name;"
                " an admin can add it with `yard up --allow-host NAME`"
            )
        if request.method in _SAFE and not is_socket:
            return
        site = request.header("sec-fetch-site")
        if site is not None and site not in ("same-origin", "none"):
            raise Denied("a page of another site may not change anything here")
        origin = request.header("origin")
        if origin is not None and not self._own_origin(origin, host):
            raise Denied("a page of another origin may not change anything here")

    def _is_proxy(self, address: str) -> bool:
        known = self._known_peers.get(address)
        if known is None:
            peer = _address(address)
            if peer is None:
                return False
            known = peer.is_loopback or any(peer in proxy for proxy in self._proxies)
            if len(self._known_peers) > CACHE_SIZE:
                self._known_peers.clear()
            self._known_peers[address] = known
        return known

    def address_of(self, request: Request) -> str:
        """Return the caller's address: the last in the proxies' line that is no proxy of ours.

        Anyone may send the header; it is read only if one of the named proxies sent the request.
        """
        address = request.peer.rpartition(":")[0]
        if not self._forwarders or not self._forwards(address):
            return address
        lines = [text for name, text in request.headers() if name == "x-forwarded-for"]
        for hop in reversed(",".join(lines)[-MAX_FORWARDED:].split(",")):
            named = _address(hop.strip())
            if named is None:
                break
            address = str(named)
            if not self._forwards(address):
                break
        return address

    def _forwards(self, address: str) -> bool:
        peer = _address(address)
        return peer is not None and any(peer in proxy for proxy in self._forwarders)

    def _own_host(self, host: str) -> bool:
        name, port = _split_host(host)
        return name in self.hosts and (port is None or (port.isascii() and port.isdigit()))

    def _own_origin(self, origin: str, host: str) -> bool:
        scheme, separator, authority = origin.partition("://")
        if separator == "" or scheme not in ("http", "https"):
            return False
        return authority.lower() == host.lower() and self._own_host(authority)

    def check_single_host(self, request: Request) -> None:
        """Refuse a doubled Host line; called off the hot path for cookie and public callers."""
        if sum(1 for name, _ in request.headers() if name == "host") > 1:
            raise Denied("the request names its host twice")

    # -- credentials ------------------------------------------------------------------------

    async def admit(self, request: Request, route: Route) -> None:
        """Set the request's principal, or refuse the request."""
        if route.apps:
            await self._admit_to_app(request, route)
            return
        self.check_origin(request, is_socket=route.websocket or route.stays_open)
        if route.permission is Permission.PUBLIC:
            self.check_single_host(request)
            return
        principal = request.principal = await self.identify(request)
        scope = principal.scope
        if scope is not None and not route.takes_attempt(scope.purpose):
            raise Denied(
                f"the token of a running attempt's {scope.purpose} is not good for this call"
            )
        if principal.is_feed and not route.feeds:
            raise Denied("the token of a calendar feed opens that feed and nothing else")
        if principal.app:
            raise Denied("the token of an app opens that app and nothing else")
        if route.permission is Permission.ADMIN:
            if not principal.is_admin:
                raise Denied(f"this call is for platform admins; {principal.name} is not one")
        else:
            principal.need(_NEEDED[route.permission], "this call")

    async def identify(self, request: Request) -> Principal:
        """Return the caller; the first credential present decides, without falling through."""
        header = request.header("authorization")
        if header is None:
            header = request.header("x-ray-authorization")
        if header is not None:
            workspace = request.header("x-mlflow-workspace")
            if workspace is None:
                known = self._trusted.get(header)
                if known is not None and known[0] > self._clock.monotonic():
                    return known[1]
            return await self._by_token(header, workspace)
        cookie = request.header("cookie")
        if cookie is None:
            raise Unauthenticated(_NO_CREDENTIAL)
        return await self._by_cookie(request, cookie)

    async def still_holds(self, request: Request) -> bool:
        """Tell whether the credential of a request that stays open would let it in again."""
        if request.route.apps:
            try:
                await self._by_token(f"Bearer {self._app_token(request)}", None)
            except (Unauthenticated, Denied, Conflict):
                return False
            return True
        header = request.header("authorization") or request.header("x-ray-authorization")
        secret = session_of(request.header("cookie") or "") if header is None else None
        try:
            if secret is None:
                found = await self.identify(request)
            else:
                team = request.header("x-yard-team") or request.arg("team")
                # Listening is not using: an open page keeps no session alive.
                session = await self._sessions.find(secret, team, is_use=False)
                if session is None:
                    return False
                found = session
        except (Unauthenticated, Denied, Conflict):
            return False
        except YardError:
            return True  # who cannot be asked about now is asked about again
        return found.team_id == request.principal.team_id

    # -- apps of jobs -----------------------------------------------------------------------

    def is_app_host(self, request: Request, job_id: str) -> bool:
        """Tell whether a request came to the host of a job's app."""
        return self._apps.is_host_of(_split_host(request.header("host") or "")[0], job_id)

    def app_origin(self, request: Request, job_id: str) -> str | None:
        """Return where a browser finds a job's app; None: this server has no host for it."""
        return self._apps.origin(*_split_host(request.header("host") or ""), job_id)

    async def _admit_to_app(self, request: Request, route: Route) -> None:
        """Let browsers in on the app's own host alone, and programs with a token anywhere."""
        self.check_single_host(request)
        if self.is_app_host(request, request.params["job"]):
            if self._proxies and not self._is_proxy(request.peer.rpartition(":")[0]):
                raise Denied("this server is reached through its proxy, by https")
            _check_app_page(request, is_socket=route.websocket)
        else:
            self.check_origin(request, is_socket=route.websocket)
            if request.header("sec-fetch-site") or route.permission is Permission.PUBLIC:
                raise Denied(
                    "pages of apps are not shown on the server's own host: open the app from its"
                    " job's page"
                )
        if route.permission is Permission.PUBLIC:
            return
        principal = request.principal = await self._by_token(
            f"Bearer {self._app_token(request)}", None
        )
        if principal.scope is not None or principal.is_feed:
            raise Denied("apps are opened by people: sign in, or use a token of your own")
        principal.need(_NEEDED[route.permission], "this call")

    def _app_token(self, request: Request) -> str:
        """Return the token for an app: a browser's cookie on its host, else one that is named."""
        token: str | None = None
        if self.is_app_host(request, request.params["job"]):
            token = _cookie_of(request.header("cookie") or "", APP_COOKIE)
        header = request.header("authorization")
        if token is None and header is not None:
            token = _token_of(header)
        token = token or request.arg("token")
        if token is None:
            raise Unauthenticated("open the app from its job's page: this address needs a visit")
        return token

    async def _by_token(self, header: str, workspace: str | None) -> Principal:
        token = _token_of(header)
        if token is None or not well_formed(token):
            raise Unauthenticated(_BAD_CREDENTIAL)
        principal = await self._directory.authenticate(token)
        if principal is None:
            raise Unauthenticated(_BAD_CREDENTIAL)
        if workspace is not None and workspace != principal.team:
            raise Denied(
                f"this token belongs to team {principal.team}, not to the one the request names"
            )
        now = self._clock.monotonic()
        self._trusted[header] = (now + TRUST_SECONDS, principal)
        self._trusted.move_to_end(header)
        if len(self._trusted) > CACHE_SIZE:
            self._trusted.popitem(last=False)
        self.used[principal.token_id] = self._clock.time_ms()
        return principal

    async def _by_cookie(self, request: Request, header: str) -> Principal:
        secret = session_of(header)
        if secret is None:
            return await self._by_ray_cookie(request, header)
        self.check_single_host(request)
        team = request.header("x-yard-team") or request.arg("team")
        principal = await self._sessions.find(secret, team)
        if principal is None:
            raise Unauthenticated("the session has ended; sign in again")
        if request.method not in _SAFE and request.header("x-csrf-token") != principal.csrf:
            raise Denied("the request lacks the session's CSRF token; reload the page")
        return principal

    async def _by_ray_cookie(self, request: Request, header: str) -> Principal:
        """Take a token from the cookie Ray's own pages use; a page may only read with it."""
        token = _cookie_of(header, RAY_COOKIE)
        if token is None:
            raise Unauthenticated(_NO_CREDENTIAL)
        if request.method not in _SAFE and any(request.header(name) for name in _BROWSERS):
            raise Denied("a page may only read with a token in a cookie; send it in a header")
        return await self._by_token(f"Bearer {token}", request.header("x-mlflow-workspace"))

    def forget(self) -> None:
        """Drop every cached decision, so that a revoked token ends at once."""
        self._trusted.clear()

    # -- refusals ---------------------------------------------------------------------------

    def note_refusal(self, request: Request, fault: YardError) -> None:
        """Leave an event of a refused request, unless its caller has enough of them already."""
        now = self._clock.monotonic()
        if now - self._noted_since > NOTES_WINDOW:
            self._noted_since = now
            self._noted.clear()
        principal: Principal | None = request.principal
        address = self.address_of(request)
        caller = principal.name if principal is not None else f"address:{address}"
        count = self._noted.get(caller, 0)
        if count >= NOTES or len(self._noted) >= ALL_NOTES:
            return
        self._noted[caller] = count + 1
        self._directory.note_refusal(
            actor=caller,
            team_id=principal.team_id if principal is not None else None,
            path=redact(request.path[:200]),
            method=request.method,
            status=fault.status,
            message=redact(fault.message),
            token_id=principal.token_id if principal is not None else "",
            address=address,
        )

    # -- sign-in throttle -------------------------------------------------------------------

    def check_signin(self, request: Request, account: str) -> None:
        """Slow down who keeps guessing at one account; others at that address are not held up."""
        now = self._clock.monotonic()
        key = (self.address_of(request), account)
        recent = [when for when in self._failures.get(key, ()) if now - when < SIGNIN_WINDOW]
        if recent:
            self._failures[key] = recent
        else:
            self._failures.pop(key, None)
        if len(recent) >= SIGNIN_TRIES:
            raise TooMany("too many failed sign-ins; wait a minute", retry_after=60)

    def note_failure(self, request: Request, account: str) -> None:
        """Remember a failed sign-in."""
        if len(self._failures) > CACHE_SIZE:
            self._failures.clear()
        key = (self.address_of(request), account)
        self._failures.setdefault(key, []).append(self._clock.monotonic())


def _check_app_page(request: Request, *, is_socket: bool) -> None:
    """Refuse what a page of another origin may have caused on the host of an app."""
    site = request.header("sec-fetch-site")
    is_visit = request.method in _SAFE and request.header("sec-fetch-mode") == "navigate"
    if site not in (None, "same-origin", "none") and (is_socket or not is_visit):
        raise Denied("a page of another site may not reach into this app")
    origin = request.header("origin")
    if (is_socket or request.method not in _SAFE) and origin is not None:
        authority = origin.partition("://")[2]
        if authority.lower() != (request.header("host") or "").lower():
            raise Denied("a page of another origin may not reach into this app")


def session_cookie(secret: str, *, secure: bool) -> str:
    """Return the line that gives a browser its session."""
    more = "; Secure" if secure else ""
    return f"{COOKIE}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age=1209600{more}"


def sign_on_of(header: str) -> str | None:
    """Return the single sign-on that is under way, from a Cookie header."""
    return _cookie_of(header, SIGN_ON_COOKIE)


def session_of(header: str) -> str | None:
    """Return the session secret in a Cookie header."""
    return _cookie_of(header, COOKIE)


def _cookie_of(header: str, name: str) -> str | None:
    """Return the first cookie of a name; ours hold nothing that needs quoting."""
    for part in header.split(";"):
        key, separator, value = part.partition("=")
        if separator and key.strip() == name:
            return value.strip().strip('"')
    return None


def _token_of(header: str) -> str | None:
    """Return the token in a Bearer header, or the password of a Basic one."""
    scheme, _, rest = header.partition(" ")
    scheme = scheme.lower()
    # Jupyter's own clients say `token` where others say `Bearer`.
    if scheme in ("bearer", "token"):
        return rest.strip()
    if scheme != "basic":
        return None
    try:
        decoded = base64.b64decode(rest.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    return decoded.partition(":")[2]


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """Read an address, in brackets or with a port as some proxies write it."""
    text = text.strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ip_address(text)
    except ValueError:
        return None
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped
    return found


def _split_host(host: str) -> tuple[str, str | None]:
    """Split `name:port` and `[v6]:port`, lower-casing the name."""
    host = host.lower()
    if host.startswith("["):
        name, _, rest = host.partition("]")
        return name + "]", rest.removeprefix(":") or None
    name, separator, port = host.partition(":")
    return name, port if separator else None
