"""Reads this platform's own server: by MLflow's REST API, and what that does not tell by ours."""

from __future__ import annotations

from collections.abc import Iterator

from trackyard.client.api import Api
from trackyard.moving.mlflow_rest import MlflowServer
from trackyard.moving.mlflow_write import tombstones
from trackyard.moving.records import SourceExperiment, SourceModel, SourceRun


class OwnServer(MlflowServer):
    """A source of records: the server of this platform."""

    def __init__(self, api: Api) -> None:
        super().__init__(api.url, lambda: Api(api.url, api.token, timeout=120.0))
        gone = api.get("/api/v1/export/deletions")
        self._deleted: dict[str, int] = gone["runs"]
        self._versions: dict[str, list[int]] = gone["versions"]

    def runs(self, experiment: SourceExperiment) -> Iterator[SourceRun]:
        """Yield the runs of an experiment, with the time at which one was deleted."""
        for run in super().runs(experiment):
            run.deleted_ms = self._deleted.get(run.run_id)
            yield run

    def models(self) -> Iterator[SourceModel]:
        """Yield registered models and prompts, with the numbers of deleted versions."""
        for model in super().models():
            gone = tombstones(self._versions.get(model.name, []))
            model.versions = sorted([*model.versions, *gone], key=lambda one: int(one["version"]))
            yield model
