"""The live stream of events: it resumes without a gap, and ends with its caller's welcome."""

import asyncio
import re
from collections.abc import AsyncGenerator
from types import SimpleNamespace

import pytest

from tests.integration.server.platform import Caller, Platform
from trackyard.server.http import sse, streams
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


def _ids_in(piece: bytes) -> list[int]:
    return [int(number) for number in re.findall(rb"^id: (\d+)\n", piece, re.MULTILINE)]


async def test_a_stream_resumes_with_all_it_missed(platform: Platform) -> None:
    """However much happened while a client was away, it hears of each event once, in order."""
    ids = await _events(platform, MANY)
    heard: list[int] = []
    async for message in platform.services.hub.stream(1, ids[0] - 1):
        heard += _ids_in(message)
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
    while not (found := _ids_in(await anext(stream))):
        pass
    assert found == [first]
    ids = await _events(platform, MANY)
    heard: list[int] = []
    is_told = False
    async for message in stream:
        is_told = is_told or message.startswith(b"event: reload")
        heard += _ids_in(message)
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
    monkeypatch.setattr(streams, "LOOK_SECONDS", 0.01)
    member = await platform.caller("max", "default", "member")
    opened = await platform.nobody("POST", "/api/v1/session", {"token": member.token})
    cookie = {"cookie": (opened.header("set-cookie") or "").partition(";")[0]}
    page = Caller(platform.application)
    open_streams = [
        asyncio.create_task(member("GET", "/api/v1/stream")),
        asyncio.create_task(page("GET", "/api/v1/stream", headers=cookie)),
    ]
    while len(platform.services.hub._subscribers) < len(open_streams):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    token_id = (member.token or "").split("_")[1]
    assert (await platform.admin("DELETE", f"/api/v1/tokens/{token_id}")).status == 200
    async with asyncio.timeout(120):
        for answer in await asyncio.gather(*open_streams):
            assert (answer.status, answer.body[:5]) == (200, b"retry")
    assert not platform.services.hub._subscribers


async def test_a_followed_log_ends_when_its_credential_does(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who follows a log with a revoked token is told no more of it, though the job goes on."""
    monkeypatch.setattr(streams, "LOOK_SECONDS", 0.01)
    member = await platform.caller("max", "default", "member")
    made = await member("POST", "/api/v1/jobs", {"command": ["true"], "hold": True})
    (job,) = made.json()["job_ids"]

    async def endless(*_: object) -> AsyncGenerator[bytes, None]:
        while True:
            yield b"line\n"
            await asyncio.sleep(0.01)

    async def source(*_: object) -> tuple[object, object]:
        return SimpleNamespace(job_id=job), SimpleNamespace(number=1)

    async def end(*_: object) -> int:
        return 0

    jobs = platform.services.jobs
    monkeypatch.setattr(jobs, "log_source", source)
    monkeypatch.setattr(jobs, "log_end", end)
    monkeypatch.setattr(jobs, "follow", endless)
    following = asyncio.create_task(member("GET", f"/api/v1/jobs/{job}/logs?follow=1"))
    while not platform.application.streams._open:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    token_id = (member.token or "").split("_")[1]
    assert (await platform.admin("DELETE", f"/api/v1/tokens/{token_id}")).status == 200
    async with asyncio.timeout(120):
        assert (await following).status == 200


async def test_a_caller_has_so_many_streams_and_no_more(platform: Platform) -> None:
    """Beyond its share a caller is told so; another caller, and the same one later, is served."""
    application = platform.application
    application.streams = streams.Streams(platform.services.gate, per_caller=2)
    greedy = await platform.caller("max", "default", "viewer")
    modest = await platform.caller("eva", "default", "viewer")
    held = [asyncio.create_task(greedy("GET", "/api/v1/stream")) for _ in range(2)]
    while len(platform.services.hub._subscribers) < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    refused = await greedy("GET", "/api/v1/stream")
    assert refused.status == 429
    assert "2 streams open" in refused.json()["message"]
    held.append(asyncio.create_task(modest("GET", "/api/v1/stream")))
    while len(platform.services.hub._subscribers) < 3:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    for task in held:
        task.cancel()
    await asyncio.gather(*held, return_exceptions=True)
    assert not application.streams._open
    assert not application.streams._counts


async def test_an_event_is_written_once_however_many_listen(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = platform.services.hub
    if not platform.services.database.is_sqlite:
        return
    listening = [hub.stream(1, None) for _ in range(50)]
    for stream in listening:
        await anext(stream)
    made = []
    real = sse._encode
    monkeypatch.setattr(sse, "_encode", lambda value: made.append(1) or real(value))
    await _events(platform, 20)
    for stream in listening:
        while not (found := _ids_in(await anext(stream))):
            pass
        assert len(found) == 20
    assert len(made) == 20
    for stream in listening:
        await stream.aclose()


async def test_events_are_read_by_who_did_them_and_backwards_in_pages(platform: Platform) -> None:
    """The audit log names one actor's events, and goes on before the last one seen."""
    made = await _events(platform, 5)
    asked = "/api/v1/events?order=newest&limit=2&actor=test"
    first = (await platform.admin("GET", asked)).json()["events"]
    assert [event["id"] for event in first] == made[:-3:-1]
    second = (await platform.admin("GET", f"{asked}&before={first[-1]['id']}")).json()["events"]
    assert [event["id"] for event in second] == [made[2], made[1]]
    nobody = (await platform.admin("GET", "/api/v1/events?actor=nobody")).json()["events"]
    assert nobody == []
