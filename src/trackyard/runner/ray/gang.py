"""Launches the members of a gang from inside a Ray cluster, as the entrypoint of its job.

One placement group holds the granted nodes, one actor on each runs that member's runner. If one
member fails, the others are stopped. Uses the cluster's own Ray, which only this module imports,
late; each member's log and end are told by its runner, never by Ray.
"""

from __future__ import annotations

import copy
import json
import os
import secrets
import signal
import sys
import threading
from typing import Any, Dict, List, Optional, Tuple

from trackyard.runner.ray.entry import (
    BAD_SPEC_CODE,
    EXIT_LINE,
    JOB_CONFIG,
    RUNNER_FOLDER,
    SPEC_VARIABLE,
    brief,
    node_folder,
    pack_spec,
    read_spec,
)
from trackyard.runner.ray.host import cluster_ray, end_with_the_cluster

#: "not all nodes were there": the job goes back into the queue
NO_NODES_CODE = 75
FAILED_CODE = 76
NODES_SECONDS = 30.0
TICK_SECONDS = 0.5
_TINY = 0.001


def run() -> int:
    """Run the gang that the environment describes."""
    try:
        data = read_spec(os.environ)
        shares: List[Dict[str, Any]] = data["ray"]["members"]
    except (KeyError, ValueError) as fault:
        sys.stderr.write(f"the launcher cannot use its spec: {fault}\n")
        return BAD_SPEC_CODE
    ray = cluster_ray()
    if ray is None:
        return BAD_SPEC_CODE
    end_with_the_cluster()
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    ray.init(address="auto", log_to_driver=False, configure_logging=False)
    group = _hold_nodes(ray, shares)
    if group is None:
        sys.stderr.write(f"the cluster did not give all nodes within {NODES_SECONDS:g} s\n")
        return NO_NODES_CODE
    gang = RayGang(ray, data, _actors(ray, group, shares), stopping)
    records = gang.run()
    sys.stdout.write(f"{EXIT_LINE}{json.dumps([brief(one) for one in records])}\n")
    sys.stdout.flush()
    done = len(records) == len(shares) and all(r.get("cause") == "succeeded" for r in records)
    return 0 if done else FAILED_CODE


class RayGang:
    """The members while they run."""

    def __init__(
        self, ray: Any, data: Dict[str, Any], actors: List[Any], stopping: threading.Event
    ) -> None:
        self._ray = ray
        self._data = data
        self._actors = actors
        self._stopping = stopping
        self._grace = float(data.get("grace_seconds", 30.0))
        self._launcher = str((data.get("gang") or {}).get("launcher", "plain"))
        self._told: Optional[str] = None

    def run(self) -> List[Dict[str, Any]]:
        """Start every member, wait for all, and return the records there are."""
        places = self._ray.get([actor.place.remote() for actor in self._actors])
        specs = member_specs(self._data, places)
        running = {
            actor.run.remote(pack_spec(spec)): number
            for number, (actor, spec) in enumerate(zip(self._actors, specs))
        }
        found: Dict[int, Dict[str, Any]] = {}
        while running:
            ready, _ = self._ray.wait(list(running), num_returns=1, timeout=TICK_SECONDS)
            for reference in ready:
                number = running.pop(reference)
                record = self._result(reference)
                if record is not None:
                    found[number] = record
                self._react(number, record, set(running.values()))
            if self._stopping.is_set():
                self._stop("stopped", set(running.values()))
        return [found[number] for number in sorted(found)]

    def _result(self, reference: Any) -> Optional[Dict[str, Any]]:
        try:
            record: Optional[Dict[str, Any]] = self._ray.get(reference)
        except self._ray.exceptions.RayError:
            return None
        return record

    def _react(self, number: int, record: Optional[Dict[str, Any]], others: set[int]) -> None:
        cause = None if record is None else record.get("cause")
        if cause == "succeeded":
            if number == 0 and self._launcher == "mpirun":
                self._stop("gang_done", others)
            return
        # A gang that is stopped as a whole keeps the reason it was stopped for.
        whole = cause if cause in ("preempted", "stopped", "time_limit", "node_lost") else "gang"
        self._stop(str(whole), others)

    def _stop(self, reason: str, members: set[int]) -> None:
        if self._told is not None:
            return
        self._told = reason
        for number in members:
            self._actors[number].stop.remote(reason, self._grace)


def member_specs(data: Dict[str, Any], places: List[Tuple[str, int]]) -> List[Dict[str, Any]]:
    """Return each member's own spec, once it is known where all of them are."""
    specs = []
    secret = secrets.token_hex(16)
    for number in range(len(places)):
        spec = copy.deepcopy(data)
        folder = os.path.dirname(str(data["state_dir"]))  # noqa: PTH120
        share = data["ray"]["members"][number]
        spec["state_dir"] = f"{folder}/m{number}"
        spec["cpus"] = share.get("cpus") or 0
        limits = share.get("limits_memory", True)
        spec["memory_bytes"] = (share.get("memory_bytes") or 0) if limits else 0
        spec["gang"].update(
            member=number,
            addresses=[address for address, _ in places],
            port=places[0][1],
            secret=secret,
        )
        specs.append(spec)
    return specs


