"""Evaluation data sets and scorers over MLflow's REST."""

import json
from typing import Any

from tests.integration.server.platform import Caller, Platform, refused

V3 = "/api/3.0/mlflow/"


async def ok(caller: Caller, method: str, path: str, **body: Any) -> Any:
    answer = await caller(method, V3 + path, body or None)
    assert answer.status == 200, answer.body
    return answer.json()


async def create(caller: Caller, name: str = "set", **more: Any) -> dict[str, Any]:
    made = await ok(caller, "POST", "datasets/create", name=name, **more)
    found: dict[str, Any] = made["dataset"]
    return found


async def put(caller: Caller, dataset: str, *records: dict[str, Any]) -> Any:
    return await ok(caller, "POST", f"datasets/{dataset}/records", records=json.dumps(records))


async def records(caller: Caller, dataset: str) -> list[dict[str, Any]]:
    found = await ok(caller, "GET", f"datasets/{dataset}/records")
    return list(json.loads(found["records"]))


class TestDatasets:
    async def test_a_data_set_lives(self, platform: Platform) -> None:
        call = platform.admin
        made = await create(call, experiment_ids=["0"], tags='{"a": "1", "mlflow.user": "ada"}')
        one = f"datasets/{made['dataset_id']}"
        assert made["experiment_ids"] == ["0"]
        assert made["created_by"] == "ada"
        assert (await ok(call, "GET", one))["dataset"] == made
        await ok(call, "PATCH", one + "/tags", tags='{"b": "2", "a": null}')
        tags = (await ok(call, "GET", one))["dataset"]["tags"]
        assert json.loads(tags) == {"b": "2", "mlflow.user": "ada"}
        await ok(call, "DELETE", one + "/tags/b")
        await ok(call, "POST", one + "/remove-experiments", experiment_ids=["0"])
        assert await ok(call, "GET", one + "/experiment-ids") == {"experiment_ids": []}
        added = await ok(call, "POST", one + "/add-experiments", experiment_ids=["0"])
        assert added["dataset"]["experiment_ids"] == ["0"]
        await ok(call, "DELETE", one)
        assert "not found" in refused(await call("GET", V3 + one), 404)

    async def test_records_are_merged_by_their_inputs(self, platform: Platform) -> None:
        call, dataset = platform.admin, (await create(platform.admin))["dataset_id"]
        first = {"inputs": {"q": "1"}, "expectations": {"a": "x"}, "source": {
            "source_type": "HUMAN", "source_data": {}}}  # fmt: skip
        assert await put(call, dataset, first, {"inputs": {"q": "2"}}) == {
            "inserted_count": 2,
            "updated_count": 0,
        }
        again = {"inputs": {"q": "1"}, "expectations": {"b": "y"}, "tags": {"z": "1"}}
        assert await put(call, dataset, again) == {"inserted_count": 0, "updated_count": 1}
        merged = next(one for one in await records(call, dataset) if one["inputs"] == {"q": "1"})
        assert merged["expectations"] == {"a": "x", "b": "y"}
        assert (merged["tags"], merged["source_type"]) == ({"z": "1"}, "HUMAN")
        shown = (await ok(call, "GET", f"datasets/{dataset}"))["dataset"]
        assert json.loads(shown["profile"]) == {"num_records": 2}
        assert json.loads(shown["schema"])["inputs"] == {"q": "string"}
        gone = await ok(
            call,
            "DELETE",
            f"datasets/{dataset}/records",
            dataset_record_ids=[merged["dataset_record_id"], "dr-none"],
        )
        assert gone == {"deleted_count": 1}
        assert [one["inputs"] for one in await records(call, dataset)] == [{"q": "2"}]

    async def test_records_are_paged(self, platform: Platform) -> None:
        call, dataset = platform.admin, (await create(platform.admin))["dataset_id"]
        await put(call, dataset, *({"inputs": {"n": number}} for number in range(5)))
        seen, token = [], ""
        while token is not None:
            query = f"max_results=2{f'&page_token={token}' if token else ''}"
            page = await ok(call, "GET", f"datasets/{dataset}/records?{query}")
            seen += [one["inputs"]["n"] for one in json.loads(page["records"])]
            token = page.get("next_page_token")
        assert sorted(seen) == [0, 1, 2, 3, 4]

    async def test_search(self, platform: Platform) -> None:
        call = platform.admin
        await create(call, "a", experiment_ids=["0"], tags='{"k": "v"}')
        await create(call, "b")
        for body, names in (
            ({}, {"a", "b"}),
            ({"filter_string": 'name = "a"'}, {"a"}),
            ({"filter_string": "name LIKE 'b%'"}, {"b"}),
            ({"filter_string": "tags.k = 'v'"}, {"a"}),
            ({"filter_string": "created_time > 0 AND name != 'a'"}, {"b"}),
            ({"experiment_ids": ["0"]}, {"a"}),
        ):
            found = await ok(call, "POST", "datasets/search", **body)
            assert {one["name"] for one in found["datasets"]} == names, body
        ordered = await ok(call, "POST", "datasets/search", order_by=["name DESC"])
        assert [one["name"] for one in ordered["datasets"]] == ["b", "a"]

    async def test_another_teams_is_not_there(self, platform: Platform) -> None:
        dataset = (await create(platform.admin))["dataset_id"]
        other = await platform.caller("dan", "speech", "owner")
        for method, path, body in (
            ("GET", "", None),
            ("GET", "/records", None),
            ("POST", "/records", {"records": "[]"}),
            ("PATCH", "/tags", {"tags": "{}"}),
            ("DELETE", "", None),
        ):
            answer = await other(method, f"{V3}datasets/{dataset}{path}", body)
            assert "not found" in refused(answer, 404)
        assert await ok(other, "POST", "datasets/search") == {}

    async def test_bad_bodies_are_refused(self, platform: Platform) -> None:
        call, dataset = platform.admin, (await create(platform.admin))["dataset_id"]
        for path, body in (
            ("datasets/create", {}),
            ("datasets/create", {"name": "x" * 501}),
            ("datasets/create", {"name": "x", "tags": "7"}),
            ("datasets/create", {"name": "x", "tags": '{"a": 7}'}),
            (f"datasets/{dataset}/records", {}),
            (f"datasets/{dataset}/records", {"records": "not json"}),
            (f"datasets/{dataset}/records", {"records": "{}"}),
            (f"datasets/{dataset}/records", {"records": "[7]"}),
            ("datasets/search", {"filter_string": "nonsense = 1"}),
        ):
            refused(await call("POST", V3 + path, body), 400)
        refused(
            await call("POST", V3 + "datasets/create", {"name": "x", "experiment_ids": ["7"]}), 404
        )


