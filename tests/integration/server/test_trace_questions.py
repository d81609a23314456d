"""What else is asked of traces: text and spans, figures over many, filters that go together, links
made early, and the calls of 2.x clients.
"""

import json
import math
from typing import Any

from tests.integration.server.platform import Caller, Platform, new_run, refused
from tests.integration.server.test_traces import V3, export, log, search, send, trace_id


def told(kind: str, **words: str) -> list[dict[str, Any]]:
    """Return attributes as MLflow's clients write them: values are JSON text."""
    pairs = {"mlflow.spanType": f'"{kind}"', **{key: f'"{word}"' for key, word in words.items()}}
    return [{"key": key, "value": {"stringValue": value}} for key, value in pairs.items()]


async def fill(caller: Caller) -> None:
    """Send three traces of one and two spans."""
    for number, spans in enumerate(
        (
            [{"name": "ask", "attributes": told("LLM", model="small", said="I like it")}],
            [
                {"name": "ask", "attributes": told("LLM", model="large")},
                {"name": "look up", "attributes": told("TOOL"), "status": {"code": 2}},
            ],
            [{"name": "plan", "attributes": told("CHAIN"), "status": {"code": 1}}],
        ),
        start=1,
    ):
        assert (await send(caller, export(number, *spans))).status == 200


#: Filters, and the traces of `fill` that they find.
FOUND: list[tuple[str, set[int]]] = [
    ("trace.text LIKE '%like it%'", {1}),
    ("trace.text ILIKE '%LIKE IT%'", {1}),
    ("trace.text LIKE '%LIKE IT%'", set()),
    ("trace.text LIKE '%string_value%'", set()),
    ("span.content LIKE '%look%'", {2}),
    ("span.name = 'ask'", {1, 2}),
    ("span.name IN ('plan', 'look up')", {2, 3}),
    ("span.type = 'TOOL'", {2}),
    ("span.type LIKE 'L%'", {1, 2}),
    ("span.status = 'ERROR'", {2}),
    ("span.status = 'OK'", {3}),
    ("span.attributes.model = 'large'", {2}),
    ("span.attributes.model != 'large'", {1}),
    ("NOT span.type = 'LLM'", {3}),
    ("span.type = 'LLM' AND trace.text LIKE '%small%'", {1}),
]


async def test_traces_are_found_by_their_text_and_spans(platform: Platform) -> None:
    await fill(platform.admin)
    for text, found in FOUND:
        assert set(await search(platform.admin, text)) == found, text


async def test_a_filter_of_spans_that_makes_no_sense_is_refused(platform: Platform) -> None:
    body = {"locations": [{"mlflow_experiment": {"experiment_id": "0"}}]}
    for text in ("span.colour = 'red'", "span.content = 'x'", "trace.text = 'x'"):
        answer = await platform.admin("POST", V3 + "traces/search", {**body, "filter": text})
        refused(answer, 400)


async def ask(caller: Caller, view: str, metric: str, *kinds: Any, **more: Any) -> dict[str, Any]:
    """Ask for figures; return the values of each group."""
    body = {
        "experiment_ids": ["0"],
        "view_type": view,
        "metric_name": metric,
        "aggregations": [
            {"aggregation_type": "PERCENTILE", "percentile_value": kind}
            if isinstance(kind, float)
            else {"aggregation_type": kind}
            for kind in kinds
        ],
        **more,
    }
    answer = await caller("POST", V3 + "traces/metrics", body)
    assert answer.status == 200, answer.body
    points = answer.json().get("data_points", [])
    assert all(point["metric_name"] == metric for point in points)
    return {" ".join(point["dimensions"].values()): point["values"] for point in points}