def bundle_of(share: Dict[str, Any], address: str) -> Dict[str, float]:
    """Return what one member's bundle holds; an empty one holds a trace of its node."""
    return asked_of(share) or {f"node:{address}": _TINY}


def asked_of(share: Dict[str, Any]) -> Dict[str, float]:
    """Return what a member asks Ray for: nothing where a lease's keeper holds it already."""
    if share.get("given") is not None:
        return {}
    amounts = {
        "GPU": float(share.get("gpus") or 0),
        "CPU": float(share.get("cpus") or 0),
        "memory": float(share.get("memory_bytes") or 0),
    }
    return {key: value for key, value in amounts.items() if value}


def _hold_nodes(ray: Any, shares: List[Dict[str, Any]]) -> Any:
    from ray.util.placement_group import placement_group, remove_placement_group

    nodes = {node["NodeID"]: node for node in ray.nodes() if node.get("Alive")}
    if any(share["ray_id"] not in nodes for share in shares):
        return None
    chosen = [nodes[share["ray_id"]] for share in shares]
    bundles = [bundle_of(share, node["NodeManagerAddress"]) for share, node in zip(shares, chosen)]
    apart = len({share["ray_id"] for share in shares}) == len(shares)
    strategy = "STRICT_SPREAD" if apart else "SPREAD"
    labels = [{"ray.io/node-id": share["ray_id"]} for share in shares]
    try:
        group = placement_group(bundles, strategy=strategy, bundle_label_selector=labels)
    except TypeError:
        # Before 2.49 a node is named by the resource that stands for its address.
        for bundle, node in zip(bundles, chosen):
            bundle[f"node:{node['NodeManagerAddress']}"] = _TINY
        group = placement_group(bundles, strategy=strategy)
    if group.wait(NODES_SECONDS):
        return group
    remove_placement_group(group)
    return None


def _actors(ray: Any, group: Any, shares: List[Dict[str, Any]]) -> List[Any]:
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    member = ray.remote(_member_class(str(node_folder("")), SPEC_VARIABLE, RUNNER_FOLDER))
    asked = [asked_of(share) for share in shares]
    return [
        member.options(
            num_cpus=amounts.get("CPU", 0.0),
            num_gpus=amounts.get("GPU", 0.0),
            memory=amounts.get("memory"),
            max_concurrency=4,
            scheduling_strategy=PlacementGroupSchedulingStrategy(
                placement_group=group, placement_group_bundle_index=number
            ),
        ).remote(os.environ.get(JOB_CONFIG, ""))
        for number, amounts in enumerate(asked)
    ]


def _member_class(default_folder: str, variable: str, folder: str) -> Any:
    """Return the actor's class; made here, so that it travels by value to nodes without us."""

    class Member:
        """Runs one member's runner on its node."""

        def __init__(self, config: str) -> None:
            self._config = config
            self._folder: Any = None
            self._stop: Optional[Dict[str, Any]] = None

        def place(self) -> Tuple[str, int]:
            """Return this node's address and a free port on it."""
            import socket

            import ray

            address = ray.util.get_node_ip_address()
            with socket.socket() as probe:
                probe.bind((address, 0))
                return address, int(probe.getsockname()[1])

        def run(self, packed: str) -> Optional[Dict[str, Any]]:
            """Run the member to its end and return its record."""
            import base64
            import json
            import os
            import subprocess
            import zlib
            from pathlib import Path

            import ray

            data = json.loads(zlib.decompress(base64.b64decode(packed)))
            self._folder = Path(data["ray"].get("folder") or default_folder) / data["state_dir"]
            if self._stop is not None:
                self._leave(self._stop)
            env = dict(os.environ)
            env[variable] = packed
            env["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address
            if self._config:
                env["RAY_JOB_CONFIG_JSON_ENV_VAR"] = self._config
            homes = [Path(part) / folder for part in env.get("PYTHONPATH", "").split(os.pathsep)]
            home = next(path for path in homes if path.is_dir())
            subprocess.run(["python3", "-I", "-S", str(home), "--ray"], env=env, check=False)
            try:
                record: Dict[str, Any] = json.loads((self._folder / "exit.json").read_text())
            except (OSError, ValueError):
                return None
            return record

        def stop(self, reason: str, grace_seconds: float) -> None:
            """Ask the member's runner to end."""
            request = {"reason": reason, "grace_seconds": grace_seconds}
            self._stop = request
            if self._folder is not None:
                self._leave(request)

        def _leave(self, request: Dict[str, Any]) -> None:
            import json

            self._folder.mkdir(parents=True, mode=0o700, exist_ok=True)
            beside = self._folder / ".stop.json.new"
            beside.write_text(json.dumps(request))
            beside.replace(self._folder / "stop.json")

    return Member
