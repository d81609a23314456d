"""Uploads in parts: any order, whole or not at all, tokens good for one part once."""

import asyncio
import os
from dataclasses import replace

import pytest

from tests.integration.artifacts.conftest import EVERYWHERE
from tests.integration.artifacts.team import Team, cut_stream, stream
from trackyard.artifacts.blobs import BlobStore
from trackyard.artifacts.service import Artifacts
from trackyard.artifacts.upkeep import collect_garbage
from trackyard.artifacts.uploads import LIFETIME_MS, PART_BYTES, CompletedPart, PartUpload, Uploads
from trackyard.core.errors import BadRequest, Conflict, Denied, InvalidInput, NotFound

pytestmark = EVERYWHERE

PIECES = [os.urandom(size) for size in (70_000, 6_000_000, 5)]
WHOLE = b"".join(PIECES)


async def put_part(
    uploads: Uploads, upload: PartUpload, number: int, data: bytes
) -> CompletedPart:
    stored = await uploads.put_part(
        upload.id, number, upload.tokens()[number - 1], stream(data), length=len(data)
    )
    return CompletedPart(number=number, etag=f'"{stored.sha256}"')


async def put_all(uploads: Uploads, upload: PartUpload) -> list[CompletedPart]:
    numbers = list(range(1, len(PIECES) + 1))[::-1]
    parts = [await put_part(uploads, upload, number, PIECES[number - 1]) for number in numbers]
    return parts[::-1]


async def blob_count(blobs: BlobStore) -> int:
    return len([found async for found in blobs.walk()])


async def test_parts_in_any_order_make_one_file(
    uploads: Uploads, artifacts: Artifacts, blobs: BlobStore, team: Team
) -> None:
    run = await team.run()
    upload = await uploads.begin(team.principal, run, "big", 3)
    parts = await put_all(uploads, upload)
    assert await artifacts.exists(run.id, "big") is False
    await uploads.complete(team.principal, run, "big", upload.id, parts)
    assert await artifacts.read_all(await artifacts.find(run.id, "big")) == WHOLE
    assert await blob_count(blobs) == 1
    assert await team.events() == [("artifact.written", "run")]


async def test_completing_again_and_at_once_answers_the_same(
    uploads: Uploads, blobs: BlobStore, team: Team
) -> None:
    run = await team.run()
    upload = await uploads.begin(team.principal, run, "big", 3)
    parts = await put_all(uploads, upload)
    done = await asyncio.gather(
        *(uploads.complete(team.principal, run, "big", upload.id, parts) for _ in range(3))
    )
    done.append(await uploads.complete(team.principal, run, "big", upload.id, parts))
    assert len({artifact.blob for artifact in done}) == 1
    assert await blob_count(blobs) == 1


async def test_an_aborted_upload_leaves_nothing(
    uploads: Uploads, artifacts: Artifacts, blobs: BlobStore, team: Team
) -> None:
    run = await team.run()
    upload = await uploads.begin(team.principal, run, "big", 3)
    parts = await put_all(uploads, upload)
    await uploads.abort(team.principal, run, "big", upload.id)
    assert await blob_count(blobs) == 0
    with pytest.raises(NotFound):
        await uploads.complete(team.principal, run, "big", upload.id, parts)
    with pytest.raises(NotFound):
        await uploads.abort(team.principal, run, "big", upload.id)
    with pytest.raises(Denied):
        await put_part(uploads, upload, 1, b"late")


async def test_an_upload_that_lacks_a_part_is_not_completed(
    uploads: Uploads, artifacts: Artifacts, team: Team
) -> None:
    run = await team.run()
    upload = await uploads.begin(team.principal, run, "big", 3)
    first = await put_part(uploads, upload, 1, b"1")
    third = await put_part(uploads, upload, 3, b"3")
    for named in ([], [first, third], [third, first], [first, first, third]):
        with pytest.raises(InvalidInput, match="3 parts"):
            await uploads.complete(team.principal, run, "big", upload.id, named)
    with pytest.raises(InvalidInput, match="part 2 has not arrived"):
        await uploads.complete(
            team.principal,
            run,
            "big",
            upload.id,
            [first, CompletedPart(number=2, etag="x"), third],
        )
    second = await put_part(uploads, upload, 2, b"2")
    with pytest.raises(InvalidInput, match="part 2 is not the one"):
        await uploads.complete(
            team.principal, run, "big", upload.id, [first, replace(second, etag="x"), third]
        )
    assert await artifacts.exists(run.id, "big") is False
    await uploads.complete(team.principal, run, "big", upload.id, [first, second, third])
    assert await artifacts.read_all(await artifacts.find(run.id, "big")) == b"123"


async def test_a_part_cut_short_can_be_sent_again(
    uploads: Uploads, blobs: BlobStore, team: Team
) -> None:
    run = await team.run()
    upload = await uploads.begin(team.principal, run, "big", 1)
    with pytest.raises(BadRequest):
        await uploads.put_part(
            upload.id,
            1,
            upload.tokens()[0],
            cut_stream(bytes(90_000), 60_000, BadRequest("lost")),
            length=90_000,
        )
    await put_part(uploads, upload, 1, b"whole")
    assert await blob_count(blobs) == 1