async def test_figures_over_traces_spans_and_assessments(platform: Platform) -> None:
    admin = platform.admin
    usage = {"mlflow.trace.tokenUsage": '{"input_tokens": 10, "total_tokens": 15}'}
    await log(admin, 1, trace_metadata={**usage, "mlflow.trace.session": "a"})
    await log(admin, 2, trace_metadata={**usage, "mlflow.trace.session": "a"}, state="ERROR")
    await log(admin, 3, execution_duration="1.5s", tags={"mlflow.traceName": "slow", "env": "x"})
    by_state = await ask(admin, "TRACES", "trace_count", "COUNT", dimensions=["trace_status"])
    assert by_state == {"ERROR": {"COUNT": 1}, "OK": {"COUNT": 2}}
    assert await ask(admin, "TRACES", "session_count", "COUNT") == {"": {"COUNT": 1}}
    took = await ask(admin, "TRACES", "latency", "AVG", 50.0)
    assert took[""]["P50"] == 500
    assert math.isclose(took[""]["AVG"], 2500 / 3)
    tokens = await ask(admin, "TRACES", "total_tokens", "SUM", dimensions=["trace_name"])
    assert tokens == {"call 1": {"SUM": 15}, "call 2": {"SUM": 15}}
    only = await ask(admin, "TRACES", "trace_count", "COUNT", filters=['trace.tag.env = "x"'])
    assert only == {"": {"COUNT": 1}}
    hours = {"time_interval_seconds": 2, "start_time_ms": 0, "end_time_ms": 2**52}
    buckets = await ask(admin, "TRACES", "trace_count", "COUNT", **hours)
    assert sorted(one["COUNT"] for one in buckets.values()) == [1, 2]
    await fill(admin)
    spans = await ask(admin, "SPANS", "span_count", "COUNT", dimensions=["span_type"])
    assert spans == {"CHAIN": {"COUNT": 1}, "LLM": {"COUNT": 2}, "TOOL": {"COUNT": 1}}
    for number, value in ((1, True), (2, False)):
        said = {"assessment_name": "good", "feedback": {"value": value}}
        answer = await admin(
            "POST", f"{V3}traces/{trace_id(number)}/assessments", {"assessment": said}
        )
        assert answer.status == 200, answer.body
    judged = await ask(
        admin, "ASSESSMENTS", "assessment_value", "AVG", dimensions=["assessment_name"]
    )
    assert judged == {"good": {"AVG": 0.5}}


async def test_figures_that_make_no_sense_are_refused(platform: Platform) -> None:
    good = {
        "experiment_ids": ["0"],
        "view_type": "TRACES",
        "metric_name": "latency",
        "aggregations": [{"aggregation_type": "AVG"}],
    }
    for change in (
        {"view_type": "ROWS"},
        {"metric_name": "span_count"},
        {"aggregations": []},
        {"aggregations": [{"aggregation_type": "COUNT"}]},
        {"aggregations": [{"aggregation_type": "PERCENTILE", "percentile_value": 101}]},
        {"dimensions": ["span_name"]},
        {"filters": ["nonsense"]},
        {"time_interval_seconds": 60},
    ):
        refused(await platform.admin("POST", V3 + "traces/metrics", {**good, **change}), 400)


async def test_two_filters_are_told_to_go_together_or_not(platform: Platform) -> None:
    for number in range(1, 11):
        is_prod = number <= 6
        await log(
            platform.admin,
            number,
            tags={
                "env": "prod" if is_prod else "dev",
                "kind": "TOOL" if is_prod or number == 7 else "LLM",
            },
        )

    async def correlate(one: str, two: str, **more: str) -> Any:
        body = {"experiment_ids": ["0"], "filter_string1": one, "filter_string2": two, **more}
        answer = await platform.admin("POST", V3 + "traces/calculate-filter-correlation", body)
        assert answer.status == 200, answer.body
        return answer.json()

    found = await correlate("tags.env = 'prod'", "tags.kind = 'TOOL'")
    counts = ("filter1_count", "filter2_count", "joint_count", "total_count")
    assert [found[name] for name in counts] == [6, 7, 6, 10]
    assert 0.6 < found["npmi"] < 0.8
    assert found["npmi_smoothed"] < found["npmi"]
    apart = await correlate("tags.env = 'prod'", "tags.kind = 'LLM'")
    assert apart["npmi"] == -1
    nothing = await correlate("tags.env = 'staging'", "tags.kind = 'TOOL'")
    assert "npmi" not in nothing
    within = await correlate(
        "tags.env = 'dev'", "tags.kind = 'TOOL'", base_filter="tags.env = 'dev'"
    )
    assert within["total_count"] == 4


