"""The gate of Ray Train and Ray Tune: asks the queue for nodes before workers or trials start.

Runs inside a job, on the cluster's own Ray, shipped as `trackyard_gate`. Needs the standard
library and Ray alone, and knows the server by YARD_URL and YARD_TOKEN; without them it stands
open. It leans on Ray's developer interfaces: Train's ControllerCallback (2.49 and later), and in
Tune the method that adds trial actors.
"""

# ruff: noqa: SLF001 - Tune has no public hook before a trial gets its actor

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from typing import Any

import ray
import ray.cloudpickle
import ray.util

try:
    from ray.train.v2._internal.execution.callback import ControllerCallback
except ImportError:  # an older Ray, which asks for no callbacks
    ControllerCallback = object

NODE_LABEL = "ray.io/node-id"
WAIT_SECONDS = 20.0
#: Between two tries while the server does not answer.
PAUSE_SECONDS = 2.0
#: While something waits, a line in the log at least this often.
SAY_SECONDS = 60.0
#: How often a report of trials is tried; the next one says it all again.
TELL_TRIES = 5
#: Refusals that no repetition mends.
FINAL = (400, 401, 403, 404, 409, 413, 422)


class Refused(RuntimeError):
    """The queue will not give what was asked for."""


class DemandClient:
    """The server, as a running job asks it."""

    def __init__(self) -> None:
        self.url = os.environ.get("YARD_URL", "").rstrip("/")
        self.token = os.environ.get("YARD_TOKEN", "")

    @property
    def is_there(self) -> bool:
        """Whether this job runs under a queue at all."""
        return bool(self.url and self.token)

    def post(self, path: str, body: dict[str, Any], timeout: float) -> dict[str, Any]:
        """Ask once."""
        request = urllib.request.Request(  # noqa: S310 - the address is the platform's own
            self.url + path,
            data=json.dumps(body).encode(),
            headers={
                "content-type": "application/json",
                "authorization": f"Bearer {self.token}",
            },
        )
        with urllib.request.urlopen(request, timeout=timeout) as answer:  # noqa: S310
            found: dict[str, Any] = json.load(answer)
            return found

    def ask(self, demand: dict[str, Any], wait_seconds: float) -> dict[str, Any] | None:
        """Ask for nodes; None when the server does not answer just now."""
        try:
            body = {**demand, "wait_seconds": wait_seconds}
            return self.post("/api/v1/demand", body, wait_seconds + 30)
        except urllib.error.HTTPError as fault:
            if fault.code in FINAL:
                raise Refused(_sentence(fault)) from None
            return None
        except (OSError, ValueError):
            return None

    def wait(self, demand: dict[str, Any], who: str) -> dict[str, Any]:
        """Ask until the nodes are given, and say in the log what is waited for."""
        said, told = "", 0.0
        while True:
            reply = self.ask(demand, WAIT_SECONDS if said else 1.0)
            if reply is not None and reply["state"] == "granted":
                if said:
                    say(f"{who}: {reply['sentence']}")
                return reply
            words = "the server does not answer; asking again" if reply is None else _line(reply)
            if words != said or time.monotonic() - told > SAY_SECONDS:
                said, told = words, time.monotonic()
                say(f"{who}: {words}")
            if reply is None:
                time.sleep(PAUSE_SECONDS)

    def release(self, key: str) -> None:
        """Give nodes back; if that fails they go back when the job ends."""
        try:
            self.post("/api/v1/demand/release", {"key": key}, 10)
        except (OSError, ValueError):
            say(f"{key} could not be given back now; it goes back when the job ends")

    def tell_trials(self, body: dict[str, Any]) -> bool:
        """Tell how trials stand; False if the server will never take it."""
        for _ in range(TELL_TRIES):
            try:
                self.post("/api/v1/trials", body, 10)
            except urllib.error.HTTPError as fault:
                if fault.code in FINAL:
                    say(f"trials are not shown: {_sentence(fault)}")
                    return False
            except (OSError, ValueError):
                pass
            else:
                return True
            time.sleep(PAUSE_SECONDS)
        return True


def say(words: str) -> None:
    """Put a line into the job's log."""
    sys.stderr.write(f"[trackyard] {words}\n")
    sys.stderr.flush()


def _line(reply: dict[str, Any]) -> str:
    place = f" (position {reply['position']})" if reply.get("position") else ""
    return f"{reply['sentence']}{place}"


