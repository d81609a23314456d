"""Registered models, their tags and aliases, on both databases."""

import pytest

from tests.integration.registry.world import World
from trackyard.core.errors import AlreadyExists, InvalidInput, NotFound
from trackyard.registry.rules import PROMPT_TAG


async def found(world: World, text: str | None = None, *order: str) -> list[str]:
    """Names that a search finds."""
    page, _ = await world.registry.search(
        world.principal, filter_text=text, order_by=order, max_results=100, page_token=None
    )
    return [model["name"] for model in page]


class TestModels:
    """Create, describe, rename, delete."""

    async def test_a_new_model_is_returned_as_it_is_read(self, world: World) -> None:
        made = await world.registry.create(
            world.principal, "net", tags=[("b", "2"), ("a", "1")], description="words"
        )
        assert made == await world.registry.get(world.principal, "net")
        assert made["description"] == "words"
        assert made["tags"] == [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}]
        assert "latest_versions" not in made
        assert "aliases" not in made

    async def test_a_name_is_taken_once_per_team(self, world: World, other: World) -> None:
        await world.registry.create(world.principal, "net")
        with pytest.raises(
            AlreadyExists, match=r"^Registered Model \(name=net\) already exists\.$"
        ):
            await world.registry.create(world.principal, "net")
        await other.registry.create(other.principal, "net")

    async def test_a_prompt_and_a_model_share_no_name(self, world: World) -> None:
        await world.registry.create(world.principal, "ask", tags=[(PROMPT_TAG, "true")])
        with pytest.raises(AlreadyExists, match="already taken by a prompt"):
            await world.registry.create(world.principal, "ask")

    async def test_another_teams_model_is_not_found(self, world: World, other: World) -> None:
        await world.registry.create(world.principal, "net")
        for call in (
            other.registry.get(other.principal, "net"),
            other.registry.update(other.principal, "net", "x"),
            other.registry.rename(other.principal, "net", "mine"),
            other.registry.delete(other.principal, "net"),
            other.registry.set_tag(other.principal, "net", "k", "v"),
            other.registry.versions.latest(other.principal, "net"),
        ):
            with pytest.raises(NotFound, match="Registered Model with name=net not found"):
                await call
        assert await found(other) == []
        assert await found(world) == ["net"]

    async def test_describing_moves_its_time(self, world: World) -> None:
        made = await world.registry.create(world.principal, "net")
        changed = await world.registry.update(world.principal, "net", "better")
        assert changed["description"] == "better"
        assert changed["last_updated_timestamp"] >= made["last_updated_timestamp"]

    async def test_renaming_takes_versions_along(self, world: World) -> None:
        await world.net(versions=2)
        await world.registry.rename(world.principal, "net", "nest")
        assert (await world.registry.versions.get(world.principal, "nest", "2"))["name"] == "nest"
        with pytest.raises(NotFound):
            await world.registry.get(world.principal, "net")

    async def test_renaming_onto_a_taken_name_is_refused(self, world: World) -> None:
        await world.registry.create(world.principal, "a")
        await world.registry.create(world.principal, "b")
        with pytest.raises(AlreadyExists, match="already exists"):
            await world.registry.rename(world.principal, "a", "b")
        assert await found(world) == ["a", "b"]

    async def test_deleting_takes_everything_along(self, world: World) -> None:
        run_id = await world.net()
        await world.registry.set_alias(world.principal, "net", "best", "1")
        await world.registry.delete(world.principal, "net")
        with pytest.raises(NotFound):
            await world.registry.get(world.principal, "net")
        await world.registry.create(world.principal, "net")
        fresh = await world.version("net", f"runs:/{run_id}/model")
        assert fresh["version"] == "1"
        assert "aliases" not in fresh

    async def test_tags_are_set_replaced_and_removed(self, world: World) -> None:
        await world.registry.create(world.principal, "net")
        await world.registry.set_tag(world.principal, "net", "k", "1")
        await world.registry.set_tag(world.principal, "net", "k", "2")
        await world.registry.set_tag(world.principal, "net", "gone", "x")
        await world.registry.delete_tag(world.principal, "net", "gone")
        await world.registry.delete_tag(world.principal, "net", "never there")
        model = await world.registry.get(world.principal, "net")
        assert model["tags"] == [{"key": "k", "value": "2"}]

    async def test_each_change_leaves_its_event(self, world: World) -> None:
        await world.net()
        await world.registry.update(world.principal, "net", "x")
        await world.registry.set_alias(world.principal, "net", "best", "1")
        await world.registry.delete_alias(world.principal, "net", "best")
        await world.registry.delete_alias(world.principal, "net", "best")
        await world.registry.versions.transition(world.principal, "net", "1", "staging")
        await world.registry.versions.delete(world.principal, "net", "1")
        await world.registry.delete(world.principal, "net")
        assert await world.events() == [
            ("model.created", "net"),
            ("model_version.created", "net/1"),
            ("model.updated", "net"),
            ("model_alias.set", "net"),
            ("model_alias.deleted", "net"),
            ("model_version.updated", "net/1"),
            ("model_version.deleted", "net/1"),
            ("model.deleted", "net"),
        ]


