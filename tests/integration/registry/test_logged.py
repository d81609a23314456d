"""Logged models: their life, tags, parameters, metrics and search; on both databases."""

import math
from dataclasses import replace
from typing import Any

import pytest

from tests.integration.registry.world import World
from trackyard.core.errors import InvalidInput, NotFound
from trackyard.registry.logged_search import DatasetFilter, LoggedSortKey
from trackyard.tracking.metrics.model_metrics import ModelPoint, log_model_metrics


async def log_metrics(world: World, run_id: str, *points: ModelPoint) -> None:
    await world.database.write(
        lambda tx: log_model_metrics(
            tx, team_id=world.principal.team_id, run_uuid=run_id, points=points
        )
    )


async def found(
    world: World,
    text: str | None = None,
    *order: LoggedSortKey,
    datasets: tuple[DatasetFilter, ...] = (),
) -> str:
    """Names that a search in the Default experiment finds."""
    page, _ = await world.logged.search(
        world.principal,
        experiment_ids=[world.principal.default_experiment],
        filter_text=text,
        datasets=datasets,
        order_by=order,
        max_results=100,
        page_token=None,
    )
    return " ".join(model["info"]["name"] for model in page)


async def create(world: World, name: str | None = "echo", **more: Any) -> dict[str, Any]:
    return await world.logged.create(
        world.principal, experiment_id=world.principal.default_experiment, name=name, **more
    )