def _sentence(fault: urllib.error.HTTPError) -> str:
    try:
        found = json.load(fault)
    except (OSError, ValueError):
        found = {}
    words = found.get("message") or found.get("error") or f"HTTP {fault.code}"
    return f"the queue refused what this job asks for: {words}"


def selector(reply: dict[str, Any]) -> dict[str, str]:
    """Return the label by which Ray places things on the nodes that were given, and only there."""
    nodes = sorted({one["engine_id"] for one in reply["nodes"]})
    return {NODE_LABEL: nodes[0] if len(nodes) == 1 else f"in({','.join(nodes)})"}


# -- Train --------------------------------------------------------------------------------------


class Gate(ControllerCallback):  # type: ignore[misc]
    """Holds a worker group back until the queue gave its nodes, and pins it there."""

    def __init__(self) -> None:
        self._desk = DemandClient()
        self._key = f"train-{uuid.uuid4().hex[:12]}"
        self._scaling: Any = None
        self._generation = 0
        self._held: dict[str, Any] | None = None
        self._interval: float | None = None

    def after_controller_start(self, train_run_context: Any) -> None:
        """Learn how the run may grow and shrink."""
        self._scaling = getattr(train_run_context, "scaling_config", None)

    def before_controller_execute_resize_decision(self, resize_decision: Any) -> None:
        """Let an elastic run start with as many workers as the queue gives it."""
        low, high = self._bounds()
        if not self._desk.is_there or low == high:
            return
        reply = self._ask(self._scaling, resize_decision.num_workers, low)
        self._held = reply
        resize_decision.num_workers = reply["workers"]
        self._grow_later(reply["workers"], high)

    def on_controller_start_worker_group(
        self, *, scaling_config: Any, num_workers: int
    ) -> dict[str, str] | None:
        """Wait for the nodes of a worker group; its bundles may lie on these alone."""
        if not self._desk.is_there:
            return None
        reply, self._held = self._held, None
        if reply is None or reply["workers"] != num_workers:
            reply = self._ask(scaling_config, num_workers, num_workers)
        own = getattr(scaling_config, "label_selector", None)
        return {**(own if isinstance(own, dict) else {}), **selector(reply)}

    async def before_controller_shutdown(self) -> None:
        """Give the nodes back: the run is over."""
        self._release()

    def before_controller_abort(self) -> None:
        """Give the nodes back: the run is given up."""
        self._release()

    def _ask(self, scaling: Any, workers: int, least: int) -> dict[str, Any]:
        self._generation = max(self._generation + 1, int(time.time() * 1000))
        own = getattr(scaling, "label_selector", None)
        demand = {
            "key": self._key,
            "workers": workers,
            "least": least,
            "generation": self._generation,
            "resources": _resources(scaling),
            "strategy": getattr(scaling, "placement_strategy", "PACK") or "PACK",
            "labels": _plain(own) if isinstance(own, dict) else {},
        }
        return self._desk.wait(demand, "Ray Train")

    def _release(self) -> None:
        if self._desk.is_there and self._generation:
            self._desk.release(self._key)

    def _bounds(self) -> tuple[int, int]:
        if self._scaling is None:
            return 0, 0
        low = getattr(self._scaling, "min_workers", 0)
        return low, getattr(self._scaling, "max_workers", low)

    def _grow_later(self, now: int, most: int) -> None:
        """Keep Ray from growing the group until the queue has room for more.

        Ray would restart the workers every minute only to be given the same number again.
        """
        name = "elastic_resize_monitor_interval_s"
        if self._interval is None:
            self._interval = getattr(self._scaling, name, None)
        if self._interval is None:
            return
        setattr(self._scaling, name, self._interval if now >= most else float("inf"))
        if now < most:
            generation = self._generation
            watcher = threading.Thread(target=self._watch, args=(generation, most), daemon=True)
            watcher.start()

    def _watch(self, generation: int, most: int) -> None:
        low, _ = self._bounds()
        while self._generation == generation:
            time.sleep(max(self._interval or 0.0, PAUSE_SECONDS))
            demand = {
                "key": self._key,
                "workers": most,
                "least": low,
                "generation": generation,
                "resources": _resources(self._scaling),
                "strategy": getattr(self._scaling, "placement_strategy", "PACK") or "PACK",
                "probe": True,
            }
            try:
                reply = self._desk.ask(demand, 0.0)
            except Refused:
                return
            if reply is not None and reply["state"] == "granted":
                self._scaling.elastic_resize_monitor_interval_s = self._interval
                return


