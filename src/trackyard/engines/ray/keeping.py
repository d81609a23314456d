"""Leases on a Ray cluster: a job for each that keeps its nodes from work past the queue.

Owns when such a keeper is started, followed by another and stopped, and when what it held is let
go. What it does in the cluster is in `runner.ray.keep`. A node of Ray cannot be drained and taken
back, nor get a label after its start; placement groups with the lease's name do both. They
outlive their keeper, so that a lost one leaves no gap.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from trackyard.core.clock import Clock
from trackyard.core.ports import LaunchRefused, LaunchSpec, LeaseHold, NodeGrant, NoticeKind
from trackyard.engines.ray import carrying, foreign, judging, submission
from trackyard.engines.ray.api import RayApi, gist
from trackyard.engines.ray.cluster import ClusterView
from trackyard.engines.ray.nodes import RayNode
from trackyard.engines.ray.submission import GivenGpu, RaySite

log = logging.getLogger(__name__)

#: a keeper's start takes seconds
AHEAD = timedelta(seconds=15)
#: between two starts of one keeper, and between two stops of one foreign job
AGAIN_SECONDS = 20.0
#: between two words about one thing of one lease
TELL_AGAIN_SECONDS = 600.0
#: between two looks for what is held for nobody
SWEEP_SECONDS = 30.0
#: a job whose entry is dropped as soon as it ends is listed again by Ray, as failed
SETTLE_MS = 5_000
#: a submission takes no longer to be listed
GIVEN_SECONDS = 90.0
HELD_LINE = "[yard-held] "
#: how often, and after how long, a keeper that has just begun is asked again what it holds
TELL_TRIES = 20
TELL_SECONDS = 0.5


class LeaseKeepers:
    """The holds this engine was told of, and the jobs that keep them."""

    def __init__(
        self,
        api: RayApi,
        view: ClusterView,
        site: RaySite,
        clock: Clock,
        *,
        pause: Callable[[float], None] = time.sleep,
        tell: Callable[[NoticeKind, str, str], None] = lambda _kind, _lease, _words: None,
    ) -> None:
        self._pause = pause
        self._tell = tell
        self._api = api
        self._view = view
        self._site = site
        self._clock = clock
        self._lock = threading.Lock()
        self._holds: dict[str, LeaseHold] = {}
        #: leases that are over and whose keepers are not all gone
        self._over: set[str] = set()
        self._swept = clock.monotonic()
        #: lease -> its keeper that was last seen to run
        self._running: dict[str, str] = {}
        self._tried: dict[str, float] = {}
        self._said: dict[str, float] = {}
        #: attempt -> when it was given GPUs, and by node, which stands for which index
        self._given: dict[str, tuple[float, dict[str, dict[int, str]]]] = {}

    def hold(self, hold: LeaseHold) -> None:
        """Remember a hold; `look` starts its keeper when its time has come."""
        with self._lock:
            self._holds[hold.lease_id] = hold
            self._over.discard(hold.lease_id)

    def holds(self) -> list[LeaseHold]:
        """Return the holds that were told and not dropped."""
        with self._lock:
            return list(self._holds.values())

    def drop(self, lease_id: str) -> None:
        """Forget a hold and let go of what was held for it, whoever held it."""
        with self._lock:
            hold = self._holds.pop(lease_id, None)
            self._running.pop(lease_id, None)
            self._over.add(lease_id)
        self._view.look_again()
        nodes = {node for row in self._keepers_of(lease_id).values() for node in _nodes_of(row)}
        # The keeper sees the job that lets go and does it at once; it is stopped later.
        self._sweep({*nodes, *(hold.node_ids if hold else ())}, lease_id)

    def give(self, spec: LaunchSpec) -> submission.Given | None:
        """Choose held GPUs for an attempt's members; None where Ray must find room for all."""
        held = {share.node_id: self._held_on(share.node_id) for share in spec.placement}
        with self._lock:
            indexes: dict[str, dict[int, str]] = {}
            given = [
                self._choose(share, spec, held[share.node_id], indexes) for share in spec.placement
            ]
            if all(one is None for one in given):
                return None
            self._given[spec.attempt_id] = (self._clock.monotonic(), indexes)
        return given

    def _choose(
        self,
        share: NodeGrant,
        spec: LaunchSpec,
        held: Sequence[tuple[str, str]] | None,
        indexes: dict[str, dict[int, str]],
    ) -> tuple[GivenGpu, ...] | None:
        """Choose held GPUs for one member, beside what others of the attempt have."""
        if held is None:
            return None
        here = indexes.get(share.node_id, {})
        names = {**self._names(share.node_id, spec.attempt_id), **here}
        free = [gpu for gpu in held if gpu[0] not in names.values()]
        chosen = []
        for gpu in share.gpus:
            known = next((one for one in held if one[0] == names.get(gpu.index)), None)
            if known is None and not free:
                return None
            name, vendor = known or free.pop(0)
            chosen.append(GivenGpu(name=name, vendor=vendor, fraction=gpu.fraction))
        mine = {gpu.index: one.name for gpu, one in zip(share.gpus, chosen, strict=True)}
        indexes[share.node_id] = {**here, **mine}
        return tuple(chosen)

    def _held_on(self, node_id: str) -> list[tuple[str, str]] | None:
        """Return name and vendor of the GPUs that are held there; None: nobody keeps the node."""
        names = [
            name
            for name, row in self._view.keepers().items()
            if row.get("status") == "RUNNING"
            and node_id in _nodes_of(row)
            # One that lets go gives nothing, and need not be waited for.
            and not self._lets_go(row)
        ]
        found = [self._told_by(name, node_id) for name in names]
        # While one keeper follows another, both tell of the same.
        gpus = {gpu for one in found if one is not None for gpu in one}
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
            if row.get("status") in judging.ENDED or attempt_id == but:
                continue
            for share, told in submission.given_of(words):
                if share.node_id == node_id:
                    pairs = zip(share.gpus, told, strict=True)
                    names.update({gpu.index: one for gpu, one in pairs})
        now = self._clock.monotonic()
        # What was given a moment ago may not be in the list yet.
        self._given = {
            key: one
            for key, one in self._given.items()
            if key not in rows and now - one[0] < GIVEN_SECONDS
        }
        for attempt_id, (_, indexes) in self._given.items():
            if attempt_id != but:
                names.update(indexes.get(node_id, {}))
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
        with self._lock:
            over = sorted(self._over)
        for lease_id in over:
            self._end_keepers(lease_id)
        if self._clock.monotonic() - self._swept > SWEEP_SECONDS:
            self._swept = self._clock.monotonic()
            self._sweep()
        begun = [hold for hold in due if hold.starts_at <= now]
        if begun and self._view.others():
            self._look_for_others(begun)
        return bool(due or over)

    def _keep(self, hold: LeaseHold) -> None:
        named = set(hold.node_ids)
        nodes = [node for node in self._view.nodes() if node.is_alive and node.node_id in named]
        if not nodes:
            return
        body = keeper_job(hold, nodes, self._site)
        name = str(body["submission_id"])
        keepers = self._keepers_of(hold.lease_id)
        row = keepers.pop(name, None)
        if row is not None and not self._is_settled(row):
            return
        if row is None or row.get("status") in judging.ENDED:
            was_there = row is not None or self._running.get(hold.lease_id) == name
            if self._start(name, body, is_there=row is not None) and was_there:
                self._tell_of_loss(hold.lease_id, row)
        elif row.get("status") == "RUNNING":
            self._running[hold.lease_id] = name
            # Another end or other nodes: the new keeper is there, so the old one may go.
            self._stop(keepers)

    def _start(self, name: str, body: dict[str, Any], *, is_there: bool) -> bool:
        if not self._may_try(name):
            return False
        if is_there:
            self._api.delete(name)
        carrying.carry_runner(self._api)
        self._api.submit(body)
        self._view.look_again()
        return True

    def _tell_of_loss(self, lease_id: str, row: Mapping[str, Any] | None) -> None:
        """Say that a keeper ended before its time, and whether its nodes were open meanwhile."""
        if not self._may_say(f"loss {lease_id}"):
            return
        how = {None: "is gone", "STOPPED": "was stopped", "SUCCEEDED": "ended"}
        status = None if row is None else row.get("status")
        words = how.get(status) or f"failed ({gist(str((row or {}).get('message') or ''))[:160]})"
        places = _places_of(groups_of(self._api.placement_groups(), self._site.name))
        mine = [hold for hold in self.holds() if hold.lease_id == lease_id]
        named = {node for hold in mine for node in hold.node_ids}
        rest = (
            "what it held is held on."
            if any(one.node_id in named and one.ray_id in places for one in self._view.nodes())
            else "until that has begun, jobs past the queue may start there."
        )
        self._tell(
            NoticeKind.LEASE_SHAKEN,
            lease_id,
            f"The Ray job that keeps the lease's nodes {words}; another is started, and {rest}",
        )

    def _end_keepers(self, lease_id: str) -> None:
        """Stop what keeps a lease that is over; those that let go end by themselves."""
        keepers = self._keepers_of(lease_id)
        if not keepers:
            # One that was stopped as it began may have held something.
            self._sweep((), lease_id)
            if not self._keepers_of(lease_id):
                with self._lock:
                    self._over.discard(lease_id)
        self._stop({key: row for key, row in keepers.items() if not self._lets_go(row)})

    def _lets_go(self, row: Mapping[str, Any]) -> bool:
        """Tell whether a keeper runs past its lease's end: it lets go as attempts end."""
        is_over = _times_of(row)[1] <= self._clock.time_ms()
        return is_over and row.get("status") not in judging.ENDED

    def _sweep(self, only: Collection[str] = (), lease_id: str = "") -> None:
        """Let go of what is held for nobody; of some nodes, and what a lease left, if named."""
        groups = groups_of(self._api.placement_groups(), self._site.name)
        if not groups:
            return
        kept, places = self._kept_nodes(), _places_of(groups)
        left = _places_of(one for one in groups if _lease_of(one) == lease_id)
        loose = [
            node
            for node in self._view.nodes()
            if node.ray_id in places
            and node.node_id not in kept
            and (not lease_id or node.node_id in only or node.ray_id in left)
        ]
        if not loose:
            return
        now = self._clock.now()
        over = LeaseHold(
            lease_id=lease_id or "sweep",
            node_ids=tuple(node.node_id for node in loose),
            starts_at=now,
            ends_at=now,
        )
        with self._lock:
            self._over.add(over.lease_id)
        body = keeper_job(over, loose, self._site)
        self._start(str(body["submission_id"]), body, is_there=False)

    def _kept_nodes(self) -> set[str]:
        """Return the nodes that are held for a lease, or are being let go."""
        now = self._clock.now()
        kept = {
            node
            for hold in self.holds()
            if hold.starts_at - AHEAD <= now < hold.ends_at
            for node in hold.node_ids
        }
        for row in self._view.keepers().values():
            is_over = judging.lease_id_of(row, self._site.name) in self._over
            if row.get("status") not in judging.ENDED and (not is_over or self._lets_go(row)):
                kept.update(_nodes_of(row))
        return kept

    def _stop(self, keepers: Mapping[str, Mapping[str, Any]]) -> None:
        for name, row in keepers.items():
            if row.get("status") not in judging.ENDED:
                self._api.stop(name)
            elif self._is_settled(row):
                self._api.delete(name)
            self._view.look_again()

    def _is_settled(self, row: Mapping[str, Any]) -> bool:
        """Tell whether a job runs, or ended long enough ago that Ray is done with it."""
        ended_ms = int(row.get("end_time") or 0)
        since = int(self._clock.now().timestamp() * 1000) - ended_ms
        return row.get("status") not in judging.ENDED or not 0 <= since < SETTLE_MS

    def _keepers_of(self, lease_id: str) -> dict[str, dict[str, Any]]:
        return {
            name: row
            for name, row in self._view.keepers().items()
            if judging.lease_id_of(row, self._site.name) == lease_id
        }

    def _look_for_others(self, begun: Sequence[LeaseHold]) -> None:
        """Find the jobs past the queue on leased nodes; ask Ray to stop them where that is set."""
        stops = self._site.clears_leases
        if not stops and not self._may_try("others"):
            return
        running = foreign.on_nodes(self._api, self._view)
        ray_ids = {node.node_id: node.ray_id for node in self._view.nodes()}
        for hold in begun:
            for node_id in hold.node_ids:
                for name, one in sorted(running.get(ray_ids.get(node_id, ""), {}).items()):
                    line = f" ({one.line[:80]})" if one.line else ""
                    self._meet(
                        hold.lease_id, f"{name}{line} runs past the queue on {node_id}", name
                    )

    def _meet(self, lease_id: str, who: str, name: str) -> None:
        end = '; it is left alone: [leases] foreign_jobs = "stop" would have Ray stop it.'
        if self._site.clears_leases:
            if not self._may_try(name):
                return
            end = " and was asked to stop."
            if not self._api.stop(name):
                end = ". Ray cannot stop it, as it was not sent by the job API: end it there."
        if self._may_say(f"{lease_id} {name}"):
            self._tell(NoticeKind.LEASE_CROSSED, lease_id, f"The Ray job {who}{end}")

    def _may_say(self, what: str) -> bool:
        """Tell whether something was not said lately."""
        now = self._clock.monotonic()
        if now - self._said.get(what, -TELL_AGAIN_SECONDS) < TELL_AGAIN_SECONDS:
            return False
        self._said[what] = now
        return True

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


