"""Versions of registered models: numbers, stages, tags, search, retries; on both databases."""

import pytest

from tests.integration.registry.world import World
from trackyard.core.errors import AlreadyExists, InvalidInput, NotFound
from trackyard.registry.rules import PROMPT_TAG
from trackyard.registry.versions import VersionDraft
from trackyard.store.idempotency.rule import digest_of


async def found(world: World, text: str | None = None, *order: str) -> list[str]:
    """Versions that a search finds, as name/number."""
    page, _ = await world.registry.versions.search(
        world.principal, filter_text=text, order_by=order, max_results=100, page_token=None
    )
    return [f"{version['name']}/{version['version']}" for version in page]


class TestVersions:
    """Create, describe, tag, delete."""

    async def test_a_new_version_says_where_it_comes_from(self, world: World) -> None:
        run_id = await world.run("model/MLmodel")
        await world.registry.create(world.principal, "net")
        new = VersionDraft(
            name="net",
            source=f"{world.root(run_id)}/model",
            run_id=run_id,
            tags=[("k", "v")],
            run_link="link",
            description="words",
        )
        made = await world.registry.versions.create(world.principal, new)
        assert made == await world.registry.versions.get(world.principal, "net", "1")
        times = ("creation_timestamp", "last_updated_timestamp")
        assert {key: value for key, value in made.items() if key not in times} == {
            "name": "net",
            "version": "1",
            "description": "words",
            "user_id": "ada",
            "current_stage": "None",
            "source": f"{world.root(run_id)}/model",
            "run_id": run_id,
            "status": "READY",
            "run_link": "link",
            "tags": [{"key": "k", "value": "v"}],
        }

    async def test_a_version_of_no_model_is_refused(self, world: World) -> None:
        run_id = await world.run("model/MLmodel")
        with pytest.raises(NotFound, match="Registered Model with name=net not found"):
            await world.version("net", f"runs:/{run_id}/model")

    async def test_numbers_are_never_used_twice(self, world: World) -> None:
        run_id = await world.net(versions=2)
        await world.registry.versions.delete(world.principal, "net", "2")
        assert (await world.version("net", f"runs:/{run_id}/model"))["version"] == "3"
        with pytest.raises(NotFound):
            await world.registry.versions.get(world.principal, "net", "2")
        with pytest.raises(NotFound):
            await world.registry.versions.delete(world.principal, "net", "2")

    async def test_a_tombstone_keeps_nothing_but_its_number(self, world: World) -> None:
        await world.net()
        await world.registry.versions.set_tag(world.principal, "net", "1", "k", "v")
        await world.registry.versions.delete(world.principal, "net", "1")
        row = await world.database.read(
            lambda reader: reader.one(
                "SELECT source, run_uuid, storage_location, user_name, (SELECT COUNT(*)"
                " FROM model_version_tags) FROM model_versions"
            )
        )
        assert row == ("", "", "", "", 0)

    async def test_a_version_is_described_and_tagged(self, world: World) -> None:
        await world.net()
        versions = world.registry.versions
        assert (await versions.update(world.principal, "net", "1", "new"))["description"] == "new"
        await versions.set_tag(world.principal, "net", "1", "k", "1")
        await versions.set_tag(world.principal, "net", "1", "k", "2")
        await versions.set_tag(world.principal, "net", "1", "gone", "x")
        await versions.delete_tag(world.principal, "net", "1", "gone")
        got = await versions.get(world.principal, "net", "1")
        assert got["tags"] == [{"key": "k", "value": "2"}]

    async def test_another_teams_version_is_not_found(self, world: World, other: World) -> None:
        await world.net()
        versions = other.registry.versions
        for call in (
            versions.get(other.principal, "net", "1"),
            versions.update(other.principal, "net", "1", "x"),
            versions.delete(other.principal, "net", "1"),
            versions.transition(other.principal, "net", "1", "production"),
            versions.set_tag(other.principal, "net", "1", "k", "v"),
            versions.delete_tag(other.principal, "net", "1", "k"),
            versions.download_uri(other.principal, "net", "1"),
            versions.by_alias(other.principal, "net", "best"),
        ):
            with pytest.raises(NotFound):
                await call
        assert await found(other) == []


