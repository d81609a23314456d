"""Traces over MLflow's REST and OpenTelemetry's, with tags, assessments and links to runs."""

import gzip
import json
from typing import Any

import pytest

from tests.integration.server.platform import Answer, Caller, Platform, new_run, refused

V3 = "/api/3.0/mlflow/"


def trace_id(number: int) -> str:
    return f"tr-{number:032x}"


async def log(caller: Caller, number: int = 1, **more: Any) -> dict[str, Any]:
    """Log a trace as a client does at its end, and return it."""
    info = {
        "trace_id": trace_id(number),
        "trace_location": {
            "type": "MLFLOW_EXPERIMENT",
            "mlflow_experiment": {"experiment_id": more.pop("experiment", "0")},
        },
        "request_time": f"2026-11-17T07:00:{number:02}.250Z",
        "execution_duration": "0.5s",
        "state": "OK",
        "tags": {"mlflow.traceName": f"call {number}"},
        **more,
    }
    answer = await caller("POST", V3 + "traces", {"trace": {"trace_info": info}})
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.json()["trace"]["trace_info"]
    return found


async def search(caller: Caller, text: str = "", **more: Any) -> list[int]:
    """Return the numbers of the traces that a search finds."""
    body = {"locations": [{"mlflow_experiment": {"experiment_id": "0"}}], "filter": text, **more}
    answer = await caller("POST", V3 + "traces/search", body)
    assert answer.status == 200, answer.body
    return [int(one["trace_id"][3:], 16) for one in answer.json().get("traces", [])]


async def read(caller: Caller, number: int = 1) -> dict[str, Any]:
    answer = await caller("GET", f"{V3}traces/get?trace_id={trace_id(number)}")
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.json()["trace"]
    return found


def export(number: int, *spans: dict[str, Any]) -> dict[str, Any]:
    shaped = [
        {
            "traceId": f"{number:032x}",
            "spanId": f"{at:016x}",
            "name": f"span {at}",
            "startTimeUnixNano": str(1_794_900_000_000_000_000 + at),
            "endTimeUnixNano": str(1_794_900_000_500_000_000),
            **span,
        }
        for at, span in enumerate(spans, start=1)
    ]
    return {"resourceSpans": [{"scopeSpans": [{"spans": shaped}]}]}


