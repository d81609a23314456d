"""What an importer sends: types of its requests, with their bounds. Knows no table."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from trackyard.store.bounds import Free, Int64, Line, Text, Word

#: A data set's profile may be large, as MLflow allows.
Document = Annotated[str, Meta(max_length=17_000_000)]
Params = Annotated[dict[Word, Line], Meta(max_length=20_000)]
Tags = Annotated[dict[Word, Text], Meta(max_length=20_000)]
Lifecycle = Literal["active", "deleted"]
MAX_ITEMS = 1000


class ImportedExperiment(msgspec.Struct):
    """An experiment as its source has it."""

    source_id: Word
    name: Line
    created_ms: Int64 = 0
    updated_ms: Int64 = 0
    lifecycle: Lifecycle = "active"
    #: where its files stay; empty for this server's own store
    artifact_location: Line = ""
    tags: Tags = {}


class ImportedExperiments(msgspec.Struct):
    """Some experiments, and what to do where the team has one of the same name."""

    experiments: Annotated[list[ImportedExperiment], Meta(max_length=MAX_ITEMS)]
    same_name: Literal["rename", "merge"] = "rename"


class ImportedDataset(msgspec.Struct):
    """A data set that a run read."""

    name: Line
    digest: Word
    source_type: Line = ""
    source: Text = ""
    schema: Document | None = None
    profile: Document | None = None
    tags: Tags = {}


class ImportedModelLink(msgspec.Struct):
    """A logged model that a run read or made."""

    model_id: Word
    direction: Literal["input", "output"]
    step: Int64 = 0


class ImportedRun(msgspec.Struct):
    """A run as its source has it, without its metrics and files."""

    run_id: Word
    #: the experiment's id here
    experiment_id: Word
    name: Line = ""
    user: Line = ""
    status: Word = "FINISHED"
    start_ms: Int64 | None = None
    end_ms: Int64 | None = None
    lifecycle: Lifecycle = "active"
    deleted_ms: Int64 | None = None
    #: where its files stay; empty for this server's own store
    artifact_uri: Line = ""
    params: Params = {}
    tags: Tags = {}
    datasets: Annotated[list[ImportedDataset], Meta(max_length=MAX_ITEMS)] = []
    models: Annotated[list[ImportedModelLink], Meta(max_length=MAX_ITEMS)] = []


class ImportedRuns(msgspec.Struct):
    """Some runs."""

    runs: Annotated[list[ImportedRun], Meta(max_length=MAX_ITEMS)]


class ImportedSpan(msgspec.Struct):
    """A span of a trace, in the form that clients read."""

    span_id: Word
    start_ns: Int64
    data: Free


class ImportedTrace(msgspec.Struct):
    """A trace in MLflow's form, with its spans where the source keeps them as rows."""

    info: Free
    spans: Annotated[list[ImportedSpan], Meta(max_length=20_000)] = []
    assessments: Annotated[list[Free], Meta(max_length=MAX_ITEMS)] = []
    #: runs it was linked to
    runs: Annotated[list[Word], Meta(max_length=MAX_ITEMS)] = []


class ImportedTraces(msgspec.Struct):
    """Some traces."""

    traces: Annotated[list[ImportedTrace], Meta(max_length=MAX_ITEMS)]


class ImportedPoints(msgspec.Struct):
    """Points of some runs: the body of a call, in msgpack."""

    #: run id, and its series: key; then steps and times as little-endian 64-bit integers, values
    #: as doubles
    runs: list[tuple[str, list[tuple[str, bytes, bytes, bytes]]]]


class RunIds(msgspec.Struct):
    """Some runs by their ids."""

    run_ids: Annotated[list[Word], Meta(max_length=MAX_ITEMS)]
