"""Plans for the nodes that are there: GPU types of the server's inventory, the wait it predicts,
and how good plans have been on it.

Owns reading those over the server's API. Planning itself lies beside and knows no server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trackyard.client.api import Api, ApiFault
from trackyard.finetune.planning import calibration
from trackyard.finetune.planning.gpus import GpuModel, match_gpu


@dataclass(frozen=True, slots=True)
class GpuOffer:
    """A type of GPU that the fleet has."""

    gpu: GpuModel
    #: the name the fleet gives it, which a job asks for
    type: str
    per_node: int
    nodes: int
    free: float


@dataclass(frozen=True, slots=True)
class PredictedWait:
    """When the queue would start a job, as the server predicts."""

    starts_now: bool
    is_feasible: bool
    start_ms: int | None
    sentence: str

    def json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "starts_now": self.starts_now,
            "feasible": self.is_feasible,
            "start_ms": self.start_ms,
            "sentence": self.sentence,
        }


def offers(
    nodes: list[dict[str, Any]], assumed: GpuModel | None = None
) -> tuple[list[GpuOffer], list[str]]:
    """Group the fleet's GPUs by type; return those in the table, and the names of those not.

    Types that the table does not have count as the assumed one, where one is named.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for node in nodes:
        for kind in {gpu["type"] for gpu in node["gpus"] if gpu["type"]}:
            groups.setdefault(kind, []).append(node)
    found, unknown = [], []
    for kind, holders in sorted(groups.items()):
        cards = [gpu for node in holders for gpu in node["gpus"] if gpu["type"] == kind]
        gpu = match_gpu(kind, max(card.get("memory_bytes") or 0 for card in cards))
        if gpu is None:
            unknown.append(kind)
            gpu = assumed
        if gpu is None:
            continue
        most = max(sum(card["type"] == kind for card in node["gpus"]) for node in holders)
        free = sum(float(card["free"]) for card in cards)
        found.append(GpuOffer(gpu, kind, most, len(holders), free))
    return found, unknown


def read_offers(api: Api, assumed: GpuModel | None = None) -> tuple[list[GpuOffer], list[str]]:
    """Ask the server for its GPUs."""
    return offers(api.get("/api/v1/nodes")["nodes"], assumed)


def predicted_wait(api: Api, kind: str, gpus: int, nodes: int, hours: float) -> PredictedWait:
    """Ask the queue when such a job would start; nothing is queued."""
    fields: dict[str, Any] = {
        "command": ["true"],
        "gpus": gpus,
        "gpu_types": [kind],
        "nodes": nodes,
        "time_limit_seconds": max(60, round(hours * 3600)),
        "dry_run": True,
    }
    answer = api.post("/api/v1/jobs", fields)["answer"]
    eta = answer.get("eta") or {}
    return PredictedWait(
        starts_now=bool(answer["starts_now"]),
        is_feasible=bool(answer["feasible"]),
        start_ms=eta.get("start_ms"),
        sentence=str(answer.get("sentence") or ""),
    )


def finished_pairs(api: Api) -> list[calibration.PlanOutcome]:
    """Return what finished runs on this server have left: predicted beside actual."""
    known = api.get("/api/v1/experiments")["experiments"]
    if not known:
        return []
    query = {
        "experiment_ids": [row["experiment_id"] for row in known],
        "filter": f"metrics.`{calibration.ACTUAL_PEAK}` > 0",
        "limit": 1000,
        "metrics": list(calibration.METRICS),
        "params": list(calibration.PARAMS),
    }
    try:
        return calibration.pairs_of(api.post("/api/v1/runs/table", query))
    except ApiFault:
        return []