async def send(caller: Caller, data: Any, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    raw = json.dumps(data).encode()
    if named.get("content-encoding") == "gzip":
        raw = gzip.compress(raw)
    kind = {"content-type": "application/json", "x-mlflow-experiment-id": "0"}
    return await caller("POST", "/v1/traces", raw=raw, headers={**kind, **named})


class TestLogging:
    async def test_a_trace_comes_back_as_it_was_described(self, platform: Platform) -> None:
        metadata = {"mlflow.user": "ada", "mlflow.trace_schema.version": "3"}
        made = await log(platform.admin, trace_metadata=metadata, request_preview='{"x": 1}')
        again = (await platform.admin("GET", f"{V3}traces/{trace_id(1)}")).json()["trace"]
        assert again["trace_info"] == made
        assert made["request_time"] == "2026-11-17T07:00:01.250Z"
        assert made["execution_duration"] == "0.500s"
        assert made["trace_metadata"].items() >= metadata.items()
        assert made["tags"]["mlflow.artifactLocation"].endswith(f"/traces/{trace_id(1)}/artifacts")

    async def test_it_may_be_described_again(self, platform: Platform) -> None:
        await log(platform.admin, state="IN_PROGRESS")
        assert (await log(platform.admin, state="ERROR"))["state"] == "ERROR"
        assert await search(platform.admin) == [1]

    async def test_its_file_lies_with_the_artifacts(self, platform: Platform) -> None:
        made = await log(platform.admin)
        root = made["tags"]["mlflow.artifactLocation"].removeprefix("mlflow-artifacts:/")
        place = f"/api/2.0/mlflow-artifacts/artifacts/{root}/traces.json"
        assert (await platform.admin("PUT", place, raw=b'{"spans": []}')).status == 200
        assert (await platform.admin("GET", place)).body == b'{"spans": []}'
        other = await platform.caller("dan", "speech", "owner")
        refused(await other("GET", place), 404)
        refused(await other("PUT", place, raw=b"x"), 404)
        await delete(platform.admin, request_ids=[trace_id(1)])
        refused(await platform.admin("GET", place), 404)

    async def test_another_teams_traces_do_not_exist(self, platform: Platform) -> None:
        await log(platform.admin)
        other = await platform.caller("dan", "speech", "owner")
        one = f"{V3}traces/{trace_id(1)}"
        body = {"assessment": {"assessment_name": "a", "feedback": {"value": 1}}}
        for method, path, data in (
            ("GET", one, None),
            ("GET", f"{V3}traces/get?trace_id={trace_id(1)}", None),
            ("PATCH", one + "/tags", {"key": "a", "value": "b"}),
            ("DELETE", one + "/tags", {"key": "mlflow.traceName"}),
            ("POST", one + "/assessments", body),
            ("POST", V3 + "traces/link-to-run", {"trace_ids": [trace_id(1)], "run_id": "x"}),
        ):
            assert "not found" in refused(await other(method, path, data), 404)
        assert await search(other) == []
        batch = await other("GET", f"{V3}traces/batchGet?trace_ids={trace_id(1)}")
        assert batch.json() == {}
        with pytest.raises(AssertionError, match="is taken"):
            await log(other)

    async def test_a_viewer_logs_nothing(self, platform: Platform) -> None:
        viewer = await platform.caller("vic", "default", "viewer")
        await log(platform.admin)
        refused(await viewer("POST", V3 + "traces", {"trace": {}}), 403)
        refused(await send(viewer, export(1, {})), 403)
        assert await search(viewer) == [1]


async def delete(caller: Caller, **how: Any) -> int:
    body = {"experiment_id": "0", **how}
    answer = await caller.mlflow("POST", "traces/delete-traces", body)
    assert answer.status == 200, answer.body
    return int(answer.json()["traces_deleted"])


class TestSearch:
    @pytest.fixture
    async def caller(self, platform: Platform) -> Caller:
        run_id = await new_run(platform.admin)
        await log(platform.admin, 1, trace_metadata={"mlflow.sourceRun": run_id, "who": "ada"})
        await log(platform.admin, 2, state="ERROR", execution_duration="2s")
        await log(platform.admin, 3, tags={"mlflow.traceName": "other", "k": "v"})
        for number, value in ((1, True), (2, "bad")):
            answer = await platform.admin(
                "POST",
                f"{V3}traces/{trace_id(number)}/assessments",
                {"assessment": {"assessment_name": "ok", "feedback": {"value": value}}},
            )
            assert answer.status == 200
        self.run_id = run_id
        return platform.admin

    async def test_the_language(self, caller: Caller) -> None:
        for text, numbers in (
            ("", [3, 2, 1]),
            ("trace.status = 'ERROR'", [2]),
            ("attributes.state != 'ERROR'", [3, 1]),
            ("name = 'other'", [3]),
            ("trace.name LIKE 'call%'", [2, 1]),
            ("tags.k = 'v'", [3]),
            ("tags.k IS NULL", [2, 1]),
            ("metadata.who = 'ada'", [1]),
            ("request_metadata.who = 'eve'", []),
            (f"attribute.run_id = '{self.run_id}'", [1]),
            (f"trace_id IN ('{trace_id(1)}', '{trace_id(3)}')", [3, 1]),
            ("execution_time_ms > 1000", [2]),
            ("timestamp_ms >= 1794898802250", [3, 2]),
            ("feedback.ok = 'true'", [1]),
            ("feedback.ok = 'bad' OR tags.k = 'v'", [3, 2]),
            ("expectation.ok = 'true'", []),
        ):
            assert await search(caller, text) == numbers, text

    async def test_order_and_pages(self, caller: Caller) -> None:
        assert await search(caller, order_by=["execution_time_ms DESC", "timestamp ASC"]) == [
            2, 1, 3,
        ]  # fmt: skip
        body = {"locations": [{"mlflow_experiment": {"experiment_id": "0"}}], "max_results": 2}
        first = (await caller("POST", V3 + "traces/search", body)).json()
        token = first["next_page_token"]
        second = (await caller("POST", V3 + "traces/search", {**body, "page_token": token})).json()
        assert [one["trace_id"] for one in first["traces"] + second["traces"]] == [
            trace_id(3), trace_id(2), trace_id(1),
        ]  # fmt: skip
        assert "next_page_token" not in second

    async def test_a_bad_search_is_refused(self, caller: Caller) -> None:
        for body in (
            {"filter": "nonsense = 'x'"},
            {"filter": "trace.status > 5"},
            {"order_by": ["run_id"]},
            {"max_results": 501},
            {"page_token": "x"},
        ):
            place = {"locations": [{"mlflow_experiment": {"experiment_id": "0"}}]}
            refused(await caller("POST", V3 + "traces/search", {**place, **body}), 400)
        refused(await caller("POST", V3 + "traces/search", {"locations": [{}]}), 400)

    async def test_runs_may_be_linked_later(self, caller: Caller) -> None:
        body = {"trace_ids": [trace_id(2), trace_id(3)], "run_id": self.run_id}
        for _ in range(2):
            answer = await caller.mlflow("POST", "traces/link-to-run", body)
            assert answer.status == 200
        assert await search(caller, f"run_id = '{self.run_id}'") == [3, 2, 1]

    async def test_deleting(self, caller: Caller) -> None:
        assert await delete(caller, request_ids=[trace_id(2), trace_id(9)]) == 1
        assert await search(caller) == [3, 1]
        assert await delete(caller, max_timestamp_millis=2_000_000_000_000, max_traces=1) == 1
        assert await search(caller) == [3]
        for how in ({}, {"request_ids": ["x"], "max_traces": 1}, {"max_timestamp_millis": 1,
                    "max_traces": 0}):  # fmt: skip
            body = {"experiment_id": "0", **how}
            refused(await caller.mlflow("POST", "traces/delete-traces", body), 400)


class TestTagsAndAssessments:
    async def test_tags(self, platform: Platform) -> None:
        await log(platform.admin)
        one = f"traces/{trace_id(1)}/tags"
        call = platform.admin.mlflow
        assert (await call("PATCH", one, {"key": "a", "value": "b"})).status == 200
        assert (await read(platform.admin))["trace_info"]["tags"]["a"] == "b"
        assert (await call("DELETE", one, {"key": "a"})).status == 200
        refused(await call("DELETE", one, {"key": "a"}), 404)
        refused(await call("PATCH", one, {"value": "b"}), 400)
        refused(await call("PATCH", one, {"key": "k" * 300, "value": "b"}), 400)

    async def test_a_life_of_an_assessment(self, platform: Platform) -> None:
        await log(platform.admin)
        root = f"{V3}traces/{trace_id(1)}/assessments"
        human = {"source_type": "HUMAN", "source_id": "me"}
        given = {
            "assessment_name": "ok",
            "source": human,
            "feedback": {"value": True},
            "rationale": "r",
            "metadata": {"m": "1"},
        }
        answer = await platform.admin("POST", root, {"assessment": given})
        made = answer.json()["assessment"]
        assert made.items() >= {**given, "valid": True, "trace_id": trace_id(1)}.items()
        place = f"{root}/{made['assessment_id']}"
        assert (await platform.admin("GET", place)).json()["assessment"] == made
        change = {"assessment": {"feedback": {"value": 0.5}}, "update_mask": "feedback"}
        changed = (await platform.admin("PATCH", place, change)).json()["assessment"]
        assert (changed["feedback"], changed["rationale"]) == ({"value": 0.5}, "r")
        better = {"assessment_name": "ok", "feedback": {"value": 1},
                  "overrides": made["assessment_id"]}  # fmt: skip
        second = await platform.admin("POST", root, {"assessment": better})
        shown = (await read(platform.admin))["trace_info"]["assessments"]
        assert [one["valid"] for one in shown] == [False, True]
        later = f"{root}/{second.json()['assessment']['assessment_id']}"
        assert (await platform.admin("DELETE", later)).status == 200
        assert (await platform.admin("GET", place)).json()["assessment"]["valid"] is True
        refused(await platform.admin("GET", later), 404)

    async def test_what_was_expected_comes_back_as_text(self, platform: Platform) -> None:
        """A list or an object; MLflow's message has no other room for it."""
        await log(platform.admin)
        root = f"{V3}traces/{trace_id(1)}/assessments"
        given = {"assessment_name": "want", "expectation": {"value": {"a": [1, 2]}}}
        made = (await platform.admin("POST", root, {"assessment": given})).json()["assessment"]
        kept = made["expectation"]["serialized_value"]
        assert (kept["serialization_format"], json.loads(kept["value"])) == (
            "JSON_FORMAT",
            {"a": [1, 2]},
        )

    @pytest.mark.parametrize(
        "given",
        [
            None, {}, {"assessment_name": "a"}, {"feedback": {"value": 1}},
            {"assessment_name": 7, "feedback": {}}, {"assessment_name": "a", "feedback": 7},
            {"assessment_name": "a", "feedback": {}, "expectation": {}},
            {"assessment_name": "a", "feedback": {}, "source": {"source_type": "DOG"}},
            {"assessment_name": "a", "feedback": {}, "create_time": "x"},
            {"assessment_name": "a", "feedback": {"value": "x" * 200_000}},
        ],
    )  # fmt: skip
    async def test_what_is_no_assessment_is_refused(self, platform: Platform, given: Any) -> None:
        await log(platform.admin)
        root = f"{V3}traces/{trace_id(1)}/assessments"
        refused(await platform.admin("POST", root, {"assessment": given}), 400)
        assert "assessments" not in (await read(platform.admin))["trace_info"]


class TestOpenTelemetry:
    async def test_spans_make_a_trace(self, platform: Platform) -> None:
        run_id = await new_run(platform.admin)
        data = export(7, {"status": {"code": 1}}, {"parentSpanId": f"{1:016x}"})
        answer = await send(platform.admin, data, x_mlflow_run_id=run_id)
        assert answer.status == 200
        trace = await read(platform.admin, 7)
        info = trace["trace_info"]
        assert (info["state"], info["execution_duration"]) == ("OK", "0.499s")
        assert info["tags"]["mlflow.traceName"] == "span 1"
        assert info["tags"]["mlflow.trace.spansLocation"] == "TRACKING_STORE"
        assert [span["name"] for span in trace["spans"]] == ["span 1", "span 2"]
        assert await search(platform.admin, f"run_id = '{run_id}'") == [7]

    async def test_spans_come_in_any_order_and_again(self, platform: Platform) -> None:
        root, child = export(7, {}, {"parentSpanId": f"{1:016x}"}), export(7, {}, {})
        spans = root["resourceSpans"][0]["scopeSpans"][0]["spans"]
        child["resourceSpans"][0]["scopeSpans"][0]["spans"] = [spans.pop()]
        for data, state in ((child, "IN_PROGRESS"), (root, "OK"), (child, "OK")):
            assert (await send(platform.admin, data)).status == 200
            trace = await read(platform.admin, 7)
            assert trace["trace_info"]["state"] == state
        assert len(trace["spans"]) == 2

    async def test_what_a_client_described_wins(self, platform: Platform) -> None:
        await log(platform.admin, 7, state="ERROR")
        assert (await send(platform.admin, export(7, {}))).status == 200
        trace = await read(platform.admin, 7)
        assert trace["trace_info"]["state"] == "ERROR"
        assert trace["trace_info"]["tags"]["mlflow.traceName"] == "call 7"
        assert len(trace["spans"]) == 1

    async def test_packed_bodies(self, platform: Platform) -> None:
        answer = await send(platform.admin, export(7, {}), content_encoding="gzip")
        assert answer.status == 200
        refused(await send(platform.admin, export(7, {}), content_encoding="br"), 400)
        refused(await send(platform.admin, export(7, {}), content_encoding="deflate"), 400)

    async def test_what_is_refused(self, platform: Platform) -> None:
        other = await platform.caller("dan", "speech", "owner")
        assert (await send(other, export(7, {}))).status == 200
        for data, headers, status in (
            ({}, {}, 400),
            (export(8, {}), {"content_type": "text/plain"}, 400),
            (export(8, {}), {"x_mlflow_experiment_id": ""}, 400),
            (export(8, {}), {"x_mlflow_experiment_id": "77"}, 404),
            (export(7, {}), {}, 400),
        ):
            refused(await send(platform.admin, data, **headers), status)
        refused(await send(platform.nobody, export(8, {})), 401)
        assert await search(platform.admin) == []
