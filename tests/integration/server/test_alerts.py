"""Alerts on both databases: rules over what really happens, incidents, messages and inboxes."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.server.platform import Caller, Platform, new_run, open_platform, refused
from tests.integration.server.receiving import Hook, MailServer, open_hook
from trackyard.control.leader import Superseded
from trackyard.notify.alerts import loop as loops
from trackyard.outbound import retries
from trackyard.store.database import Tx

OPEN = {"outbound_allow": ("127.0.0.0/8",), "outbound_http": True}


@pytest.fixture
def hook() -> Iterator[Hook]:
    with open_hook() as found:
        yield found


@pytest.fixture
async def yard(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Platform]:
    """A platform that leads and calls this machine; passes over its alerts are asked for."""
    monkeypatch.setattr(loops, "FULL_SECONDS", 1e-6)
    async with open_platform(database_url, tmp_path / "home", **OPEN) as found:
        await lead(found)
        await judge(found)
        yield found
        await found.services.alerts.outbox.stop()


async def lead(found: Platform) -> None:
    scheduler = found.services.jobs.scheduler
    await found.services.database.write(scheduler.leadership.claim)
    scheduler.is_leader = True


async def judge(found: Platform) -> None:
    """Pass over the rules until nothing is left to read."""
    while await found.services.alert_loop.step() == 0.0:
        pass


async def send(found: Platform) -> None:
    """Send all that is due."""
    outbox = found.services.alerts.outbox
    async with asyncio.timeout(120):
        while await outbox.step() <= 0.05 or outbox._sending:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def ask(caller: Caller, method: str, path: str, body: Any = None) -> Any:
    answer = await caller(method, f"/api/v1/{path}", body)
    assert answer.status == 200, (answer.status, answer.body)
    return answer.json()


async def add(caller: Caller, text: str, **more: Any) -> Any:
    return await ask(caller, "POST", "alerts", {"text": text, "group_seconds": 0, **more})


async def log(caller: Caller, run: str, value: float | str, step: int = 0) -> None:
    body = {"run_id": run, "key": "loss", "value": value, "timestamp": 1 + step, "step": step}
    answer = await caller.mlflow("POST", "runs/log-metric", body)
    assert answer.status == 200, answer.body


async def happen(found: Platform, kind: str, subject: str, subject_id: str, **data: Any) -> None:
    """Write an event as any part of the platform would."""

    def operation(tx: Tx) -> None:
        team = tx.one("SELECT id FROM teams ORDER BY id LIMIT 1")
        assert team is not None
        tx.run(
            "INSERT INTO events (time_ms, team_id, actor, kind, subject, subject_id, data)"
            " VALUES (?, ?, 'ada', ?, ?, ?, ?)",
            (
                tx.now_ms,
                None if subject == "node" else team[0],
                kind,
                subject,
                subject_id,
                json.dumps(data),
            ),
        )

    await found.services.database.write(operation)


async def incidents(caller: Caller, query: str = "") -> list[Any]:
    found: list[Any] = (await ask(caller, "GET", f"incidents{query}"))["incidents"]
    return found


async def test_a_threshold_opens_one_incident_and_resolves_it(yard: Platform, hook: Hook) -> None:
    await ask(
        yard.admin,
        "POST",
        "alert-channels",
        {"name": "ops", "kind": "webhook", "target": hook.url, "secret": "k"},
    )
    await add(yard.admin, "loss > 10 via ops")
    run = await new_run(yard.admin)
    await log(yard.admin, run, 3.0)
    await judge(yard)
    assert await incidents(yard.admin) == []
    for step in (1, 2):
        await log(yard.admin, run, 12.0 + step, step)
        await judge(yard)
    [incident] = await incidents(yard.admin)
    assert incident["sentence"] == "loss is 13 (> 10) at step 1."
    await log(yard.admin, run, 4.0, 3)
    await judge(yard)
    [incident] = await incidents(yard.admin)
    assert incident["state"] == "resolved"
    await send(yard)
    assert [body["event"] for body in hook.bodies()] == ["alert.opened", "alert.resolved"]
    headers, body = hook.calls[0]
    signed = f"{headers['x-yard-delivery']}.{headers['x-yard-timestamp']}.{body.decode()}"
    digest = hmac.new(b"k", signed.encode(), hashlib.sha256).digest()
    assert headers["x-yard-signature"] == f"v1,{base64.b64encode(digest).decode()}"
    book = await ask(yard.admin, "GET", f"runs/{run}/logbook?kind=alert")
    fired, resolved = [entry["sentence"] for entry in book["entries"]]
    assert fired.startswith('Alert "loss > 10" fired for ')
    assert resolved.startswith('Alert "loss > 10" for ')
    assert [lane["name"] for lane in book["lanes"] if lane["name"] == "Alerts"] == ["Alerts"]


async def test_a_server_that_dies_anywhere_opens_no_incident_twice(
    yard: Platform, hook: Hook, database_url: str, tmp_path: Path
) -> None:
    """Whoever leads next knows what was judged, and sends what was not sent."""
    channel = {"name": "ops", "kind": "webhook", "target": hook.url}
    await ask(yard.admin, "POST", "alert-channels", channel)
    await add(yard.admin, "loss > 10 via ops")
    run = await new_run(yard.admin)
    await log(yard.admin, run, 50.0)
    await judge(yard)  # fired, and nothing sent: the server dies here
    key = yard.services.settings.secrets_key_path
    more = {**OPEN, "secrets_key": str(key)}
    async with open_platform(database_url, tmp_path / "next", **more) as after:
        await after.services.database.write(_expire)
        await lead(after)
        await log(yard.admin, run, 51.0, 1)
        await judge(after)
        assert len(await incidents(yard.admin)) == 1
        # The one that comes back does not lead any more, and changes nothing.
        await log(yard.admin, await new_run(yard.admin), 52.0)
        with pytest.raises(Superseded):
            await judge(yard)
        assert len(await incidents(yard.admin)) == 1
        await send(after)
        await after.services.alerts.outbox.stop()
    [body] = hook.bodies()
    assert body["incidents"][0]["subject"]["id"] == run


def _expire(tx: Tx) -> None:
    tx.run("UPDATE leaders SET expires_ms = 0")


async def test_only_the_leader_judges(yard: Platform) -> None:
    await add(yard.admin, "loss > 10")
    yard.services.jobs.scheduler.is_leader = False
    await log(yard.admin, await new_run(yard.admin), 50.0)
    await judge(yard)
    assert await incidents(yard.admin) == []


async def test_a_claim_of_a_dead_sender_is_taken_up_again(yard: Platform, hook: Hook) -> None:
    channel = {"name": "ops", "kind": "webhook", "target": hook.url}
    await ask(yard.admin, "POST", "alert-channels", channel)
    await add(yard.admin, "state failed via ops")
    run = await new_run(yard.admin)
    await judge(yard)
    await yard.admin.mlflow("POST", "runs/update", {"run_id": run, "status": "FAILED"})
    await judge(yard)

    def died(tx: Tx) -> None:
        tx.run("UPDATE alert_deliveries SET state = 'sending', next_ms = 0")

    await yard.services.database.write(died)
    await send(yard)
    [body] = hook.bodies()
    assert body["incidents"][0]["sentence"] == "It failed."


async def test_a_failed_delivery_is_tried_again_and_listed(
    yard: Platform, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "WAITS", (0.0,) * 6)
    hook.plan = [(503, ""), (500, "")]
    channel = {"name": "ops", "kind": "slack", "target": hook.url}
    await ask(yard.admin, "POST", "alert-channels", channel)
    await add(yard.admin, "nan via ops")
    run = await new_run(yard.admin)
    await log(yard.admin, run, "NaN")
    await judge(yard)
    await send(yard)
    assert len(hook.calls) == 3
    assert "loss" not in hook.bodies()[0]["text"].split("\n")[0]
    [delivery] = (await ask(yard.admin, "GET", "alert-deliveries"))["deliveries"]
    assert (delivery["state"], delivery["tries"], delivery["channel_kind"]) == (
        "delivered",
        3,
        "slack",
    )


async def test_many_incidents_of_a_rule_are_one_message(yard: Platform, hook: Hook) -> None:
    channel = {"name": "ops", "kind": "teams", "target": hook.url}
    await ask(yard.admin, "POST", "alert-channels", channel)
    await add(yard.admin, "loss > 10 via ops", group_seconds=3600)
    for _ in range(12):
        await log(yard.admin, await new_run(yard.admin), 50.0)
    await judge(yard)

    def due(tx: Tx) -> None:
        tx.run("UPDATE alert_deliveries SET next_ms = 0")

    await yard.services.database.write(due)
    await send(yard)
    [body] = hook.bodies()
    card = body["attachments"][0]["content"]["body"]
    assert "and 11 more" in card[0]["text"]
    assert card[-1]["text"].startswith("and 2 more")


async def test_within_its_cooldown_an_incident_is_counted_and_not_told_again(
    yard: Platform,
) -> None:
    await add(yard.admin, "node quarantined,lost")
    for _ in range(2):
        await happen(yard, "node.quarantined", "node", "g1", sentence="ECC errors")
        await happen(yard, "node.unquarantined", "node", "g1")
        await judge(yard)
    [incident] = await incidents(yard.admin)
    assert (incident["times"], incident["state"]) == (2, "resolved")
    assert len((await ask(yard.admin, "GET", "inbox"))["lines"]) == 1


async def test_nobody_who_acknowledges_is_escalated(yard: Platform, hook: Hook) -> None:
    channel = {"name": "night", "kind": "webhook", "target": hook.url}
    await ask(yard.admin, "POST", "alert-channels", channel)
    for scope in ("g1", "g2"):
        await happen(yard, "node.joined", "node", scope)
    more = {"escalate_seconds": 0.001, "escalate_via": ["night"]}
    await add(yard.admin, "node lost", **more)
    await happen(yard, "node.lost", "node", "g1")
    await judge(yard)
    await asyncio.sleep(0.01)
    await judge(yard)
    await judge(yard)
    await send(yard)
    assert [body["event"] for body in hook.bodies()] == ["alert.escalated"]
    [rule] = (await ask(yard.admin, "GET", "alerts"))["rules"]
    await ask(yard.admin, "DELETE", f"alerts/{rule['id']}")
    await add(yard.admin, "node lost", escalate_seconds=3600, escalate_via=["night"])
    await happen(yard, "node.lost", "node", "g2")
    await judge(yard)
    newest = (await incidents(yard.admin))[0]
    after = await ask(yard.admin, "POST", f"incidents/{newest['id']}/acknowledge")
    assert (after["state"], after["acked_by"]) == ("acknowledged", "admin")

    def late(tx: Tx) -> None:
        tx.run("UPDATE alert_incidents SET escalate_at_ms = 1 WHERE escalate_at_ms IS NOT NULL")

    await yard.services.database.write(late)
    await judge(yard)
    await send(yard)
    assert len(hook.calls) == 1


async def test_silence_opens_the_incident_and_tells_nobody(yard: Platform) -> None:
    rule = await add(yard.admin, "loss > 10")
    made = await ask(yard.admin, "POST", "silences", {"rule_id": rule["id"], "seconds": 600})
    await log(yard.admin, await new_run(yard.admin), 50.0)
    await judge(yard)
    [incident] = await incidents(yard.admin, "?state=open")
    assert incident["told_ms"] is None
    assert (await ask(yard.admin, "GET", "inbox"))["unread"] == 0
    await ask(yard.admin, "DELETE", f"silences/{made['id']}")
    await log(yard.admin, await new_run(yard.admin), 50.0)
    await judge(yard)
    assert (await ask(yard.admin, "GET", "inbox"))["unread"] == 1


async def test_a_mention_reaches_the_inbox_of_whoever_is_mentioned_once(yard: Platform) -> None:
    ada = await yard.caller("ada", "default", "member")
    run = await new_run(yard.admin)
    note = {"text": "@ada look; @nobody is not of this team"}
    await ask(yard.admin, "POST", f"runs/{run}/notes", note)
    await judge(yard)
    yard.services.alert_loop._world = None
    await judge(yard)
    inbox = await ask(ada, "GET", "inbox")
    assert [line["title"] for line in inbox["lines"]] == [
        "admin mentioned you: @ada look; @nobody is not of this team"
    ]
    assert inbox["lines"][0]["link"] == f"/app/runs/{run}?tab=logbook"
    after = await ask(ada, "POST", "inbox/read", {"up_to": inbox["lines"][0]["id"]})
    assert after["unread"] == 0


async def test_budgets_and_leases_are_told_when_they_happen(yard: Platform) -> None:
    await add(yard.admin, "budget warned,exhausted")
    await add(yard.admin, "lease ending")
    await happen(yard, "budget.warned", "team", "default", sentence="80% of it is used.")
    await happen(yard, "lease.ending", "lease", "l1", name="night")
    await judge(yard)
    assert [one["sentence"] for one in await incidents(yard.admin)] == [
        "The lease ending.",
        "The budget was warned. 80% of it is used.",
    ]


async def test_another_team_neither_sees_nor_is_seen(yard: Platform) -> None:
    other = await yard.caller("bob", "vision", "maintainer")
    rule = await add(other, "loss > 10")
    run = await new_run(yard.admin)
    await log(yard.admin, run, 50.0)
    await judge(yard)
    assert await incidents(yard.admin) == await incidents(other) == []
    caller = await yard.caller("carl", "default", "owner")
    refused(await caller("DELETE", f"/api/v1/alerts/{rule['id']}"), 404)
    refused(await caller("POST", "/api/v1/alerts", {"text": "nan", "all_teams": True}), 403)
    refused(await other("POST", "/api/v1/alerts", {"text": "nan", "scope": run}), 404)
    member = await yard.caller("dora", "vision", "member")
    assert "maintainer" in refused(await member("POST", "/api/v1/alerts", {"text": "nan"}), 403)


async def test_an_admin_watches_all_teams(yard: Platform) -> None:
    await add(yard.admin, "loss > 10", all_teams=True)
    other = await yard.caller("bob", "vision", "member")
    await log(other, await new_run(other), 50.0)
    await judge(yard)
    assert len(await incidents(other)) == 1
    assert (await ask(yard.admin, "GET", "inbox"))["unread"] == 1
    assert (await ask(other, "GET", "inbox"))["unread"] == 0


async def test_a_channel_cannot_be_turned_against_the_inside(
    database_url: str, tmp_path: Path, hook: Hook
) -> None:
    async with open_platform(database_url, tmp_path / "home") as closed:
        for url in ("https://127.0.0.1/x", "https://169.254.169.254/latest", hook.url):
            channel = {"name": "ops", "kind": "webhook", "target": url}
            refused(await closed.admin("POST", "/api/v1/alert-channels", channel), 400)


async def test_a_redirect_inside_is_not_followed(yard: Platform, hook: Hook) -> None:
    hook.plan = [(307, "http://10.0.0.1/secret")]
    channel = {"name": "ops", "kind": "webhook", "target": hook.url}
    made = await ask(yard.admin, "POST", "alert-channels", channel)
    assert made["shown"] == "http://127.0.0.1/…"
    reply = await ask(yard.admin, "POST", "alert-channels/ops/test")
    assert reply["success"] is False
    assert "non-public" in reply["error"]
    [delivery] = (await ask(yard.admin, "GET", "alert-deliveries"))["deliveries"]
    assert (delivery["what"], delivery["state"]) == ("test", "failed")


async def test_mail_goes_out_by_smtp_and_comes_once(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops, "FULL_SECONDS", 1e-6)
    monkeypatch.setattr(retries, "WAITS", (0.0,) * 6)
    server = MailServer()
    server.refusals = ["451 try again later"]
    alerts = {
        "smtp": f"127.0.0.1:{await server.start()}",
        "smtp_security": "none",
        "mail_from": "yard@example.org",
        "mail_domains": ["example.org"],
    }
    async with open_platform(database_url, tmp_path / "home", alerts=alerts) as found:
        await lead(found)
        await judge(found)
        channel = {"name": "me", "kind": "email", "target": "ada@example.com"}
        text = refused(await found.admin("POST", "/api/v1/alert-channels", channel), 400)
        assert "example.org alone" in text
        channel["target"] = "ada@example.org, bob@example.org"
        await ask(found.admin, "POST", "alert-channels", channel)
        await add(found.admin, "loss > 10 via me", severity="critical")
        await log(found.admin, await new_run(found.admin), 50.0)
        await judge(found)
        await send(found)
        await found.services.alerts.outbox.stop()
    await server.stop()
    [mail] = server.mails
    assert mail["subject"].startswith("Alert (critical): ")
    assert server.recipients[-2:] == ["ada@example.org", "bob@example.org"]
    assert "loss is 50 (> 10)" in mail.get_content()


async def test_a_command_of_the_admins_settings_is_given_the_message(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops, "FULL_SECONDS", 1e-6)
    out = tmp_path / "page.json"
    argv = ["/bin/sh", "-c", f"cat > {out}"]
    alerts = {"commands": {"page": {"argv": argv}}}
    async with open_platform(database_url, tmp_path / "home", alerts=alerts) as found:
        await lead(found)
        await judge(found)
        other = await found.caller("bob", "vision", "owner")
        body = {"text": "loss > 10 via page"}
        refused(await other("POST", "/api/v1/alerts", body), 400)
        await add(found.admin, "loss > 10 via page", all_teams=True)
        await log(other, await new_run(other), 50.0)
        await judge(found)
        await send(found)
        await found.services.alerts.outbox.stop()
    assert json.loads(out.read_text())["event"] == "alert.opened"
