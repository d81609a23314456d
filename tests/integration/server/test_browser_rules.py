"""Hosts, origins, cookies and CSRF: what a hostile page could try, and what it gets."""

import zlib

import pytest

from tests.integration.server.platform import HOST, Caller, Headers, Platform, Proto, Scope
from trackyard.server.access import AccessGate
from trackyard.server.app import Application
from trackyard.server.http.messages import Request

CREATE = ("POST", "/api/2.0/mlflow/experiments/create")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.",
        "127.0.0.1:80:80",
        "127.0.0.1:abc",
        "",
        "0.0.0.0",
        "127.1",
    ],
)
async def test_foreign_hosts_are_refused(platform: Platform, host: str) -> None:
    """A name that is not ours is 403, on open routes too."""
    answer = await platform.admin("GET", "/health", headers={"host": host})
    assert answer.status == 403
    answer = await platform.admin("GET", "/api/v1/session", headers={"host": host})
    assert answer.status == 403


async def test_a_missing_or_doubled_host_is_refused(platform: Platform) -> None:
    """Exactly one Host line is needed."""
    twice = [("host", "127.0.0.1:8000"), ("host", "evil.example")]
    assert (await platform.nobody("GET", "/health", headers=twice)).status == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:8001"},
        {"origin": "file://127.0.0.1:8000"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "user-agent": "curl/8"},
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_foreign_pages_change_nothing(
    platform: Platform, headers: dict[str, str], method: str
) -> None:
    """Any method but GET and HEAD is refused from another origin, with no CORS header."""
    answer = await platform.admin(method, CREATE[1], {"name": "x"}, headers=headers)
    assert answer.status == 403
    assert answer.header("access-control-allow-origin") is None


