"""Garbage is found and removed, damage is found and named, and neither touches anything else."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.integration.artifacts.conftest import EVERYWHERE
from tests.integration.artifacts.team import Team, stream
from trackyard.artifacts.blobs import BlobFault, BlobStore
from trackyard.artifacts.owners import ArtifactOwner
from trackyard.artifacts.service import Artifact, Artifacts, forget_owner
from trackyard.artifacts.upkeep import collect_garbage
from trackyard.artifacts.verify import VerifySlice, check_all_files, check_files
from trackyard.core.errors import InvalidInput
from trackyard.store.database import Database

pytestmark = EVERYWHERE


async def put(
    artifacts: Artifacts, team: Team, run: ArtifactOwner, path: str, data: bytes
) -> Artifact:
    return await artifacts.put(team.principal, run, path, stream(data))


async def ids(blobs: BlobStore) -> set[str]:
    return {found.blob async for found in blobs.walk()}


def damage(request: pytest.FixtureRequest, tmp_path: Path, blob: str) -> None:
    """Flip one byte of a blob where it lies."""
    path = tmp_path / "artifacts/blobs" / blob[:2] / blob
    if path.exists():
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    else:
        request.getfixturevalue("bucket").damage(blob)


async def test_blobs_without_an_artifact_are_removed_and_all_others_stay(
    artifacts: Artifacts, blobs: BlobStore, team: Team
) -> None:
    run, purged = await team.run(), await team.run()
    kept = [await put(artifacts, team, run, f"{n}", os.urandom(50)) for n in range(20)]
    for number in range(3):
        await put(artifacts, team, purged, f"{number}", b"12345")
    orphan = await blobs.write(stream(b"1234567"))
    await team.database.write(lambda tx: forget_owner(tx, purged.id))
    await asyncio.sleep(0.01)

    planned = await collect_garbage(team.database, artifacts, grace_ms=0, dry_run=True)
    assert (planned.blobs, planned.blob_bytes) == (4, 22)
    assert orphan.blob in await ids(blobs)

    young = await collect_garbage(team.database, artifacts)
    assert young.blobs == 0

    # S3 keeps times in whole seconds, so look from a little later.
    done = await collect_garbage(team.database, artifacts, grace_ms=-2000)
    assert (done.blobs, done.blob_bytes) == (4, 22)
    assert await ids(blobs) == {artifact.blob for artifact in kept}


async def test_damage_is_named_and_the_rest_is_served(
    artifacts: Artifacts,
    blobs: BlobStore,
    team: Team,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    run = await team.run()
    sound = await put(artifacts, team, run, "sound", b"as it was")
    rotten = await put(artifacts, team, run, "dir/rotten", os.urandom(3_000_000))
    missing = await put(artifacts, team, run, "missing", b"soon gone")
    clean = await check_all_files(team.database, blobs)
    assert (clean.files, clean.bad) == (3, [])

    damage(request, tmp_path, rotten.blob)
    await blobs.delete([missing.blob])
    found = await check_all_files(team.database, blobs)
    assert found.total_bytes == sound.size + rotten.size + missing.size
    assert [bad.file.path for bad in found.bad] == ["dir/rotten", "missing"]
    assert {bad.file.owner for bad in found.bad} == {run.id}
    assert await in_slices(team.database, blobs) == ["dir/rotten", "missing"]
    with pytest.raises(
        BlobFault, match=r"'dir/rotten' of [0-9a-f]{32} is damaged.*upload it again"
    ):
        await artifacts.read_all(rotten)
    with pytest.raises(BlobFault, match="'dir/rotten'"):
        await artifacts.vouch(rotten)
    await artifacts.vouch(sound)
    assert await artifacts.read_all(sound) == b"as it was"

    await put(artifacts, team, run, "dir/rotten", b"sent again")
    await put(artifacts, team, run, "missing", b"soon gone")
    assert (await check_all_files(team.database, blobs)).bad == []


async def in_slices(database: Database, blobs: BlobStore) -> list[str]:
    """Read one file a call, as a slow disk would have it."""
    found: list[str] = []
    step = VerifySlice(next_place="")
    while step.next_place is not None:
        step = await check_files(database, blobs, after=step.next_place, seconds=0)
        assert step.files <= 1
        found += [bad.file.path for bad in step.bad]
    for odd in ("x", "artifact:", "artifact:-1", "artifact:\u0661", "package:" + "0" * 80):
        with pytest.raises(InvalidInput, match="after"):
            await check_files(database, blobs, after=odd, seconds=0)
    return found