class TestScorers:
    async def test_versions_count_up(self, platform: Platform) -> None:
        call = platform.admin
        for number in (1, 2):
            made = await ok(
                call, "POST", "scorers/register", experiment_id="0", name="q",
                serialized_scorer=json.dumps({"n": number}),
            )  # fmt: skip
            assert (made["version"], made["experiment_id"]) == (number, "0")
        [newest] = (await ok(call, "GET", "scorers/list?experiment_id=0"))["scorers"]
        assert (newest["scorer_version"], newest["experiment_id"]) == (2, 0)
        both = await ok(call, "GET", "scorers/versions?experiment_id=0&name=q")
        assert [one["scorer_version"] for one in both["scorers"]] == [1, 2]
        one = await ok(call, "GET", "scorers/get?experiment_id=0&name=q&version=1")
        assert json.loads(one["scorer"]["serialized_scorer"]) == {"n": 1}
        await ok(call, "DELETE", "scorers/delete", experiment_id="0", name="q", version=2)
        left = await ok(call, "GET", "scorers/get?experiment_id=0&name=q")
        assert left["scorer"]["scorer_version"] == 1
        await ok(call, "DELETE", "scorers/delete", experiment_id="0", name="q")
        assert await ok(call, "GET", "scorers/list?experiment_id=0") == {}
        refused(await call("GET", V3 + "scorers/get?experiment_id=0&name=q"), 404)

    async def test_a_long_experiment_id_is_left_out(self, platform: Platform) -> None:
        """MLflow's message has 32 bits for it, and its client fails on more."""
        made = await platform.admin.mlflow("POST", "experiments/create", {"name": "x"})
        experiment = made.json()["experiment_id"]
        await ok(
            platform.admin, "POST", "scorers/register", experiment_id=experiment, name="q",
            serialized_scorer="{}",
        )  # fmt: skip
        found = await ok(platform.admin, "GET", f"scorers/list?experiment_id={experiment}")
        assert "experiment_id" not in found["scorers"][0]

    async def test_another_teams_is_not_there(self, platform: Platform) -> None:
        made = await platform.admin.mlflow("POST", "experiments/create", {"name": "x"})
        experiment = made.json()["experiment_id"]
        other = await platform.caller("dan", "speech", "owner")
        refused(await other("GET", f"{V3}scorers/list?experiment_id={experiment}"), 404)
        body = {"experiment_id": experiment, "name": "q", "serialized_scorer": "{}"}
        refused(await other("POST", V3 + "scorers/register", body), 404)
