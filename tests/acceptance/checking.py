"""Writers, readers and a ledger: what was acknowledged is what every later read shows.

Each owner changes things of its own: an experiment, a run, a registered model and a logged model.
It counts its changes and writes the count, so that a reader can tell from a value how old it is.
Readers note what was acknowledged before they ask, and what was tried once they have the answer:
all they see must lie in between, whatever cache it came from and however the server ended.
"""

import itertools
import random
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.acceptance.serving import TrackingServer, pairs

Facts = dict[str, set[int]]


class Ledger:
    """What was tried and what was acknowledged, by fact."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tried: defaultdict[str, set[int]] = defaultdict(set)
        self._acked: defaultdict[str, set[int]] = defaultdict(set)

    def try_(self, fact: str, number: int) -> None:
        with self._lock:
            self._tried[fact].add(number)

    def ack(self, fact: str, number: int) -> None:
        with self._lock:
            self._acked[fact].add(number)

    def acked(self) -> Facts:
        with self._lock:
            return {fact: set(numbers) for fact, numbers in self._acked.items()}

    def check(self, seen: Facts, acked_before: Facts, where: str) -> None:
        """Compare what a read showed with what it must and may show."""
        with self._lock:
            tried = {fact: set(numbers) for fact, numbers in self._tried.items()}
        for fact, numbers in seen.items():
            must, may = acked_before.get(fact, set()), tried.get(fact, set())
            assert numbers <= may, f"{where}: {fact} shows {numbers - may}, which nobody wrote"
            if fact.endswith("*"):  # everything is kept
                assert must <= numbers, f"{where}: {fact} lacks the acknowledged {must - numbers}"
            elif must:  # the last one stands
                shown = max(numbers, default=-1)
                assert shown >= max(must), f"{where}: {fact} shows {shown}, not {max(must)}"


class Checker:
    """Owners and readers on one server, until they are told to stop."""

    def __init__(self, server: TrackingServer, owners: int = 3, readers: int = 3) -> None:
        self._server = server
        self.ledger = Ledger()
        self.faults: list[BaseException] = []
        self.reads = 0
        self._stop = threading.Event()
        self._owners = [Owner(server, self.ledger, self._stop) for _ in range(owners)]
        work: list[Callable[[], None]] = [owner.write for owner in self._owners]
        work += [owner.spoil for owner in self._owners]
        work += [self._read] * readers
        self._threads = [
            threading.Thread(target=self._guarded, args=(one,), daemon=True) for one in work
        ]

    @property
    def acknowledged(self) -> int:
        """How many writes were acknowledged so far."""
        return sum(len(numbers) for numbers in self.ledger.acked().values())

    @contextmanager
    def running(self) -> Iterator[None]:
        """Write and read while the block runs; then look at everything once more."""
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join(240)
        assert not any(thread.is_alive() for thread in self._threads)
        self.insist()
        for owner in self._owners:
            owner.look(httpx.Client(timeout=120))

    def insist(self) -> None:
        """Raise what any of them found wrong."""
        if self.faults:
            raise self.faults[0]

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as fault:
            self.faults.append(fault)
            self._stop.set()

    def _read(self) -> None:
        chance = random.Random()
        with httpx.Client(timeout=120) as client:
            while not self._stop.is_set():
                try:
                    chance.choice(self._owners).look(client)
                    self.reads += 1
                except httpx.TransportError:
                    self._stop.wait(0.05)


class Owner:
    """Changes what is its own, and reads it back after every change."""

    def __init__(self, server: TrackingServer, ledger: Ledger, stop: threading.Event) -> None:
        self._server, self._ledger, self._stop = server, ledger, stop
        self.name = f"own-{uuid.uuid4().hex[:8]}"
        made = server.post("experiments/create", name=self.name)
        self._experiment = made["experiment_id"]
        run = server.post("runs/create", experiment_id=self._experiment, run_name=self.name)
        self._run = run["run"]["info"]["run_id"]
        server.post("registered-models/create", name=self.name)
        logged = server.post("logged-models", experiment_id=self._experiment, name=self.name)
        self._logged = logged["model"]["info"]["model_id"]
        server.post("runs/log-parameter", run_id=self._run, key="fixed", value="1")
        inside = run["run"]["info"]["artifact_uri"].removeprefix("mlflow-artifacts:/")
        file = f"/api/2.0/mlflow-artifacts/artifacts/{inside}/m/MLmodel"
        assert server.ask("PUT", file, content=b"flavors: {}").status_code == 200
        source = f"runs:/{self._run}/m"
        server.post("model-versions/create", name=self.name, source=source)
        self._numbers = itertools.count(1)
        #: what only the owner knows at every moment: (status, life of the run, of the experiment)
        self._exact: tuple[str, str, str] | None = None

    # -- writing ----------------------------------------------------------------------------

    def write(self) -> None:
        """Make one change after the other."""
        chance = random.Random(self.name)
        changes = (self._log, self._log, self._tag, self._param, self._end, self._registry)
        with httpx.Client(timeout=120) as client:
            while not self._stop.is_set():
                number = next(self._numbers)
                chance.choice((*changes, self._experiment_tag, self._bury))(client, number)
                self._patiently(lambda: self.look(client, is_owner=True))

    def spoil(self) -> None:
        """Send writes that change something before they are refused: their group is undone."""
        with httpx.Client(timeout=120) as client:
            while not self._stop.is_set():
                new = f"never-{uuid.uuid4().hex}"
                wrong = [{"key": new, "value": "1"}, {"key": "fixed", "value": "2"}]
                body = {"run_id": self._run, "params": wrong}
                try:
                    answer = self._ask(client, "POST", "runs/log-batch", body)
                    assert answer.status_code != 200, answer.text
                except httpx.TransportError:
                    pass
                self._stop.wait(0.01)

    def _log(self, client: httpx.Client, number: int) -> None:
        point = {"key": "loss", "value": number, "timestamp": number, "step": number}
        facts = [f"{self._run} latest", f"{self._run} history *"]
        if number % 2:
            self._change(client, facts, number, "runs/log-metric", run_id=self._run, **point)
        else:
            self._change(
                client, facts, number, "runs/log-batch", run_id=self._run, metrics=[point]
            )

    def _tag(self, client: httpx.Client, number: int) -> None:
        tag = {"run_id": self._run, "key": "n", "value": str(number)}
        self._change(client, [f"{self._run} tag"], number, "runs/set-tag", **tag)

    def _param(self, client: httpx.Client, number: int) -> None:
        param = {"run_id": self._run, "key": f"p{number % 500}", "value": "x"}
        fact = f"{self._run} params *"
        self._change(client, [fact], number % 500, "runs/log-parameter", **param)

    def _end(self, client: httpx.Client, number: int) -> None:
        status = ("FINISHED", "RUNNING", "FAILED")[number % 3]
        self._exact = None
        ended = self._change(
            client,
            [f"{self._run} end"],
            number,
            "runs/update",
            run_id=self._run,
            status=status,
            end_time=number,
        )
        if ended:
            self._exact = (status, "active", "active")

    def _experiment_tag(self, client: httpx.Client, number: int) -> None:
        tag = {"experiment_id": self._experiment, "key": "n", "value": str(number)}
        fact = f"{self._experiment} tag"
        self._change(client, [fact], number, "experiments/set-experiment-tag", **tag)

    def _registry(self, client: httpx.Client, number: int) -> None:
        value, words = str(number), f"{self.name} words"
        path = f"logged-models/{self._logged}/tags"
        tags = [{"key": "n", "value": value}]
        self._change(client, [f"{self._logged} tag"], number, path, "PATCH", tags=tags)
        path, about = "registered-models/update", {"name": self.name}
        self._change(client, [words], number, path, "PATCH", **about, description=value)
        alias = {"alias": f"n{number}", "version": "1"}
        fact, path = f"{self.name} aliases *", "registered-models/alias"
        self._change(client, [fact], number, path, **about, **alias)

    def _bury(self, client: httpx.Client, number: int) -> None:
        """Delete the run, or the experiment with it, look, and bring it back."""
        what = "experiment" if number % 2 else "run"
        about = {f"{what}_id": self._experiment if number % 2 else self._run}
        self._exact = None
        for verb in ("delete", "restore"):
            self._patiently(lambda verb=verb: self._turn(client, f"{what}s/{verb}", about))
            lives = ("deleted", "deleted" if number % 2 else "active")
            expected = lives if verb == "delete" else ("active", "active")
            self._patiently(lambda expected=expected: self._see_lives(client, expected))

    def _turn(self, client: httpx.Client, path: str, about: dict[str, str]) -> None:
        """Delete or restore; a refusal says that an unanswered try has done it."""
        answer = self._ask(client, "POST", path, about)
        assert answer.status_code in (200, 400, 404), answer.text

    def _see_lives(self, client: httpx.Client, expected: tuple[str, str]) -> None:
        run = self._get(client, "runs/get", run_id=self._run)["run"]["info"]
        experiment = self._get(client, "experiments/get", experiment_id=self._experiment)
        seen = (run["lifecycle_stage"], experiment["experiment"]["lifecycle_stage"])
        assert seen == expected, f"{self.name}: {seen} after {expected} was acknowledged"
        view = {"DELETED_ONLY": "deleted", "ACTIVE_ONLY": "active"}
        for name, life in view.items():
            body = {"experiment_ids": [self._experiment], "run_view_type": name}
            found = self._ask(client, "POST", "runs/search", body).json().get("runs", [])
            there = self._run in {one["info"]["run_id"] for one in found}
            assert there == (expected[0] == life), f"{self.name}: {name} search shows {there}"

    def _change(
        self,
        client: httpx.Client,
        facts: list[str],
        number: int,
        path: str,
        method: str = "POST",
        **body: Any,
    ) -> bool:
        """Try a change once; return whether it was acknowledged."""
        for fact in facts:
            self._ledger.try_(fact, number)
        try:
            answer = self._ask(client, method, path, body)
        except httpx.TransportError:
            self._stop.wait(0.05)
            return False
        if answer.status_code != 200:
            assert answer.status_code in (429, 503), answer.text
            return False
        for fact in facts:
            self._ledger.ack(fact, number)
        return True

    # -- reading ----------------------------------------------------------------------------

    def look(self, client: httpx.Client, *, is_owner: bool = False) -> None:
        """Read everything by every route and compare it with the ledger."""
        for where, read in (
            ("runs/get", self._by_get),
            ("runs/search", self._by_search),
            ("metrics/get-history", self._by_history),
            ("experiments", self._by_experiment),
            ("registry", self._by_registry),
        ):
            acked = self._ledger.acked()
            exact = self._exact if is_owner else None
            seen, run = read(client)
            self._ledger.check(seen, acked, f"{where} of {self.name}")
            if exact is not None and run is not None:
                shown = run["info"]["status"], run["info"]["lifecycle_stage"], "active"
                assert shown == exact, f"{where} of {self.name}: {shown} in place of {exact}"

    def _by_get(self, client: httpx.Client) -> tuple[Facts, Any]:
        run = self._get(client, "runs/get", run_id=self._run)["run"]
        return self._facts_of(run), run

    def _by_search(self, client: httpx.Client) -> tuple[Facts, Any]:
        body = {"experiment_ids": [self._experiment], "run_view_type": "ALL"}
        answer = self._ask(client, "POST", "runs/search", body)
        if answer.status_code in (429, 503):
            return {}, None
        (run,) = answer.json()["runs"]
        return self._facts_of(run), run

    def _by_history(self, client: httpx.Client) -> tuple[Facts, Any]:
        found = self._get(client, "metrics/get-history", run_id=self._run, metric_key="loss")
        return {f"{self._run} history *": {p["step"] for p in found.get("metrics", [])}}, None

    def _by_experiment(self, client: httpx.Client) -> tuple[Facts, Any]:
        found = self._get(client, "experiments/get", experiment_id=self._experiment)
        body = {"view_type": "ALL", "filter": f"name = '{self.name}'"}
        (searched,) = self._ask(client, "POST", "experiments/search", body).json()["experiments"]
        fact = f"{self._experiment} tag"
        first = {int(value) for value in pairs(found["experiment"].get("tags")).values()}
        second = {int(value) for value in pairs(searched.get("tags")).values()}
        assert max(first, default=0) <= max(second, default=0), "a later read shows an older state"
        return {fact: first}, None

    def _by_registry(self, client: httpx.Client) -> tuple[Facts, Any]:
        model = self._get(client, "registered-models/get", name=self.name)["registered_model"]
        logged = self._get(client, f"logged-models/{self._logged}")["model"]["info"]
        tags = pairs(logged.get("tags"))
        return {
            f"{self.name} words": {int(model["description"])}
            if model.get("description")
            else set(),
            f"{self._logged} tag": {int(tags["n"])} if "n" in tags else set(),
        }, None

    def _facts_of(self, run: dict[str, Any]) -> Facts:
        data, info = run["data"], run["info"]
        tags, params = pairs(data.get("tags")), pairs(data.get("params"))
        latest = {int(metric["value"]) for metric in data.get("metrics", [])}
        return {
            f"{self._run} latest": latest,
            f"{self._run} tag": {int(tags["n"])} if "n" in tags else set(),
            f"{self._run} params *": {int(key[1:]) for key in params if key != "fixed"},
            f"{self._run} end": {info["end_time"]} if info.get("end_time") else set(),
        }

    # -- asking -----------------------------------------------------------------------------

    def _ask(
        self, client: httpx.Client, method: str, path: str, body: dict[str, Any]
    ) -> httpx.Response:
        url = f"{self._server.url}/api/2.0/mlflow/{path}"
        if method == "GET":
            return client.get(url, params=body, headers=self._server.headers)
        return client.request(method, url, json=body, headers=self._server.headers)

    def _get(self, client: httpx.Client, path: str, **params: Any) -> Any:
        while True:
            answer = self._ask(client, "GET", path, params)
            if answer.status_code not in (429, 503):
                assert answer.status_code == 200, answer.text
                return answer.json()
            time.sleep(0.05)

    def _patiently(self, work: Callable[[], None]) -> None:
        """Do something over and over while the server is away; it is known how it ended then."""
        while not self._stop.is_set():
            try:
                work()
            except httpx.TransportError:
                self._stop.wait(0.05)
            else:
                return
