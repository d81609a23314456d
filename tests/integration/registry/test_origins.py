"""What a source resolves to, and what is refused: other teams, other runs, missing artifacts."""

import pytest

from tests.integration.registry.world import World
from trackyard.core.errors import InvalidInput, NotFound
from trackyard.registry.models import Registry
from trackyard.registry.rules import PROMPT_TAG
from trackyard.registry.versions import VersionDraft

UNKNOWN = "0" * 32


@pytest.fixture
async def net(world: World) -> World:
    await world.registry.create(world.principal, "net")
    return world


async def location(world: World, number: str = "1") -> str:
    return await world.registry.versions.download_uri(world.principal, "net", number)


class TestAccepted:
    """Every form stock clients send."""

    async def test_a_run_path_without_a_run_id(self, net: World) -> None:
        run_id = await net.run("model/MLmodel", "model/weights.bin")
        made = await net.version("net", f"runs:/{run_id}/model")
        assert (made["run_id"], made["source"]) == (run_id, f"runs:/{run_id}/model")
        assert await location(net) == f"{net.root(run_id)}/model"

    async def test_the_artifact_uri_of_a_run(self, net: World) -> None:
        run_id = await net.run("a/model/MLmodel")
        source = f"{net.root(run_id)}/a/model"
        made = await net.version("net", source, run_id=run_id)
        assert (made["run_id"], await location(net)) == (run_id, source)

    async def test_the_default_experiment_by_its_outer_id(self, net: World) -> None:
        run_id = await net.run("model/MLmodel")
        await net.version("net", f"mlflow-artifacts:/0/{run_id}/artifacts/model")
        assert await location(net) == f"{net.root(run_id)}/model"

    async def test_a_logged_model_by_id(self, net: World) -> None:
        run_id = await net.run()
        model_id = await net.log("echo", run_id)
        made = await net.version("net", f"models:/{model_id}", model_id=model_id)
        assert (made["model_id"], made["run_id"]) == (model_id, run_id)
        root = (await net.logged.get(net.principal, model_id))["info"]["artifact_uri"]
        assert await location(net) == root
        again = await net.version("net", root, run_id=run_id, model_id=model_id)
        assert again["model_id"] == model_id

    async def test_a_run_path_that_is_a_logged_models_name(self, net: World) -> None:
        """Newer clients keep the files under the model; older ones register the run's path."""
        run_id = await net.run("config.yaml")
        old = await net.log("model", run_id)
        new = await net.log("model", run_id)
        await net.put_out(run_id, old, step=7)
        await net.put_out(run_id, new, step=3)
        made = await net.version("net", f"{net.root(run_id)}/model", run_id=run_id)
        assert made["model_id"] == old
        root = (await net.logged.get(net.principal, old))["info"]["artifact_uri"]
        assert await location(net) == root

    async def test_a_model_that_a_run_put_out_without_having_made_it(self, net: World) -> None:
        maker, user = await net.run(), await net.run()
        model_id = await net.log("echo", maker)
        await net.put_out(user, model_id, step=0)
        made = await net.version("net", f"models:/{model_id}", run_id=user, model_id=model_id)
        assert made["run_id"] == user

    async def test_another_version(self, net: World) -> None:
        run_id = await net.run("model/MLmodel")
        await net.registry.create(net.principal, "base")
        await net.version("base", f"runs:/{run_id}/model")
        await net.registry.versions.transition(net.principal, "base", "1", "Production")
        for which in ("1", "latest", "Production"):
            made = await net.version("net", f"models:/base/{which}", run_id=run_id)
            assert (made["source"], made["run_id"]) == ("models:/base/1", run_id)
            assert await location(net, str(made["version"])) == f"{net.root(run_id)}/model"

    async def test_another_version_by_alias(self, net: World) -> None:
        run_id = await net.run("model/MLmodel")
        for _ in range(2):
            await net.version("net", f"runs:/{run_id}/model")
        await net.registry.set_alias(net.principal, "net", "best", "1")
        assert (await net.version("net", "models:/net@best"))["source"] == "models:/net/1"

    async def test_a_registration_shows_on_the_logged_model(self, net: World) -> None:
        model_id = await net.log("echo", await net.run())
        await net.version("net", f"models:/{model_id}")
        info = (await net.logged.get(net.principal, model_id))["info"]
        assert info["registrations"] == [{"name": "net", "version": "1"}]
        await net.version("net", f"models:/{model_id}")
        info = (await net.logged.get(net.principal, model_id))["info"]
        listed = '[{"name": "net", "version": 1}, {"name": "net", "version": 2}]'
        assert info["tags"] == [{"key": "mlflow.modelVersions", "value": listed}]


