"""What runs in the cluster past the queue, and what our jobs' own actors hold.

Asks for actors and placement groups only where someone foreign is there: the list of jobs does
not say what a job holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trackyard.engines.ray.api import RayApi
from trackyard.engines.ray.cluster import ClusterView
from trackyard.engines.ray.nodes import Foreign, ForeignHold
from trackyard.engines.ray.submission import placement_of

#: the actor that Ray starts around an entrypoint is called so, and holds its resources
SUPERVISOR = "_ray_internal_job_actor_"


def on_nodes(api: RayApi, view: ClusterView) -> dict[str, Foreign]:
    """Return what foreign jobs hold, by Ray's node id."""
    others = view.others()
    if not others:
        return {}
    names: dict[str, str] = {}
    for row in others:
        shown = str(row.get("submission_id") or row.get("job_id"))
        for key in (row.get("submission_id"), row.get("job_id")):
            if key:
                names[str(key)] = shown
    lines = {
        str(row.get("submission_id") or row.get("job_id")): str(row.get("entrypoint") or "")
        for row in others
    }
    found: dict[str, Foreign] = {}
    for job, node_id, amounts in (*_actors(api.actors()), *_groups(api.placement_groups())):
        if job in names:
            _charge(found, names[job], lines[names[job]], node_id, amounts)
    return found


def _charge(
    found: dict[str, Foreign], job: str, line: str, node_id: str, amounts: Mapping[str, float]
) -> None:
    one = found.setdefault(node_id, {}).setdefault(job, ForeignHold(line=line))
    one.cpus += amounts.get("CPU", 0.0)
    one.gpus += amounts.get("GPU", 0.0)
    one.memory_bytes += amounts.get("memory", 0.0)


def _actors(rows: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, str, dict[str, float]]]:
    for row in rows:
        node_id = row.get("node_id")
        amounts = row.get("required_resources") or {}
        # What runs inside a placement group is counted with the group.
        if row.get("state") != "ALIVE" or not node_id or row.get("placement_group_id"):
            continue
        name = str(row.get("name") or "")
        is_supervisor = name.startswith(SUPERVISOR)
        job = name[len(SUPERVISOR) :] if is_supervisor else str(row.get("job_id"))
        yield job, str(node_id), {str(k): float(v) for k, v in amounts.items()}


def _groups(rows: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, str, dict[str, float]]]:
    for row in rows:
        if row.get("state") != "CREATED":
            continue
        for bundle in row.get("bundles") or ():
            node_id = bundle.get("node_id")
            amounts = bundle.get("unit_resources") or {}
            if node_id:
                yield (
                    str(row.get("creator_job_id")),
                    str(node_id),
                    {str(k): float(v) for k, v in amounts.items()},
                )


def use_by_attempt(api: RayApi, view: ClusterView) -> dict[str, dict[str, dict[str, float]]]:
    """Return what our jobs' actors and groups hold, by attempt and node, entrypoints left out."""
    drivers = {
        str(row["job_id"]): attempt_id
        for attempt_id, row in view.jobs().items()
        # A gang's placement group is what it was granted, held by our own launcher.
        if row.get("job_id") and len(placement_of(row["metadata"])) == 1
    }
    if not drivers:
        return {}
    names = {node.ray_id: node.node_id for node in view.nodes()}
    found: dict[str, dict[str, dict[str, float]]] = {}
    for job, ray_id, amounts in (*_actors(api.actors()), *_groups(api.placement_groups())):
        attempt_id = drivers.get(job)
        if attempt_id is None:
            continue
        here = found.setdefault(attempt_id, {}).setdefault(names.get(ray_id, ray_id), {})
        for name, amount in amounts.items():
            here[name] = here.get(name, 0.0) + amount
    return found
