"""Tickets, by which a runner gets its credential through a cluster that others can read."""

from tests.integration.server.platform import Platform, refused
from tests.integration.server.test_fuzz import Ground, prepared

EPOCH = {"x-yard-epoch": "1", "content-type": "application/json"}


async def traded(ground: Ground, claim: str) -> tuple[int, str]:
    path = f"/api/v1/attempts/{ground.known[4]}/key"
    answer = await ground.ticket("POST", path, {"claim": claim}, headers=EPOCH)
    return answer.status, answer.json().get("key", "")


async def test_a_ticket_is_traded_once(platform: Platform) -> None:
    """Who lost the answer may ask again; whoever else asks is refused, and there is an event."""
    ground = await prepared(platform)
    status, key = await traded(ground, "mine")
    assert (status, len(key)) == (200, 64)
    assert await traded(ground, "mine") == (200, key)
    assert await traded(ground, "other") == (409, "")
    told = await platform.admin("GET", f"/api/v1/events?subject_id={ground.known[2]}&limit=100")
    kinds = [event["kind"] for event in told.json()["events"]]
    assert kinds.count("attempt.ticket_refused") == 1
    assert await traded(ground, "mine") == (200, key)


async def test_a_ticket_opens_nothing_else_and_nothing_else_trades_it(platform: Platform) -> None:
    ground = await prepared(platform)
    for route in platform.application.router.routes:
        if route.tickets or route.websocket or route.permission == 0:
            continue
        path = route.path.replace("{attempt}", ground.known[4])
        answer = await ground.ticket(route.method, path.replace("{", "").replace("}", ""), {})
        assert answer.status == 403, route.label
    path = f"/api/v1/attempts/{ground.known[4]}/key"
    for caller in (ground.runner, ground.command, platform.admin):
        answer = await caller("POST", path, {"claim": "x"}, headers=EPOCH)
        assert answer.status in (403, 404), answer.body
    assert (await platform.nobody("POST", path, {"claim": "x"}, headers=EPOCH)).status == 401


async def test_a_ticket_ends_with_its_attempt(platform: Platform) -> None:
    ground = await prepared(platform)
    stopped = await platform.admin("POST", f"/api/v1/jobs/{ground.known[2]}/stop", {})
    assert stopped.status == 200
    exit_ = {
        "attempt_id": ground.known[4],
        "epoch": 1,
        "cause": "stopped",
        "sentence": "ended",
        "started_ms": 1,
        "ended_ms": 2,
        "duration_seconds": 1.0,
    }
    path = f"/api/v1/attempts/{ground.known[4]}"
    assert (await ground.runner("POST", f"{path}/exit", exit_, headers=EPOCH)).status == 200
    answer = await ground.ticket("POST", f"{path}/key", {"claim": "late"}, headers=EPOCH)
    refused(answer, 401, 409)