async def test_a_foreign_page_hears_no_events(platform: Platform) -> None:
    """The stream of events is closed to pages of other origins, whatever they carry along."""
    for headers in ({"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}):
        answer = await platform.admin("GET", "/api/v1/stream", headers=headers)
        assert answer.status == 403
        assert answer.header("access-control-allow-origin") is None
    assert (await platform.nobody("GET", "/api/v1/stream")).status == 401


async def test_our_own_page_may_write(platform: Platform) -> None:
    """The same request from our own origin is served."""
    own = {"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}
    assert (await platform.admin(*CREATE, {"name": "x"}, headers=own)).status == 200


@pytest.mark.parametrize(
    "kind", ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x"]
)
async def test_forms_are_not_json(platform: Platform, kind: str) -> None:
    """A body a web form can send is 400 from MLflow's calls, 415 from ours."""
    answer = await platform.admin(*CREATE, {"name": "x"}, headers={"content-type": kind})
    assert answer.status == 400
    answer = await platform.admin(
        "POST", "/api/v1/teams", {"name": "x"}, headers={"content-type": kind}
    )
    assert answer.status == 415


async def _signed_in(platform: Platform) -> tuple[dict[str, str], str]:
    code = await platform.services.sessions.new_code(1)
    answer = await platform.nobody("POST", "/api/v1/session", {"code": code})
    assert answer.status == 200
    cookie = answer.header("set-cookie") or ""
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    return {"cookie": cookie.partition(";")[0]}, answer.json()["csrf"]


async def test_a_session_needs_its_csrf_token_to_write(platform: Platform) -> None:
    """A cookie alone reads; it writes only with the session's CSRF token."""
    cookie, csrf = await _signed_in(platform)
    page = Caller(platform.application)
    assert (await page("GET", "/api/v1/session", headers=cookie)).json()["user"] == "admin"
    assert (await page(*CREATE, {"name": "a"}, headers=cookie)).status == 403
    wrong = {**cookie, "x-csrf-token": "guess"}
    assert (await page(*CREATE, {"name": "a"}, headers=wrong)).status == 403
    right = {**cookie, "x-csrf-token": csrf}
    assert (await page(*CREATE, {"name": "a"}, headers=right)).status == 200


async def test_a_sign_in_code_works_once(platform: Platform) -> None:
    """The second use of a one-time address is 401."""
    code = await platform.services.sessions.new_code(1)
    first = await platform.nobody("POST", "/api/v1/session", {"code": code})
    second = await platform.nobody("POST", "/api/v1/session", {"code": code})
    assert (first.status, second.status) == (200, 401)


async def test_signing_out_ends_the_session(platform: Platform) -> None:
    """After sign-out the cookie opens nothing."""
    cookie, csrf = await _signed_in(platform)
    page = Caller(platform.application)
    gone = await page("DELETE", "/api/v1/session", headers={**cookie, "x-csrf-token": csrf})
    assert gone.status == 200
    assert (await page("GET", "/api/v1/session", headers=cookie)).status == 401


async def test_guessing_at_one_account_locks_nobody_else_out(platform: Platform) -> None:
    """Ten bad sign-ins at an address hold up the account they were for, and no other there."""
    member = await platform.caller("max", "default", "member")
    guess = forged((member.token or "").split("_")[1])
    for wrong in ({"token": guess}, {"code": "wrong"}):
        answers = [await platform.nobody("POST", "/api/v1/session", wrong) for _ in range(12)]
        assert [answers[0].status, answers[-1].status] == [401, 429], wrong
    held = await platform.nobody("POST", "/api/v1/session", {"token": member.token})
    assert held.status == 429
    admin = await platform.nobody("POST", "/api/v1/session", {"token": platform.admin.token})
    assert admin.status == 200
    code = (await platform.admin("POST", "/api/v1/session/codes", {})).json()["code"]
    assert (await platform.nobody("POST", "/api/v1/session", {"code": code})).status == 200


def forged(token_id: str) -> str:
    """Return a token that looks like one of ours and is none."""
    body = f"yard_{token_id}_{'x' * 43}"
    return f"{body}{zlib.crc32(body.encode()):08x}"


async def test_guessing_is_slowed(platform: Platform) -> None:
    """After ten failed sign-ins a peer waits, and is told for how long."""
    wrong = {"token": "wrong"}
    answers = [await platform.nobody("POST", "/api/v1/session", wrong) for _ in range(12)]
    assert answers[0].status == 401
    assert answers[-1].status == 429
    assert int(answers[-1].header("retry-after") or 0) > 0


async def test_a_revoked_token_ends_at_once(platform: Platform) -> None:
    """Revocation holds for the very next request."""
    member = await platform.caller("max", "default", "member")
    assert (await member("GET", "/api/v1/session")).status == 200
    token_id = (member.token or "").split("_")[1]
    assert (await platform.admin("DELETE", f"/api/v1/tokens/{token_id}")).status == 200
    assert (await member("GET", "/api/v1/session")).status == 401


async def test_a_disabled_user_is_shut_out(platform: Platform) -> None:
    """Disabling a user ends the user's tokens and sessions."""
    member = await platform.caller("max", "default", "member")
    opened = await platform.nobody("POST", "/api/v1/session", {"token": member.token})
    cookie = {"cookie": (opened.header("set-cookie") or "").partition(";")[0]}
    assert (await platform.nobody("GET", "/api/v1/session", headers=cookie)).status == 200
    change = {"disabled": True}
    assert (await platform.admin("PATCH", "/api/v1/users/max", change)).status == 200
    assert (await member("GET", "/api/v1/session")).status == 401
    assert (await platform.nobody("GET", "/api/v1/session", headers=cookie)).status == 401


async def test_nobody_raises_their_own_role(platform: Platform) -> None:
    """A member cannot issue a stronger token, join as owner or touch another team."""
    member = await platform.caller("max", "default", "member")
    assert (await member("POST", "/api/v1/tokens", {"role": "owner"})).status == 403
    assert (await member("POST", "/api/v1/tokens", {"user": "admin"})).status == 403
    owner = await platform.caller("olga", "other", "owner")
    path = "/api/v1/teams/default/members/olga"
    assert (await owner("PUT", path, {"role": "owner"})).status == 403
    assert (await owner("POST", "/api/v1/users", {"name": "new"})).status == 403


async def test_the_first_credential_decides(platform: Platform) -> None:
    """A wrong Authorization header is not rescued by a valid one behind it."""
    good = platform.admin.token
    headers = {"authorization": "Bearer wrong", "x-ray-authorization": f"Bearer {good}"}
    assert (await platform.nobody("GET", "/api/v1/session", headers=headers)).status == 401
    ray = {"x-ray-authorization": f"Bearer {good}"}
    assert (await platform.nobody("GET", "/api/v1/session", headers=ray)).status == 200


async def test_basic_auth_takes_the_token_as_password(platform: Platform) -> None:
    """MLflow's username and password carry the token."""
    import base64

    pair = base64.b64encode(f"anyone:{platform.admin.token}".encode()).decode()
    answer = await platform.nobody(
        "GET", "/api/v1/session", headers={"authorization": f"Basic {pair}"}
    )
    assert answer.status == 200


@pytest.mark.parametrize(
    ("peer", "lines", "address"),
    [
        ("10.0.0.7:1", ["203.0.113.9"], "203.0.113.9"),
        ("10.0.0.7:1", ["1.2.3.4, 203.0.113.9"], "203.0.113.9"),
        ("10.0.0.7:1", ["1.2.3.4, 203.0.113.9, 192.168.4.3"], "203.0.113.9"),
        ("10.0.0.7:1", ["1.2.3.4", "203.0.113.9:4711"], "203.0.113.9"),
        ("10.0.0.7:1", ["[2001:db8::9]:5"], "2001:db8::9"),
        ("10.0.0.7:1", ["::ffff:203.0.113.9"], "203.0.113.9"),
        ("10.0.0.7:1", ["203.0.113.9, nonsense"], "10.0.0.7"),
        ("10.0.0.7:1", ["192.168.4.3, 192.168.4.4"], "192.168.4.3"),
        ("10.0.0.7:1", [], "10.0.0.7"),
        ("127.0.0.1:1", ["203.0.113.9"], "127.0.0.1"),
        ("203.0.113.1:1", ["10.0.0.7"], "203.0.113.1"),
    ],
)
async def test_a_named_proxy_tells_the_callers_address_and_nobody_else_does(
    platform: Platform, peer: str, lines: list[str], address: str
) -> None:
    """The rightmost address that is no proxy of ours; what stands left of it anyone may write."""
    services = platform.services
    gate = AccessGate(
        directory=services.directory,
        sessions=services.sessions,
        clock=services.clock,
        hosts=frozenset({"127.0.0.1"}),
        proxies=("10.0.0.7", "192.168.4.0/24"),
    )
    headers = Headers([("host", HOST), *(("x-forwarded-for", line) for line in lines)])
    request = Request(Scope("GET", "/health", "", headers, client=peer), Proto(b""))
    assert gate.address_of(request) == address


async def test_behind_a_proxy_nobody_else_is_heard(platform: Platform) -> None:
    """With proxies named, only they and this machine may speak to the server in the clear."""
    services = platform.services
    gate = AccessGate(
        directory=services.directory,
        sessions=services.sessions,
        clock=services.clock,
        hosts=frozenset({"127.0.0.1"}),
        proxies=("10.0.0.7", "192.168.4.0/24"),
    )
    application = Application(platform.application.router, gate)
    for peer, status in {
        "10.0.0.7:4000": 200,
        "192.168.4.200:1": 200,
        "[::ffff:10.0.0.7]:9": 200,
        "127.0.0.1:9": 200,
        "[::1]:9": 200,
        "10.0.0.8:4000": 403,
        "192.168.5.1:1": 403,
        "[2001:db8::1]:9": 403,
        "nonsense": 403,
    }.items():
        proto = Proto(b"")
        scope = Scope("GET", "/health", "", Headers([("host", HOST)]), client=peer)
        await application(scope, proto)
        assert proto.answer.status == status, peer


async def _session_of(platform: Platform, token: str | None) -> tuple[int, dict[str, str], str]:
    """Trade a token for a session; return the status, its headers to write with, and a code."""
    opened = await platform.nobody("POST", "/api/v1/session", {"token": token})
    if opened.status != 200:
        return opened.status, {}, ""
    cookie = (opened.header("set-cookie") or "").partition(";")[0]
    headers = {"cookie": cookie, "x-csrf-token": opened.json()["csrf"]}
    code = await platform.nobody("POST", "/api/v1/session/codes", {}, headers=headers)
    return opened.status, headers, code.json()["code"]


async def test_a_session_is_no_stronger_than_the_token_that_opened_it(platform: Platform) -> None:
    """Signing in with a narrow token, or with a code made by it, gives no more than the token."""
    narrow = await platform.admin("POST", "/api/v1/tokens", {"role": "viewer"})
    assert narrow.status == 200
    status, headers, code = await _session_of(platform, narrow.json()["token"])
    assert status == 200
    again = await platform.nobody("POST", "/api/v1/session", {"code": code})
    cookie = (again.header("set-cookie") or "").partition(";")[0]
    for one in (headers, {"cookie": cookie, "x-csrf-token": again.json()["csrf"]}):
        page = Caller(platform.application)
        me = (await page("GET", "/api/v1/session", headers=one)).json()
        assert (me["role"], me["is_admin"]) == ("viewer", False)
        assert (await page(*CREATE, {"name": "x"}, headers=one)).status == 403
        assert (await page("GET", "/api/v1/users", headers=one)).status == 403


async def test_a_users_own_token_opens_all_the_users_teams_and_ends_its_sessions(
    platform: Platform,
) -> None:
    """One sign-in serves every team, with the role held there; revoking the token ends it."""
    await platform.caller("max", "other", "owner")
    member = await platform.caller("max", "default", "member")
    status, headers, _ = await _session_of(platform, member.token)
    assert status == 200
    page = Caller(platform.application)
    me = (await page("GET", "/api/v1/session", headers=headers)).json()
    assert (me["team"], me["role"]) == ("default", "member")
    assert {team["name"] for team in me["teams"]} == {"default", "other"}
    elsewhere = {**headers, "x-yard-team": "other"}
    me = (await page("GET", "/api/v1/session", headers=elsewhere)).json()
    assert (me["team"], me["role"]) == ("other", "owner")
    token_id = (member.token or "").split("_")[1]
    assert (await platform.admin("DELETE", f"/api/v1/tokens/{token_id}")).status == 200
    assert (await page("GET", "/api/v1/session", headers=headers)).status == 401


async def test_a_token_that_another_issued_opens_its_team_alone(platform: Platform) -> None:
    """Who owns one team cannot reach a member's other teams, not even by a token of a token."""
    await platform.caller("max", "default", "owner")
    owner = await platform.caller("olga", "other", "owner")
    assert (
        await owner("PUT", "/api/v1/teams/other/members/max", {"role": "member"})
    ).status == 200
    made = await owner("POST", "/api/v1/tokens", {"user": "max", "role": "member"})
    first = made.json()["token"]
    second = await Caller(platform.application, first)("POST", "/api/v1/tokens", {})
    _, headers, _ = await _session_of(platform, first)
    third = await Caller(platform.application)("POST", "/api/v1/tokens", {}, headers=headers)
    for token in (first, second.json()["token"], third.json()["token"]):
        status, headers, _ = await _session_of(platform, token)
        assert status == 200
        page = Caller(platform.application)
        me = (await page("GET", "/api/v1/session", headers=headers)).json()
        assert (me["team"], me["role"]) == ("other", "member")
        assert [team["name"] for team in me["teams"]] == ["other"]
        elsewhere = {**headers, "x-yard-team": "default"}
        assert (await page("GET", "/api/v1/session", headers=elsewhere)).status == 401


async def test_an_admins_token_opens_every_team(platform: Platform) -> None:
    """A full token of an admin gives a session that may act for any team."""
    await platform.caller("olga", "other", "owner")
    status, headers, _ = await _session_of(platform, platform.admin.token)
    assert status == 200
    page = Caller(platform.application)
    me = (await page("GET", "/api/v1/session", headers={**headers, "x-yard-team": "other"})).json()
    assert (me["team"], me["is_admin"]) == ("other", True)


async def test_a_feeds_token_signs_nobody_in(platform: Platform) -> None:
    """The token of a calendar program cannot be traded for a session."""
    made = await platform.admin("POST", "/api/v1/leases/feed", {})
    assert (await _session_of(platform, made.json()["token"]))[0] == 401


async def test_owners_issue_tokens_for_their_members_alone(platform: Platform) -> None:
    """A team's owner makes no token for an outsider, and none that acts as a platform admin."""
    owner = await platform.caller("olga", "other", "owner")
    await platform.caller("max", "default", "member")
    for user in ("admin", "max"):
        for role in ("viewer", "owner"):
            answer = await owner("POST", "/api/v1/tokens", {"user": user, "role": role})
            assert answer.status == 403, (user, role, answer.body)
    # An admin who joins the team stays out of its owner's reach.
    join = {"role": "member"}
    assert (await owner("PUT", "/api/v1/teams/other/members/admin", join)).status == 200
    wish = {"user": "admin", "role": "owner"}
    assert (await owner("POST", "/api/v1/tokens", wish)).status == 403
    assert (await owner("PUT", "/api/v1/teams/other/members/max", join)).status == 200
    wish = {"user": "max", "role": "member"}
    assert (await owner("POST", "/api/v1/tokens", wish)).status == 200


async def test_names_of_people_and_teams_have_one_spelling(platform: Platform) -> None:
    """No second name looks like a first one: by case, form, space, slash or control character."""
    admin = platform.admin
    assert (await admin("POST", "/api/v1/users", {"name": "Ada"})).status == 200
    for name in ("ada", "ADA", "Admin", "\uff41da", " ada", "a/da", "a:da", "a%64a", "a\nda", ""):
        answer = await admin("POST", "/api/v1/users", {"name": name})
        assert answer.status == 400, (name, answer.body)
    for name in ("Default", "DEFAULT", "default", "\uff44efault", "de fault", "a/b", "a:b", "a\n"):
        answer = await admin("POST", "/api/v1/teams", {"name": name})
        assert answer.status == 400, (name, answer.body)
    assert (await admin("POST", "/api/v1/tokens", {"label": "a\x1b[2Jb"})).status == 400
