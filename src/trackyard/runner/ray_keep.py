"""Keeps the nodes of a lease from jobs past the queue, from inside a Ray cluster.

All that is free on a leased node is held in placement groups, which carry the lease's name and
which every other job of the cluster respects. The engine gives held GPUs to attempts, so these
wait for nobody; what else attempts wait for in Ray (gangs, Train's workers, trials) is let go at
once. Ends with the lease, or when the engine stops its job; Ray then drops the groups. Uses the
cluster's own Ray, imported late.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Set, Tuple

from trackyard.runner.ray_entry import BAD_SPEC_CODE, read_spec

TICK_SECONDS = 0.5
#: looks in a row that may fail before the keeper gives up; the engine then starts another
MOST_FAILURES = 60
#: a group that Ray has not made by then is given up
PENDING_SECONDS = 3.0
ROWS = 10_000
KINDS = ("GPU", "CPU")
NODE_LABEL = "ray.io/node-id"
#: precedes, in this job's log, the GPUs that are held: the engine gives them to attempts
HELD_LINE = "[yard-held] "
#: stands there when nothing more is given
CLOSED = "closed"
_WAITING_GROUPS = ("PENDING", "RESCHEDULING", "PREPARED")
_EPSILON = 1e-4
_TINY = 0.001

Amounts = Dict[str, float]


class Unit:
    """One placement group: a GPU, or processors."""

    def __init__(self, group: Any, amounts: Amounts, probe: Any) -> None:
        self.group = group
        self.amounts = amounts
        #: a task in the group that tells which GPU it is, until it has told
        self.probe = probe
        #: name of the GPU and who makes it
        self.gpu: Optional[Tuple[str, str]] = None
        self.asked_at = time.monotonic()
        #: whether Ray has made the group
        self.is_there = False


class Own(NamedTuple):
    """The attempts of this installation, as far as the leased nodes go."""

    #: what attempts wait for that have not begun, by node
    wanted: Dict[str, Amounts]
    #: Ray's numbers of all that run, and of those that run on a leased node
    running: Set[str]
    here: Set[str]
    #: GPUs of ours that the engine has given to attempts, by node
    given: Dict[str, Set[str]]


def run() -> int:
    """Keep the nodes that the environment names until their time is over."""
    try:
        data = read_spec(os.environ)
        nodes: Dict[str, str] = dict(data["nodes"])
        ends_ms = int(data["ends_ms"])
    except (KeyError, ValueError, TypeError) as fault:
        sys.stderr.write(f"the keeper cannot use its spec: {fault}\n")
        return BAD_SPEC_CODE
    try:
        import ray
    except ImportError as fault:
        sys.stderr.write(f"python3 on this node has no ray: {fault}; put Ray's own first\n")
        return BAD_SPEC_CODE
    ray.init(address="auto", log_to_driver=False, configure_logging=False)
    # Ray has set handlers of its own by now.
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    keeper = Keeper(ray, lease=str(data["lease"]), site=str(data["site"]), nodes=nodes)
    failures = 0
    while True:
        keeper.is_closing = stopping.is_set() or time.time() * 1000 >= ends_ms
        try:
            keeper.look()
            failures = 0
        except Exception as fault:  # noqa: BLE001  # Ray raises kinds of its own for each part
            failures += 1
            sys.stderr.write(f"the cluster did not tell how it is: {fault}\n")
        if failures > MOST_FAILURES:
            return 1
        if keeper.is_closing and not keeper.holds_any:
            return 0
        time.sleep(TICK_SECONDS)


class Keeper:
    """Holds and lets go; remembers which placement groups are its own."""

    def __init__(self, ray: Any, *, lease: str, site: str, nodes: Dict[str, str]) -> None:
        self._ray = ray
        self._lease = lease
        self._site = site
        self._nodes = nodes
        self._held: Dict[str, List[Unit]] = {ray_id: [] for ray_id in nodes}
        self._count = 0
        self._told = ""
        self._probe = ray.remote(_probe())
        #: the lease is over: only what attempts still use is kept, until they end
        self.is_closing = False

    @property
    def holds_any(self) -> bool:
        """Tell whether anything is held."""
        return any(self._held.values())

    def look(self) -> None:
        """Compare what is free with what our attempts use and wait for, and act on it."""
        from ray._private.state import available_resources_per_node
        from ray.util.placement_group import remove_placement_group

        own = self._own()
        free = available_resources_per_node()
        for ray_id, held in self._held.items():
            if ray_id not in free:
                # The node is gone, and with it what was held there.
                held.clear()
                continue
            self._ask(held)
            used, wanted = own.given.get(ray_id, set()), own.wanted.get(ray_id, {})
            dropped, taken = self._choose(held, used, free[ray_id], wanted)
            for unit in dropped:
                held.remove(unit)
            if dropped:
                self._tell()
            for unit in dropped:
                remove_placement_group(unit.group)
            held.extend(self._hold(ray_id, amounts) for amounts in taken)
        self._tell()

    def _choose(
        self,
        held: List[Unit],
        used: Set[str],
        free: Mapping[str, float],
        wanted: Mapping[str, float],
    ) -> Tuple[List[Unit], List[Amounts]]:
        """Say what of a node to let go and what to hold more."""
        idle = [unit for unit in held if unit.gpu is None or unit.gpu[0] not in used]
        if self.is_closing:
            return idle, []
        waiting = [unit for unit in held if not unit.is_there]
        if waiting:
            # What was free a moment ago was not, or others wait for it as we do.
            late = time.monotonic() - PENDING_SECONDS
            return [unit for unit in waiting if wanted or unit.asked_at < late], []
        # Attempts are given the first GPUs, so the last are let go first.
        idle.sort(key=lambda unit: unit.gpu or ("", ""), reverse=True)
        dropped, taken = plan(free, [unit.amounts for unit in idle], wanted)
        return [idle[index] for index in dropped], taken

    def _ask(self, held: List[Unit]) -> None:
        """Learn which groups are made, and which GPUs they hold."""
        from ray.util.placement_group import placement_group_table

        for unit in held:
            if not unit.is_there:
                unit.is_there = placement_group_table(unit.group).get("state") == "CREATED"
            if unit.probe is None or not self._ray.wait([unit.probe], timeout=0)[0]:
                continue
            try:
                unit.gpu = self._ray.get(unit.probe)
            except self._ray.exceptions.RayError as fault:
                # It is held all the same, but given to nobody.
                sys.stderr.write(f"a node does not tell which GPU is held: {fault}\n")
            unit.probe = None

    def _tell(self) -> None:
        """Write down which GPUs are held, before they can be another's."""
        told: Dict[str, Optional[List[Tuple[str, str]]]] = {}
        for ray_id, held in self._held.items():
            known = sorted(unit.gpu for unit in held if unit.gpu is not None)
            asked = any(unit.probe is not None for unit in held)
            told[self._nodes[ray_id]] = None if asked else known
        text = CLOSED if self.is_closing else json.dumps(told, sort_keys=True)
        if text != self._told:
            self._told = text
            sys.stdout.write(f"{HELD_LINE}{text}\n")
            sys.stdout.flush()

    def _hold(self, ray_id: str, amounts: Amounts) -> Unit:
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        group = self._group(ray_id, amounts)
        if amounts.get("GPU") != 1.0:
            return Unit(group, amounts, None)
        inside = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
        probe = self._probe.options(num_gpus=1, num_cpus=0, scheduling_strategy=inside).remote()
        return Unit(group, amounts, probe)

    def _group(self, ray_id: str, amounts: Amounts) -> Any:
        from ray.util.placement_group import placement_group

        self._count += 1
        name = f"lease-{self._lease}-{self._nodes[ray_id]}-{self._count}"
        try:
            return placement_group(
                [amounts], name=name, bundle_label_selector=[{NODE_LABEL: ray_id}]
            )
        except TypeError:
            # Before 2.49 a node is named by the resource that stands for its address.
            address = next(
                node["NodeManagerAddress"]
                for node in self._ray.nodes()
                if node["NodeID"] == ray_id
            )
            return placement_group([{**amounts, f"node:{address}": _TINY}], name=name)

    def _own(self) -> Own:
        from ray.util.state import list_actors, list_jobs, list_placement_groups, list_tasks

        own = own_jobs(
            [_plain(row) for row in list_jobs(detail=True, limit=ROWS)], self._site, self._nodes
        )
        wanted = own.wanted
        if own.running:
            groups = [_plain(row) for row in list_placement_groups(detail=True, limit=ROWS)]
            add_groups(wanted, groups, own, list(self._nodes))
        for job_id in sorted(own.here):
            waits = [("job_id", "=", job_id)]
            actors = list_actors(
                filters=[*waits, ("state", "=", "PENDING_CREATION")], detail=True, limit=ROWS
            )
            tasks = list_tasks(
                filters=[*waits, ("state", "=", "PENDING_NODE_ASSIGNMENT")],
                detail=True,
                limit=ROWS,
                raise_on_missing_output=False,
            )
            for row in map(_plain, (*actors, *tasks)):
                if not row.get("placement_group_id"):
                    _add(wanted, self._nodes, row.get("required_resources") or {})
        return own


