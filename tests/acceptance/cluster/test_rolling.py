"""Several servers on one PostgreSQL behind nginx: one after the other is restarted under load."""

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from tests.acceptance.nginx import Nginx, balancer
from tests.acceptance.postgres import Postgres
from tests.acceptance.serving import SCRIPTS, TrackingServer, client_environment, python_of

#: It starts many processes at once, or a cluster: with others beside it time alone would decide.
pytestmark = pytest.mark.alone

PROXY = "/api/2.0/mlflow-artifacts/artifacts"


def wait_until(holds: Callable[[], object], patience: float = 300.0) -> None:
    over = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < over, "waited in vain"
        time.sleep(0.05)


@dataclass
class Cluster:
    """Two servers and their balancer, which is called like a server."""

    servers: list[TrackingServer]
    balancer: Nginx
    front: TrackingServer

    def elections(self) -> list[dict[str, object]]:
        """Return the elections, newest first."""
        found = self.servers[0].get(
            "/api/v1/events", kind="scheduler.elected", scope="all", order="newest"
        )
        return list(found["events"])


@pytest.fixture(scope="module")
def cluster(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    database = postgres.new_database()
    servers = [
        TrackingServer(folder / name, database=database, artifacts=str(folder / "artifacts"))
        for name in ("one", "two")
    ]
    for server in servers:
        server.start()
    nginx = balancer(folder / "nginx", servers)
    front = TrackingServer(folder / "one", port=nginx.port, token=servers[0].token)
    yield Cluster(servers, nginx, front)
    for server in servers:
        server.kill()
    nginx.close()


@dataclass
class Callers:
    """Raw callers without a second try: what they did, and what went wrong."""

    url: str
    headers: dict[str, str]
    place: str
    run_id: str
    stop: threading.Event = field(default_factory=threading.Event)
    done: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> "Callers":
        for number, work in enumerate((self.log, self.log, self.create, self.upload, self.read)):
            # Some keep their connection, some open one for every call.
            thread = threading.Thread(target=self.repeat, args=(work, number), daemon=True)
            self.threads.append(thread)
            thread.start()
        return self

    def repeat(self, work: Callable[[httpx.Client, str], httpx.Response], number: int) -> None:
        name = f"{work.__name__}-{number}"
        client = self.client()
        count = 0
        while not self.stop.is_set():
            if number % 2:
                client.close()
                client = self.client()
            try:
                answer = work(client, f"{name}-{count}")
            except httpx.HTTPError as fault:
                self.faults.append(f"{name}-{count}: {fault!r}")
                continue
            if answer.status_code == 200:
                count += 1
                self.done[name] = count
            else:
                self.faults.append(f"{name}-{count}: {answer.status_code} {answer.text[:200]}")
            self.stop.wait(0.05)
        client.close()

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers=self.headers, timeout=120)

    def log(self, client: httpx.Client, name: str) -> httpx.Response:
        metric, _, step = name.rpartition("-")
        point = {"key": metric, "value": 1.0, "timestamp": 1, "step": int(step)}
        return client.post(
            "/api/2.0/mlflow/runs/log-metric", json={"run_id": self.run_id, **point}
        )

    def create(self, client: httpx.Client, name: str) -> httpx.Response:
        wish = {"experiment_id": "0", "run_name": name}
        return client.post("/api/2.0/mlflow/runs/create", json=wish)

    def upload(self, client: httpx.Client, name: str) -> httpx.Response:
        return client.put(f"{self.place}/{name}", content=name.encode() * 5000)

    def read(self, client: httpx.Client, _name: str) -> httpx.Response:
        return client.get("/api/2.0/mlflow/runs/get", params={"run_id": self.run_id})

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join(120)


@contextlib.contextmanager
def stock_client(cluster: Cluster, folder: Path) -> Iterator[Path]:
    """A stock client that logs numbers and may not try anything again."""
    folder.mkdir()
    environment = client_environment(cluster.front, folder, MLFLOW_HTTP_REQUEST_MAX_RETRIES="0")
    with (folder / "output").open("w") as output:
        process = subprocess.Popen(
            [python_of("mlflow3"), SCRIPTS / "log_numbers.py", "0", "w", "1", str(folder)],
            env=environment,
            stdout=output,
            stderr=output,
        )
        try:
            wait_until(lambda: "ack" in book(folder) or process.poll() is not None)
            yield folder
        finally:
            (folder / "stop").touch()
            process.wait(120)


def book(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.glob("*.book"))


