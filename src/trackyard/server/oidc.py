"""OpenID Connect: the authorization code flow with PKCE, with one provider the operator named.

Owns the settings of the table [oidc], the provider's documents and the check of its ID tokens.
What a person may do here is decided in `access.identities`. Needs the extra `trackyard[oidc]`.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from trackyard.access.identities import GroupRules, Person, read_groups
from trackyard.core.clock import Clock
from trackyard.core.errors import InternalFault, SetupError, Unauthenticated

TIMEOUT_SECONDS = 10.0
MAX_DOCUMENT = 1 << 20
#: How long the provider's documents are believed, and how often unknown keys are asked about.
DOCUMENT_SECONDS, KEYS_SECONDS = 3600.0, 60.0
LEEWAY_SECONDS = 60
#: Signatures by the provider's published keys; none is made with a shared secret.
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"]
INSTALL = "pip install 'trackyard[oidc]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """The table [oidc] of the config file."""

    issuer: str
    client_id: str
    #: file with the client's secret; none for a public client, which PKCE protects
    client_secret_file: str = ""
    #: where the provider sends browsers back; by default below the server's own address
    redirect_url: str = ""
    scopes: str = "openid profile email"
    user_claim: str = "preferred_username"
    groups_claim: str = "groups"
    link_existing: bool = False
    groups: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rules(self) -> GroupRules:
        """What the provider's groups are good for."""
        teams, admins = read_groups(self.groups)
        return GroupRules(teams=teams, admins=admins, link_existing=self.link_existing)


def read_oidc(table: Mapping[str, Any]) -> OidcSettings | None:
    """Read the table [oidc]; None where there is none."""
    if not table:
        return None
    try:
        found = msgspec.convert(dict(table), OidcSettings)
    except msgspec.ValidationError as fault:
        raise SetupError(f"[oidc] of the config file: {fault}") from fault
    unknown = set(table) - set(OidcSettings.__dataclass_fields__)
    if unknown:
        raise SetupError(
            f"[oidc] has an unknown key {sorted(unknown)[0]!r}",
            hint=f"the keys are {', '.join(OidcSettings.__dataclass_fields__)}",
        )
    for url in (found.issuer, found.redirect_url or found.issuer):
        _check_address(url)
    read_groups(found.groups)
    try:
        import joserfc  # noqa: F401
    except ImportError:
        raise SetupError("[oidc] needs another package", hint=INSTALL) from None
    return found


def _check_address(url: str) -> None:
    parts = urlsplit(url)
    is_here = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_here):
        raise SetupError(f"[oidc] {url!r} is not an https address")


class Trip(msgspec.Struct, frozen=True):
    """What a browser carries to the provider and back, sealed."""

    state: str
    nonce: str
    verifier: str
    started_ms: int


