"""Single sign-on against a real OpenID Connect provider, as a browser goes through it."""

import base64
import hashlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.integration.server.platform import Answer, Platform, open_platform
from trackyard.core.errors import SetupError, Unauthenticated
from trackyard.server.oidc import Provider, read_oidc

GROUPS = {
    "vision-people": "vision:member",
    "leads": ["vision:maintainer", "audio:viewer"],
    "operators": "admin",
}


@dataclass
class Site:
    """The provider's address, and what our server asked it for."""

    issuer: str
    posts: list[dict[str, str]] = field(default_factory=list)

    def know(self, subject: str, **claims: Any) -> None:
        """Have the provider know a person."""
        answer = httpx.put(f"{self.issuer}/users/{subject}", json=claims)
        assert answer.is_success, answer.text


@pytest.fixture(scope="module")
def provider() -> Iterator[Site]:
    import threading

    import oidc_provider_mock
    from werkzeug.serving import make_server

    site = Site("")
    app = oidc_provider_mock.app(require_nonce=True)

    def recording(environ: dict[str, Any], start: Any) -> Any:
        if environ["PATH_INFO"].endswith("token"):
            size = int(environ.get("CONTENT_LENGTH") or 0)
            body = environ["wsgi.input"].read(size)
            import io

            environ["wsgi.input"] = io.BytesIO(body)
            site.posts.append({k: v[0] for k, v in parse_qs(body.decode()).items()})
        return app(environ, start)

    server = make_server("localhost", 0, recording, threaded=True)
    site.issuer = f"http://localhost:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield site
    server.shutdown()
    thread.join()


@pytest.fixture
async def platform(database_url: str, tmp_path: Path, provider: Site) -> AsyncIterator[Platform]:
    (tmp_path / "secret").write_text("client-secret\n")
    table = {
        "issuer": provider.issuer,
        "client_id": "trackyard",
        "client_secret_file": str(tmp_path / "secret"),
        "groups": GROUPS,
    }
    async with open_platform(database_url, tmp_path / "home", oidc=table) as found:
        yield found


@dataclass
class Browser:
    """Goes from our page to the provider's and back, keeping cookies."""

    platform: Platform
    cookie: str = ""

    async def leave(self) -> str:
        """Begin to sign in; return where the browser is sent."""
        answer = await self.platform.nobody("GET", "/api/v1/oidc/start")
        assert answer.status == 303, answer.body
        self.cookie = (answer.header("set-cookie") or "").partition(";")[0]
        return answer.header("location") or ""

    async def consent(self, address: str, subject: str) -> str:
        """Sign in at the provider; return the address the browser is sent back to."""
        async with httpx.AsyncClient() as client:
            answer = await client.post(address, data={"sub": subject})
        assert answer.status_code == 302, answer.text
        return answer.headers["location"]

    async def come_back(self, address: str) -> Answer:
        parts = urlsplit(address)
        headers = {"cookie": self.cookie} if self.cookie else {}
        return await self.platform.nobody("GET", f"{parts.path}?{parts.query}", headers=headers)

    async def sign_in(self, subject: str) -> Answer:
        return await self.come_back(await self.consent(await self.leave(), subject))


def session_of(answer: Answer) -> dict[str, str]:
    lines = [value for name, value in answer.headers if name == "set-cookie"]
    (line,) = (one for one in lines if one.startswith("yard_session="))
    assert "HttpOnly" in line
    assert "SameSite=Strict" in line
    return {"cookie": line.partition(";")[0]}


async def whoami(platform: Platform, answer: Answer) -> dict[str, Any]:
    assert answer.status == 303, answer.body
    assert answer.header("location") == "/"
    found = await platform.nobody("GET", "/api/v1/session", headers=session_of(answer))
    assert found.status == 200, found.body
    shown = found.json()
    return {
        "user": shown["user"],
        "is_admin": shown["is_admin"],
        "teams": {one["name"]: one["role"] for one in shown["teams"]},
    }


async def test_a_person_signs_in_and_groups_give_teams_and_roles(
    platform: Platform, provider: Site
) -> None:
    provider.know("s-ada", preferred_username="ada", groups=["leads", "vision-people", "golf"])
    found = await whoami(platform, await Browser(platform).sign_in("s-ada"))
    teams = {"vision": "maintainer", "audio": "viewer"}
    assert found == {"user": "ada", "is_admin": False, "teams": teams}
    assert (await platform.nobody("GET", "/api/v1/oidc")).json() == {"is_offered": True}


async def test_each_sign_in_follows_the_groups_of_that_moment(
    platform: Platform, provider: Site
) -> None:
    """A group that is gone ends the membership and the tokens held there; other teams stay."""
    provider.know("s-bob", preferred_username="bob", groups=["leads", "operators"])
    first = await Browser(platform).sign_in("s-bob")
    assert (await whoami(platform, first))["is_admin"] is True
    directory = platform.services.directory
    await directory.set_member("default", "bob", "member", actor="test")
    made = await directory.create_token(
        user="bob", team="audio", role="viewer", label="", actor="test"
    )
    provider.know("s-bob", preferred_username="robert", groups=["vision-people"])
    found = await whoami(platform, await Browser(platform).sign_in("s-bob"))
    teams = {"vision": "member", "default": "member"}
    assert found == {"user": "bob", "is_admin": False, "teams": teams}
    assert await directory.authenticate(made["token"]) is None