class TestRefused:
    """Nothing is registered that is not there or not the caller's."""

    async def refuse(
        self, world: World, kind: type[Exception], words: str, source: str, **more: str
    ) -> None:
        with pytest.raises(kind, match=words):
            await world.version("net", source, **more)
        model = await world.registry.get(world.principal, "net")
        assert "latest_versions" not in model

    async def test_a_missing_artifact_lists_what_the_run_holds(self, net: World) -> None:
        run_id = await net.run("checkpoints/1.pt", "checkpoints/2.pt", "config.yaml")
        model_id = await net.log("echo", run_id)
        await self.refuse(
            net,
            InvalidInput,
            f"^Run {run_id} has no artifact 'model', so there is no model to register: it holds"
            r" the artifacts checkpoints/, config\.yaml and the logged models echo"
            rf" \(models:/{model_id}\)$",
            f"runs:/{run_id}/model",
        )

    async def test_an_empty_run_says_so(self, net: World) -> None:
        run_id = await net.run()
        await self.refuse(net, InvalidInput, "it holds nothing", f"runs:/{run_id}/model")

    async def test_a_long_list_is_cut(self, net: World) -> None:
        run_id = await net.run(*(f"{number:02}.txt" for number in range(30)))
        await self.refuse(net, InvalidInput, "09.txt and more$", f"runs:/{run_id}/model")

    async def test_part_of_a_name_is_not_the_name(self, net: World) -> None:
        run_id = await net.run("model2/MLmodel", "model%/x", "m_del/x")
        await self.refuse(net, InvalidInput, "no artifact 'model'", f"runs:/{run_id}/model")

    async def test_a_logged_model_without_files(self, net: World) -> None:
        model = await net.logged.create(
            net.principal, experiment_id=net.principal.default_experiment, name="echo"
        )
        model_id = model["info"]["model_id"]
        await self.refuse(net, InvalidInput, "has no artifacts yet", f"models:/{model_id}")

    async def test_a_deleted_logged_model(self, net: World) -> None:
        model_id = await net.log("echo", await net.run())
        await net.logged.delete(net.principal, model_id)
        await self.refuse(net, NotFound, "not found", f"models:/{model_id}")

    async def test_what_another_team_holds_is_not_there(self, net: World, other: World) -> None:
        """A source in another team's run, model or registry is answered as if it did not exist."""
        run_id = await other.net()
        model_id = await other.log("echo", run_id)
        await other.registry.rename(other.principal, "net", "theirs")
        own_run = await net.run("model/MLmodel")
        for source, more in (
            (f"runs:/{run_id}/model", {}),
            (f"runs:/{run_id}/model", {"run_id": run_id}),
            (f"{other.root(run_id)}/model", {}),
            (f"{net.root(run_id)}/model", {}),
            (f"models:/{model_id}", {}),
            (f"models:/{model_id}", {"model_id": model_id}),
            ("models:/theirs/1", {}),
            (f"runs:/{own_run}/model", {"run_id": run_id}),
            (f"runs:/{own_run}/model", {"model_id": model_id}),
            (f"runs:/{UNKNOWN}/model", {}),
            (f"models:/m-{UNKNOWN}", {}),
        ):
            await self.refuse(net, NotFound, "not found", source, **more)

    async def test_another_experiment_in_the_uri(self, net: World) -> None:
        run_id = await net.run("model/MLmodel")
        await self.refuse(
            net, NotFound, "not found", f"mlflow-artifacts:/7/{run_id}/artifacts/model"
        )

    async def test_claims_must_agree_with_the_source(self, net: World) -> None:
        run_id, second = await net.run("model/MLmodel"), await net.run("model/MLmodel")
        model_id, other_id = await net.log("a", run_id), await net.log("b", second)
        for source, more in (
            (f"runs:/{run_id}/model", {"run_id": second}),
            (f"{net.root(run_id)}/model", {"run_id": second}),
            (f"runs:/{run_id}/model", {"model_id": model_id}),
            (f"models:/{model_id}", {"model_id": other_id}),
            (f"models:/{model_id}", {"run_id": second}),
        ):
            await self.refuse(
                net, InvalidInput, "must identify the resource that contains", source, **more
            )

    async def test_no_tag_lets_a_local_path_in(self, net: World) -> None:
        """The same refusal in the same words, whatever tags come along; a prompt has its own."""
        reserved = ("mlflow.model_id", "mlflow.source.type", "mlflow.runName")
        new = VersionDraft(name="net", source="file:///etc/passwd")
        texts = set()
        for tags in ((), *(((tag, "true"),) for tag in reserved)):
            with pytest.raises(InvalidInput) as refusal:
                await net.registry.versions.create(net.principal, new._replace(tags=tags))
            texts.add(str(refusal.value))
        assert len(texts) == 1
        with pytest.raises(InvalidInput, match="Invalid prompt source"):
            await net.registry.versions.create(
                net.principal, new._replace(tags=((PROMPT_TAG, "true"),))
            )

    async def test_a_version_that_is_not_there(self, net: World) -> None:
        for source, kind in (
            ("models:/none/1", NotFound),
            ("models:/net/1", NotFound),
            ("models:/net/latest", NotFound),
            ("models:/net@best", InvalidInput),
        ):
            with pytest.raises(kind):
                await net.version("net", source)