def _times_of(row: Mapping[str, Any]) -> tuple[int, int]:
    words = row.get("metadata") or {}
    starts_ms, ends_ms = json.loads(words.get(submission.TIMES, "[0, 0]"))
    return starts_ms, ends_ms


def groups_of(rows: Iterable[Mapping[str, Any]], site: str) -> list[Mapping[str, Any]]:
    """Return the placement groups that keepers of this installation made."""
    tag = f"{hashlib.sha256(site.encode()).hexdigest()[:6]}."
    return [
        row
        for row in rows
        if row.get("state") != "REMOVED"
        and str(row.get("name")).startswith("lease-")
        and str(row.get("name")).rpartition("-")[2].startswith(tag)
    ]


def _lease_of(group: Mapping[str, Any]) -> str:
    """Return the lease that a group was made for; a later one may have taken it over."""
    return str(group.get("name")).split("-")[1]


def _places_of(rows: Iterable[Mapping[str, Any]]) -> set[str]:
    return {str(one.get("node_id")) for row in rows for one in row.get("bundles") or ()}


def keeper_job(hold: LeaseHold, nodes: Sequence[RayNode], site: RaySite) -> dict[str, Any]:
    """Return the job that keeps a lease's nodes; its id says which nodes, and until when."""
    starts_ms = int(hold.starts_at.timestamp() * 1000)
    ends_ms = int(hold.ends_at.timestamp() * 1000)
    named = {node.ray_id: node.node_id for node in nodes}
    key = f"{site.name} {ends_ms} {' '.join(sorted(named))}"
    digest = hashlib.sha256(key.encode()).hexdigest()[:10]
    told = {
        "lease": hold.lease_id,
        "site": site.name,
        "nodes": named,
        "starts_ms": starts_ms,
        "ends_ms": ends_ms,
    }
    runner, _ = submission.runner_package()
    return {
        "submission_id": f"lease-{hold.lease_id}-{digest}",
        "entrypoint": submission.entrypoint("--ray-keep"),
        "metadata": {
            "job_name": f"lease {hold.lease_id} on {', '.join(sorted(named.values()))}",
            submission.SITE: site.name,
            submission.LEASE: hold.lease_id,
            submission.NODES: json.dumps(sorted(named.values())),
            submission.TIMES: json.dumps([starts_ms, ends_ms]),
        },
        "runtime_env": {
            "env_vars": {submission.SPEC_VARIABLE: submission.encode(told)},
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
