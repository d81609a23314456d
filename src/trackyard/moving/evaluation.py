"""Sends evaluation data sets and scorers by MLflow's own calls, to this platform's server or to
one of MLflow. Owns what counts as there already. Either server gives out ids of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

from trackyard.client.api import Api, ApiFault
from trackyard.moving.records import RecordSource, SourceEvalDataset, SourceScorer, batches
from trackyard.moving.report import ImportReport

_V3 = "/api/3.0/mlflow"
_RECORDS = 200
_SENT = ("inputs", "outputs", "expectations", "tags", "source")


class EvaluationSender:
    """Sends what a source knows for evaluations to one server."""

    def __init__(
        self, source: RecordSource, api: Api, report: ImportReport, experiments: Mapping[str, str]
    ) -> None:
        self._source = source
        self._api = api
        self._report = report
        #: experiment's id at the source -> its id there
        self._experiments = experiments

    def send(self, *, is_whole: bool) -> None:
        """Send data sets, those of no experiment with the whole alone, and scorers."""
        for one in self._source.eval_datasets():
            ids = [key for key in one.experiments if key in self._experiments]
            there = [self._experiments[key] for key in ids]
            if there or (is_whole and not one.experiments):
                self._try("evaluation data sets", one.name, partial(self._dataset, one, there))
        for scorer in self._source.scorers():
            if scorer.experiment in self._experiments:
                self._try("scorers", scorer.name, partial(self._scorer, scorer))

    def _try(self, kind: str, name: str, work: Callable[[], str]) -> None:
        try:
            self._report.count(kind, work())
        except ApiFault as fault:
            self._report.miss(kind, name, f"the server does not take it: {fault}")

    def _dataset(self, one: SourceEvalDataset, experiments: list[str]) -> str:
        """Send a data set; one of the same name and experiments is the same."""
        known = self._known(one.name, experiments)
        outcome = "unchanged" if known else "created"
        if known is None:
            body = {
                "name": one.name,
                "experiment_ids": experiments,
                "tags": json.dumps(one.tags),
            }
            known = self._api.post(f"{_V3}/datasets/create", body)["dataset"]
        path = f"{_V3}/datasets/{quote(known['dataset_id'])}/records"
        for records in batches(self._lacking(path, one.records), _RECORDS):
            done = self._api.post(path, {"records": json.dumps(records)})
            if outcome == "unchanged" and done.get("inserted_count"):
                outcome = "updated"
        return outcome

    def _known(self, name: str, experiments: list[str]) -> dict[str, Any] | None:
        quoted = name.replace("'", "''")
        asked: dict[str, Any] = {"filter_string": f"name = '{quoted}'", "max_results": 1000}
        found = self._api.post(f"{_V3}/datasets/search", asked).get("datasets", [])
        for one in found:
            path = f"{_V3}/datasets/{quote(one['dataset_id'])}/experiment-ids"
            if set(self._api.get(path).get("experiment_ids", [])) == set(experiments):
                return dict(one)
        return None

    def _lacking(self, path: str, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the records that are not there in the same words."""
        there: set[str] = set()
        token = ""
        while True:
            query = {"max_results": 1000, **({"page_token": token} if token else {})}
            page = self._api.get(path, query)
            there |= {_words(one) for one in json.loads(page.get("records") or "[]")}
            token = page.get("next_page_token") or ""
            if not token:
                break
        return [_sent(one) for one in records if _words(one) not in there]

    def _scorer(self, one: SourceScorer) -> str:
        """Register the versions that are not there, in their order."""
        experiment = self._experiments[one.experiment]
        asked = {"experiment_id": experiment, "name": one.name}
        try:
            found = self._api.get(f"{_V3}/scorers/versions", asked).get("scorers", [])
        except ApiFault as fault:
            if fault.status != 404:
                raise
            found = []
        there = {version["serialized_scorer"] for version in found}
        lacking = [text for text in one.versions if text not in there]
        for text in lacking:
            self._api.post(f"{_V3}/scorers/register", {**asked, "serialized_scorer": text})
        if not lacking:
            return "unchanged"
        return "updated" if found else "created"


def _sent(record: dict[str, Any]) -> dict[str, Any]:
    return {name: record[name] for name in _SENT if record.get(name) is not None}


def _words(record: dict[str, Any]) -> str:
    """Return what is compared of a record: all that is sent but its source."""
    kept = {key: value for key, value in _sent(record).items() if value and key != "source"}
    return json.dumps(kept, sort_keys=True)