async def test_who_has_no_group_here_or_a_taken_name_is_let_in_nowhere(
    platform: Platform, provider: Site
) -> None:
    provider.know("s-eve", preferred_username="eve", groups=["golf"])
    refused = await Browser(platform).sign_in("s-eve")
    assert (refused.status, "oidc.groups" in refused.json()["message"]) == (403, True)
    provider.know("s-mallory", preferred_username="Admin", groups=["vision-people"])
    refused = await Browser(platform).sign_in("s-mallory")
    assert (refused.status, "link_existing" in refused.json()["message"]) == (403, True)
    provider.know("s-none", groups=["vision-people"])
    assert (await Browser(platform).sign_in("s-none")).status == 401
    users = [row["name"] for row in await platform.services.directory.users()]
    assert users == ["admin"]


async def test_who_loses_every_group_is_out_of_the_teams_they_gave(
    platform: Platform, provider: Site
) -> None:
    provider.know("s-gil", preferred_username="gil", groups=["vision-people"])
    first = await Browser(platform).sign_in("s-gil")
    await whoami(platform, first)
    provider.know("s-gil", preferred_username="gil", groups=[])
    assert (await Browser(platform).sign_in("s-gil")).status == 403
    old = await platform.nobody("GET", "/api/v1/session", headers=session_of(first))
    assert old.status == 401


async def test_a_disabled_user_stays_out(platform: Platform, provider: Site) -> None:
    provider.know("s-dan", preferred_username="dan", groups=["vision-people"])
    await whoami(platform, await Browser(platform).sign_in("s-dan"))
    await platform.services.directory.disable_user("dan", actor="test")
    assert (await Browser(platform).sign_in("s-dan")).status == 403


async def test_the_code_is_bound_to_the_browser_and_to_pkce(
    platform: Platform, provider: Site
) -> None:
    """State in another browser, a changed state, no cookie, a code used twice: refused."""
    provider.know("s-fay", preferred_username="fay", groups=["vision-people"])
    victim, thief = Browser(platform), Browser(platform)
    address = await victim.leave()
    query = {key: value[0] for key, value in parse_qs(urlsplit(address).query).items()}
    assert query["code_challenge_method"] == "S256"
    await thief.leave()
    back = await victim.consent(address, "s-fay")
    assert (await thief.come_back(back)).status == 401
    assert (await Browser(platform).come_back(back)).status == 400
    wrong = back.replace(f"state={query['state']}", "state=other")
    assert (await victim.come_back(wrong)).status == 401
    forged = Browser(platform, cookie=victim.cookie[:-4] + "AAA=")
    assert (await forged.come_back(back)).status == 400
    assert (await victim.come_back(back)).status == 303
    sent = provider.posts[-1]
    digest = hashlib.sha256(sent["code_verifier"].encode()).digest()
    assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == query["code_challenge"]
    assert (await victim.come_back(back)).status == 401


async def test_a_refusal_at_the_provider_is_told(platform: Platform, provider: Site) -> None:
    browser = Browser(platform)
    query = parse_qs(urlsplit(await browser.leave()).query)
    state = query["state"][0]
    answer = await browser.come_back(f"/api/v1/oidc/callback?error=access_denied&state={state}")
    assert (answer.status, "access_denied" in answer.json()["message"]) == (401, True)


@pytest.mark.parametrize(
    "change",
    [
        {"iss": "http://localhost:1"},
        {"aud": "another"},
        {"aud": ["trackyard", "another"]},
        {"exp": 1},
        {"nonce": "another"},
        {"nonce": None},
        {"sub": None},
        {"alg": "none"},
        {"alg": "HS256"},
        {"key": "another"},
    ],
    ids=str,
)
async def test_an_id_token_that_is_not_ours_is_refused(
    platform: Platform, provider: Site, change: dict[str, Any]
) -> None:
    """Of another issuer, for another program, expired, replayed, or signed by anybody."""
    settings = read_oidc({"issuer": provider.issuer, "client_id": "trackyard"})
    assert settings is not None
    clock = platform.services.clock
    ours = Provider(settings, redirect_url="http://localhost/x", clock=clock)
    key = RSAKey.generate_key(2048, {"kid": "k1"})
    from joserfc.jwk import KeySet

    ours._keys, ours._keys_asked = KeySet([key]), clock.monotonic()
    now = clock.time_ms() // 1000
    claims: dict[str, Any] = {
        "iss": provider.issuer, "aud": "trackyard", "sub": "s", "nonce": "n",
        "iat": now, "exp": now + 300,
    }  # fmt: skip
    header: dict[str, Any] = {"alg": "RS256", "kid": "k1"}
    assert (await ours._checked(jwt.encode(header, claims, key), "n"))["sub"] == "s"
    signer: Any = key
    if "alg" in change:
        header["alg"] = change["alg"]
        text = base64.urlsafe_b64encode(b'{"alg":"%s"}' % change["alg"].encode()).decode()
        body = jwt.encode({"alg": "RS256", "kid": "k1"}, claims, key).split(".")[1]
        token = f"{text.rstrip('=')}.{body}."
    elif "key" in change:
        signer = RSAKey.generate_key(2048, {"kid": "k1"})
        token = jwt.encode(header, claims, signer)
    else:
        claims.update(change)
        claims = {name: value for name, value in claims.items() if value is not None}
        token = jwt.encode(header, claims, signer)
    with pytest.raises(Unauthenticated):
        await ours._checked(token, "n")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"issuer": "http://id.example.com", "client_id": "x"}, "https"),
        ({"issuer": "https://id.example.com"}, "client_id"),
        ({"issuer": "https://id.example.com", "client_id": "x", "colour": "red"}, "colour"),
        (
            {"issuer": "https://id.example.com", "client_id": "x", "groups": {"a": "vision"}},
            "team:role",
        ),
    ],
)
def test_wrong_settings_are_refused_at_the_start(table: dict[str, Any], words: str) -> None:
    with pytest.raises(SetupError) as refused:
        read_oidc(table)
    assert words in f"{refused.value.message} {refused.value.hint}"