class TestElsewhere:
    """Addresses of other stores are recorded as MLflow records them, and never opened."""

    async def test_an_address_is_kept_as_it_is(self, net: World) -> None:
        for number, source in enumerate(("s3://bucket/model", "hf://org/net", "dbfs:/a"), start=1):
            made = await net.version("net", source)
            assert (made["source"], made["status"]) == (source, "READY")
            assert made["status_message"] == "held elsewhere, not checked"
            assert await location(net, str(number)) == source

    async def test_a_run_id_is_recorded_unchecked(self, net: World) -> None:
        made = await net.version("net", "s3://bucket/model", run_id="some-run")
        assert made["run_id"] == "some-run"

    async def test_a_logged_model_must_be_the_teams(self, net: World, other: World) -> None:
        model_id = await other.log("echo", await other.run())
        with pytest.raises(NotFound):
            await net.version("net", "s3://bucket/model", model_id=model_id)

    async def test_a_copy_says_the_same_of_its_files(self, net: World) -> None:
        await net.version("net", "gs://bucket/model")
        made = await net.version("net", "models:/net/1")
        assert made["status_message"] == "held elsewhere, not checked"
        assert await location(net, "2") == "gs://bucket/model"

    async def test_files_of_a_run_that_lie_elsewhere_are_not_looked_for(self, net: World) -> None:
        run_id = await net.run()
        await net.database.write(
            lambda tx: tx.run(
                "UPDATE runs SET artifact_uri = 's3://b/1/artifacts' WHERE uuid = ?", (run_id,)
            )
        )
        made = await net.version("net", f"runs:/{run_id}/model")
        assert made["status_message"] == "held elsewhere, not checked"
        assert await location(net) == "s3://b/1/artifacts/model"

    async def test_a_prompt_takes_a_placeholder(self, net: World) -> None:
        new = VersionDraft(name="net", source="dummy-source", tags=((PROMPT_TAG, "true"),))
        made = await net.registry.versions.create(net.principal, new)
        assert (made["source"], "status_message" in made) == ("dummy-source", False)

    async def test_an_attempt_names_its_own_run_or_none(self, net: World) -> None:
        own, foreign = await net.run(), await net.run()
        create = net.registry.versions.create
        new = VersionDraft(name="net", source="s3://bucket/model")
        for run_id in ("", own):
            await create(net.attempt(own), new._replace(run_id=run_id))
        with pytest.raises(NotFound):
            await create(net.attempt(own), new._replace(run_id=foreign))