class TestStages:
    """Moving versions between stages."""

    async def test_a_stage_may_hold_several_versions(self, world: World) -> None:
        await world.net(versions=2)
        for number in ("1", "2"):
            moved = await world.registry.versions.transition(
                world.principal, "net", number, "production"
            )
            assert moved["current_stage"] == "Production"
        assert (await world.registry.versions.get(world.principal, "net", "1"))[
            "current_stage"
        ] == "Production"

    async def test_archiving_moves_the_others_of_that_stage(self, world: World) -> None:
        await world.net(versions=3)
        versions = world.registry.versions
        await versions.transition(world.principal, "net", "1", "Production")
        await versions.transition(world.principal, "net", "2", "Staging")
        await versions.transition(world.principal, "net", "3", "Production", archive=True)
        stages = [
            (await versions.get(world.principal, "net", number))["current_stage"]
            for number in ("1", "2", "3")
        ]
        assert stages == ["Archived", "Staging", "Production"]

    async def test_latest_versions_are_the_newest_of_each_stage(self, world: World) -> None:
        await world.net(versions=4)
        versions = world.registry.versions
        for number, stage in (("1", "Staging"), ("2", "Staging"), ("3", "Archived")):
            await versions.transition(world.principal, "net", number, stage)
        latest = await versions.latest(world.principal, "net")
        assert {version["current_stage"]: version["version"] for version in latest} == {
            "Staging": "2",
            "Archived": "3",
            "None": "4",
        }
        chosen = await versions.latest(world.principal, "net", ["staging", "Production"])
        assert [version["version"] for version in chosen] == ["2"]
        model = await world.registry.get(world.principal, "net")
        assert len(model["latest_versions"]) == 3


class TestSearch:
    """Filters and orders of versions."""

    async def test_filters_and_orders(self, world: World) -> None:
        run_id = await world.net(versions=2)
        await world.registry.create(world.principal, "nest")
        await world.version("nest", f"{world.root(run_id)}/model")
        versions = world.registry.versions
        await versions.set_tag(world.principal, "net", "1", "x", "y")
        by_name = ("name ASC", "version_number ASC")
        assert await found(world, None, *by_name) == ["nest/1", "net/1", "net/2"]
        assert await found(world, "name = 'net'", "version_number DESC") == ["net/2", "net/1"]
        assert await found(world, f"run_id = '{run_id}'", *by_name) == ["nest/1", "net/1", "net/2"]
        assert await found(world, "run_id = 'none'") == []
        assert await found(world, f"source_path = '{world.root(run_id)}/model'") == ["nest/1"]
        assert await found(world, "source_path LIKE 'runs:/%'", *by_name) == ["net/1", "net/2"]
        assert await found(world, "version_number > 1") == ["net/2"]
        assert await found(world, "tags.x = 'y'") == ["net/1"]
        assert await found(world, "name IN ('nest') OR tags.x = 'y'", *by_name) == [
            "nest/1",
            "net/1",
        ]

    async def test_the_last_changed_comes_first(self, world: World) -> None:
        await world.net(versions=2)

        def age(tx: object) -> None:
            tx.run("UPDATE model_versions SET updated_ms = version")  # type: ignore[attr-defined]

        await world.database.write(age)
        assert await found(world) == ["net/2", "net/1"]
        await world.registry.versions.update(world.principal, "net", "1", "touched")
        assert await found(world) == ["net/1", "net/2"]

    async def test_deleted_versions_and_prompts_stay_out(self, world: World) -> None:
        await world.net(versions=3)
        await world.registry.versions.delete(world.principal, "net", "1")
        await world.registry.versions.set_tag(world.principal, "net", "2", PROMPT_TAG, "true")
        assert await found(world) == ["net/3"]
        assert await found(world, "tags.`mlflow.prompt.is_prompt` != 'true'") == ["net/3"]
        assert await found(world, "tags.`mlflow.prompt.is_prompt` = 'true'") == ["net/2"]

    async def test_bad_filters_are_refused(self, world: World) -> None:
        for text in ("colour = 'x'", "version_number = 'x'", "source_path IN ('a')"):
            with pytest.raises(InvalidInput):
                await found(world, text)