def _resources(scaling: Any) -> dict[str, float]:
    """What one worker needs."""
    found = getattr(scaling, "_resources_per_worker_not_none", None)
    if found is None:
        found = getattr(scaling, "resources_per_worker", None) or {"CPU": 1}
    amounts = {str(name): float(value) for name, value in found.items()}
    kind = getattr(scaling, "accelerator_type", None)
    if kind:
        amounts[f"accelerator_type:{kind}"] = 0.001
    return amounts


def _plain(own: dict[str, str]) -> dict[str, str]:
    """Labels that name one value; Ray itself keeps to the others."""
    return {
        name: value
        for name, value in own.items()
        if name != NODE_LABEL and not value.startswith(("!", "in("))
    }


# -- Tune ---------------------------------------------------------------------------------------


class Slots:
    """Places for trials: each is a claim of its own, so that trials come and go one by one."""

    def __init__(self, desk: DemandClient) -> None:
        self._desk = desk
        self._name = f"tune-{uuid.uuid4().hex[:12]}"
        self._lock = threading.Lock()
        self._wanted = 0
        self._resources: dict[str, float] = {}
        self._bundles = 1
        self._granted: dict[str, dict[str, Any]] = {}
        #: places in use, and the placement group in each
        self._used: dict[str, str] = {}
        self._asker: threading.Thread | None = None
        self.fault: Exception | None = None

    def want(self, count: int, bundles: list[dict[str, float]]) -> None:
        """Say how many trials could run now, and what each needs; extra places go back."""
        amounts: dict[str, float] = {}
        filled = [bundle for bundle in bundles if bundle]
        for bundle in filled:
            for name, value in bundle.items():
                amounts[name] = max(amounts.get(name, 0.0), float(value))
        with self._lock:
            self._wanted = count
            if filled:
                self._resources, self._bundles = amounts, len(filled)
            unused = [key for key in self._granted if key not in self._used]
            extra = unused[: max(0, len(self._granted) - count)]
            for key in extra:
                del self._granted[key]
            busy = self._asker is not None and self._asker.is_alive()
            if len(self._granted) < count and not busy and self.fault is None:
                self._asker = threading.Thread(target=self._fill, daemon=True)
                self._asker.start()
        for key in extra:
            self._desk.release(key)

    @property
    def count(self) -> int:
        """How many trials may run."""
        with self._lock:
            return len(self._granted)

    @property
    def used(self) -> int:
        """How many places hold a trial, or are about to."""
        with self._lock:
            return len(self._used)

    def take(self, group: Any, place: str) -> None:
        """Note which group of bundles lies in a place."""
        with self._lock:
            self._used[place] = group.id.hex()

    def free_place(self) -> tuple[str, dict[str, str]] | None:
        """Return a place that nobody is in, and the label of its nodes."""
        with self._lock:
            for key, reply in self._granted.items():
                if key not in self._used:
                    return key, selector(reply)
        return None

    def leave(self, group: Any) -> None:
        """Note that a group of bundles is gone."""
        with self._lock:
            gone = [key for key, known in self._used.items() if known == group.id.hex()]
            for key in gone:
                del self._used[key]

    def close(self) -> None:
        """Give every place back."""
        with self._lock:
            self._used.clear()
        self.want(0, [])

    def _fill(self) -> None:
        """Ask for one place after the other until there are enough."""
        said = False
        while True:
            with self._lock:
                if len(self._granted) >= self._wanted:
                    return
                key = f"{self._name}-{uuid.uuid4().hex[:8]}"
                demand = {
                    "key": key,
                    "workers": self._bundles,
                    "resources": dict(self._resources),
                }
            if not self._get(key, demand, said):
                return
            said = True

    def _get(self, key: str, demand: dict[str, Any], said: bool) -> bool:
        first = True
        while True:
            try:
                reply = self._desk.ask(demand, 1.0 if first else WAIT_SECONDS)
            except Refused as fault:
                self.fault = fault
                return False
            if reply is not None and reply["state"] == "granted":
                with self._lock:
                    is_wanted = len(self._granted) < self._wanted
                    if is_wanted:
                        self._granted[key] = reply
                if not is_wanted:
                    self._desk.release(key)
                return is_wanted
            if reply is None:
                time.sleep(PAUSE_SECONDS)
            elif first and not said:
                say(f"Ray Tune: {self.count} trials may run, one more waits: {_line(reply)}")
            first = False
            with self._lock:
                if len(self._granted) >= self._wanted:
                    break
        self._desk.release(key)
        return False


