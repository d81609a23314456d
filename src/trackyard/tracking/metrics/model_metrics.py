"""Metric points that name a logged model: log-batch copies them to the model. Owns
`logged_model_metrics`; knows neither the registry nor how a run keeps its own points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from trackyard.core.errors import NotFound
from trackyard.core.ids import MODEL_ID
from trackyard.store.database import ReadConnection, Tx


class ModelPoint(NamedTuple):
    """One point of a logged model's metric."""

    model_id: str
    key: str
    step: int
    time_ms: int
    #: NaN is allowed, and kept as NULL
    value: float
    dataset_name: str | None = None
    dataset_digest: str | None = None


def log_model_metrics(
    tx: Tx, *, team_id: int, run_uuid: str, points: Sequence[ModelPoint]
) -> None:
    """Write points to their logged models; a point sent twice is kept once."""
    check_models(tx, team_id, {point.model_id for point in points})
    write_model_points(
        tx,
        [
            (
                point.model_id,
                point.key,
                point.time_ms,
                point.step,
                None if point.value != point.value else point.value,
                run_uuid,
                point.dataset_name or None,
                point.dataset_digest or None,
            )
            for point in points
        ],
    )


def write_model_points(tx: Tx, rows: Sequence[tuple[Any, ...]]) -> None:
    """Write rows of model, key, time, step, value, run, data set and its digest, each once."""
    tx.many(
        "INSERT INTO logged_model_metrics (model_id, key, time_ms, step, value, run_uuid,"
        " dataset_name, dataset_digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (model_id, key, time_ms, step, run_uuid) DO NOTHING",
        rows,
    )


def check_models(tx: Tx | ReadConnection, team_id: int, model_ids: set[str]) -> None:
    """Refuse a logged model that the team does not hold; call it before any write."""
    for model_id in sorted(model_ids):
        known = MODEL_ID.match(model_id) and tx.one(
            "SELECT 1 FROM logged_models WHERE id = ? AND team_id = ? AND lifecycle = 'active'",
            (model_id, team_id),
        )
        if not known:
            raise NotFound(f"Logged model with ID '{model_id[:80]}' not found.")
