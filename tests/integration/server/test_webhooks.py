"""Webhooks over MLflow's REST: what is kept, what is told, and where a delivery cannot go."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.server.platform import Caller, Platform, open_platform, refused
from tests.integration.server.receiving import Hook, open_hook
from trackyard.outbound import retries

CREATED = {"entity": "REGISTERED_MODEL", "action": "CREATED"}


class Receiver(Hook):
    """A place that takes deliveries, and tells which events they were."""

    def events(self) -> list[str]:
        bodies = [json.loads(body) for _, body in self.calls]
        return [f"{body['entity']}.{body['action']}" for body in bodies]

    def has_heard(self, event: str) -> bool:
        return event in self.events()

    def data(self) -> dict[str, Any]:
        return {
            f"{body['entity']}.{body['action']}": body["data"]
            for body in (json.loads(raw) for _, raw in self.calls)
        }


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    with open_hook(found):
        yield found


@pytest.fixture
async def yard(database_url: str, tmp_path: Path) -> AsyncIterator[Platform]:
    """A platform that delivers, also to this machine."""
    more = {"outbound_allow": ("127.0.0.0/8",), "outbound_http": True}
    async with open_platform(database_url, tmp_path / "home", **more) as found:
        found.services.deliveries.start()
        yield found
        await found.services.deliveries.stop()


async def make(caller: Caller, url: str, *events: dict[str, str], **more: Any) -> Any:
    body = {"name": "hook", "url": url, "events": list(events) or [CREATED], **more}
    answer = await caller.mlflow("POST", "webhooks", body)
    assert answer.status == 200, answer.body
    return answer.json()["webhook"]


async def until(check: Any) -> None:
    async with asyncio.timeout(120):
        while not check():  # noqa: ASYNC110 - a server in a thread has no event of ours
            await asyncio.sleep(0.01)


async def deliveries(caller: Caller, hook: str) -> list[dict[str, Any]]:
    answer = await caller("GET", f"/api/v1/webhooks/{hook}/deliveries")
    assert answer.status == 200, answer.body
    found: list[dict[str, Any]] = answer.json()["deliveries"]
    return found


async def test_a_webhook_is_kept_changed_listed_and_deleted(
    yard: Platform, receiver: Receiver
) -> None:
    ask = yard.admin.mlflow
    made = await make(yard.admin, receiver.url, secret="s3cret", description="why")
    assert made["events"] == [CREATED]
    assert made["status"] == "ACTIVE"
    assert "secret" not in made
    one = f"webhooks/{made['webhook_id']}"
    assert (await ask("GET", one)).json()["webhook"] == made
    more = [{"entity": "PROMPT", "action": "CREATED"}]
    changed = await ask("PATCH", one, {"name": "other", "events": more, "status": "DISABLED"})
    found = changed.json()["webhook"]
    assert (found["name"], found["events"], found["status"]) == ("other", more, "DISABLED")
    assert found["description"] == "why"
    await make(yard.admin, receiver.url)
    first = (await ask("GET", "webhooks?max_results=1")).json()
    second = (await ask("GET", f"webhooks?page_token={first['next_page_token']}")).json()
    names = [hook["name"] for hook in first["webhooks"] + second["webhooks"]]
    assert sorted(names) == ["hook", "other"]
    assert "next_page_token" not in second
    assert (await ask("DELETE", one)).json() == {}
    assert (
        refused(await ask("GET", one), 404) == f"Webhook with ID {made['webhook_id']} not found."
    )
    row = yard.services.database
    kept = await row.read(lambda reader: reader.all("SELECT secret FROM webhooks"))
    assert all("s3cret" not in str(one) for one in kept)


async def test_what_cannot_be_a_webhook_is_refused(yard: Platform, receiver: Receiver) -> None:
    ask = yard.admin.mlflow
    good = {"name": "hook", "url": receiver.url, "events": [CREATED]}
    for change, words in (
        ({"name": "-"}, "Webhook name"),
        ({"name": "x" * 64}, "Webhook name"),
        ({"name": None}, "Missing value for required parameter 'name'"),
        ({"url": "ftp://x"}, "Invalid webhook URL scheme"),
        ({"url": "https://169.254.169.254/latest"}, "non-public IP address"),
        ({"url": "http://10.0.0.1/"}, "non-public IP address"),
        ({"events": []}, "non-empty list"),
        (
            {"events": [{"entity": "MODEL_VERSION", "action": "DELETED"}]},
            "Invalid action 'deleted'",
        ),
        ({"status": "ON"}, "ACTIVE, DISABLED"),
    ):
        answer = await ask("POST", "webhooks", {**good, **change})
        assert words in refused(answer, 400), change
    viewer = await yard.caller("vera", "default", "member")
    refused(await viewer.mlflow("GET", "webhooks"), 403)
    made = await make(yard.admin, receiver.url)
    stranger = await yard.caller("sam", "others", "owner")
    refused(await stranger.mlflow("GET", f"webhooks/{made['webhook_id']}"), 404)
    refused(await stranger("GET", f"/api/v1/webhooks/{made['webhook_id']}/deliveries"), 404)


async def test_every_event_of_the_registry_is_told_signed_and_in_order(
    yard: Platform, receiver: Receiver
) -> None:
    ask = yard.admin.mlflow
    told = [
        ("REGISTERED_MODEL", "CREATED"),
        ("MODEL_VERSION", "CREATED"),
        ("MODEL_VERSION_TAG", "SET"),
        ("MODEL_VERSION_TAG", "DELETED"),
        ("MODEL_VERSION_ALIAS", "CREATED"),
        ("MODEL_VERSION_ALIAS", "DELETED"),
        ("PROMPT", "CREATED"),
        ("PROMPT_VERSION", "CREATED"),
        ("PROMPT_TAG", "SET"),
        ("PROMPT_TAG", "DELETED"),
        ("PROMPT_VERSION_TAG", "SET"),
        ("PROMPT_VERSION_TAG", "DELETED"),
        ("PROMPT_ALIAS", "CREATED"),
        ("PROMPT_ALIAS", "DELETED"),
    ]
    events = [{"entity": entity, "action": action} for entity, action in told]
    hook = await make(yard.admin, receiver.url, *events, secret="key")
    is_prompt = {"key": "mlflow.prompt.is_prompt", "value": "true"}
    for name, tags, source in (
        ("model", [{"key": "a", "value": "b"}], "s3://bucket/model"),
        ("prompt", [is_prompt, {"key": "a", "value": "b"}], "dummy-source"),
    ):
        whole = {"name": name, "tags": tags, "description": "said"}
        await ask("POST", "registered-models/create", whole)
        text = (
            [is_prompt, {"key": "mlflow.prompt.text", "value": "Hi"}] if name == "prompt" else []
        )
        new = {"name": name, "source": source, "tags": text}
        answer = await ask("POST", "model-versions/create", new)
        assert answer.status == 200, answer.body
        # What is told of a new thing is how it is by then; it must not have other tags yet.
        await until(partial(receiver.has_heard, f"{name}_version.created"))
        if name == "prompt":
            await ask(
                "POST", "registered-models/set-tag", {"name": name, "key": "k", "value": "v"}
            )
            await ask("DELETE", "registered-models/delete-tag", {"name": name, "key": "k"})
        tag = {"name": name, "version": "1", "key": "k", "value": "v"}
        await ask("POST", "model-versions/set-tag", tag)
        await ask("DELETE", "model-versions/delete-tag", tag)
        alias = {"name": name, "alias": "best", "version": "1"}
        await ask("POST", "registered-models/alias", alias)
        await ask("DELETE", "registered-models/alias", alias)
    await until(lambda: len(receiver.calls) == len(told))
    assert receiver.events() == [f"{entity}.{action}".lower() for entity, action in told]
    data = receiver.data()
    assert data["registered_model.created"] == {
        "name": "model",
        "tags": {"a": "b"},
        "description": "said",
    }
    assert data["model_version.created"]["source"] == "s3://bucket/model"
    assert data["model_version_tag.set"] == {
        "name": "model",
        "version": "1",
        "key": "k",
        "value": "v",
    }
    assert data["prompt.created"]["tags"] == {"a": "b"}
    assert data["prompt_version.created"]["template"] == "Hi"
    assert data["prompt_alias.created"] == {"name": "prompt", "alias": "best", "version": "1"}
    for headers, body in receiver.calls:
        signed = f"{headers['x-mlflow-delivery-id']}.{headers['x-mlflow-timestamp']}.".encode()
        digest = hmac.new(b"key", signed + body, hashlib.sha256).digest()
        assert headers["x-mlflow-signature"] == f"v1,{base64.b64encode(digest).decode()}"
    log = await deliveries(yard.admin, hook["webhook_id"])
    assert len(log) == len(told)
    assert {one["id"] for one in log} == {h["x-mlflow-delivery-id"] for h, _ in receiver.calls}


async def test_a_webhook_hears_only_of_its_own_team_and_time(
    yard: Platform, receiver: Receiver
) -> None:
    await yard.admin.mlflow("POST", "registered-models/create", {"name": "before"})
    hook = await make(yard.admin, receiver.url)
    stranger = await yard.caller("sam", "others", "owner")
    await stranger.mlflow("POST", "registered-models/create", {"name": "elsewhere"})
    one = f"webhooks/{hook['webhook_id']}"
    await yard.admin.mlflow("PATCH", one, {"status": "DISABLED"})
    await yard.admin.mlflow("POST", "registered-models/create", {"name": "unheard"})
    await yard.admin.mlflow("PATCH", one, {"status": "ACTIVE"})
    await yard.admin.mlflow("POST", "registered-models/create", {"name": "after"})
    await until(lambda: receiver.calls)
    await until(lambda: receiver.data()["registered_model.created"]["name"] == "after")
    assert len(receiver.calls) == 1


async def test_a_delivery_that_fails_is_tried_again_and_noted(
    yard: Platform, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "WAITS", (0.01, 0.01))
    hook = await make(yard.admin, receiver.url)
    receiver.plan = [(503, ""), (500, "")]
    await yard.admin.mlflow("POST", "registered-models/create", {"name": "again"})
    await until(lambda: len(receiver.calls) == 3)
    assert len({headers["x-mlflow-delivery-id"] for headers, _ in receiver.calls}) == 1
    receiver.plan = [(404, "")]
    await yard.admin.mlflow("POST", "registered-models/create", {"name": "lost"})
    await until(lambda: len(receiver.calls) == 4)

    async def settled() -> list[dict[str, Any]]:
        async with asyncio.timeout(120):
            while True:
                found = await deliveries(yard.admin, hook["webhook_id"])
                if len(found) == 2 and all(one["state"] != "pending" for one in found):
                    return found
                await asyncio.sleep(0.01)

    lost, again = await settled()
    assert (again["state"], again["tries"], again["answer_status"]) == ("delivered", 3, 200)
    assert (lost["state"], lost["tries"], lost["answer_status"]) == ("failed", 1, 404)


async def test_a_redirect_leads_nowhere_that_an_address_may_not(
    yard: Platform, receiver: Receiver
) -> None:
    hook = await make(yard.admin, receiver.url)
    path = f"webhooks/{hook['webhook_id']}/test"
    receiver.plan = [(307, receiver.url + "/moved")]
    assert (await yard.admin.mlflow("POST", path)).json()["result"] == {
        "success": True,
        "response_status": 200,
        "response_body": "ok",
    }
    assert receiver.calls[0][1] == receiver.calls[1][1]
    receiver.plan = [(307, "http://169.254.169.254/latest/meta-data")]
    result = (await yard.admin.mlflow("POST", path)).json()["result"]
    assert not result["success"]
    assert "non-public" in result["error_message"]
    receiver.plan = [(307, receiver.url)] * 10
    result = (await yard.admin.mlflow("POST", path)).json()["result"]
    assert "redirects" in result["error_message"]
    receiver.plan = [(500, "")]
    event = {"event": {"entity": "PROMPT", "action": "CREATED"}}
    result = (await yard.admin.mlflow("POST", path, event)).json()["result"]
    assert result == {"success": False, "response_status": 500, "response_body": "ok"}
    assert receiver.events()[-1] == "prompt.created"


async def test_what_was_not_sent_is_sent_after_a_start(
    database_url: str, tmp_path: Path, receiver: Receiver
) -> None:
    more = {"outbound_allow": ("127.0.0.1",), "outbound_http": True}
    async with open_platform(database_url, tmp_path / "home", **more) as before:
        await make(before.admin, receiver.url)
        await before.admin.mlflow("POST", "registered-models/create", {"name": "kept"})
    (tmp_path / "home").rename(tmp_path / "old")
    (tmp_path / "other").mkdir()
    async with open_platform(database_url, tmp_path / "home", **more) as after:
        after.services.deliveries.start()
        await until(lambda: receiver.calls)
        await after.services.deliveries.stop()
    assert receiver.events() == ["registered_model.created"]