_slots: dict[int, Slots] = {}
#: Tune's controllers, which know the metric that a search goes by
_controllers: list[Any] = []


def _metric() -> str:
    for controller in reversed(_controllers):
        for name in ("_scheduler_alg", "_search_alg"):
            found = getattr(getattr(controller, name, None), "metric", None)
            if isinstance(found, str):
                return found
    return ""


def _iterations(trial: Any) -> Any:
    return (getattr(trial, "last_result", None) or {}).get("training_iteration")


class TrialsGate:
    """What the callback for Tune does; Tune wants it to be a callback of its own kind as well."""

    def __init__(self) -> None:
        desk = DemandClient()
        #: how each trial stood when it was noted last
        self._seen: dict[str, Any] = {}
        self._teller: Any = None
        if desk.is_there:
            # Shipped beside this module; not a dependency of the server's.
            self._teller = importlib.import_module("trackyard_trials").Teller(desk.tell_trials)
            _gate_trials(desk)

    def on_step_end(self, iteration: int, trials: list[Any], **_info: Any) -> None:
        """Note the trials that changed."""
        del iteration
        if self._teller is None:
            return
        seen = {trial.trial_id: (trial.status, _iterations(trial)) for trial in trials}
        changed = [one for one in trials if self._seen.get(one.trial_id) != seen[one.trial_id]]
        self._seen.update(seen)
        if changed:
            self._teller.note(changed, _metric())

    def on_experiment_end(self, trials: list[Any], **_info: Any) -> None:
        """Give the places back, and tell the last of the trials: the experiment is over."""
        if self._teller is not None:
            self._teller.finish(trials)
        for slots in list(_slots.values()):
            slots.close()
        _slots.clear()
        _controllers.clear()


def __getattr__(name: str) -> Any:
    """Make the callback for Tune when Tune asks for it: not every job has Tune installed."""
    if name != "Trials":
        raise AttributeError(name)
    from ray.tune import Callback

    class Trials(TrialsGate, Callback):  # type: ignore[misc]
        """Holds trials back until the queue has a place for each."""

    return Trials


def _gate_trials(desk: DemandClient) -> None:
    """Put the gate before the method that adds trial actors; Tune has no hook for that."""
    import ray.air.execution.resources.placement_group as manager
    from ray.air.execution.resources.request import ResourceRequest
    from ray.tune.execution.tune_controller import TuneController
    from ray.util.placement_group import placement_group, remove_placement_group

    add_actors = TuneController._maybe_add_actors
    if getattr(add_actors, "is_gated", False):
        return

    def gated(controller: Any) -> None:
        if controller not in _controllers:
            _controllers.append(controller)
        slots = _slots.setdefault(id(controller), Slots(desk))
        room = _room(controller, slots)
        if room <= 0 and not controller._actor_cache.num_cached_objects:
            return
        most = controller._max_pending_trials
        pending = controller._actor_manager.num_pending_actors
        controller._max_pending_trials = max(0, min(most, pending + room))
        try:
            add_actors(controller)
        finally:
            controller._max_pending_trials = most

    def pinned(request: Any) -> Any:
        arguments = dict(request._bound.arguments)
        for slots in _slots.values():
            place = slots.free_place()
            if place is not None and not arguments.get("bundle_label_selector"):
                key, label = place
                arguments["bundle_label_selector"] = [dict(label) for _ in request.bundles]
                group = placement_group(**arguments)
                slots.take(group, key)
                return group
        return placement_group(**arguments)

    def removed(group: Any) -> None:
        remove_placement_group(group)
        for slots in _slots.values():
            slots.leave(group)

    gated.is_gated = True  # type: ignore[attr-defined]
    TuneController._maybe_add_actors = gated
    ResourceRequest.to_placement_group = pinned
    manager.remove_placement_group = ray.util.remove_placement_group = removed


def _room(controller: Any, slots: Slots) -> int:
    """Tell the queue how many trials could run, and return how many more may start now."""
    if slots.fault is not None:
        raise slots.fault
    actors = controller._actor_manager.num_total_actors
    new = [one for one in controller._pending_trials if one not in controller._staged_trials]
    if new:
        bundles = [dict(bundle) for bundle in new[0].placement_group_factory.bundles]
        slots.want(actors + len(new), bundles)
    elif slots.count > actors:
        slots.want(actors, [])
    return slots.count - slots.used


if __name__ == "trackyard_gate":
    # Train sends its callbacks to the controller's process, which may lack this module.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
