"""What jobs really hold in a Ray cluster, from the lists that its state API gives. Pure.

Owns the reading of those rows. An entrypoint's own reservation is left out: it belongs to Ray's
internal supervisor, and the ledger has it already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

#: attempt -> node -> resource -> amount
Use = dict[str, dict[str, dict[str, float]]]

_HELD = ("CREATED", "RESCHEDULING")
_SUPERVISOR = "_ray_internal_job_actor_"
#: resources that the ledger counts
_COUNTED = ("GPU", "CPU", "memory")


def use_by_attempt(
    jobs: Iterable[Mapping[str, Any]],
    groups: Iterable[Mapping[str, Any]],
    actors: Iterable[Mapping[str, Any]],
) -> Use:
    """Sum placement groups, and actors outside of any, for each submitted job and node."""
    names = {
        str(job["job_id"]): str(job["submission_id"])
        for job in jobs
        if job.get("job_id") and job.get("submission_id")
    }
    found: Use = {}
    for group in groups:
        owner = names.get(str(group.get("creator_job_id")))
        if owner is None or group.get("state") not in _HELD:
            continue
        for bundle in group.get("bundles") or ():
            _add(found, owner, bundle.get("node_id"), bundle.get("unit_resources"))
    for actor in actors:
        owner = names.get(str(actor.get("job_id")))
        is_inside = bool(actor.get("placement_group_id"))
        if owner is None or is_inside or actor.get("state") != "ALIVE":
            continue
        if not str(actor.get("name") or "").startswith(_SUPERVISOR):
            _add(found, owner, actor.get("node_id"), actor.get("required_resources"))
    return found


def _add(found: Use, owner: str, node: Any, amounts: Mapping[str, Any] | None) -> None:
    counted = {
        name: float(value)
        for name, value in (amounts or {}).items()
        if name in _COUNTED and float(value) > 0
    }
    if not node or not counted:
        return
    held = found.setdefault(owner, {}).setdefault(str(node), {})
    for name, value in counted.items():
        held[name] = held.get(name, 0.0) + value