async def test_a_trace_may_be_linked_before_it_comes_in(platform: Platform) -> None:
    run_id = await new_run(platform.admin)
    body = {"trace_ids": [trace_id(1), trace_id(2)], "run_id": run_id}
    assert (await platform.admin("POST", V3 + "traces/link-to-run", body)).status == 200
    stranger = await platform.caller("sam", "others", "owner")
    await log(stranger, 2)
    await log(platform.admin, 1)
    assert await search(platform.admin, f"attribute.run_id = '{run_id}'") == [1]
    assert await search(stranger, f"attribute.run_id = '{run_id}'") == []


async def test_a_client_of_the_second_generation_traces(platform: Platform) -> None:
    call = platform.admin.mlflow
    begun = await call(
        "POST",
        "traces",
        {
            "experiment_id": "0",
            "timestamp_ms": 1000,
            "request_metadata": [{"key": "mlflow.user", "value": "ada"}],
            "tags": [{"key": "mlflow.traceName", "value": "old"}],
        },
    )
    info = begun.json()["trace_info"]
    assert info["status"] == "IN_PROGRESS"
    assert "execution_time_ms" not in info
    tags = {pair["key"]: pair["value"] for pair in info["tags"]}
    place = tags["mlflow.artifactLocation"].removeprefix("mlflow-artifacts:/")
    request_id = info["request_id"]
    sent = await platform.admin(
        "PUT",
        f"/api/2.0/mlflow-artifacts/artifacts/{place}/traces.json",
        raw=b'{"spans": [], "request": null}',
    )
    assert sent.status == 200, sent.body
    ended = await call(
        "PATCH",
        f"traces/{request_id}",
        {
            "timestamp_ms": 3500,
            "status": "OK",
            "request_metadata": [{"key": "mlflow.traceInputs", "value": "1"}],
            "tags": [{"key": "more", "value": "yes"}],
        },
    )
    info = ended.json()["trace_info"]
    assert (info["status"], info["execution_time_ms"]) == ("OK", 2500)
    assert (await call("GET", f"traces/{request_id}/info")).json()["trace_info"] == info
    again = (await platform.admin("GET", f"{V3}traces/{request_id}")).json()["trace"]["trace_info"]
    assert again["trace_metadata"] == {"mlflow.user": "ada", "mlflow.traceInputs": "1"}
    found = await call(
        "GET", "traces?experiment_ids=0&filter=tags.more%20%3D%20'yes'&max_results=1"
    )
    assert [one["request_id"] for one in found.json()["traces"]] == [request_id]
    data = await call("GET", f"get-trace-artifact?request_id={request_id}")
    assert data.json() == {"spans": [], "request": None}
    assert data.header("content-disposition") == "attachment; filename=traces.json"
    refused(await call("GET", "get-trace-artifact"), 400)
    refused(await call("GET", "traces/tr-none/info"), 404)
    refused(await call("PATCH", "traces/tr-none", {"timestamp_ms": 1, "status": "OK"}), 404)
    stranger = await platform.caller("sam", "others", "owner")
    refused(await stranger.mlflow("GET", f"traces/{request_id}/info"), 404)
    refused(await stranger.mlflow("GET", f"get-trace-artifact?request_id={request_id}"), 404)
    await fill(platform.admin)
    spans = (await call("GET", f"get-trace-artifact?request_id={trace_id(3)}")).json()["spans"]
    assert [span["name"] for span in spans] == ["plan"]
    # Each attribute's value is JSON text, as in the file that clients upload.
    assert json.loads(spans[0]["attributes"]["mlflow.spanType"]) == '"CHAIN"'