class TestMissing:
    """With the setting that makes it a warning, a version needs no files, as in MLflow."""

    @pytest.fixture
    async def lenient(self, net: World) -> World:
        net.registry = Registry(net.database, sources_must_exist=False)
        return net

    async def test_what_is_not_there_is_taken_with_a_warning(self, lenient: World) -> None:
        run_id = await lenient.run()
        for number, source in enumerate(
            ("runs:/run_id/model", f"runs:/{run_id}/model", "mlflow-artifacts:/models/foo///bar"),
            start=1,
        ):
            made = await lenient.version("net", source, run_id="run_id_1")
            assert (made["source"], made["run_id"]) == (source, "run_id_1")
            assert made["status_message"] == "not found when it was registered"
            assert await location(lenient, str(number)) == source

    async def test_a_logged_model_without_files(self, lenient: World) -> None:
        model = await lenient.logged.create(
            lenient.principal, experiment_id=lenient.principal.default_experiment, name="echo"
        )
        model_id = model["info"]["model_id"]
        made = await lenient.version("net", f"models:/{model_id}", model_id=model_id)
        assert made["model_id"] == model_id

    async def test_what_is_there_is_found_as_ever(self, lenient: World) -> None:
        run_id = await lenient.run("model/MLmodel")
        made = await lenient.version("net", f"runs:/{run_id}/model")
        assert "status_message" not in made
        assert await location(lenient) == f"{lenient.root(run_id)}/model"

    async def test_a_copy_keeps_the_run_of_its_version(self, lenient: World) -> None:
        await lenient.version("net", "runs:/run_id/model", run_id="run_id_1")
        made = await lenient.version("net", "models:/net/1", run_id="run_id_1")
        assert (made["source"], made["run_id"]) == ("models:/net/1", "run_id_1")
        assert await location(lenient, "2") == "runs:/run_id/model"

    async def test_a_version_must_still_be_there(self, lenient: World) -> None:
        with pytest.raises(NotFound):
            await lenient.version("net", "models:/none/1")

    async def test_no_local_path_is_let_in(self, lenient: World) -> None:
        for source in ("/etc/passwd", "file:///etc", "mlflow-artifacts:/x/../../y"):
            with pytest.raises(InvalidInput):
                await lenient.version("net", source)


class TestAttempts:
    """The token of a running attempt registers what its own run made."""

    async def create(self, world: World, run_id: str, source: str) -> str:
        made = await world.registry.versions.create(
            world.attempt(run_id), VersionDraft(name="net", source=source)
        )
        return str(made["version"])

    async def test_its_own_run(self, net: World) -> None:
        run_id = await net.run("model/MLmodel")
        model_id = await net.log("echo", run_id)
        assert await self.create(net, run_id, f"runs:/{run_id}/model") == "1"
        assert await self.create(net, run_id, f"models:/{model_id}") == "2"

    async def test_no_other_run(self, net: World) -> None:
        own, foreign = await net.run("model/MLmodel"), await net.run("model/MLmodel")
        model_id = await net.log("echo", foreign)
        loose = await net.log("loose")
        await net.version("net", f"runs:/{foreign}/model")
        for source in (
            f"runs:/{foreign}/model",
            f"models:/{model_id}",
            f"models:/{loose}",
            "models:/net/1",
        ):
            with pytest.raises(NotFound):
                await self.create(net, own, source)