class TestRetries:
    """A create call repeated after a lost reply makes one; without proof of that it makes two."""

    @pytest.fixture
    async def new(self, world: World) -> VersionDraft:
        run_id = await world.run("model/MLmodel")
        await world.registry.create(world.principal, "net")
        return VersionDraft(name="net", source=f"runs:/{run_id}/model", tags=[("k", "v")])

    async def create(self, world: World, new: VersionDraft, *, lost: bool) -> str:
        call = world.creates.begin(digest_of(new), lambda: lost)
        made = await world.registry.versions.create(world.principal, new, call)
        if lost:
            await call.unanswered()
        else:
            assert call.claim()
        return str(made["version"])

    async def test_a_retry_of_a_lost_answer_gets_the_first_version(
        self, world: World, new: VersionDraft
    ) -> None:
        assert await self.create(world, new, lost=True) == "1"
        assert await self.create(world, new, lost=True) == "1"
        assert await self.create(world, new, lost=False) == "1"
        assert await found(world) == ["net/1"]
        assert [kind for kind, _ in await world.events()].count("model_version.created") == 1

    async def test_the_same_words_after_an_answer_are_another_version(
        self, world: World, new: VersionDraft
    ) -> None:
        assert await self.create(world, new, lost=False) == "1"
        assert await self.create(world, new, lost=False) == "2"

    async def test_other_words_are_another_version(self, world: World, new: VersionDraft) -> None:
        assert await self.create(world, new, lost=True) == "1"
        assert await self.create(world, new._replace(tags=[]), lost=False) == "2"

    async def test_a_registered_model_is_given_to_its_retry_and_to_no_other(
        self, world: World
    ) -> None:
        for lost in (True, False):
            call = world.creates.begin("d", lambda: False)
            made = await world.registry.create(world.principal, "new", create=call)
            assert made["name"] == "new"
            if lost:
                await call.unanswered()
            else:
                assert call.claim()
        with pytest.raises(AlreadyExists):
            await world.registry.create(
                world.principal, "new", create=world.creates.begin("d", lambda: False)
            )

    async def test_a_logged_model_is_given_to_its_retry_and_to_no_other(
        self, world: World
    ) -> None:
        made = []
        for lost in (True, False, False):
            call = world.creates.begin("d", lambda: False)
            model = await world.logged.create(
                world.principal, experiment_id=world.principal.default_experiment, create=call
            )
            made.append(model["info"]["model_id"])
            if lost:
                await call.unanswered()
            else:
                assert call.claim()
        assert made[0] == made[1] != made[2]

    async def test_a_version_in_use_is_not_given_again(
        self, world: World, new: VersionDraft
    ) -> None:
        """Whoever deleted, moved or aliased the first version had its answer, restart or not."""
        for number, change in enumerate(
            (
                "UPDATE model_versions SET stage = 'Deleted_Internal'",
                "UPDATE model_versions SET stage = 'Staging'",
                "UPDATE model_versions SET updated_ms = updated_ms + 1",
                "INSERT INTO model_aliases SELECT id, 'best', 4 FROM models",
            ),
            start=1,
        ):
            assert await self.create(world, new, lost=True) == str(number)
            await world.database.write(lambda tx, change=change: tx.run(change))  # type: ignore[misc]
        assert await self.create(world, new, lost=False) == "5"
