"""Brings everything a source holds to a server. Owns the order, what is skipped, and the report.

A pass may end anywhere and be run again: what is there already is not sent twice. Points are
compared by their number, or by the latest one where a source cannot count; files by size and time.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

from trackyard.client.api import ApiFault
from trackyard.core.storage_uri import STORAGE_SCHEMES, scheme_of
from trackyard.moving.mlflow_forms import LOCATION_TAG, TRACE_ID_KEY
from trackyard.moving.records import (
    CannotRead,
    RecordSource,
    SourceExperiment,
    SourceFile,
    SourceLoggedModel,
    SourceModel,
    SourceRun,
    SourceSeries,
    SourceTrace,
    batches,
)
from trackyard.moving.report import ImportReport
from trackyard.moving.target import BATCH_POINTS, ServerFile, ServerTarget, StoredSeries

#: Runs that are compared and sent together.
_RUNS = 200
_UPLOADS = 4
#: `<experiment>/<run or model>/artifacts/<path>` at the end of an address.
_PLACE = re.compile(
    r"(?:^|.*/)(?P<experiment>[0-9]{1,18})/(?:models/)?(?P<owner>(?:m-)?[0-9a-f]{32})/artifacts"
    r"(?P<path>/.*)?\Z"
)


class TransferProgress(Protocol):
    """What is told of the work while it is done."""

    def doing(self, what: str) -> None:
        """Say what is under way."""
        ...

    def did(self, kind: str, number: int = 1) -> None:
        """Count what was looked at."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportChoices:
    """How to import."""

    #: copy files to this server, leave them where they are, or leave them out
    artifacts: str = "copy"
    same_name: str = "rename"
    #: names or ids of the experiments to bring; empty for all, with the registry
    experiments: frozenset[str] = frozenset()
    #: send and compare everything, whatever the server says it has
    is_thorough: bool = False


