"""What clients of the third generation call for language models: traces, assessments, prompts,
evaluation data sets, scorers and webhooks.
"""

import gzip
import os
import time
import uuid

import mlflow
import requests
from checks import Checks
from mlflow import MlflowClient
from mlflow.entities import AssessmentSource, Feedback


@mlflow.trace(span_type="CHAIN", attributes={"a": 1})
def outer(x: int) -> int:
    """Call another traced function."""
    return inner(x) + 1


@mlflow.trace
def inner(x: int) -> int:
    """Fail on negative numbers."""
    if x < 0:
        raise ValueError("negative")
    return x * 2


def traces(c: Checks, client: MlflowClient, prefix: str) -> None:
    """Trace calls, find the traces, tag, judge and delete them."""
    experiment = mlflow.set_experiment(f"{prefix}-traces").experiment_id
    outer(3)
    c.fails_with("an error passes through", lambda: outer(-1), ValueError)
    with mlflow.start_run() as run:
        outer(5)
    mlflow.flush_trace_async_logging()
    trace_id = mlflow.get_last_active_trace_id()
    trace = mlflow.get_trace(trace_id)
    c.same("spans", [span.name for span in trace.data.spans], ["outer", "inner"])
    root = trace.data.spans[0]
    c.same(
        "what a span held", (root.inputs, root.outputs, root.get_attribute("a")), ({"x": 5}, 11, 1)
    )
    c.same("state", (trace.info.state.value, trace.info.request_preview), ("OK", '{"x": 5}'))

    def found(**how: object) -> int:
        return len(mlflow.search_traces(return_type="list", **how))

    c.same("all", found(), 3)
    c.same("as a table", len(mlflow.search_traces()), 3)
    c.same("by state", found(filter_string="trace.status = 'ERROR'"), 1)
    c.same("by run", found(run_id=run.info.run_id), 1)
    name = "tags.`mlflow.traceName` = 'outer'"
    c.same("by name, a page", found(filter_string=name, max_results=2), 2)
    mlflow.set_trace_tag(trace_id, "k", "v")
    c.same("by tag", found(filter_string="tags.k = 'v'"), 1)
    mlflow.delete_trace_tag(trace_id, "k")
    c.same("tag removed", found(filter_string="tags.k = 'v'"), 0)
    human = AssessmentSource(source_type="HUMAN", source_id="me")
    given = mlflow.log_feedback(
        trace_id=trace_id, name="ok", value=True, rationale="r", source=human
    )
    wanted = mlflow.log_expectation(trace_id=trace_id, name="want", value={"a": [1, 2]})
    got = mlflow.get_assessment(trace_id, given.assessment_id)
    c.same("feedback", (got.name, got.value, got.rationale), ("ok", True, "r"))
    mlflow.update_assessment(trace_id, given.assessment_id, Feedback(name="ok", value=False))
    mlflow.override_feedback(trace_id=trace_id, assessment_id=given.assessment_id, value=0.5)
    seen = mlflow.get_trace(trace_id).info.assessments
    c.same("all assessments", sorted(one.name for one in seen), ["ok", "ok", "want"])
    c.same("an expectation", next(o.value for o in seen if o.name == "want"), {"a": [1, 2]})
    mlflow.delete_assessment(trace_id, wanted.assessment_id)
    c.same("one is gone", len(mlflow.get_trace(trace_id).info.assessments), 2)
    c.same("by feedback", found(filter_string="feedback.ok = '0.5'"), 1)
    c.same("deleted", client.delete_traces(experiment, trace_ids=[trace_id]), 1)
    later = int(time.time() * 1000) + 60_000
    c.same("the rest", client.delete_traces(experiment, max_timestamp_millis=later), 2)


def prompts(c: Checks, client: MlflowClient, prefix: str) -> None:
    """Register, load, alias and find prompts."""
    name = f"{prefix}-greet"
    first = mlflow.genai.register_prompt(name=name, template="Hi {{name}}", commit_message="one")
    chat = [{"role": "user", "content": "Hi {{name}}"}]
    mlflow.genai.register_prompt(name=name, template=chat)
    c.same("versions", first.version, 1)
    loaded = mlflow.genai.load_prompt(f"prompts:/{name}/1")
    c.same("text", (loaded.format(name="Ada"), loaded.commit_message), ("Hi Ada", "one"))
    mlflow.genai.set_prompt_alias(name, "prod", 2)
    c.same("alias", mlflow.genai.load_prompt(f"prompts:/{name}@prod").template, chat)
    c.true("search", name in [one.name for one in mlflow.genai.search_prompts()])
    c.true("no model", name not in [one.name for one in client.search_registered_models()])
    mlflow.genai.delete_prompt_alias(name, "prod")
    c.refused(
        "a model's name", lambda: client.create_registered_model(name), "RESOURCE_ALREADY_EXISTS"
    )


