"""An S3 store that fails, hangs, cuts, forgets and lies: nothing false is acknowledged or served,
and what is well goes on.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.integration.artifacts.conftest import Bucket
from tests.integration.artifacts.fault_proxy import FaultProxy
from tests.integration.artifacts.team import Team, stream
from trackyard.artifacts import object_store
from trackyard.artifacts.blobs import BlobFault, BlobStore, open_blobs
from trackyard.artifacts.service import Artifact, Artifacts
from trackyard.artifacts.upkeep import collect_garbage
from trackyard.artifacts.verify import check_all_files
from trackyard.core.errors import NotFound, TooBusy
from trackyard.store.database import Database

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
LARGE = 20 * 1024 * 1024


@pytest.fixture
def proxy(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    # What takes a minute with a real store takes seconds here.
    monkeypatch.setattr(object_store, "QUICK_SECONDS", 2.0)
    monkeypatch.setattr(object_store, "BULK_SECONDS", 4.0)
    made = FaultProxy(bucket.endpoint)
    yield made
    made.close()


@pytest.fixture
async def blobs(bucket: Bucket, proxy: FaultProxy, tmp_path: object) -> AsyncIterator[BlobStore]:
    store = open_blobs(bucket.url, endpoint=proxy.endpoint, home=tmp_path)  # type: ignore[arg-type]
    yield store
    await store.close()


async def put(artifacts: Artifacts, team: Team, path: str, data: bytes) -> Artifact:
    return await artifacts.put(team.principal, await team.run(), path, stream(data))


@pytest.mark.parametrize("size", [5000, LARGE])
@pytest.mark.parametrize("fault", ["500", "503", "reset"])
async def test_a_store_that_stumbles_is_asked_again(
    artifacts: Artifacts, team: Team, proxy: FaultProxy, size: int, fault: str
) -> None:
    data = os.urandom(size)
    proxy.first(2, "PUT", fault)
    stored = await put(artifacts, team, "f", data)
    assert proxy.taken[fault] == 2
    proxy.first(2, "GET", fault)
    assert await artifacts.read_all(stored) == data


@pytest.mark.parametrize("size", [5000, LARGE])
@pytest.mark.parametrize("fault", ["500", "hang", "forget", "flip-up"])
async def test_what_the_store_did_not_keep_is_not_acknowledged(
    artifacts: Artifacts, team: Team, bucket: Bucket, proxy: FaultProxy, size: int, fault: str
) -> None:
    """It fails, hangs, says yes and forgets, or gets other bytes: refused within a bound, with a
    time to come back; the old version is served and the next try is stored.
    """
    run = await team.run()
    old = await artifacts.put(team.principal, run, "f", stream(b"old"))
    data = os.urandom(size)
    proxy.always("PUT", fault)
    began = time.monotonic()
    with pytest.raises(TooBusy) as refusal:
        await artifacts.put(team.principal, run, "f", stream(data))
    assert refusal.value.retry_after
    assert time.monotonic() - began < 60
    assert proxy.taken[fault]
    assert (await artifacts.find(run.id, "f")).blob == old.blob
    assert await artifacts.read_all(old) == b"old"
    proxy.heal()
    stored = await artifacts.put(team.principal, run, "f", stream(data))
    assert await artifacts.read_all(stored) == data


@pytest.mark.parametrize("fault", ["flip", "short"])
async def test_a_store_that_lies_about_a_file_is_found_out(
    artifacts: Artifacts, team: Team, proxy: FaultProxy, fault: str
) -> None:
    """Other bytes, or fewer, are never served as the file; `verify` names it, and only it."""
    stored = await put(artifacts, team, "f", os.urandom(5000))
    other = await put(artifacts, team, "g", b"sound")
    proxy.fault = lambda method, path: fault if method == "GET" and stored.blob in path else ""
    with pytest.raises((BlobFault, TooBusy)):
        await artifacts.read_all(stored)
    assert await artifacts.read_all(other) == b"sound"
    if fault == "flip":
        found = await check_all_files(team.database, artifacts.blobs)
        assert [bad.file.path for bad in found.bad] == ["f"]
    proxy.heal()
    assert len(await artifacts.read_all(stored)) == 5000


async def test_an_answer_cut_in_the_middle_is_fetched_again_or_refused(
    artifacts: Artifacts, team: Team, proxy: FaultProxy
) -> None:
    data = os.urandom(LARGE)
    stored = await put(artifacts, team, "f", data)
    proxy.always("GET", "cut")
    with pytest.raises((BlobFault, TooBusy)):
        await artifacts.read_all(stored)
    proxy.first(1, "GET", "cut")
    try:
        found = await artifacts.read_all(stored)
    except (BlobFault, TooBusy):
        found = await artifacts.read_all(stored)
    assert found == data
    assert proxy.taken["cut"]


async def test_a_store_that_never_answers_holds_nobody_else_up(
    artifacts: Artifacts, team: Team, proxy: FaultProxy, database: Database
) -> None:
    """While uploads and downloads hang, the database answers; in the end each is told 503."""
    stored = await put(artifacts, team, "f", b"bytes")
    proxy.fault = lambda _method, _path: "hang"
    hanging = [
        asyncio.create_task(artifacts.read_all(stored)),
        asyncio.create_task(put(artifacts, team, "g", b"more")),
    ]
    await asyncio.sleep(0)
    for _ in range(20):
        await database.read(lambda reader: reader.one("SELECT 1"))
        await team.run()
    done = await asyncio.gather(*hanging, return_exceptions=True)
    assert [type(one) for one in done] == [TooBusy, TooBusy]
    with pytest.raises(TooBusy):
        await artifacts.blobs.probe()
    with pytest.raises(TooBusy):
        await artifacts.blobs.marker()
    proxy.heal()
    assert await artifacts.read_all(stored) == b"bytes"


async def test_a_listing_that_lags_behind_costs_nothing(
    artifacts: Artifacts, team: Team, blobs: BlobStore, proxy: FaultProxy
) -> None:
    """New objects are not listed yet, deleted ones still are: no file goes, garbage goes later."""
    run = await team.run()
    kept = await artifacts.put(team.principal, run, "f", stream(b"kept"))
    orphan = await blobs.write(stream(b"orphan"))
    listings: list[bytes] = []
    proxy.listing = lambda body: listings.append(body) or body  # type: ignore[func-returns-value]
    assert {found.blob async for found in blobs.walk()} == {kept.blob, orphan.blob}
    stale = listings[-1]
    await blobs.delete([orphan.blob])
    late = await artifacts.put(team.principal, run, "late", stream(b"late"))
    proxy.listing = lambda _body: stale
    # S3 keeps times in whole seconds, so look from a little later.
    done = await collect_garbage(team.database, artifacts, grace_ms=-2000)
    assert done.blobs == 1
    assert await artifacts.read_all(kept) == b"kept"
    assert await artifacts.read_all(late) == b"late"
    assert (await check_all_files(team.database, blobs)).bad == []
    proxy.listing = lambda body: body
    assert {found.blob async for found in blobs.walk()} == {kept.blob, late.blob}


async def test_a_delete_that_fails_is_made_up_for(
    artifacts: Artifacts, team: Team, blobs: BlobStore, proxy: FaultProxy
) -> None:
    """The change stands though the bytes could not go; collecting garbage removes them later."""
    run = await team.run()
    stored = await artifacts.put(team.principal, run, "f", stream(b"bytes"))
    proxy.fault = lambda method, path: "500" if method == "DELETE" or "delete" in path else ""
    await artifacts.delete(team.principal, run, "f")
    with pytest.raises(NotFound):
        await artifacts.find(run.id, "f")
    assert stored.blob in {found.blob async for found in blobs.walk()}
    proxy.heal()
    done = await collect_garbage(team.database, artifacts, grace_ms=-2000)
    assert done.blobs == 1
    assert [found async for found in blobs.walk()] == []