def own_jobs(rows: Iterable[Mapping[str, Any]], site: str, nodes: Mapping[str, str]) -> Own:
    """Find this installation's attempts in the cluster's list of jobs."""
    names = {name: ray_id for ray_id, name in nodes.items()}
    own = Own({}, set(), set(), {})
    for row in rows:
        words = row.get("metadata") or {}
        if words.get("trackyard.site") != site or "trackyard.placement" not in words:
            continue
        placement = json.loads(words["trackyard.placement"])
        here = [share for share in placement if share[0] in names]
        if row.get("status") not in ("PENDING", "RUNNING"):
            continue
        if here and "trackyard.given" in words:
            given = own.given.setdefault(names[here[0][0]], set())
            given.update(json.loads(words["trackyard.given"]))
        elif row["status"] == "PENDING" and len(placement) == 1:
            for name, gpus, cpus, _ in here:
                amounts = {"GPU": sum(part for _, part in gpus), "CPU": float(cpus)}
                _add(own.wanted, [names[name]], amounts)
        if row["status"] == "RUNNING" and row.get("job_id"):
            own.running.add(str(row["job_id"]))
            if here:
                own.here.add(str(row["job_id"]))
    return own


def add_groups(
    wanted: Dict[str, Amounts], rows: Iterable[Mapping[str, Any]], own: Own, nodes: List[str]
) -> None:
    """Add what the placement groups of our attempts wait for: gangs, Train's workers, trials."""
    for row in rows:
        job_id = str(row.get("creator_job_id"))
        if row.get("state") not in _WAITING_GROUPS or job_id not in own.running:
            continue
        for bundle in row.get("bundles") or ():
            selector = str((bundle.get("label_selector") or {}).get(NODE_LABEL) or "")
            named = [ray_id for ray_id in nodes if ray_id in selector]
            if not selector and job_id in own.here:
                # It may end up on any of them; what is not taken is held again.
                named = nodes
            _add(wanted, named, bundle.get("unit_resources") or {})


