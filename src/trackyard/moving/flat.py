"""Trackers that know runs of projects and little else. Owns what their importers share: ids that
stay the same, names that fit, and a source made of runs in memory.
"""

from __future__ import annotations

import hashlib
import math
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trackyard.moving.files import local_files
from trackyard.moving.records import (
    SourceEvalDataset,
    SourceExperiment,
    SourceFile,
    SourceLoggedModel,
    SourceModel,
    SourceRun,
    SourceScorer,
    SourceSeries,
    SourceTrace,
)

_BAD = re.compile(r"[^/\w.\- :]")
MAX_PARAM = 6000


@dataclass(slots=True)
class FlatRun:
    """A run of a project, as it is read."""

    project: str
    #: what tells it from others, whenever it is read
    key: str
    run: SourceRun
    #: metric -> step, time, value of each point
    points: dict[str, list[tuple[int, int, float]]] = field(default_factory=dict)
    #: folder of its files
    folder: Path | None = None

    def add(self, name: str, step: int, time_ms: int, value: Any) -> bool:
        """Add a point, or return that its value is no number."""
        number = as_number(value)
        if number is None:
            return False
        self.points.setdefault(clean_name(name), []).append((step, time_ms, number))
        return True

    def add_params(self, values: dict[str, Any], prefix: str = "") -> None:
        """Add parameters, nested ones under names with dots."""
        for key, value in values.items():
            if isinstance(value, dict) and value:
                self.add_params(value, f"{prefix}{key}.")
            else:
                self.run.params[clean_name(f"{prefix}{key}")] = str(value)[:MAX_PARAM]


class FlatSource:
    """A source of records: runs that were read into memory."""

    def __init__(self, kind: str, runs: Iterable[FlatRun]) -> None:
        self._kind = kind
        self._runs: dict[str, list[FlatRun]] = {}
        self._by_id: dict[str, FlatRun] = {}
        self.left: dict[str, tuple[int, str]] = {}
        for one in runs:
            one.run.run_id = stable_id(kind, one.project, one.key)
            one.run.tags.setdefault("trackyard.import.source", kind)
            one.run.counts = {key: len(set(found)) for key, found in one.points.items()}
            if one.folder is not None:
                one.run.artifact_uri = str(one.folder)
            self._runs.setdefault(one.project, []).append(one)
            self._by_id[one.run.run_id] = one

    def experiments(self) -> Iterator[SourceExperiment]:
        """Yield projects as experiments."""
        for project in sorted(self._runs):
            number = int(stable_id(self._kind, project)[:15], 16) % (9 * 10**16) + 10**16
            yield SourceExperiment(source_id=str(number), name=project)

    def runs(self, experiment: SourceExperiment) -> Iterator[SourceRun]:
        """Yield the runs of a project."""
        for one in self._runs[experiment.name]:
            yield one.run

    def points(self, run: SourceRun, keys: Collection[str]) -> Iterator[SourceSeries]:
        """Yield the points of some metrics."""
        for key, found in self._by_id[run.run_id].points.items():
            if key in keys:
                steps, times, values = zip(*found, strict=True)
                yield SourceSeries(
                    key,
                    np.array(steps, np.int64),
                    np.array(times, np.int64),
                    np.array(values, np.float64),
                )

    def files(self, uri: str, owner: str) -> Iterator[SourceFile]:  # noqa: ARG002
        """Yield the files of a run."""
        folder = self._by_id[owner].folder
        return local_files(folder) if folder is not None else iter(())

    def left_out(self) -> Iterator[tuple[str, int, str]]:
        """Yield what was read and has no place here."""
        for kind, (number, why) in self.left.items():
            yield kind, number, why

    def logged_models(self, experiment: SourceExperiment) -> Iterable[SourceLoggedModel]:  # noqa: ARG002
        """Yield nothing: such trackers have no logged models."""
        return ()

    def traces(self, experiment: SourceExperiment) -> Iterable[SourceTrace]:  # noqa: ARG002
        """Yield nothing: their traces, where they have any, are of other kinds."""
        return ()

    def eval_datasets(self) -> Iterable[SourceEvalDataset]:
        """Yield nothing: such trackers have none."""
        return ()

    def scorers(self) -> Iterable[SourceScorer]:
        """Yield nothing: such trackers have none."""
        return ()

    def models(self) -> Iterable[SourceModel]:
        """Yield nothing: such trackers have no registry that files tell of."""
        return ()


def stable_id(*parts: str) -> str:
    """Return 32 hex digits that are the same whenever the same is read."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def clean_name(name: str) -> str:
    """Return a name that metrics and parameters may have."""
    plain = posixpath.normpath(_BAD.sub("_", name)).lstrip("/.")
    return plain[:250] or "_"


def as_number(value: Any) -> float | None:
    """Return a number, also where it is written as a word, or None."""
    if isinstance(value, str):
        words = {"nan": math.nan, "infinity": math.inf, "inf": math.inf}
        found = words.get(value.lower().lstrip("-"))
        return -found if found is not None and value.startswith("-") else found
    return float(value) if isinstance(value, int | float) else None