class TestLife:
    """From pending to ready or deleted."""

    async def test_a_new_model_waits_for_its_files(self, world: World) -> None:
        run_id = await world.run()
        made = await create(
            world,
            source_run=run_id,
            model_type="torch",
            tags=[("a", "1")],
            params=[("lr", "0.1")],
        )
        info, model_id = made["info"], made["info"]["model_id"]
        default = world.principal.default_experiment
        assert info["status"] == "LOGGED_MODEL_PENDING"
        assert info["experiment_id"] == "0"
        assert info["artifact_uri"] == f"mlflow-artifacts:/{default}/models/{model_id}/artifacts"
        assert (info["name"], info["model_type"], info["source_run_id"]) == (
            "echo",
            "torch",
            run_id,
        )
        assert info["tags"] == [{"key": "a", "value": "1"}]
        assert made["data"] == {"params": [{"key": "lr", "value": "0.1"}]}
        assert await world.logged.get(world.principal, model_id) == made

    async def test_a_model_without_a_name_gets_one(self, world: World) -> None:
        assert (await create(world, None))["info"]["name"]

    async def test_finalising_sets_the_state(self, world: World) -> None:
        model_id = await world.log("echo")
        for status in ("UPLOAD_FAILED", "READY"):
            made = await world.logged.finalize(world.principal, model_id, status)
            assert made["info"]["status"] == f"LOGGED_MODEL_{status}"
        with pytest.raises(InvalidInput, match="LOGGED_MODEL_READY"):
            await world.logged.finalize(world.principal, model_id, "DONE")

    async def test_a_deleted_model_is_shown_only_on_request(self, world: World) -> None:
        model_id = await world.log("echo")
        await world.logged.delete(world.principal, model_id)
        with pytest.raises(NotFound, match=f"Logged model with ID '{model_id}' not found"):
            await world.logged.get(world.principal, model_id)
        kept = await world.logged.get(world.principal, model_id, allow_deleted=True)
        assert kept["info"]["name"] == "echo"
        assert await found(world) == ""

    async def test_tags_and_parameters(self, world: World) -> None:
        model_id = await world.log("echo")
        logged = world.logged
        await logged.set_tags(world.principal, model_id, [("a", "1"), ("b", "2"), ("a", "3")])
        await logged.delete_tag(world.principal, model_id, "b")
        with pytest.raises(NotFound, match="No tag with key 'b'"):
            await logged.delete_tag(world.principal, model_id, "b")
        await logged.log_params(world.principal, model_id, [("lr", "1")])
        await logged.log_params(world.principal, model_id, [("lr", "1"), ("depth", "2")])
        with pytest.raises(InvalidInput, match="Changing param values is not allowed"):
            await logged.log_params(world.principal, model_id, [("lr", "2")])
        got = await logged.get(world.principal, model_id)
        assert got["info"]["tags"] == [{"key": "a", "value": "3"}]
        assert got["data"]["params"] == [
            {"key": "depth", "value": "2"},
            {"key": "lr", "value": "1"},
        ]

    async def test_each_change_leaves_its_event(self, world: World) -> None:
        model_id = await world.log("echo")
        await world.logged.set_tags(world.principal, model_id, [("a", "1")])
        await world.logged.finalize(world.principal, model_id, "READY")
        await world.logged.delete(world.principal, model_id)
        assert await world.events() == [
            ("logged_model.created", model_id),
            ("logged_model.updated", model_id),
            ("logged_model.updated", model_id),
            ("logged_model.deleted", model_id),
        ]

    async def test_its_run_is_recorded_as_it_was_given(self, world: World) -> None:
        """MLflow looks for no run either; a run of another server is a fact of the model."""
        model = await create(world, source_run="of-another-server")
        assert model["info"]["source_run_id"] == "of-another-server"

    async def test_an_attempt_names_its_own_run(self, world: World) -> None:
        own, foreign = await world.run(), await world.run()
        attempt = replace(world, principal=world.attempt(own))
        assert await create(attempt, source_run=own)
        with pytest.raises(NotFound, match="Run with id="):
            await create(attempt, source_run=foreign)

    async def test_its_experiment_must_be_there(self, world: World, other: World) -> None:
        with pytest.raises(NotFound, match="No Experiment with id="):
            await world.logged.create(
                world.principal, experiment_id=other.principal.default_experiment, name="x"
            )

    async def test_another_teams_model_is_not_found(self, world: World, other: World) -> None:
        model_id = await world.log("echo")
        logged, principal = other.logged, other.principal
        for call in (
            logged.get(principal, model_id),
            logged.get(principal, model_id, allow_deleted=True),
            logged.finalize(principal, model_id, "READY"),
            logged.delete(principal, model_id),
            logged.set_tags(principal, model_id, [("a", "1")]),
            logged.delete_tag(principal, model_id, "a"),
            logged.log_params(principal, model_id, [("a", "1")]),
            logged.root(principal, model_id),
        ):
            with pytest.raises(NotFound):
                await call
        page, _ = await logged.search(
            principal,
            experiment_ids=[world.principal.default_experiment],
            filter_text=None,
            datasets=(),
            order_by=(),
            max_results=10,
            page_token=None,
        )
        assert page == []

    async def test_an_attempt_writes_to_its_own_runs_models_alone(self, world: World) -> None:
        own, foreign = await world.run(), await world.run()
        attempt = world.attempt(own)
        mine, theirs = await world.log("mine", own), await world.log("theirs", foreign)
        await world.logged.finalize(attempt, mine, "READY")
        await world.logged.get(attempt, theirs)
        for call in (
            world.logged.finalize(attempt, theirs, "READY"),
            world.logged.set_tags(attempt, theirs, [("a", "1")]),
            world.logged.log_params(attempt, theirs, [("a", "1")]),
        ):
            with pytest.raises(NotFound):
                await call
        for run_id in ("", foreign):
            with pytest.raises(NotFound):
                await world.logged.create(
                    attempt,
                    experiment_id=world.principal.default_experiment,
                    name="x",
                    source_run=run_id,
                )


class TestMetrics:
    """Points that a run logged for a model."""

    async def test_points_come_back_with_the_model(self, world: World) -> None:
        run_id = await world.run()
        model_id = await world.log("echo", run_id)
        point = ModelPoint(model_id, "acc", 3, 1000, 0.5, "mnist", "d1")
        await log_metrics(world, run_id, point, ModelPoint(model_id, "loss", 0, 1000, math.nan))
        await log_metrics(world, run_id, point)
        got = await world.logged.get(world.principal, model_id)
        assert got["data"]["metrics"] == [
            {
                "key": "acc",
                "value": 0.5,
                "timestamp": 1000,
                "step": 3,
                "model_id": model_id,
                "run_id": run_id,
                "dataset_name": "mnist",
                "dataset_digest": "d1",
            },
            {
                "key": "loss",
                "value": "NaN",
                "timestamp": 1000,
                "step": 0,
                "model_id": model_id,
                "run_id": run_id,
            },
        ]

    async def test_another_teams_model_takes_no_points(self, world: World, other: World) -> None:
        model_id = await world.log("echo")
        with pytest.raises(NotFound, match="Logged model with ID"):
            await log_metrics(other, await other.run(), ModelPoint(model_id, "acc", 0, 0, 1.0))
        with pytest.raises(NotFound):
            await log_metrics(world, await world.run(), ModelPoint("m-short", "acc", 0, 0, 1.0))