class Follower:
    """A page that follows the stream through the balancer, as a browser does."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self.url, self.headers = url, headers
        self.seen: list[int] = []
        self.points: set[str] = set()
        self.stop = threading.Event()
        self.is_open = threading.Event()
        self.thread = threading.Thread(target=self._follow, daemon=True)
        self.thread.start()

    def _follow(self) -> None:
        while not self.stop.is_set():
            last = {"Last-Event-ID": str(self.seen[-1])} if self.seen else {}
            with (
                contextlib.suppress(httpx.HTTPError),
                httpx.stream(
                    "GET",
                    f"{self.url}/api/v1/stream",
                    headers={**self.headers, **last},
                    timeout=5,
                ) as answer,
            ):
                for line in answer.iter_lines():
                    self.is_open.set()
                    if self.stop.is_set():
                        return
                    if line.startswith("id: "):
                        self.seen.append(int(line[4:]))
                    elif line.startswith('data: {"kind":"points"'):
                        self.points |= set(json.loads(line[6:])["runs"])


@pytest.mark.timeout(600)
def test_a_rolling_restart_under_load_fails_no_call(cluster: Cluster, tmp_path: Path) -> None:
    """Each server is stopped and started again; nobody who may not retry sees an error,
    pages miss no event, the scheduler's lead moves on, and all that was acknowledged is there.
    """
    info = cluster.front.post("runs/create", experiment_id="0")["run"]["info"]
    place = f"{PROXY}/{info['artifact_uri'].removeprefix('mlflow-artifacts:/')}"
    pages = [Follower(server.url, cluster.front.headers) for server in cluster.servers]
    pages.append(Follower(cluster.front.url, cluster.front.headers))
    assert all(page.is_open.wait(120) for page in pages)
    start = cluster.elections()
    callers = Callers(cluster.front.url, cluster.front.headers, place, info["run_id"])
    with stock_client(cluster, tmp_path / "stock") as folder, callers:
        for server in cluster.servers:
            before, acked = dict(callers.done), book(folder).count("ack")
            assert server.stop() == 0, server.log
            server.start()
            wait_until(
                lambda before=before, acked=acked: (
                    (  # type: ignore[misc]
                        len(callers.done) == 5
                        and all(
                            callers.done[name] > before.get(name, 0) + 3 for name in callers.done
                        )
                        and book(folder).count("ack") > acked + 3
                    )
                    or callers.faults
                )
            )
    assert callers.faults == [], cluster.balancer.errors
    assert "gave-up" not in book(folder), (book(folder), cluster.balancer.errors)
    check_all_is_there(cluster, callers, place)
    check_pages(cluster, pages, info["run_id"])
    elections = cluster.elections()
    assert len(elections) > len(start), "the lead has never moved"
    epochs = [event["data"]["epoch"] for event in elections]  # type: ignore[index]
    assert epochs == sorted(epochs, reverse=True)
    assert len(set(epochs)) == len(epochs)


def check_all_is_there(cluster: Cluster, callers: Callers, place: str) -> None:
    one, other = cluster.servers
    for name, count in callers.done.items():
        kind = name.partition("-")[0]
        if kind == "log":
            steps = [int(point["step"]) for point in other.history(callers.run_id, name)]
            assert sorted(steps) == list(range(count))
        elif kind == "upload":
            files = [path for path in one.files(callers.run_id) if path.startswith(name)]
            assert len(files) == count
            last = other.ask("GET", f"{place}/{name}-{count - 1}").content
            assert last == f"{name}-{count - 1}".encode() * 5000
        elif kind == "create":
            runs = one.post(
                "runs/search",
                experiment_ids=["0"],
                max_results=50_000,
                filter=f"attributes.run_name LIKE '{name}-%'",
            )["runs"]
            assert len({run["info"]["run_id"] for run in runs}) == count


def check_pages(cluster: Cluster, pages: list[Follower], run_id: str) -> None:
    """Every page has heard of each event once, in order, and of points logged elsewhere."""
    newest = cluster.servers[0].get("/api/v1/events", order="newest", limit=1)["events"]
    mark = newest[0]["id"]
    for page in pages:
        wait_until(lambda page=page: page.seen and page.seen[-1] >= mark)  # type: ignore[misc]
        page.stop.set()
        assert page.seen == sorted(set(page.seen))
        assert run_id in page.points
    common = max(page.seen[0] for page in pages)
    heard = [[number for number in page.seen if common <= number <= mark] for page in pages]
    assert heard[0] == heard[1] == heard[2]


def leaders(cluster: Cluster) -> list[TrackingServer]:
    """Return the servers that say they schedule."""
    return [server for server in cluster.servers if server.get("/api/v1/admin/facts")["schedules"]]


def test_a_killed_leader_is_followed_by_the_other_server(cluster: Cluster) -> None:
    """Killed without a farewell, its lead runs out; the other leads, alone, and calls go on."""
    wait_until(lambda: len(leaders(cluster)) == 1)
    (owner,) = leaders(cluster)
    (other,) = [server for server in cluster.servers if server is not owner]
    owner.kill()
    answer = cluster.front.ask("POST", "runs/create", json={"experiment_id": "0"})
    assert answer.status_code == 200, answer.text
    wait_until(lambda: other.get("/api/v1/admin/facts")["schedules"])
    owner.start()
    assert leaders(cluster) == [other]


def test_a_token_revoked_at_one_server_ends_at_the_other(cluster: Cluster) -> None:
    """Each server believes a credential for a second at most without asking the database."""
    one, other = cluster.servers
    made = one.post("/api/v1/tokens", role="member", label="short")
    headers = {"Authorization": f"Bearer {made['token']}"}

    def status() -> int:
        return other.ask("GET", "/api/v1/session", headers=headers).status_code

    assert status() == 200
    public = made.get("id") or made["token"].split("_")[1]
    revoked = one.ask("DELETE", f"/api/v1/tokens/{public}")
    assert revoked.status_code < 300, revoked.text
    wait_until(lambda: status() == 401, patience=10)