def plan(
    free: Mapping[str, float], held: List[Amounts], wanted: Mapping[str, float]
) -> Tuple[List[int], List[Amounts]]:
    """Say which of the held amounts to let go so that `wanted` fits, else what to hold more."""
    room = {kind: free.get(kind, 0.0) for kind in KINDS}
    dropped = []
    for index, amounts in enumerate(held):
        if any(
            amounts.get(kind) and room[kind] + _EPSILON < wanted.get(kind, 0.0) for kind in KINDS
        ):
            dropped.append(index)
            for kind in KINDS:
                room[kind] += amounts.get(kind, 0.0)
    if dropped:
        return dropped, []
    spare = {kind: max(0.0, room[kind] - wanted.get(kind, 0.0)) for kind in KINDS}
    whole = int(spare["GPU"] + _EPSILON)
    taken: List[Amounts] = [{"GPU": 1.0} for _ in range(whole)]
    for kind, amount in (("GPU", spare["GPU"] - whole), ("CPU", spare["CPU"])):
        if amount > _EPSILON:
            taken.append({kind: round(amount, 4)})
    return [], taken


def _add(wanted: Dict[str, Amounts], nodes: Iterable[str], amounts: Mapping[str, float]) -> None:
    for ray_id in nodes:
        here = wanted.setdefault(ray_id, {})
        for kind in KINDS:
            here[kind] = here.get(kind, 0.0) + float(amounts.get(kind, 0.0))


def _probe() -> Callable[[], Tuple[str, str]]:
    """Return a function that tells which GPU it was given; it travels by value."""

    def probe() -> Tuple[str, str]:
        import os

        import ray

        vendor = "nvidia" if os.environ.get("CUDA_VISIBLE_DEVICES") else "amd"
        return str(ray.get_gpu_ids()[0]), vendor

    return probe


def _plain(row: Any) -> Dict[str, Any]:
    """Return a row of the state API as a dictionary, whichever of its two forms it has."""
    return dict(row) if isinstance(row, dict) else dict(vars(row))
