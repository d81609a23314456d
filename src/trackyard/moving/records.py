"""What sources yield, whatever their format: experiments, runs, points, models, traces, files.

Pure data. Names follow the requests of `/api/v1/import`, which `wire` makes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

RUN_NAME_TAG = "mlflow.runName"
NOTE_TAG = "mlflow.note.content"
Item = TypeVar("Item")


@dataclass(slots=True, kw_only=True)
class SourceExperiment:
    """An experiment as its source has it."""

    source_id: str
    name: str
    created_ms: int = 0
    updated_ms: int = 0
    lifecycle: str = "active"
    artifact_location: str = ""
    tags: dict[str, str] = field(default_factory=dict)


class LatestValue(NamedTuple):
    """The latest point of a metric."""

    step: int
    time_ms: int
    #: None stands for NaN
    value: float | None


@dataclass(slots=True, kw_only=True)
class SourceRun:
    """A run as its source has it, without its points and files."""

    run_id: str
    name: str = ""
    user: str = ""
    status: str = "FINISHED"
    start_ms: int | None = None
    end_ms: int | None = None
    lifecycle: str = "active"
    deleted_ms: int | None = None
    artifact_uri: str = ""
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    #: {name, digest, source_type, source, schema, profile, tags}
    datasets: list[dict[str, Any]] = field(default_factory=list)
    #: {model_id, direction, step}
    models: list[dict[str, Any]] = field(default_factory=list)
    #: points per metric, where the source can count them
    counts: dict[str, int] | None = None
    #: latest point per metric, where the source cannot
    latest: dict[str, LatestValue] = field(default_factory=dict)


class SourceSeries(NamedTuple):
    """Points of one metric, or a part of them."""

    key: str
    steps: NDArray[np.int64]
    times: NDArray[np.int64]
    values: NDArray[np.float64]


@dataclass(slots=True, kw_only=True)
class SourceLoggedModel:
    """A logged model of MLflow 3, without its files."""

    model_id: str
    name: str = ""
    model_type: str = ""
    source_run: str = ""
    status: str = "READY"
    status_message: str = ""
    lifecycle: str = "active"
    created_ms: int = 0
    updated_ms: int = 0
    artifact_uri: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    #: {key, value, time_ms, step, run_id, dataset_name, dataset_digest}
    metrics: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class SourceModel:
    """A registered model or prompt with its versions."""

    name: str
    description: str = ""
    created_ms: int = 0
    updated_ms: int = 0
    tags: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, int] = field(default_factory=dict)
    #: {version, created_ms, updated_ms, description, user, stage, source, run_id, ...}
    versions: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class SourceTrace:
    """A trace in MLflow 3's form; its spans are here or in its file."""

    #: without its location, which differs from server to server
    info: dict[str, Any]
    #: {span_id, start_ns, data}
    spans: list[dict[str, Any]] = field(default_factory=list)
    assessments: list[dict[str, Any]] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    #: folder of its file; empty where spans are rows
    artifact_uri: str = ""


@dataclass(slots=True, kw_only=True)
class SourceEvalDataset:
    """An evaluation data set with its records, as MLflow 3 writes them."""

    name: str
    experiments: list[str] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    #: {inputs, outputs, expectations, tags, source}
    records: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class SourceScorer:
    """A registered scorer with its versions, the first one first."""

    experiment: str
    name: str
    versions: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class SourceFile:
    """A file that can be read."""

    path: str
    size: int | None
    #: when it was last changed, where the source says so
    changed_ms: int | None
    read: Callable[[], Iterator[bytes]]


class CannotRead(Exception):
    """Something at the source cannot be read; the message says why and what to do."""


class RecordSource(Protocol):
    """Where records come from."""

    def experiments(self) -> Iterable[SourceExperiment]:
        """Yield all experiments, deleted ones too."""
        ...

    def runs(self, experiment: SourceExperiment) -> Iterable[SourceRun]:
        """Yield the runs of an experiment, deleted ones too."""
        ...

    def points(self, run: SourceRun, keys: Collection[str]) -> Iterable[SourceSeries]:
        """Yield the points of some metrics of a run, a series possibly in parts."""
        ...

    def logged_models(self, experiment: SourceExperiment) -> Iterable[SourceLoggedModel]:
        """Yield the logged models of an experiment."""
        ...

    def traces(self, experiment: SourceExperiment) -> Iterable[SourceTrace]:
        """Yield the traces of an experiment."""
        ...

    def models(self) -> Iterable[SourceModel]:
        """Yield registered models and prompts."""
        ...

    def eval_datasets(self) -> Iterable[SourceEvalDataset]:
        """Yield the evaluation data sets of all experiments."""
        ...

    def scorers(self) -> Iterable[SourceScorer]:
        """Yield the scorers of all experiments."""
        ...

    def files(self, uri: str, owner: str) -> Iterable[SourceFile]:
        """Yield the files below an address; CannotRead if they are out of reach."""
        ...

    def left_out(self) -> Iterable[tuple[str, int, str]]:
        """Yield what the source holds and an import does not bring: kind, number, why."""
        ...


def present(pairs: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """Return tags or parameters as texts, an absent value as an empty one."""
    return {key: "" if value is None else str(value) for key, value in pairs}


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield items in lists of a bounded length."""
    batch: list[Item] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