class TestAliases:
    """An alias points at one version."""

    async def test_an_alias_moves(self, world: World) -> None:
        await world.net(versions=2)
        await world.registry.set_alias(world.principal, "net", "best", "1")
        await world.registry.set_alias(world.principal, "net", "best", "2")
        await world.registry.set_alias(world.principal, "net", "next", "2")
        version = await world.registry.versions.by_alias(world.principal, "net", "best")
        assert (version["version"], version["aliases"]) == ("2", ["best", "next"])
        model = await world.registry.get(world.principal, "net")
        assert model["aliases"] == [
            {"alias": "best", "version": "2"},
            {"alias": "next", "version": "2"},
        ]

    async def test_latest_is_the_highest_number_in_any_stage(self, world: World) -> None:
        await world.net(versions=3)
        await world.registry.versions.transition(world.principal, "net", "1", "production")
        await world.registry.versions.delete(world.principal, "net", "3")
        version = await world.registry.versions.by_alias(world.principal, "net", "latest")
        assert version["version"] == "2"

    async def test_an_unknown_alias_is_an_invalid_value_as_in_mlflow(self, world: World) -> None:
        await world.net()
        with pytest.raises(InvalidInput, match="Registered model alias best not found"):
            await world.registry.versions.by_alias(world.principal, "net", "best")

    async def test_an_alias_needs_a_living_version(self, world: World) -> None:
        await world.net()
        with pytest.raises(NotFound, match=r"Model Version \(name=net, version=9\) not found"):
            await world.registry.set_alias(world.principal, "net", "best", "9")

    async def test_deleting_a_version_drops_its_aliases_alone(self, world: World) -> None:
        await world.net(versions=2)
        await world.registry.set_alias(world.principal, "net", "old", "1")
        await world.registry.set_alias(world.principal, "net", "new", "2")
        await world.registry.versions.delete(world.principal, "net", "1")
        model = await world.registry.get(world.principal, "net")
        assert model["aliases"] == [{"alias": "new", "version": "2"}]


class TestSearch:
    """Filters, orders and pages of registered models."""

    @pytest.fixture
    async def many(self, world: World) -> World:
        for name, team in (("Net-c", "x"), ("Net-a", "y"), ("Net-b", "x"), ("other", "x")):
            await world.registry.create(world.principal, name, tags=[("team", team)])
        return world

    async def test_by_name_unless_told_otherwise(self, many: World) -> None:
        assert await found(many) == ["Net-a", "Net-b", "Net-c", "other"]
        assert await found(many, None, "name DESC") == ["other", "Net-c", "Net-b", "Net-a"]

    async def test_filters(self, many: World) -> None:
        await many.registry.create(many.principal, "ask", tags=[(PROMPT_TAG, "true")])
        every = ["Net-a", "Net-b", "Net-c", "other"]
        for text, names in (
            ("name = 'Net-a'", ["Net-a"]),
            ("name != 'Net-a'", ["Net-b", "Net-c", "other"]),
            ("name LIKE 'Net-%'", ["Net-a", "Net-b", "Net-c"]),
            ("name LIKE 'net-%'", []),
            ("name ILIKE 'net-%'", ["Net-a", "Net-b", "Net-c"]),
            ("name IN ('Net-a', 'other')", ["Net-a", "other"]),
            ("tags.team = 'x' AND name LIKE 'N%'", ["Net-b", "Net-c"]),
            ("tags.team != 'x'", ["Net-a"]),
            ("tags.absent != 'x'", []),
            ("tag.`mlflow.prompt.is_prompt` != 'true'", every),
            ("tags.`mlflow.prompt.is_prompt` = 'false'", every),
            ("tags.`mlflow.prompt.is_prompt` = 'true'", ["ask"]),
        ):
            assert await found(many, text) == names, text

    async def test_prompts_stay_out_unless_asked_for(self, many: World) -> None:
        await many.registry.create(many.principal, "ask", tags=[(PROMPT_TAG, "true")])
        assert "ask" not in await found(many)

    async def test_bad_filters_are_refused(self, many: World) -> None:
        for text in ("colour = 'x'", "metrics.a > 1", "name > 'a'", "name = 3"):
            with pytest.raises(InvalidInput):
                await found(many, text)

    async def test_pages_join_up(self, many: World) -> None:
        names, token = [], None
        for _ in range(2):
            page, token = await many.registry.search(
                many.principal, filter_text=None, order_by=(), max_results=2, page_token=token
            )
            names += [model["name"] for model in page]
        assert names == ["Net-a", "Net-b", "Net-c", "other"]
        assert token is None

    async def test_another_teams_token_is_refused(self, many: World, other: World) -> None:
        _, token = await many.registry.search(
            many.principal, filter_text=None, order_by=(), max_results=2, page_token=None
        )
        with pytest.raises(InvalidInput, match="page token"):
            await other.registry.search(
                other.principal, filter_text=None, order_by=(), max_results=2, page_token=token
            )

    async def test_page_sizes_have_limits(self, world: World) -> None:
        for size in (0, -1, 1001):
            with pytest.raises(InvalidInput, match="max_results"):
                await world.registry.search(
                    world.principal,
                    filter_text=None,
                    order_by=(),
                    max_results=size,
                    page_token=None,
                )
