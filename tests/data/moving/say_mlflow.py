"""Says what a store holds, as the installed MLflow's client sees it.

    python say_mlflow.py URI [TOKEN] > said.json

Two stores that hold the same say the same: experiments by name, and nothing that names a place.
"""

import json
import math
import os
import sys

import mlflow
from mlflow import MlflowClient
from mlflow.entities import ViewType

IS_3 = int(mlflow.__version__.split(".")[0]) >= 3
#: Tags that name places or that a store sets by itself.
PLACES = {"mlflow.artifactLocation", "mlflow.trace.infoFinalized", "mlflow.trace.spansLocation"}


def number(value):
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def pages(search):
    token = None
    while True:
        page = search(page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def files(client, run_id, path=""):
    found = {}
    for one in client.list_artifacts(run_id, path or None):
        if one.is_dir:
            found |= files(client, run_id, one.path)
        else:
            found[one.path] = one.file_size
    return found


def say_run(client, run):
    info, data = run.info, run.data
    return {
        "name": info.run_name,
        "user": info.user_id,
        "status": info.status,
        "start": info.start_time,
        "end": info.end_time,
        "stage": info.lifecycle_stage,
        "params": data.params,
        "tags": data.tags,
        "metrics": {
            key: [
                [one.step, one.timestamp, number(one.value)]
                for one in client.get_metric_history(info.run_id, key)
            ]
            for key in data.metrics
        },
        "latest": {key: number(value) for key, value in data.metrics.items()},
        "datasets": sorted(
            [one.dataset.to_dictionary(), sorted((t.key, t.value) for t in one.tags)]
            for one in run.inputs.dataset_inputs
        )
        if run.inputs is not None
        else [],
        "outputs": sorted((one.model_id, one.step) for one in run.outputs.model_outputs)
        if getattr(run, "outputs", None) is not None
        else [],
        "files": files(client, info.run_id),
    }


def say_version(one):
    return {
        "description": one.description or "",
        "stage": one.current_stage,
        "status": one.status,
        "run": one.run_id or "",
        "tags": one.tags,
        "created": one.creation_timestamp,
    }


def say_model(client, model):
    quoted = model.name.replace("'", "\\'")
    versions = pages(
        lambda page_token: client.search_model_versions(f"name='{quoted}'", page_token=page_token)
    )
    return {
        "description": model.description or "",
        "tags": model.tags,
        "created": model.creation_timestamp,
        "aliases": {key: int(value) for key, value in model.aliases.items()},
        "versions": {str(one.version): say_version(one) for one in versions},
    }


def say_prompt(name):
    said, number = [], 1
    while (found := mlflow.genai.load_prompt(name, number, allow_missing=True)) is not None:
        said.append([found.template, found.commit_message, found.tags, sorted(found.aliases)])
        number += 1
    return said


def say_trace(trace):
    info = trace.info
    kept = {key: value for key, value in info.tags.items() if key not in PLACES}
    metadata = {key: value for key, value in info.request_metadata.items() if key not in PLACES}
    return {
        "time": info.timestamp_ms,
        "took": info.execution_time_ms,
        "status": str(info.status),
        "tags": kept,
        "metadata": {k: v for k, v in metadata.items() if not k.startswith("trackyard.")},
        "assessments": sorted(
            json.dumps(one.to_dictionary(), sort_keys=True)
            for one in getattr(info, "assessments", [])
        ),
        "spans": [
            [
                one.name,
                one.start_time_ns,
                one.end_time_ns,
                one.inputs,
                one.outputs,
                {k: v for k, v in one.attributes.items() if k != "mlflow.traceRequestId"},
            ]
            for one in sorted(trace.data.spans, key=lambda span: span.start_time_ns)
        ],
    }


def say_logged(client, model):
    return {
        "name": model.name,
        "status": str(model.status),
        "run": model.source_run_id,
        "tags": model.tags,
        "params": model.params,
        "created": model.creation_timestamp,
        "metrics": sorted(
            [
                one.key,
                one.value,
                one.step,
                one.timestamp,
                one.run_id,
                one.dataset_name or "",
                one.dataset_digest or "",
            ]
            for one in model.metrics or []
        ),
        "files": sorted(one.path for one in client.list_logged_model_artifacts(model.model_id)),
    }


def say_traces(client, experiment):
    if IS_3:
        found = mlflow.search_traces(locations=[experiment], return_type="list")
    else:
        found = client.search_traces([experiment])
    said = {}
    for one in found:
        trace_id = getattr(one.info, "trace_id", None) or one.info.request_id
        said[trace_id.removeprefix("tr-")] = say_trace(one)
    return said


def say(uri):
    mlflow.set_tracking_uri(uri)
    mlflow.set_registry_uri(uri)
    client = MlflowClient(uri, uri)
    said = {"experiments": {}, "models": {}}
    for one in client.search_experiments(view_type=ViewType.ALL):
        runs = pages(
            lambda page_token, one=one: client.search_runs(
                [one.experiment_id], run_view_type=ViewType.ALL, page_token=page_token
            )
        )
        said["experiments"][one.name] = {
            "id": one.experiment_id,
            "stage": one.lifecycle_stage,
            "tags": one.tags,
            "created": one.creation_time,
            "runs": {run.info.run_id: say_run(client, run) for run in runs},
        }
        if one.lifecycle_stage == "active":
            said["experiments"][one.name]["traces"] = say_traces(client, one.experiment_id)
            if IS_3:
                said["experiments"][one.name]["logged"] = {
                    model.model_id: say_logged(client, model)
                    for model in client.search_logged_models([one.experiment_id])
                }
    for one in client.search_registered_models():
        said["models"][one.name] = say_model(client, one)
    if IS_3:
        for one in mlflow.genai.search_prompts():
            said["models"][f"prompt {one.name}"] = say_prompt(one.name)
    return said


if __name__ == "__main__":
    # Several stores by one process: URI TOKEN URI TOKEN …
    stores = sys.argv[1:]
    whole = []
    for at in range(0, len(stores), 2):
        if stores[at + 1 : at + 2] and stores[at + 1] != "-":
            os.environ["MLFLOW_TRACKING_TOKEN"] = stores[at + 1]
        whole.append(say(stores[at]))
    print("SAID " + json.dumps(whole, sort_keys=True))