class Provider:
    """The one provider people sign in at."""

    def __init__(self, settings: OidcSettings, *, redirect_url: str, clock: Clock) -> None:
        self._settings = settings
        self._redirect_url = settings.redirect_url or redirect_url
        self._clock = clock
        self._facts: dict[str, Any] = {}
        self._facts_until = 0.0
        self._keys: Any = None
        self._keys_asked = -KEYS_SECONDS

    def new_trip(self) -> Trip:
        """Begin a sign-in."""
        return Trip(
            state=secrets.token_urlsafe(32),
            nonce=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(48),
            started_ms=self._clock.time_ms(),
        )

    async def address(self, trip: Trip) -> str:
        """Return where the browser is to sign in."""
        facts = await self._discover()
        challenge = hashlib.sha256(trip.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._redirect_url,
            "scope": self._settings.scopes,
            "state": trip.state,
            "nonce": trip.nonce,
            "code_challenge": base64.urlsafe_b64encode(challenge).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        begin = str(facts["authorization_endpoint"])
        return f"{begin}{'&' if '?' in begin else '?'}{urlencode(query)}"

    async def person(self, code: str, trip: Trip) -> Person:
        """Trade the code that a browser brought for the person it stands for."""
        facts = await self._discover()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_url,
            "code_verifier": trip.verifier,
        }
        headers = {}
        secret = self._secret()
        if secret:
            pair = f"{_quoted(self._settings.client_id)}:{_quoted(secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form["client_id"] = self._settings.client_id
        answer = await _ask(str(facts["token_endpoint"]), headers, urlencode(form).encode())
        claims = await self._checked(str(answer.get("id_token") or ""), trip.nonce)
        if self._settings.groups_claim not in claims and "userinfo_endpoint" in facts:
            bearer = {"Authorization": f"Bearer {answer.get('access_token', '')}"}
            more = await _ask(str(facts["userinfo_endpoint"]), bearer)
            if more.get("sub") != claims["sub"]:
                raise Unauthenticated("the provider told of two different people; sign in again")
            claims = {**more, **claims}
        return self._read(claims)

    def _read(self, claims: Mapping[str, Any]) -> Person:
        wanted = self._settings.user_claim
        name = claims.get(wanted)
        if not isinstance(name, str) or not name:
            raise Unauthenticated(
                f"the provider sent no {wanted}; choose another user_claim in [oidc]"
            )
        if wanted == "email" and claims.get("email_verified") is not True:
            raise Unauthenticated("the provider has not verified this address; verify it there")
        groups = claims.get(self._settings.groups_claim, [])
        listed = groups if isinstance(groups, list) else [groups]
        return Person(
            issuer=self._settings.issuer,
            subject=str(claims["sub"]),
            name=name,
            groups=frozenset(str(group) for group in listed[:1000]),
        )

    # -- what the provider sends ----------------------------------------------------------------

    async def _checked(self, token: str, nonce: str) -> dict[str, Any]:
        """Return the claims of an ID token that is the provider's, for us, now, for this trip."""
        from joserfc import jwt
        from joserfc.errors import JoseError

        try:
            decoded = await self._decode(token)
            claims: dict[str, Any] = dict(decoded.claims)
            jwt.JWTClaimsRegistry(
                now=self._clock.time_ms() // 1000,
                leeway=LEEWAY_SECONDS,
                iss={"essential": True, "value": self._settings.issuer},
                aud={"essential": True, "value": self._settings.client_id},
                sub={"essential": True},
                exp={"essential": True},
                iat={"essential": True},
                nonce={"essential": True, "value": nonce},
            ).validate(claims)
        except (JoseError, ValueError) as fault:
            raise Unauthenticated(f"the provider's answer does not hold: {fault}") from fault
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if several and claims.get("azp") != self._settings.client_id:
            raise Unauthenticated("the provider's answer is for another program")
        return claims

    async def _decode(self, token: str) -> Any:
        from joserfc import jwt
        from joserfc.errors import JoseError

        if self._keys is None:
            await self._fetch_keys()
        try:
            return jwt.decode(token, self._keys, algorithms=ALGORITHMS)
        except (JoseError, ValueError):
            # The provider may have changed its keys since.
            if self._clock.monotonic() - self._keys_asked < KEYS_SECONDS:
                raise
            await self._fetch_keys()
            return jwt.decode(token, self._keys, algorithms=ALGORITHMS)

    async def _fetch_keys(self) -> None:
        from joserfc.jwk import KeySet

        facts = await self._discover()
        self._keys_asked = self._clock.monotonic()
        found = await _ask(str(facts["jwks_uri"]))
        self._keys = KeySet.import_key_set(found)  # type: ignore[arg-type]

    async def _discover(self) -> dict[str, Any]:
        if self._clock.monotonic() < self._facts_until:
            return self._facts
        issuer = self._settings.issuer
        facts = await _ask(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if facts.get("issuer") != issuer:
            raise InternalFault(
                f"the provider calls itself {str(facts.get('issuer'))[:200]!r}, not {issuer!r};"
                " write its own spelling as issuer in [oidc]"
            )
        for key in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            try:
                _check_address(str(facts.get(key)))
            except SetupError as fault:
                raise InternalFault(f"the provider's {key} is not usable: {fault}") from fault
        self._facts, self._facts_until = facts, self._clock.monotonic() + DOCUMENT_SECONDS
        return facts

    def _secret(self) -> str:
        named = self._settings.client_secret_file
        if not named:
            return ""
        try:
            return Path(named).expanduser().read_text().strip()
        except OSError as fault:
            raise InternalFault(f"client_secret_file cannot be read: {fault.strerror}") from fault


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Follow nothing: the provider's places are those it published."""


_OPENER = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))


async def _ask(
    url: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
) -> dict[str, Any]:
    """Return a JSON object that the provider answers with."""
    return await asyncio.to_thread(_ask_now, url, dict(headers or {}), body)


def _ask_now(url: str, headers: dict[str, str], body: bytes | None) -> dict[str, Any]:
    request = urllib.request.Request(  # noqa: S310  # https, or this machine: checked before
        url, data=body, headers={"Accept": "application/json", **headers}
    )
    try:
        with _OPENER.open(request, timeout=TIMEOUT_SECONDS) as answer:
            raw = answer.read(MAX_DOCUMENT)
    except urllib.error.HTTPError as fault:
        place = urlsplit(url).path
        raise Unauthenticated(
            f"the provider refused ({fault.code} at {place}); sign in again"
        ) from fault
    except OSError as fault:
        raise InternalFault(f"the identity provider does not answer: {fault}") from fault
    try:
        found = msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.DecodeError as fault:
        raise InternalFault("the identity provider did not answer with JSON") from fault
    return found


def _quoted(text: str) -> str:
    return urlencode({"": text})[1:]
