"""A token issued with another never outlives or exceeds it, and ends with it."""

import pytest

from tests.integration.server.platform import Caller, Platform

DAY_MS = 86_400_000


async def issue(platform: Platform, caller: Caller, **wish: object) -> Caller:
    """Have a caller issue a token; return who holds it."""
    answer = await caller("POST", "/api/v1/tokens", wish)
    assert answer.status == 200, answer.body
    return Caller(platform.application, answer.json()["token"])


def id_of(caller: Caller) -> str:
    return (caller.token or "").split("_")[1]


async def works(platform: Platform, caller: Caller) -> bool:
    platform.services.gate.forget()
    return (await caller("GET", "/api/v1/session")).status == 200


async def test_a_days_token_issues_no_endless_one(platform: Platform) -> None:
    day = await issue(platform, platform.admin, days=1, role="owner")
    now = platform.services.database.clock.time_ms()
    for days in (None, 90, 3650):
        made = await day("POST", "/api/v1/tokens", {"days": days})
        assert made.status == 200
        assert made.json()["parent_id"] == id_of(day)
        assert now < made.json()["expires_ms"] <= now + DAY_MS + 60_000
    feed = await day("POST", "/api/v1/leases/feed", {})
    listed = (await platform.admin("GET", "/api/v1/tokens")).json()["tokens"]
    ends = {row["id"]: row["expires_ms"] for row in listed}
    assert ends[feed.json()["id"]] == ends[id_of(day)]


async def test_a_session_issues_nothing_that_outlives_its_token(platform: Platform) -> None:
    day = await issue(platform, platform.admin, days=1)
    opened = await platform.nobody("POST", "/api/v1/session", {"token": day.token})
    cookie = (opened.header("set-cookie") or "").partition(";")[0]
    headers = {"cookie": cookie, "x-csrf-token": opened.json()["csrf"]}
    made = await platform.nobody("POST", "/api/v1/tokens", {"days": None}, headers=headers)
    assert made.json()["parent_id"] == id_of(day)
    assert made.json()["expires_ms"] is not None


async def test_revoking_a_token_ends_all_below_it_and_their_sessions(platform: Platform) -> None:
    """Also those for other users, and sessions opened by a grandchild; siblings go on."""
    await platform.caller("max", "default", "member")
    root = await issue(platform, platform.admin, role="owner")
    child = await issue(platform, root, role="owner")
    grandchild = await issue(platform, child, user="max", role="member")
    sibling = await issue(platform, platform.admin, role="member")
    opened = await platform.nobody("POST", "/api/v1/session", {"token": grandchild.token})
    cookie = {"cookie": (opened.header("set-cookie") or "").partition(";")[0]}
    assert (await platform.nobody("GET", "/api/v1/session", headers=cookie)).status == 200
    assert (await platform.admin("DELETE", f"/api/v1/tokens/{id_of(root)}")).status == 200
    for gone in (root, child, grandchild):
        assert not await works(platform, gone)
    assert (await platform.nobody("GET", "/api/v1/session", headers=cookie)).status == 401
    assert await works(platform, sibling)
    assert await works(platform, platform.admin)
    told = (await platform.admin("GET", "/api/v1/events?kind=token.revoked&scope=all")).json()[
        "events"
    ]
    assert told[0]["data"]["children"] == 2


async def test_what_weakens_the_issuer_weakens_what_was_issued(platform: Platform) -> None:
    """An owner who becomes a viewer leaves no maintainer's token behind; nor does one who is
    shut out or leaves.
    """
    directory = platform.services.directory
    olga = await platform.caller("olga", "default", "owner")
    await platform.caller("max", "default", "maintainer")
    child = await issue(platform, olga, user="max", role="maintainer")
    assert (await child("GET", "/api/v1/session")).json()["role"] == "maintainer"
    await directory.set_member("default", "olga", "viewer", actor="test")
    platform.services.gate.forget()
    assert (await child("GET", "/api/v1/session")).json()["role"] == "viewer"
    await directory.disable_user("olga", actor="test")
    assert not await works(platform, child)
    await directory.disable_user("olga", actor="test", disabled=False)
    assert await works(platform, child)
    await directory.remove_member("default", "olga", actor="test")
    assert not await works(platform, child)


async def test_a_chain_of_tokens_has_an_end(platform: Platform) -> None:
    caller = platform.admin
    for _ in range(40):
        answer = await caller("POST", "/api/v1/tokens", {"role": "owner"})
        if answer.status != 200:
            break
        caller = Caller(platform.application, answer.json()["token"])
    assert answer.status == 403
    assert "earlier token" in answer.json()["message"]
    assert await works(platform, caller)


@pytest.mark.parametrize("parent", [None, "gone000000"])
async def test_tokens_of_before_are_roots_and_a_lost_parent_opens_nothing(
    platform: Platform, parent: str | None
) -> None:
    """A token without a parent goes on as before; one whose parent is not there is over."""
    member = await platform.caller("max", "default", "member")
    await platform.services.database.write(
        lambda tx: tx.run("UPDATE tokens SET parent_id = ? WHERE id = ?", (parent, id_of(member)))
    )
    assert await works(platform, member) is (parent is None)