class TestSearch:
    """Filters, data sets, orders and pages."""

    @pytest.fixture
    async def many(self, world: World) -> World:
        """Three models with metrics on two data sets; `c` was made last."""
        run_id = await world.run()
        for place, (name, rate, accuracy) in enumerate(
            (("a", "0.1", 0.7), ("b", "0.2", 0.9), ("c", "0.2", 0.8))
        ):
            made = await create(
                world, name, params=[("lr", rate)], tags=[("t", name)], model_type="torch"
            )
            model_id = made["info"]["model_id"]
            await log_metrics(
                world,
                run_id,
                ModelPoint(model_id, "acc", 1, 1, 0.1, "train", "x"),
                ModelPoint(model_id, "acc", 2, 2, accuracy, "test", f"d{place}"),
            )

            def age(tx: Any, model_id: str = model_id, place: int = place) -> None:
                tx.run("UPDATE logged_models SET created_ms = ? WHERE id = ?", (place, model_id))

            await world.database.write(age)
        return world

    async def test_filters(self, many: World) -> None:
        for text, names in (
            (None, "c b a"),
            ("name = 'a'", "a"),
            ("name != 'a'", "c b"),
            ("name IN ('a', 'c')", "c a"),
            ("attributes.name LIKE 'A'", ""),
            ("attributes.name ILIKE 'A'", "a"),
            ("params.lr = '0.2'", "c b"),
            ("tags.t != 'a'", "c b"),
            ("tags.absent != 'a'", ""),
            ("metrics.acc >= 0.8", "c b"),
            ("metrics.acc >= 0.8 AND params.lr = '0.2' AND name = 'b'", "b"),
            ("metrics.none > 0", ""),
            ("status = 'PENDING'", "c b a"),
            ("status = 'LOGGED_MODEL_READY'", ""),
            ("model_type = 'torch' AND creation_timestamp < 2", "b a"),
        ):
            assert await found(many, text) == names, text

    async def test_data_sets_narrow_the_metrics(self, many: World) -> None:
        test, train = DatasetFilter("test"), DatasetFilter("train", "x")
        assert await found(many, "metrics.acc < 0.75", datasets=(test,)) == "a"
        assert await found(many, "metrics.acc < 0.75", datasets=(train,)) == "c b a"
        assert await found(many, None, datasets=(DatasetFilter("test", "d1"),)) == "b"
        assert await found(many, None, datasets=(DatasetFilter("none"),)) == ""

    async def test_orders(self, many: World) -> None:
        await create(many, "none")
        assert await found(many, None, LoggedSortKey("metrics.acc")) == "a c b none"
        assert (
            await found(many, None, LoggedSortKey("metrics.acc", ascending=False)) == "b c a none"
        )
        on_train = LoggedSortKey("metrics.acc", dataset_name="train")
        assert await found(many, None, on_train, LoggedSortKey("name")) == "a b c none"
        assert await found(many, "name != 'none'", LoggedSortKey("creation_time")) == "a b c"
        assert await found(many, None, LoggedSortKey("name", ascending=False)) == "none c b a"

    async def test_unknown_keys_are_refused(self, many: World) -> None:
        for field in ("params.lr", "colour", "metrics.", ""):
            with pytest.raises(InvalidInput, match="order by"):
                await found(many, None, LoggedSortKey(field))
        for text in ("colour = 'x'", "metrics.acc = 'x'", "params.lr > '1'"):
            with pytest.raises(InvalidInput):
                await found(many, text)

    async def test_pages_join_up_in_a_metrics_order(self, many: World) -> None:
        await create(many, "none")
        names: list[str] = []
        token: str | None = None
        for _ in range(4):
            page, token = await many.logged.search(
                many.principal,
                experiment_ids=[many.principal.default_experiment],
                filter_text=None,
                datasets=(),
                order_by=[LoggedSortKey("metrics.acc", ascending=False)],
                max_results=1,
                page_token=token,
            )
            names += [model["info"]["name"] for model in page]
        assert names == ["b", "c", "a", "none"]
        assert token is None

    async def test_no_experiments_means_no_models(self, many: World) -> None:
        page, token = await many.logged.search(
            many.principal,
            experiment_ids=[],
            filter_text=None,
            datasets=(),
            order_by=(),
            max_results=10,
            page_token=None,
        )
        assert (page, token) == ([], None)
