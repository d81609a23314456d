"""The live stream of events: it resumes without a gap, and ends with its caller's welcome."""

import asyncio
import re

import pytest

from tests.integration.server.platform import Caller, Platform
from trackyard.server import sse
from trackyard.store.database import Tx

MANY = 2 * sse.PAGE + 300


async def _events(platform: Platform, count: int) -> list[int]:
    """Let many things happen at once to the first team; return the events' ids."""

    def change(tx: Tx) -> None:
        for number in range(count):
            tx.event("run.logged", team_id=1, actor="test", subject="run", subject_id=str(number))

    before = (await platform.admin("GET", "/api/v1/events?order=newest&limit=1")).json()["next"]
    await platform.services.database.write(change)
    rows = await platform.services.database.read(
        lambda reader: reader.all("SELECT id FROM events WHERE id > ? ORDER BY id", (before,))
    )
    return [row[0] for row in rows]


def _id_in(message: bytes) -> int | None:
    found = re.match(rb"id: (\d+)\n", message)
    return int(found[1]) if found else None


async def test_a_stream_resumes_with_all_it_missed(platform: Platform) -> None:
    """However much happened while a client was away, it hears of each event once, in order."""
    ids = await _events(platform, MANY)
    heard = []
    async for message in platform.services.hub.stream(1, ids[0] - 1):
        if (number := _id_in(message)) is not None:
            heard.append(number)
        if len(heard) == MANY:
            break
    assert heard == ids


async def test_a_reader_too_slow_for_the_stream_is_told_and_misses_nothing(
    platform: Platform,
) -> None:
    """What a full queue could not take is read from the log again."""
    hub = platform.services.hub
    hub.start()
    stream = hub.stream(1, None)
    assert (await anext(stream)).startswith(b"retry")
    first = (await _events(platform, 1))[0]
    assert _id_in(await anext(stream)) == first
    ids = await _events(platform, MANY)
    heard, is_told = [], False
    async for message in stream:
        is_told = is_told or message.startswith(b"event: reload")
        if (number := _id_in(message)) is not None:
            heard.append(number)
        if len(heard) == MANY:
            break
    assert heard == ids
    # Elsewhere the events come by themselves, a page at a time.
    assert is_told or not platform.services.database.is_sqlite
    await stream.aclose()
    await hub.stop()


async def test_a_stream_ends_when_its_credential_does(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A revoked token or an ended session hears no more, though its stream was open before."""
    monkeypatch.setattr(sse, "PING_EVERY", 0.01)
    member = await platform.caller("max", "default", "member")
    opened = await platform.nobody("POST", "/api/v1/session", {"token": member.token})
    cookie = {"cookie": (opened.header("set-cookie") or "").partition(";")[0]}
    page = Caller(platform.application)
    streams = [
        asyncio.create_task(member("GET", "/api/v1/stream")),
        asyncio.create_task(page("GET", "/api/v1/stream", headers=cookie)),
    ]
    while len(platform.services.hub._subscribers) < len(streams):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    token_id = (member.token or "").split("_")[1]
    assert (await platform.admin("DELETE", f"/api/v1/tokens/{token_id}")).status == 200
    for answer in await asyncio.wait_for(asyncio.gather(*streams), 30):
        assert (answer.status, answer.body[:5]) == (200, b"retry")
