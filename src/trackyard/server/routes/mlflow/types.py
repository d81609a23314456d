"""The arguments of MLflow's calls with their bounds, by path. A handler can read no other.

Values are read as leniently as MLflow reads them (`Arguments`); these types say how much of them
there may be. MLflow's own limits, with MLflow's own messages, are narrower.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from trackyard.server.routes.mlflow.genai_types import EvalDataset, Scorer, TraceCall
from trackyard.store.bounds import Int64, Line, Lines, Rows, Text, Word
from trackyard.tracking.inputs import MAX_PROFILE, MAX_SCHEMA, MAX_SOURCE


class TagPair(msgspec.Struct):
    """A tag or parameter."""

    key: Line
    value: Text | None = ""


Pairs = Annotated[list[TagPair], Meta(max_length=2000)]
#: A word or a number: enums come as either.
Choice = Word | Int64


class _Page(msgspec.Struct):
    max_results: Int64 | None = None
    page_token: Line | None = None


class NewExperiment(msgspec.Struct):
    """experiments/create."""

    name: Line = ""
    artifact_location: Line = ""
    tags: Pairs = []


class OneExperiment(msgspec.Struct):
    """A call about an experiment: its id or name, a new name, a tag."""

    experiment_id: Line = ""
    experiment_name: Line = ""
    new_name: Line = ""
    key: Line = ""
    value: Text = ""


class SearchExperiments(_Page):
    """experiments/search."""

    filter: Line = ""
    order_by: Lines = []
    view_type: Choice | None = None


class SearchDatasets(msgspec.Struct):
    """experiments/search-datasets."""

    experiment_ids: Rows = []


class CreateRun(msgspec.Struct):
    """runs/create."""

    experiment_id: Line = ""
    user_id: Line = ""
    run_name: Line = ""
    start_time: Int64 | None = None
    tags: Pairs = []


class OneRun(msgspec.Struct):
    """A call about a run."""

    run_id: Line = ""
    run_uuid: Line = ""


class RunChange(OneRun):
    """runs/update."""

    status: Choice | None = None
    end_time: Int64 | None = None
    run_name: Line = ""


class SearchRuns(_Page):
    """runs/search."""

    experiment_ids: Rows = []
    filter: Line = ""
    run_view_type: Choice | None = None
    order_by: Lines = []


class RunPair(OneRun):
    """runs/log-parameter, runs/set-tag and runs/delete-tag."""

    key: Line = ""
    value: Text = ""


class RunModel(OneRun):
    """runs/log-model."""

    model_json: Text = ""


class Dataset(msgspec.Struct):
    """A data set."""

    name: Line = ""
    digest: Word = ""
    source_type: Line = ""
    source: Annotated[str, Meta(max_length=2 * MAX_SOURCE)] = ""
    schema: Annotated[str, Meta(max_length=2 * MAX_SCHEMA)] = ""
    profile: Annotated[str, Meta(max_length=MAX_PROFILE)] = ""


class DatasetInput(msgspec.Struct):
    """A data set that a run reads."""

    dataset: Dataset
    tags: Pairs = []


class ModelLink(msgspec.Struct):
    """A model that a run reads or makes."""

    model_id: Word
    step: Int64 = 0


class LogInputs(OneRun):
    """runs/log-inputs and runs/outputs."""

    datasets: Annotated[list[DatasetInput], Meta(max_length=1000)] = []
    models: Annotated[list[ModelLink], Meta(max_length=1000)] = []


class MetricHistoryQuery(_Page):
    """metrics/get-history and its bulk forms."""

    run_id: Rows | Line = ""
    run_uuid: Line = ""
    run_ids: Rows | Line = []
    metric_key: Line = ""
    start_step: Int64 | None = None
    end_step: Int64 | None = None


class OneModel(msgspec.Struct):
    """A call about a registered model or one of its versions."""

    name: Line = ""
    new_name: Line = ""
    version: Word = ""
    description: Text = ""
    alias: Line = ""
    stage: Word = ""
    stages: Lines = []
    archive_existing_versions: bool | Word = False
    key: Line = ""
    value: Text = ""
    tags: Pairs = []


class CreateVersion(OneModel):
    """model-versions/create."""

    source: Line = ""
    run_id: Word = ""
    model_id: Word = ""
    run_link: Line = ""


class SearchModels(_Page):
    """registered-models/search and model-versions/search."""

    filter: Line = ""
    order_by: Lines = []


class NewLogged(msgspec.Struct):
    """logged-models."""

    experiment_id: Word = ""
    name: Line = ""
    model_type: Line = ""
    source_run_id: Word = ""
    tags: Pairs = []
    params: Pairs = []


class OneLogged(msgspec.Struct):
    """A call about a logged model."""

    allow_deleted: bool | Word = False
    status: Choice | None = None
    tags: Pairs = []
    params: Pairs = []
    artifact_directory_path: Line = ""
    artifact_file_path: Line = ""


class LoggedDataset(msgspec.Struct):
    """A data set to search by."""

    dataset_name: Line
    dataset_digest: Word | None = None


class LoggedModelOrder(msgspec.Struct):
    """An order of logged models."""

    field_name: Line
    ascending: bool = True
    dataset_name: Line | None = None
    dataset_digest: Word | None = None


class SearchLogged(_Page):
    """logged-models/search."""

    experiment_ids: Rows = []
    filter: Line = ""
    datasets: Annotated[list[LoggedDataset], Meta(max_length=1000)] = []
    order_by: Annotated[list[LoggedModelOrder], Meta(max_length=1000)] = []


class OldTrace(_Page):
    """A call of a 2.x client about traces."""

    experiment_id: Word = ""
    experiment_ids: Rows | Word = []
    filter: Line = ""
    order_by: Lines = []
    timestamp_ms: Int64 | None = None
    status: Choice | None = None
    request_metadata: Pairs = []
    tags: Pairs = []


class UploadPart(msgspec.Struct):
    """A part of an upload, as it was stored."""

    part_number: Int64
    etag: Word


class UploadCall(msgspec.Struct):
    """An upload in parts, and what asks for a presigned address."""

    path: Line = ""
    run_id: Word = ""
    model_id: Word = ""
    num_parts: Int64 | None = None
    upload_id: Word = ""
    parts: Annotated[list[UploadPart], Meta(max_length=10_000)] = []


_BY_PATH: dict[str, Any] = {
    "experiments/create": NewExperiment,
    "experiments/search": SearchExperiments,
    "experiments/search-datasets": SearchDatasets,
    "runs/create": CreateRun,
    "runs/update": RunChange,
    "runs/search": SearchRuns,
    "runs/log-parameter": RunPair,
    "runs/set-tag": RunPair,
    "runs/delete-tag": RunPair,
    "runs/log-model": RunModel,
    "runs/log-inputs": LogInputs,
    "runs/outputs": LogInputs,
    "registered-models/search": SearchModels,
    "model-versions/search": SearchModels,
    "model-versions/create": CreateVersion,
    "logged-models": NewLogged,
    "logged-models/search": SearchLogged,
}
_BY_FAMILY: dict[str, Any] = {
    "experiments": OneExperiment,
    "runs": OneRun,
    "metrics": MetricHistoryQuery,
    "registered-models": OneModel,
    "model-versions": OneModel,
    "logged-models": OneLogged,
    "mpu": UploadCall,
    "traces": TraceCall,
    "datasets": EvalDataset,
    "scorers": Scorer,
}
#: Bytes of bodies that carry documents.
_LARGE: dict[str, int] = {
    "traces": 4 * 1024 * 1024,
    "scorers/register": 4 * 1024 * 1024,
    "datasets/{dataset_id}/records": 32 * 1024 * 1024,
    "runs/log-inputs": 8 * 1024 * 1024,
    "runs/log-batch": 4 * 1024 * 1024,
    "runs/log-model": 4 * 1024 * 1024,
}


def arguments_of(path: str) -> Any:
    """Return the type of a call's arguments, or None where its path says it all."""
    if path.startswith("artifacts/presigned-"):
        return UploadCall
    return _BY_PATH.get(path) or _BY_FAMILY.get(path.partition("/")[0])


def body_limit_of(path: str) -> int | None:
    """Return the limit on a call's body where it is not the usual one."""
    return _LARGE.get(path)
