"""The last look at the cluster: jobs and nodes, each from one call that all callers share.

Owns how old a look may be and what was submitted since. Decides nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from trackyard.core.clock import Clock
from trackyard.core.ports import EngineError, GpuReport, LaunchRefused, NodeGrant, NodeReport
from trackyard.engines.ray import judging, nodes
from trackyard.engines.ray.api import ClusterInfo, RayApi
from trackyard.engines.ray.nodes import Foreign, RayNode

log = logging.getLogger(__name__)

JOBS_SECONDS = 1.0
NODES_SECONDS = 2.0
CLUSTER_SECONDS = 15.0


class ClusterView:
    """What was last seen of a cluster."""

    def __init__(self, api: RayApi, site: str, clock: Clock) -> None:
        self._api = api
        self._site = site
        self._clock = clock
        self._lock = threading.RLock()
        self._jobs: dict[str, dict[str, Any]] = {}
        self._others: list[dict[str, Any]] = []
        self._keepers: dict[str, dict[str, Any]] = {}
        self._jobs_at: float | None = None
        self._submitted: dict[str, tuple[float, dict[str, Any]]] = {}
        self._nodes: list[RayNode] = []
        self._nodes_at: float | None = None
        self._was: dict[str, RayNode] = {}
        self._gpus: dict[str, list[GpuReport]] = {}
        self._cluster: ClusterInfo | None = None
        self._cluster_at = 0.0

    # Jobs

    def jobs(self) -> dict[str, dict[str, Any]]:
        """Return our jobs by attempt id, at most a second old."""
        with self._lock:
            if self._jobs_at is None or self._age(self._jobs_at) > JOBS_SECONDS:
                self._list_jobs()
            found = dict(self._jobs)
            for attempt_id, (_, row) in self._submitted.items():
                found.setdefault(attempt_id, row)
            return found

    def others(self) -> list[dict[str, Any]]:
        """Return the live jobs in the last list that are not ours."""
        self.jobs()
        with self._lock:
            return list(self._others)

    def keepers(self) -> dict[str, dict[str, Any]]:
        """Return our jobs that hold the nodes of leases, by their Ray id."""
        self.jobs()
        with self._lock:
            return dict(self._keepers)

    def look_again(self) -> None:
        """Have the next caller list the jobs anew."""
        with self._lock:
            self._jobs_at = None

    def note_submitted(self, body: Mapping[str, Any]) -> None:
        """Remember what Ray has just taken, until a list holds it."""
        row = {
            "submission_id": body["submission_id"],
            "status": "PENDING",
            "metadata": body["metadata"],
            "runtime_env": body["runtime_env"],
        }
        with self._lock:
            self._submitted[body["submission_id"]] = (self._clock.monotonic(), row)

    def _list_jobs(self) -> None:
        began = self._clock.monotonic()
        rows = self._api.jobs()
        ours: dict[str, dict[str, Any]] = {}
        others = []
        keepers: dict[str, dict[str, Any]] = {}
        for row in rows:
            attempt_id = judging.attempt_id_of(row, self._site)
            if attempt_id is not None:
                ours[attempt_id] = row
            elif judging.lease_id_of(row, self._site) is not None:
                keepers[str(row["submission_id"])] = row
            elif row.get("status") not in judging.ENDED:
                others.append(row)
        mine = (*ours.values(), *keepers.values())
        own_drivers = {row["job_id"] for row in mine if row.get("job_id")}
        self._jobs = ours
        self._keepers = keepers
        self._others = [row for row in others if row.get("job_id") not in own_drivers]
        self._jobs_at = began
        for attempt_id in [key for key, (at, _) in self._submitted.items() if at < began]:
            del self._submitted[attempt_id]

    # Nodes

    def nodes(self) -> list[RayNode]:
        """Return the nodes, at most two seconds old."""
        with self._lock:
            if self._nodes_at is None or self._age(self._nodes_at) > NODES_SECONDS:
                began = self._clock.monotonic()
                self._nodes = nodes.read_nodes(self._api.nodes())
                self._nodes_at = began
                self._was.update({n.node_id: n for n in self._nodes if n.is_alive})
            return list(self._nodes)

    def alive(self) -> set[str]:
        """Return Ray's ids of the nodes that live."""
        return {node.ray_id for node in self.nodes() if node.is_alive}

    def node(self, node_id: str) -> RayNode:
        """Return a live node."""
        for node in self.nodes():
            if node.node_id == node_id and node.is_alive:
                return node
        raise LaunchRefused(f"there is no node {node_id!r} in the Ray cluster, or it is down")

    def check(self, share: NodeGrant) -> None:
        """Refuse a share that the cluster does not have at all."""
        node = self.node(share.node_id)
        missing = [gpu.index for gpu in share.gpus if gpu.index >= node.gpu_count]
        if missing:
            raise LaunchRefused(f"node {share.node_id} has no GPU {missing[0]}")

    def reports(
        self, held: Mapping[str, Sequence[NodeGrant]], others: Mapping[str, Foreign]
    ) -> list[NodeReport]:
        """Describe the nodes that take work, and those that did and are gone."""
        found = []
        version = self.cluster().ray_version
        for listed in self.nodes():
            node: RayNode | None = listed
            if not listed.is_alive:
                # A dead node is listed without what it had.
                was = self._was.get(listed.node_id)
                node = None if was is None else nodes.dead(was, listed.message)
            if node is None or not node.takes_work:
                continue
            found.append(
                nodes.describe(
                    node,
                    held.get(node.node_id, ()),
                    foreign=others.get(node.ray_id, {}),
                    gpus=self._devices(node),
                    ray_version=version,
                )
            )
        return found

    def _devices(self, node: RayNode) -> list[GpuReport]:
        known = self._gpus.get(node.ray_id)
        if known is not None:
            return known
        found = nodes.declared_gpus(node)
        if found and found[0].vendor != "declared" and node.is_alive:
            try:
                found = nodes.real_gpus(node, self._api.hardware(node.ray_id))
            except EngineError as fault:
                log.info("node %s does not tell of its GPUs: %s", node.node_id, fault)
                return found
        self._gpus[node.ray_id] = found
        return found

    def cluster(self) -> ClusterInfo:
        """Return the cluster's version and session."""
        with self._lock:
            if self._cluster is None or self._age(self._cluster_at) > CLUSTER_SECONDS:
                before, self._cluster = self._cluster, self._api.cluster()
                self._cluster_at = self._clock.monotonic()
                if before is not None and before.session != self._cluster.session:
                    log.warning("the Ray head was started anew; what ran before is lost")
                    self._jobs_at = self._nodes_at = None
            return self._cluster

    def _age(self, moment: float) -> float:
        return self._clock.monotonic() - moment