class TestTokens:
    async def test_a_token_is_good_once(
        self, uploads: Uploads, blobs: BlobStore, team: Team
    ) -> None:
        upload = await uploads.begin(team.principal, await team.run(), "big", 1)
        await put_part(uploads, upload, 1, b"first")
        with pytest.raises(Denied):
            await put_part(uploads, upload, 1, b"second")
        assert await blob_count(blobs) == 1

    async def test_of_two_at_once_one_wins(
        self, uploads: Uploads, blobs: BlobStore, team: Team
    ) -> None:
        upload = await uploads.begin(team.principal, await team.run(), "big", 1)
        tries = (put_part(uploads, upload, 1, os.urandom(1000)) for _ in range(4))
        results = await asyncio.gather(*tries, return_exceptions=True)
        names = sorted(type(result).__name__ for result in results)
        assert names == ["CompletedPart"] + ["Denied"] * 3
        assert await blob_count(blobs) == 1

    async def test_no_other_token_opens_a_part(
        self, uploads: Uploads, blobs: BlobStore, team: Team
    ) -> None:
        run = await team.run()
        upload = await uploads.begin(team.principal, run, "big", 2)
        other = await uploads.begin(team.principal, run, "other", 2)
        good = upload.tokens()[0]
        flipped = f"{int(good[0], 16) ^ 1:x}{good[1:]}"
        for number, token in [
            (1, upload.tokens()[1]),
            (1, other.tokens()[0]),
            (1, flipped),
            (1, ""),
            (1, "0" * 64),
            (0, good),
            (3, good),
            (-1, good),
        ]:
            with pytest.raises(Denied):
                await uploads.put_part(upload.id, number, token, stream(b"x"), length=1)
        for upload_id in ("", "0" * 32, "../x", other.id):
            with pytest.raises(Denied):
                await uploads.put_part(upload_id, 1, good, stream(b"x"), length=1)
        assert await blob_count(blobs) == 0

    async def test_a_part_over_the_limit_is_refused_declared_or_not(
        self, uploads: Uploads, blobs: BlobStore, team: Team, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        upload = await uploads.begin(team.principal, await team.run(), "big", 1)
        with pytest.raises(Denied, match="at most"):
            await uploads.put_part(
                upload.id, 1, upload.tokens()[0], stream(b"x"), length=PART_BYTES + 1
            )
        monkeypatch.setattr("trackyard.artifacts.uploads.PART_BYTES", 10)
        with pytest.raises(Denied, match="at most"):
            await uploads.put_part(
                upload.id, 1, upload.tokens()[0], stream(b"x" * 11), length=None
            )
        assert await blob_count(blobs) == 0

    async def test_an_expired_token_opens_nothing(
        self, uploads: Uploads, team: Team, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        upload = await uploads.begin(team.principal, await team.run(), "big", 1)
        now = team.database.clock.time_ms()
        monkeypatch.setattr(team.database.clock, "time_ms", lambda: now + LIFETIME_MS + 60_000)
        with pytest.raises(Denied):
            await put_part(uploads, upload, 1, b"late")


class TestOwnership:
    async def test_another_team_can_neither_complete_nor_abort(
        self, uploads: Uploads, team: Team, stranger: Team
    ) -> None:
        run, theirs = await team.run(), await stranger.run()
        upload = await uploads.begin(team.principal, run, "big", 3)
        parts = await put_all(uploads, upload)
        for owner in (run, theirs):
            with pytest.raises(NotFound):
                await uploads.complete(stranger.principal, owner, "big", upload.id, parts)
            with pytest.raises(NotFound):
                await uploads.abort(stranger.principal, owner, "big", upload.id)

    async def test_an_upload_belongs_to_its_path_and_its_run(
        self, uploads: Uploads, team: Team
    ) -> None:
        run, second = await team.run(), await team.run()
        upload = await uploads.begin(team.principal, run, "big", 3)
        parts = await put_all(uploads, upload)
        for owner, path in ((run, "other"), (second, "big")):
            with pytest.raises(NotFound):
                await uploads.complete(team.principal, owner, path, upload.id, parts)

    @pytest.mark.parametrize("count", [0, -1, 10_001])
    async def test_the_number_of_parts_has_limits(
        self, uploads: Uploads, team: Team, count: int
    ) -> None:
        with pytest.raises(InvalidInput, match="num_parts"):
            await uploads.begin(team.principal, await team.run(), "big", count)


async def test_an_upload_being_completed_is_not_aborted(
    uploads: Uploads, artifacts: Artifacts, team: Team
) -> None:
    run = await team.run()
    upload = await uploads.begin(team.principal, run, "big", 3)
    parts = await put_all(uploads, upload)
    completing = asyncio.create_task(
        uploads.complete(team.principal, run, "big", upload.id, parts)
    )
    for _ in range(1000):
        if uploads.is_completing(upload.id):
            break
        await asyncio.sleep(0.001)
    with pytest.raises(Conflict):
        await uploads.abort(team.principal, run, "big", upload.id)
    await completing
    assert await artifacts.read_all(await artifacts.find(run.id, "big")) == WHOLE


async def test_an_upload_nobody_ends_is_collected(
    uploads: Uploads, artifacts: Artifacts, blobs: BlobStore, team: Team
) -> None:
    upload = await uploads.begin(team.principal, await team.run(), "big", 3)
    await put_all(uploads, upload)
    kept = await collect_garbage(team.database, artifacts)
    assert (kept.uploads, await blob_count(blobs)) == (0, 3)
    await asyncio.sleep(0.01)
    gone = await collect_garbage(team.database, artifacts, grace_ms=0)
    assert (gone.uploads, await blob_count(blobs)) == (1, 0)
