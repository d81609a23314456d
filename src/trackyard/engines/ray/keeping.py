"""Leases on a Ray cluster: a job for each that keeps its nodes from work past the queue.

Owns when such a keeper is started, followed by another and stopped. What it does in the cluster
is in `runner.ray_keep`. A node of Ray cannot be drained and taken back, nor get a label after its
start; placement groups with the lease's name do both, and vanish with their job.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from trackyard.core.clock import Clock
from trackyard.core.ports import LaunchRefused, LaunchSpec, LeaseHold
from trackyard.engines.ray import carrying, foreign, judging, submission
from trackyard.engines.ray.api import RayApi
from trackyard.engines.ray.cluster import ClusterView
from trackyard.engines.ray.nodes import RayNode
from trackyard.engines.ray.submission import GivenGpu, Site

log = logging.getLogger(__name__)

#: a keeper's start takes seconds
AHEAD = timedelta(seconds=15)
#: between two starts of one keeper, and between two stops of one foreign job
AGAIN_SECONDS = 20.0
#: a submission takes no longer to be listed
GIVEN_SECONDS = 90.0
#: Ray kills a job so long after it asked it to stop: a keeper holds what attempts still use
STOP_SECONDS = 7 * 24 * 3600
HELD_LINE = "[yard-held] "
#: how often, and after how long, a keeper that has just begun is asked again what it holds
TELL_TRIES = 20
TELL_SECONDS = 0.5


class Keepers:
    """The holds this engine was told of, and the jobs that keep them."""

    def __init__(
        self,
        api: RayApi,
        view: ClusterView,
        site: Site,
        clock: Clock,
        *,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._pause = pause
        self._api = api
        self._view = view
        self._site = site
        self._clock = clock
        self._lock = threading.Lock()
        self._holds: dict[str, LeaseHold] = {}
        self._tried: dict[str, float] = {}
        #: attempt -> when it was given GPUs, on which node, and which stands for which index
        self._given: dict[str, tuple[float, str, dict[int, str]]] = {}

    def hold(self, hold: LeaseHold) -> None:
        """Remember a hold; `look` starts its keeper when its time has come."""
        with self._lock:
            self._holds[hold.lease_id] = hold

    def holds(self) -> list[LeaseHold]:
        """Return the holds that were told and not dropped."""
        with self._lock:
            return list(self._holds.values())

    def drop(self, lease_id: str) -> None:
        """Forget a hold and stop what keeps it, whoever started that."""
        with self._lock:
            self._holds.pop(lease_id, None)
        self._view.look_again()
        self._stop(self._keepers_of(lease_id))

    def give(self, spec: LaunchSpec) -> tuple[GivenGpu, ...] | None:
        """Choose held GPUs for an attempt; None where Ray must find room for it."""
        if len(spec.placement) > 1:
            return None
        share = spec.placement[0]
        held = self._held_on(share.node_id)
        if held is None:
            return None
        with self._lock:
            names = self._names(share.node_id, spec.attempt_id)
            free = [gpu for gpu in held if gpu[0] not in names.values()]
            chosen = []
            for gpu in share.gpus:
                known = next((one for one in held if one[0] == names.get(gpu.index)), None)
                if known is None and not free:
                    return None
                name, vendor = known or free.pop(0)
                chosen.append(GivenGpu(name=name, vendor=vendor, fraction=gpu.fraction))
            indexes = {gpu.index: one.name for gpu, one in zip(share.gpus, chosen, strict=True)}
            self._given[spec.attempt_id] = (self._clock.monotonic(), share.node_id, indexes)
        return tuple(chosen)

    def _held_on(self, node_id: str) -> list[tuple[str, str]] | None:
        """Return name and vendor of the GPUs that are held there; None: nobody keeps the node."""
        names = [
            name
            for name, row in self._view.keepers().items()
            if row.get("status") == "RUNNING" and node_id in _nodes_of(row)
        ]
        found = [self._told_by(name, node_id) for name in names]
        gpus = [gpu for one in found if one is not None for gpu in one]
        if all(one is None for one in found):
            return None
        return sorted(gpus, key=lambda gpu: int(gpu[0]))

    def _told_by(self, keeper: str, node_id: str) -> list[tuple[str, str]] | None:
        """Return what a keeper says it holds; one that has just begun is given a moment."""
        for _ in range(TELL_TRIES):
            held = read_held(self._api.logs(keeper))
            if held is None:
                return None
            told = held.get(node_id)
            if told is not None:
                return told
            self._pause(TELL_SECONDS)
        return None

    def _names(self, node_id: str, but: str) -> dict[int, str]:
        """Return which held GPU stands for which index of a node, by the attempts that run."""
        names: dict[int, str] = {}
        rows = self._view.jobs()
        for attempt_id, row in rows.items():
            words = row.get("metadata") or {}
            if row.get("status") in judging.ENDED or submission.GIVEN not in words:
                continue
            share = submission.placement_of(words)[0]
            if attempt_id != but and share.node_id == node_id:
                told = json.loads(words[submission.GIVEN])
                names.update({gpu.index: one for gpu, one in zip(share.gpus, told, strict=True)})
        now = self._clock.monotonic()
        # What was given a moment ago may not be in the list yet.
        self._given = {
            key: one
            for key, one in self._given.items()
            if key not in rows and now - one[0] < GIVEN_SECONDS
        }
        for attempt_id, (_, where, indexes) in self._given.items():
            if attempt_id != but and where == node_id:
                names.update(indexes)
        return names

    def look(self) -> bool:
        """Start, replace and stop keepers as the time and the nodes ask; tell if any is due."""
        now = self._clock.now()
        due = [hold for hold in self.holds() if hold.starts_at - AHEAD <= now < hold.ends_at]
        for hold in due:
            try:
                self._keep(hold)
            except LaunchRefused as fault:
                log.warning("Ray does not keep the nodes of lease %s: %s", hold.lease_id, fault)
        begun = [hold for hold in due if hold.starts_at <= now]
        if begun and self._site.clears_leases:
            self._clear({node for hold in begun for node in hold.node_ids})
        return bool(due)

    def _keep(self, hold: LeaseHold) -> None:
        named = set(hold.node_ids)
        nodes = [node for node in self._view.nodes() if node.is_alive and node.node_id in named]
        if not nodes:
            return
        body = keeper_job(hold, nodes, self._site)
        name = str(body["submission_id"])
        keepers = self._keepers_of(hold.lease_id)
        row = keepers.pop(name, None)
        if row is None or row.get("status") in judging.ENDED:
            self._start(name, body, is_there=row is not None)
        elif row.get("status") == "RUNNING":
            # Another end or other nodes: the new keeper is there, so the old one may go.
            self._stop(keepers)

    def _start(self, name: str, body: dict[str, Any], *, is_there: bool) -> None:
        if not self._may_try(name):
            return
        if is_there:
            self._api.delete(name)
        carrying.carry_runner(self._api)
        self._api.submit(body)
        self._view.look_again()

    def _stop(self, keepers: Mapping[str, Mapping[str, Any]]) -> None:
        for name, row in keepers.items():
            if row.get("status") in judging.ENDED:
                self._api.delete(name)
            else:
                self._api.stop(name)
            self._view.look_again()

    def _keepers_of(self, lease_id: str) -> dict[str, dict[str, Any]]:
        return {
            name: row
            for name, row in self._view.keepers().items()
            if judging.lease_id_of(row, self._site.name) == lease_id
        }

    def _clear(self, node_ids: set[str]) -> None:
        """Ask Ray to stop the jobs past the queue that run on these nodes."""
        ray_ids = {node.ray_id for node in self._view.nodes() if node.node_id in node_ids}
        running = foreign.on_nodes(self._api, self._view)
        for name in sorted({job for ray_id in ray_ids for job in running.get(ray_id, {})}):
            if self._may_try(name):
                done = self._api.stop(name)
                log.warning(
                    "the Ray job %s runs past the queue on a leased node and %s",
                    name,
                    "was asked to stop" if done else "Ray cannot stop it",
                )

    def _may_try(self, name: str) -> bool:
        now = self._clock.monotonic()
        with self._lock:
            before = self._tried.get(name)
            if before is not None and now - before < AGAIN_SECONDS:
                return False
            self._tried = {
                key: at for key, at in self._tried.items() if now - at < 2 * AGAIN_SECONDS
            }
            self._tried[name] = now
        return True


def _nodes_of(row: Mapping[str, Any]) -> list[str]:
    words = row.get("metadata") or {}
    found: list[str] = json.loads(words.get(submission.NODES, "[]"))
    return found


def keeper_job(hold: LeaseHold, nodes: Sequence[RayNode], site: Site) -> dict[str, Any]:
    """Return the job that keeps a lease's nodes; its id says which nodes, and until when."""
    ends_ms = int(hold.ends_at.timestamp() * 1000)
    named = {node.ray_id: node.node_id for node in nodes}
    key = f"{site.name} {ends_ms} {' '.join(sorted(named))}"
    digest = hashlib.sha256(key.encode()).hexdigest()[:10]
    told = {"lease": hold.lease_id, "site": site.name, "nodes": named, "ends_ms": ends_ms}
    runner, _ = submission.runner_package()
    return {
        "submission_id": f"lease-{hold.lease_id}-{digest}",
        "entrypoint": submission.entrypoint("--ray-keep"),
        "metadata": {
            "job_name": f"lease {hold.lease_id} on {', '.join(sorted(named.values()))}",
            submission.SITE: site.name,
            submission.LEASE: hold.lease_id,
            submission.NODES: json.dumps(sorted(named.values())),
        },
        "runtime_env": {
            "env_vars": {
                submission.SPEC_VARIABLE: submission.encode(told),
                submission.STOP_WAIT: str(STOP_SECONDS),
            },
            "py_modules": [f"gcs://{runner}"],
        },
    }


def read_held(log_text: bytes) -> dict[str, list[tuple[str, str]]] | None:
    """Read from a keeper's log which GPUs it holds, by node; None: it gives none any more.

    GPUs whose name is no number are left out.
    """
    lines = log_text.decode("utf-8", "replace").splitlines()
    told = next((line for line in reversed(lines) if line.startswith(HELD_LINE)), "")
    if not told:
        return {}
    if told == f"{HELD_LINE}closed":
        return None
    return {
        str(node): [(str(name), str(vendor)) for name, vendor in gpus if str(name).isdigit()]
        for node, gpus in json.loads(told[len(HELD_LINE) :]).items()
        if gpus is not None
    }