class ServerTransfer:
    """One pass from a source to a server."""

    def __init__(
        self,
        source: RecordSource,
        target: ServerTarget,
        report: ImportReport,
        progress: TransferProgress,
        choices: ImportChoices,
    ) -> None:
        self._source = source
        self._target = target
        self._report = report
        self._progress = progress
        self._choices = choices
        #: experiment's id at the source -> its id here
        self._ids: dict[str, str] = {}
        #: runs and logged models whose files are copied
        self._copied: dict[str, str] = {}
        self._owners: list[tuple[str, str, str]] = []
        self._unreachable: dict[str, int] = {}

    def run(self) -> None:
        """Do it all."""
        chosen = self._experiments()
        for experiment in chosen:
            self._progress.doing(f"runs of {experiment.name}")
            for runs in batches(self._source.runs(experiment), _RUNS):
                self._runs(experiment, runs)
            self._progress.doing(f"models and traces of {experiment.name}")
            self._logged_models(experiment)
            self._traces(experiment)
        self._progress.doing("evaluation data sets and scorers")
        is_whole = not self._choices.experiments
        self._target.evaluation(self._source, self._report, self._ids).send(is_whole=is_whole)
        if is_whole:
            self._progress.doing("registered models")
            self._models()
            for kind, number, why in self._source.left_out():
                self._report.miss(kind, f"{number}", why, number)
        if self._choices.artifacts == "copy":
            self._progress.doing("files")
            self._files()
        for why, number in self._unreachable.items():
            self._report.miss("files", f"of {number} runs, models or traces", why)

    # -- experiments and runs -----------------------------------------------------------------

    def _experiments(self) -> list[SourceExperiment]:
        wanted = self._choices.experiments
        found = [
            one
            for one in self._source.experiments()
            if not wanted or one.name in wanted or one.source_id in wanted
        ]
        absent = wanted - {one.name for one in found} - {one.source_id for one in found}
        for name in sorted(absent):
            self._report.miss("experiments", name, "the source has no experiment of this name")
        items = (
            {**_wire(one), "artifact_location": self._left(one.artifact_location)} for one in found
        )
        results = self._target.put(
            "experiments", "experiments", items, same_name=self._choices.same_name
        )
        arrived = []
        for experiment, result in zip(found, results, strict=True):
            if self._told("experiments", experiment.name, result):
                self._ids[experiment.source_id] = result["target"]
                arrived.append(experiment)
        return arrived

    def _told(self, kind: str, name: str, result: dict[str, Any]) -> bool:
        """Report what became of something; return whether it is there."""
        note = result.get("note", "")
        if result["outcome"] == "refused":
            self._report.miss(kind, name, note)
            return False
        self._report.count(kind, result["outcome"])
        self._progress.did(kind)
        if note:
            self._report.note(kind, name, note)
        return True

    def _left(self, uri: str) -> str:
        """Return an address that stays as it is, or nothing for the server's own store."""
        if self._choices.artifacts != "leave":
            return ""
        scheme = scheme_of(uri)
        if scheme == "" and uri.startswith("/"):
            return f"file://{uri}"
        return uri if scheme in (*STORAGE_SCHEMES, "file") else ""

    def _runs(self, experiment: SourceExperiment, runs: list[SourceRun]) -> None:
        target = self._ids[experiment.source_id]
        items = (
            {**_wire(run), "experiment_id": target, "artifact_uri": self._left(run.artifact_uri)}
            for run in runs
        )
        results = self._target.put("runs", "runs", items)
        arrived = []
        for run, result in zip(runs, results, strict=True):
            if self._told("runs", run.run_id, result):
                arrived.append(run)
                self._own(run.run_id, run.artifact_uri, target)
        if arrived:
            self._points(arrived)

    def _own(self, owner: str, uri: str, experiment: str) -> None:
        if not uri or self._left(uri):
            return
        if self._choices.artifacts == "leave":
            why = "their address is the old server's own, so no client could reach them there"
            self._unreachable[why] = self._unreachable.get(why, 0) + 1
            return
        self._copied[owner] = experiment
        self._owners.append((owner, uri, experiment))

    # -- points -------------------------------------------------------------------------------

    def _points(self, runs: list[SourceRun]) -> None:
        known = self._target.known_points([run.run_id for run in runs])
        batch: list[tuple[str, list[SourceSeries]]] = []
        count = 0
        for run in runs:
            here = known.get(run.run_id, {})
            wanted = self._wanted(run, here)
            self._report.count("points", "unchanged", _settled(run, here, wanted))
            for series in self._source.points(run, wanted) if wanted else ():
                for part in _parts(series):
                    if batch and count + len(part.steps) > BATCH_POINTS:
                        self._send(batch)
                        batch, count = [], 0
                    if not batch or batch[-1][0] != run.run_id:
                        batch.append((run.run_id, []))
                    batch[-1][1].append(part)
                    count += len(part.steps)
        if batch:
            self._send(batch)

    def _wanted(self, run: SourceRun, here: dict[str, StoredSeries]) -> set[str]:
        """Return the metrics of a run that the server lacks points of."""
        if run.counts is not None:
            keys = set(run.counts)
            same = {key for key, number in run.counts.items() if _has(here.get(key), number)}
        else:
            keys = set(run.latest)
            same = {
                key
                for key, latest in run.latest.items()
                if (known := here.get(key)) is not None and known.latest == latest
            }
        return keys if self._choices.is_thorough else keys - same

    def _send(self, batch: list[tuple[str, list[SourceSeries]]]) -> None:
        number = sum(len(one.steps) for _, several in batch for one in several)
        written, refused = self._target.put_points(batch)
        self._report.count("points", "created", written)
        self._report.count("points", "unchanged", number - written if not refused else 0)
        self._progress.did("points", number)
        for why in refused:
            self._report.miss("metrics", why.partition(":")[0], why.partition(": ")[2])

    # -- models and traces --------------------------------------------------------------------

    def _logged_models(self, experiment: SourceExperiment) -> None:
        target = self._ids[experiment.source_id]
        for models in batches(self._source.logged_models(experiment), _RUNS):
            items = (self._logged(one, target) for one in models)
            results = self._target.put("logged-models", "models", items)
            for model, result in zip(models, results, strict=True):
                if self._told("logged models", model.model_id, result):
                    self._own(model.model_id, model.artifact_uri, target)

    def _logged(self, model: SourceLoggedModel, target: str) -> dict[str, Any]:
        uri = self._left(model.artifact_uri)
        return {**_wire(model), "experiment_id": target, "artifact_uri": uri}

    def _traces(self, experiment: SourceExperiment) -> None:
        try:
            self._send_traces(experiment)
        except CannotRead as fault:
            self._report.miss("traces", f"of {experiment.name}", str(fault))

    def _send_traces(self, experiment: SourceExperiment) -> None:
        target = self._ids[experiment.source_id]
        for traces in batches(self._source.traces(experiment), _RUNS):
            results = self._target.put(
                "traces", "traces", (self._trace(one, target) for one in traces)
            )
            for trace, result in zip(traces, results, strict=True):
                trace_id = trace.info["trace_id"]
                if not self._told("traces", trace_id, result):
                    continue
                old = trace.info["trace_metadata"].get(TRACE_ID_KEY)
                if old is not None:
                    self._report.note("traces", trace_id, f"it was {old} in MLflow 2")
                self._own(trace_id, trace.artifact_uri, target)

    def _trace(self, trace: SourceTrace, target: str) -> dict[str, Any]:
        info = dict(trace.info)
        info["trace_location"] = {
            "type": "MLFLOW_EXPERIMENT",
            "mlflow_experiment": {"experiment_id": target},
        }
        location = self._left(trace.artifact_uri)
        if location:
            info["tags"] = {**info["tags"], LOCATION_TAG: location}
        return {
            "info": info,
            "spans": trace.spans,
            "assessments": trace.assessments,
            "runs": trace.runs,
        }

    def _models(self) -> None:
        for model in self._source.models():
            is_there = True
            parts = list(batches(model.versions, _RUNS)) or [[]]
            for at, versions in enumerate(parts):
                item = {**_wire(model), "versions": [self._version(one) for one in versions]}
                for result in self._target.put("models", "models", [item]):
                    is_last = at == len(parts) - 1
                    if is_there and (is_last or result["outcome"] == "refused"):
                        is_there = self._told("models", model.name, result)
            if is_there:
                self._note_sources(model)

    def _version(self, version: dict[str, Any]) -> dict[str, Any]:
        """Return a version whose files, where they were copied, are named by where they are."""
        if self._choices.artifacts != "copy":
            return version
        moved = {
            name: self._moved(version.get(name, "")) for name in ("source", "storage_location")
        }
        return {**version, **moved}

    def _moved(self, uri: str) -> str:
        found = _PLACE.match(uri) if scheme_of(uri) not in ("runs", "models") else None
        if found is None or found["owner"] not in self._copied:
            return uri
        middle = "models/" if found["owner"].startswith("m-") else ""
        owner, path = found["owner"], found["path"] or ""
        return f"mlflow-artifacts:/{self._copied[owner]}/{middle}{owner}/artifacts{path}"

    def _note_sources(self, model: SourceModel) -> None:
        for version in model.versions:
            uri = self._version(version).get("source", "")
            if scheme_of(uri) in ("", "file") and "/" in uri:
                self._report.note(
                    "models",
                    f"{model.name}/{version['version']}",
                    f"its source {uri[:200]} is a path that belongs to no run or model of the"
                    " import; it is recorded, not copied",
                )

    # -- files --------------------------------------------------------------------------------

    def _files(self) -> None:
        with ThreadPoolExecutor(_UPLOADS) as pool:
            waiting: list[Future[None]] = []
            for owner, uri, _ in self._owners:
                try:
                    for file, known in self._lacking(owner, uri):
                        waiting.append(pool.submit(self._copy, owner, file, known))
                        if len(waiting) > 4 * _UPLOADS:
                            waiting.pop(0).result()
                except CannotRead as fault:
                    why = str(fault)
                    self._unreachable[why] = self._unreachable.get(why, 0) + 1
            for one in waiting:
                one.result()

    def _lacking(self, owner: str, uri: str) -> Iterator[tuple[SourceFile, ServerFile | None]]:
        """Yield the files of an owner that the server seems not to have."""
        known: dict[str, ServerFile] | None = None
        for file in self._source.files(uri, owner):
            if known is None:
                known = self._target.files(owner)
            here = known.get(file.path)
            if here is not None and not self._choices.is_thorough and _is_same(file, here):
                self._report.count("files", "unchanged")
                continue
            yield file, here

    def _copy(self, owner: str, file: SourceFile, known: ServerFile | None) -> None:
        try:
            was_sent, size = self._target.put_file(owner, file, known)
        except CannotRead as fault:
            self._report.miss("files", f"{owner}/{file.path}", str(fault))
            return
        except ApiFault as fault:
            if fault.status not in (400, 404, 413):
                raise
            why = fault.details.get("reason", "")
            self._report.miss("files", f"{owner}/{file.path}", f"{fault}{why and ': '}{why}")
            return
        outcome = ("created" if known is None else "updated") if was_sent else "unchanged"
        self._report.count("files", outcome)
        self._progress.did("files")
        if was_sent:
            self._report.copied(size)


def _wire(record: Any) -> dict[str, Any]:
    """Return a record as the server takes it."""
    found = {one.name: getattr(record, one.name) for one in dataclasses.fields(record)}
    return {name: value for name, value in found.items() if name not in ("counts", "latest")}


def _has(known: StoredSeries | None, number: int) -> bool:
    return known is not None and known.points == number


def _settled(run: SourceRun, here: dict[str, StoredSeries], wanted: Iterable[str]) -> int:
    """Return how many points need not be looked at."""
    skipped = set(run.counts or run.latest) - set(wanted)
    return sum(here[key].points for key in skipped if key in here)


def _parts(series: SourceSeries) -> Iterator[SourceSeries]:
    """Cut a series into parts that fit a request."""
    if len(series.steps) <= BATCH_POINTS:
        yield series
        return
    for start in range(0, len(series.steps), BATCH_POINTS):
        part = slice(start, start + BATCH_POINTS)
        yield SourceSeries(series.key, series.steps[part], series.times[part], series.values[part])


def _is_same(file: SourceFile, here: ServerFile) -> bool:
    """Tell whether a file is the one that was copied, as far as size and time can tell."""
    if file.size is not None and file.size != here.size:
        return False
    return file.changed_ms is None or file.changed_ms < here.created_ms
