"""Artifacts under runs and logged models, on both databases and on disk and S3."""

import asyncio
import os
import random
import time

import pytest

from tests.integration.artifacts.conftest import EVERYWHERE
from tests.integration.artifacts.team import Team, cut_stream, stream
from trackyard.artifacts import tree
from trackyard.artifacts.blobs import BlobStore
from trackyard.artifacts.owners import ArtifactOwner
from trackyard.artifacts.service import Artifacts, forget_owner
from trackyard.artifacts.tree import StoredSize
from trackyard.core.errors import BadRequest, InvalidInput, NotFound
from trackyard.store.database import Database

pytestmark = EVERYWHERE

MIB = 1024 * 1024


async def put(
    artifacts: Artifacts, team: Team, owner: ArtifactOwner, path: str, data: bytes
) -> None:
    await artifacts.put(team.principal, owner, path, stream(data), length=len(data))


async def get(artifacts: Artifacts, owner: ArtifactOwner, path: str) -> bytes:
    return await artifacts.read_all(await artifacts.find(owner.id, path))


async def blob_count(blobs: BlobStore) -> int:
    return len([found async for found in blobs.walk()])


class TestWriting:
    async def test_a_file_comes_back_and_leaves_an_event(
        self, artifacts: Artifacts, team: Team
    ) -> None:
        run = await team.run()
        await put(artifacts, team, run, "model/weights.bin", b"abc")
        found = await artifacts.find(run.id, "model/weights.bin")
        assert (found.size, found.owner) == (3, run.id)
        assert await get(artifacts, run, "model/weights.bin") == b"abc"
        assert await team.events() == [("artifact.written", "run")]

    async def test_writing_again_replaces_the_file_and_its_blob(
        self, artifacts: Artifacts, blobs: BlobStore, team: Team
    ) -> None:
        run = await team.run()
        await put(artifacts, team, run, "a", b"first, and longer")
        await put(artifacts, team, run, "a", b"second")
        assert await get(artifacts, run, "a") == b"second"
        assert await blob_count(blobs) == 1
        assert len(await team.events()) == 2

    async def test_a_repeated_request_is_no_second_event(
        self, artifacts: Artifacts, blobs: BlobStore, team: Team
    ) -> None:
        run = await team.run()
        await put(artifacts, team, run, "a", b"same")
        await put(artifacts, team, run, "a", b"same")
        assert await blob_count(blobs) == 1
        assert len(await team.events()) == 1

    async def test_an_upload_cut_anywhere_leaves_the_old_version(
        self, artifacts: Artifacts, blobs: BlobStore, team: Team
    ) -> None:
        run = await team.run()
        old, new = os.urandom(1000), os.urandom(160_000)
        await put(artifacts, team, run, "a", old)
        for sixteenth in range(16):
            lost = cut_stream(new, len(new) * sixteenth // 16, BadRequest("lost"))
            with pytest.raises(BadRequest):
                await artifacts.put(team.principal, run, "a", lost, length=len(new))
            with pytest.raises(BadRequest):
                await artifacts.put(
                    team.principal, run, "b", cut_stream(new, 10, BadRequest("lost"))
                )
        assert await get(artifacts, run, "a") == old
        assert await artifacts.exists(run.id, "b") is False
        assert await blob_count(blobs) == 1

    async def test_bytes_that_do_not_match_their_digest_are_refused(
        self, artifacts: Artifacts, blobs: BlobStore, team: Team
    ) -> None:
        run = await team.run()
        await put(artifacts, team, run, "a", b"old")
        with pytest.raises(InvalidInput, match="SHA-256"):
            await artifacts.put(team.principal, run, "a", stream(b"new"), sha256="0" * 64)
        assert await get(artifacts, run, "a") == b"old"
        assert await blob_count(blobs) == 1

    async def test_eight_writers_of_one_name_leave_one_whole_version(
        self, artifacts: Artifacts, blobs: BlobStore, team: Team
    ) -> None:
        run = await team.run()
        versions = [os.urandom(random.randint(1, 3 * MIB)) for _ in range(8)]
        await asyncio.gather(
            *(put(artifacts, team, run, "dir/same", version) for version in versions)
        )
        assert await get(artifacts, run, "dir/same") in versions
        assert await blob_count(blobs) == 1

    async def test_a_file_and_a_folder_cannot_share_a_name(
        self, artifacts: Artifacts, blobs: BlobStore, team: Team
    ) -> None:
        run = await team.run()
        await put(artifacts, team, run, "a/b", b"x")
        with pytest.raises(InvalidInput, match="is a folder"):
            await put(artifacts, team, run, "a", b"x")
        with pytest.raises(InvalidInput, match="is a file"):
            await put(artifacts, team, run, "a/b/c/d", b"x")
        assert await blob_count(blobs) == 1

    async def test_a_run_deleted_while_bytes_come_in_takes_none_of_them(
        self, artifacts: Artifacts, blobs: BlobStore, team: Team
    ) -> None:
        run = await team.run()

        async def body():
            yield b"first half"
            await team.delete_run(run)
            yield b"second half"

        with pytest.raises(InvalidInput, match="active"):
            await artifacts.put(team.principal, run, "a", body())
        assert await blob_count(blobs) == 0
        assert await team.events() == []

    async def test_a_download_that_has_begun_ends_whole_though_the_file_is_replaced(
        self, artifacts: Artifacts, blobs: BlobStore, team: Team
    ) -> None:
        run = await team.run()
        old = os.urandom(9 * MIB)
        await put(artifacts, team, run, "a", old)
        reading = artifacts.read(await artifacts.find(run.id, "a"))
        got = [await anext(reading)]
        await put(artifacts, team, run, "a", b"new")
        got += [piece async for piece in reading]
        assert b"".join(got) == old
        assert await blob_count(blobs) == 1


class TestOwners:
    async def test_another_teams_run_is_not_found(
        self, artifacts: Artifacts, team: Team, stranger: Team
    ) -> None:
        run = await team.run()
        model = await team.logged_model(run.id)
        for owner in (run, model):
            with pytest.raises(NotFound):
                await artifacts.owner(stranger.principal, owner.id)
            with pytest.raises(NotFound):
                await put(artifacts, stranger, owner, "a", b"x")
            with pytest.raises(NotFound):
                await artifacts.delete(stranger.principal, owner, "")

    async def test_an_attempt_reaches_its_own_run_and_what_that_run_put_out(
        self, artifacts: Artifacts, team: Team
    ) -> None:
        mine, other = await team.run(), await team.run()
        my_model, other_model = await team.logged_model(mine.id), await team.logged_model(other.id)
        attempt = team.attempt(mine)
        assert (await artifacts.owner(attempt, mine.id)).id == mine.id
        assert (await artifacts.owner(attempt, my_model.id)).id == my_model.id
        for owner in (other, other_model):
            with pytest.raises(NotFound):
                await artifacts.owner(attempt, owner.id)

    async def test_a_deleted_run_is_read_but_not_written(
        self, artifacts: Artifacts, team: Team
    ) -> None:
        run = await team.run()
        await put(artifacts, team, run, "a", b"x")
        await team.delete_run(run)
        assert (await artifacts.owner(team.principal, run.id)).id == run.id
        with pytest.raises(InvalidInput, match="must be in the 'active' state"):
            await artifacts.owner(team.principal, run.id, to_write=True)

    async def test_ids_are_checked_before_they_are_looked_for(
        self, artifacts: Artifacts, team: Team
    ) -> None:
        for text in ("../x", "a b", "", "x" * 300, "a'--"):
            with pytest.raises(InvalidInput):
                await artifacts.owner(team.principal, text)
        for text in ("a" * 32, "m-" + "a" * 32, "not-one-of-ours"):
            with pytest.raises(NotFound):
                await artifacts.owner(team.principal, text)


class TestListing:
    PATHS = (
        "a.txt",
        "a/b/c/deep.txt",
        "a/b/one",
        "a/z",
        "a-b/x",
        "a0",
        "model/MLmodel",
        "größe/✓",
        "Z",
        "_",
    )

    @pytest.fixture
    async def run(self, artifacts: Artifacts, team: Team) -> ArtifactOwner:
        run = await team.run()
        for path in self.PATHS:
            await put(artifacts, team, run, path, path.encode())
        return run

    async def test_a_folder_shows_files_and_folders_directly_below_it(
        self, artifacts: Artifacts, run: ArtifactOwner
    ) -> None:
        def shown(entries: list[tree.TreeEntry]) -> list[tuple[str, int | None]]:
            return [(entry.path, entry.size) for entry in entries]

        assert shown(await artifacts.list(run.id)) == [
            ("Z", 1),
            ("_", 1),
            ("a", None),
            ("a-b", None),
            ("a.txt", 5),
            ("a0", 2),
            ("größe", None),
            ("model", None),
        ]
        assert shown(await artifacts.list(run.id, "a")) == [("a/b", None), ("a/z", 3)]
        assert shown(await artifacts.list(run.id, "a/b")) == [("a/b/c", None), ("a/b/one", 7)]
        assert await artifacts.list(run.id, "a.txt") == []
        assert await artifacts.list(run.id, "nothing") == []

    async def test_what_exists_and_how_much_there_is(
        self, artifacts: Artifacts, team: Team, run: ArtifactOwner
    ) -> None:
        empty = await team.run()
        assert await artifacts.exists(run.id, "a/b") is True
        assert await artifacts.exists(run.id, "a/b/one") is True
        assert await artifacts.exists(run.id, "a/b/on") is False
        assert await artifacts.exists(run.id, "") is True
        assert await artifacts.exists(empty.id, "") is False
        total = sum(len(path.encode()) for path in self.PATHS)
        assert await artifacts.sizes([run.id, empty.id]) == {
            run.id: StoredSize(files=len(self.PATHS), total_bytes=total),
            empty.id: StoredSize(),
        }

    async def test_a_folder_is_not_a_file_and_nothing_is_not_found(
        self, artifacts: Artifacts, run: ArtifactOwner
    ) -> None:
        with pytest.raises(InvalidInput, match="directory, not a file"):
            await artifacts.find(run.id, "a/b")
        with pytest.raises(NotFound, match="No such artifact"):
            await artifacts.find(run.id, "a/c")

    async def test_deleting_a_folder_takes_all_below_it_and_nothing_beside_it(
        self, artifacts: Artifacts, blobs: BlobStore, team: Team, run: ArtifactOwner
    ) -> None:
        assert await artifacts.delete(team.principal, run, "a") == 3
        left = [entry.path for entry in await artifacts.list(run.id)]
        assert left == ["Z", "_", "a-b", "a.txt", "a0", "größe", "model"]
        assert await artifacts.delete(team.principal, run, "a.txt") == 1
        with pytest.raises(NotFound):
            await artifacts.delete(team.principal, run, "a")
        assert await artifacts.delete(team.principal, run, "") == 6
        assert await artifacts.delete(team.principal, run, "") == 0
        assert await blob_count(blobs) == 0
        assert (await team.events())[-3:] == [("artifact.deleted", "run")] * 3

    async def test_a_purged_owner_holds_nothing(
        self, artifacts: Artifacts, team: Team, run: ArtifactOwner
    ) -> None:
        dropped = await team.database.write(lambda tx: forget_owner(tx, run.id))
        assert dropped == len(self.PATHS)
        assert await artifacts.list(run.id) == []


async def test_a_file_replaced_at_one_server_is_still_read_at_another(
    database: Database, blobs: BlobStore, team: Team
) -> None:
    """Where several servers share a store, bytes outlive their row for a while, then they go."""
    one = Artifacts(database, blobs, linger_seconds=0.3)
    other = Artifacts(database, blobs, linger_seconds=0.3)
    run = await team.run()
    old = await one.put(team.principal, run, "f", stream(b"old"))
    found = await other.find(run.id, "f")
    await one.put(team.principal, run, "f", stream(b"new"))
    assert await other.read_all(found) == b"old"
    deadline = time.monotonic() + 180
    while old.blob in {met.blob async for met in blobs.walk()}:
        assert time.monotonic() < deadline, "it never went"
        await asyncio.sleep(0.05)
