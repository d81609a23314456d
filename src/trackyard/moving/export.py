"""Brings everything a server holds into a file store of MLflow. Owns the order and the report."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from trackyard.core.storage_uri import scheme_of
from trackyard.moving.mlflow_write import MlflowFolderWriter
from trackyard.moving.records import CannotRead, RecordSource, SourceExperiment
from trackyard.moving.report import ImportReport
from trackyard.moving.transfer import TransferProgress


def export_folder(
    source: RecordSource,
    folder: Path,
    report: ImportReport,
    progress: TransferProgress,
    *,
    experiments: Collection[str] = (),
    has_files: bool = True,
) -> None:
    """Write a file store of all experiments, or of some without the registry."""
    _Export(source, MlflowFolderWriter(folder), report, progress, has_files=has_files).run(
        experiments
    )


class _Export:
    def __init__(
        self,
        source: RecordSource,
        writer: MlflowFolderWriter,
        report: ImportReport,
        progress: TransferProgress,
        *,
        has_files: bool,
    ) -> None:
        self._source = source
        self._writer = writer
        self._report = report
        self._progress = progress
        self._has_files = has_files

    def run(self, wanted: Collection[str]) -> None:
        for experiment in self._source.experiments():
            if wanted and experiment.name not in wanted and experiment.source_id not in wanted:
                continue
            self._progress.doing(f"experiment {experiment.name}")
            self._writer.experiment(experiment)
            self._did("experiments")
            self._runs(experiment)
            for model in self._source.logged_models(experiment):
                self._writer.logged_model(experiment, model)
                self._did("logged models")
                self._files(model.model_id, model.artifact_uri)
            for trace in self._source.traces(experiment):
                self._writer.trace(experiment, trace)
                self._did("traces")
                self._files(trace.info["trace_id"], trace.artifact_uri)
        if not wanted:
            for registered in self._source.models():
                self._writer.model(registered)
                self._did("models")

    def _runs(self, experiment: SourceExperiment) -> None:
        for run in self._source.runs(experiment):
            self._writer.run(experiment, run)
            self._did("runs")
            for series in self._source.points(run, run.latest) if run.latest else ():
                self._writer.points(run, series)
                self._report.count("points", "created", len(series.steps))
            self._files(run.run_id, run.artifact_uri)

    def _did(self, kind: str) -> None:
        self._report.count(kind, "created")
        self._progress.did(kind)

    def _files(self, owner: str, uri: str) -> None:
        if not self._has_files or not uri:
            return
        if scheme_of(uri) != "mlflow-artifacts":
            self._report.note("files", owner, f"they stay at {uri[:200]}, which holds them")
            return
        try:
            for file in self._source.files(uri, owner):
                size, _ = self._writer.file(owner, file)
                self._report.copied(size)
                self._did("files")
        except CannotRead as fault:
            self._report.miss("files", owner, str(fault))