def datasets(c: Checks, client: MlflowClient, prefix: str) -> None:
    """Make an evaluation data set, merge records, find and delete it."""
    from mlflow.genai import datasets as data

    experiment = mlflow.set_experiment(f"{prefix}-data").experiment_id
    made = data.create_dataset(name=f"{prefix}-set", experiment_id=experiment, tags={"t": "1"})
    made.merge_records(
        [{"inputs": {"q": "1"}, "expectations": {"a": "x"}}, {"inputs": {"q": "2"}}]
    )
    made.merge_records([{"inputs": {"q": "1"}, "expectations": {"b": "y"}}])
    table = data.get_dataset(dataset_id=made.dataset_id).to_df()
    merged = [row["expectations"] for _, row in table.iterrows() if row["inputs"] == {"q": "1"}]
    c.same("records", (len(table), merged), (2, [{"a": "x", "b": "y"}]))
    c.same("by name", data.get_dataset(name=made.name).dataset_id, made.dataset_id)
    c.same("found", len(data.search_datasets(experiment_ids=[experiment])), 1)
    data.set_dataset_tags(dataset_id=made.dataset_id, tags={"u": "2"})
    again = data.get_dataset(dataset_id=made.dataset_id)
    c.true("tags", {"t": "1", "u": "2"}.items() <= again.tags.items())
    data.delete_dataset(dataset_id=made.dataset_id)
    c.same("gone", len(data.search_datasets(experiment_ids=[experiment])), 0)


def scorers(c: Checks, client: MlflowClient, prefix: str) -> None:
    """Register, list and delete scorers."""
    from mlflow.genai.judges import make_judge
    from mlflow.genai.scorers import delete_scorer, get_scorer, list_scorers

    experiment = mlflow.set_experiment(f"{prefix}-scorers").experiment_id
    judge = make_judge(
        name="quality",
        instructions="is {{ outputs }} good?",
        model="openai:/none",
        feedback_value_type=bool,
    )
    for _ in range(2):
        judge.register(experiment_id=experiment)
    c.same("listed", [one.name for one in list_scorers(experiment_id=experiment)], ["quality"])
    got = get_scorer(name="quality", experiment_id=experiment)
    c.same("read back", got.instructions, "is {{ outputs }} good?")
    delete_scorer(name="quality", experiment_id=experiment, version="all")
    c.same("deleted", list_scorers(experiment_id=experiment), [])


def otlp(c: Checks, client: MlflowClient, prefix: str) -> None:
    """Send spans as an OpenTelemetry exporter does, and read them with the client."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTraceServiceRequest,
    )

    experiment = mlflow.set_experiment(f"{prefix}-otlp").experiment_id
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    parent, child = b"\x01" * 8, b"\x02" * 8
    for span_id, above, name in ((parent, b"", "parent"), (child, parent, "child")):
        span = spans.add(span_id=span_id, parent_span_id=above, name=name)
        span.trace_id = uuid.uuid5(uuid.NAMESPACE_DNS, prefix).bytes
        span.start_time_unix_nano = time.time_ns()
        span.end_time_unix_nano = span.start_time_unix_nano + 2_000_000
        words = span.attributes.add(key="words").value.array_value.values
        words.add(string_value="a")
        words.add(int_value=-2)
    answer = requests.post(
        f"{os.environ['MLFLOW_TRACKING_URI']}/v1/traces",
        data=gzip.compress(request.SerializeToString()),
        headers={
            "content-type": "application/x-protobuf",
            "content-encoding": "gzip",
            "x-mlflow-experiment-id": experiment,
            "authorization": f"Bearer {os.environ['MLFLOW_TRACKING_TOKEN']}",
        },
        timeout=60,
    )
    c.same("taken", (answer.status_code, answer.content), (200, b""))
    [trace] = mlflow.search_traces(locations=[experiment], return_type="list")
    c.same("names", [one.name for one in trace.data.spans], ["parent", "child"])
    c.same("an attribute", trace.data.spans[0].get_attribute("words"), ["a", -2])
    c.same("its parent", trace.data.spans[1].parent_id, trace.data.spans[0].span_id)


def webhooks(c: Checks, client: MlflowClient, prefix: str) -> None:
    """Make, read, list, change and delete webhooks."""
    from mlflow.entities.webhook import WebhookStatus

    address = "https://93.184.216.34/hook"
    made = client.create_webhook(prefix, address, ["model_version.created"], secret="x")
    c.same("read back", client.get_webhook(made.webhook_id).url, address)
    c.true("listed", made.webhook_id in [one.webhook_id for one in client.list_webhooks()])
    changed = client.update_webhook(
        made.webhook_id, events=["prompt.created"], status=WebhookStatus.DISABLED
    )
    c.same("changed", [str(event) for event in changed.events], ["prompt.created"])
    c.same("switched off", changed.status, WebhookStatus.DISABLED)
    client.delete_webhook(made.webhook_id)
    c.refused("deleted", lambda: client.get_webhook(made.webhook_id), "RESOURCE_DOES_NOT_EXIST")


PARTS = (traces, prompts, datasets, scorers, otlp, webhooks)
