"""What every blob store must do, on disk and in a bucket."""

import asyncio
import hashlib
import os
import time
from pathlib import Path

import pytest

from tests.integration.artifacts.conftest import Bucket
from tests.integration.artifacts.team import cut_stream, stream
from trackyard.artifacts.blobs import BlobFault, BlobStore, StoredBlob, checked, join, open_blobs
from trackyard.artifacts.object_store import ObjectBlobs
from trackyard.core.errors import BadRequest, SetupError, TooBusy

MIB = 1024 * 1024


async def read_all(blobs: BlobStore, stored: StoredBlob) -> bytes:
    return b"".join([piece async for piece in blobs.read(stored.blob, 0, stored.size)])


async def ids(blobs: BlobStore) -> set[str]:
    return {found.blob async for found in blobs.walk()}


@pytest.mark.parametrize("size", [0, 1, 999_999, 9 * MIB, 21 * MIB + 7])
@pytest.mark.parametrize("is_declared", [True, False])
async def test_bytes_come_back_as_they_went_in(
    blobs: BlobStore, size: int, is_declared: bool
) -> None:
    data = os.urandom(size)
    stored = await blobs.write(stream(data), length=size if is_declared else None)
    assert stored.size == size
    assert stored.sha256 == hashlib.sha256(data).hexdigest()
    assert await read_all(blobs, stored) == data


async def test_any_range_can_be_read(blobs: BlobStore) -> None:
    data = os.urandom(5 * MIB)
    stored = await blobs.write(stream(data))
    for start, end in [(0, 1), (MIB - 1, MIB + 1), (3, 3), (0, 5 * MIB), (5 * MIB - 1, 5 * MIB)]:
        got = b"".join([piece async for piece in blobs.read(stored.blob, start, end)])
        assert got == data[start:end]


@pytest.mark.parametrize("at", [0, 100, 9 * MIB, 20 * MIB])
async def test_a_stream_that_breaks_off_leaves_nothing(
    blobs: BlobStore, request: pytest.FixtureRequest, tmp_path: Path, at: int
) -> None:
    with pytest.raises(BadRequest, match="lost"):
        await blobs.write(cut_stream(bytes(24 * MIB), at, BadRequest("lost")))
    await blobs.write(stream(b"after"))  # lets the clean-up behind the first one finish
    assert len(await ids(blobs)) == 1
    if isinstance(blobs, ObjectBlobs):
        assert request.getfixturevalue("bucket").unfinished() == 0
    else:
        await blobs.close()
        assert list((tmp_path / "artifacts/incoming").iterdir()) == []


async def test_a_cancelled_write_leaves_nothing(
    blobs: BlobStore, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    reached = asyncio.Event()

    async def endless():
        while True:
            yield bytes(MIB)
            await asyncio.sleep(0.005)
            reached.set()

    writing = asyncio.create_task(blobs.write(endless()))
    await reached.wait()
    await asyncio.sleep(0.2)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    if isinstance(blobs, ObjectBlobs):
        bucket: Bucket = request.getfixturevalue("bucket")
        for _ in range(100):
            if bucket.unfinished() == 0:
                break
            await asyncio.sleep(0.05)
        assert (bucket.keys(), bucket.unfinished()) == ([], 0)
    else:
        await blobs.close()
        left = [path for path in (tmp_path / "artifacts").rglob("*") if path.is_file()]
        assert left == []


async def test_a_deleted_blob_is_gone_and_deleting_it_again_is_no_fault(blobs: BlobStore) -> None:
    kept, gone = await blobs.write(stream(b"kept")), await blobs.write(stream(b"gone"))
    await blobs.delete([gone.blob])
    await blobs.delete([gone.blob])
    await blobs.delete([])
    assert await ids(blobs) == {kept.blob}
    with pytest.raises(BlobFault):
        await read_all(blobs, gone)


async def test_every_blob_is_met_on_a_walk_with_its_size(blobs: BlobStore) -> None:
    stored = [await blobs.write(stream(bytes(size))) for size in (0, 3, 70_000)]
    found = {found.blob: found async for found in blobs.walk()}
    assert {blob: entry.size for blob, entry in found.items()} == {s.blob: s.size for s in stored}
    assert all(abs(entry.modified_ms / 1000 - time.time()) < 60 for entry in found.values())


async def test_parts_become_one_blob_in_their_order(blobs: BlobStore) -> None:
    pieces = [os.urandom(size) for size in (6 * MIB, 5 * MIB, 17)]
    parts = [await blobs.write(stream(piece)) for piece in pieces]
    whole = await join(blobs, parts)
    assert await read_all(blobs, whole) == b"".join(pieces)
    assert whole.sha256 == hashlib.sha256(b"".join(pieces)).hexdigest()


async def test_a_damaged_part_is_not_joined(blobs: BlobStore) -> None:
    part = await blobs.write(stream(b"good"))
    wrong = StoredBlob(blob=part.blob, size=part.size, sha256=hashlib.sha256(b"bad!").hexdigest())
    with pytest.raises(BlobFault, match="part 1"):
        await join(blobs, [wrong])
    assert await ids(blobs) == {part.blob}


async def test_the_last_piece_is_held_back_until_the_digest_fits(blobs: BlobStore) -> None:
    data = os.urandom(9 * MIB)
    stored = await blobs.write(stream(data))
    got = bytearray()

    async def gather() -> None:
        pieces = blobs.read(stored.blob, 0, stored.size)
        async for piece in checked(pieces, "0" * 64, BlobFault("rotten")):
            got.extend(piece)

    with pytest.raises(BlobFault, match="rotten"):
        await gather()
    assert 0 < len(got) < len(data)


async def test_an_id_is_never_a_path(blobs: BlobStore) -> None:
    for text in ("../../etc/passwd", "a" * 31, "A" * 32, "/etc/passwd", ""):
        with pytest.raises(BlobFault):
            await blobs.delete([text])
        with pytest.raises(BlobFault):
            [piece async for piece in blobs.read(text, 0, 1)]


async def test_a_store_that_answers_passes_its_probe(blobs: BlobStore) -> None:
    await blobs.probe()


async def test_keys_lie_below_the_prefix(bucket: Bucket, tmp_path: Path) -> None:
    store = open_blobs(bucket.url, endpoint=bucket.endpoint, home=tmp_path)
    stored = await store.write(stream(b"x"))
    assert bucket.keys() == [f"pre/fix/blobs/{stored.blob[:2]}/{stored.blob}"]


async def test_a_bucket_that_is_not_there_is_a_fault_to_come_back_from(
    bucket: Bucket, tmp_path: Path
) -> None:
    store = open_blobs("s3://nowhere-at-all", endpoint=bucket.endpoint, home=tmp_path)
    with pytest.raises(TooBusy) as caught:
        await store.write(stream(b"x"))
    assert caught.value.retry_after


@pytest.mark.parametrize("url", ["gs://bucket", "ftp://host/x", "file://host/x", "s3x://b"])
def test_places_of_other_kinds_are_refused_with_a_hint(url: str, tmp_path: Path) -> None:
    with pytest.raises(SetupError) as caught:
        open_blobs(url, home=tmp_path)
    assert "s3://" in (caught.value.hint or "")
