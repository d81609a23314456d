"""A server with much to show, and the names of what lies on it, for the heaviest requests.

Owns what is put there. Knows nothing of how requests are measured.
"""

import hashlib
import io
import itertools
import json
import tarfile
import zipfile
from dataclasses import dataclass, field
from typing import Any

from tests.integration.server.platform import Answer, Caller, Platform
from tests.integration.server.test_fuzz import Ground, prepared
from trackyard.fleet import nodes
from trackyard.testing.engine import fake_node

V2, V3 = "/api/2.0/mlflow/", "/api/3.0/mlflow/"
#: Jobs, and with them runs; nodes; traces, and files, models and versions.
JOBS, NODES, THINGS = 600, 100, 100
MINUTE_MS = 60_000
#: The first whole minute that leases begin at, far from now.
LATER_MS = 4_000_000_000_000 // MINUTE_MS * MINUTE_MS


def package(number: int) -> bytes:
    """Make a small package, another one for each number."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        data = f"print({number})\n".encode()
        info = tarfile.TarInfo("train.py")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def trace(number: int, tags: int = 1) -> dict[str, Any]:
    """Describe a trace."""
    place = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": "0"}}
    return {
        "trace_info": {
            "trace_id": f"tr-{number:032x}",
            "trace_location": place,
            "request_time": "2026-11-17T07:00:00.250Z",
            "execution_duration": "0.5s",
            "state": "OK",
            "tags": {f"t{n}": "x" * 100 for n in range(tags)},
            "trace_metadata": {f"m{n}": "x" * 100 for n in range(tags)},
        }
    }


def spans(number: int, count: int, *, scattered: bool = False) -> dict[str, Any]:
    """Describe spans as OpenTelemetry sends them, of one trace or each of another."""
    made = [
        {
            "traceId": f"{number * 100_000 + (at if scattered else 0):032x}",
            "spanId": f"{at + 1:016x}",
            "name": f"span {at}",
            "startTimeUnixNano": str(1_794_900_000_000_000_000 + at),
            "endTimeUnixNano": "1794900000500000000",
            "attributes": [{"key": f"a{n}", "value": {"stringValue": "x" * 50}} for n in range(5)],
        }
        for at in range(count)
    ]
    return {"resourceSpans": [{"scopeSpans": [{"spans": made}]}]}


@dataclass
class World:
    """Names of what lies on the server."""

    platform: Platform
    ground: Ground
    runs: list[str] = field(default_factory=list)
    array: str = ""
    traces: list[str] = field(default_factory=list)
    assessment: str = ""
    dataset: str = ""
    records: list[str] = field(default_factory=list)
    model: str = ""
    ray_job: str = ""
    leases: list[str] = field(default_factory=list)
    package: bytes = b""
    #: whether the large data set is there
    has_data: bool = False
    #: the backup that is open
    backup: str = ""
    #: requests that were made for all routes at once
    bodies: dict[str, Any] = field(default_factory=dict)
    _numbers: Any = field(default_factory=lambda: itertools.count(1000))

    @property
    def admin(self) -> Caller:
        """Who asks for most of it."""
        return self.platform.admin

    @property
    def callers(self) -> dict[str, Caller]:
        """Who may ask, by what they are."""
        ground = self.ground
        found = {"admin": self.admin, "runner": ground.runner, "command": ground.command}
        return found | {"ticket": ground.ticket}

    @property
    def run(self) -> str:
        """The run that has most."""
        return self.ground.known[0]

    @property
    def job(self) -> str:
        """The job with an attempt under way."""
        return self.ground.known[2]

    @property
    def attempt(self) -> str:
        """That attempt."""
        return self.ground.known[4]

    def fresh(self) -> int:
        """Give a number that was not given before."""
        return int(next(self._numbers))

    async def ok(self, method: str, path: str, body: Any = None, **more: Any) -> Answer:
        """Ask as the admin, and insist."""
        answer = await self.admin(method, path, body, **more)
        assert answer.status == 200, (method, path, answer.body[:300])
        return answer

    async def mlflow(self, path: str, body: Any, prefix: str = V2) -> Any:
        """Post to MLflow's protocol."""
        return (await self.ok("POST", prefix + path, body)).json()

    async def new_run(self) -> str:
        """Make a run."""
        made = await self.mlflow("runs/create", {"experiment_id": "0"})
        return str(made["run"]["info"]["run_id"])

    async def new_experiment(self, runs: int = 0) -> str:
        """Make an experiment, with runs."""
        name = f"e{self.fresh()}"
        made = await self.mlflow("experiments/create", {"name": name})
        if runs:
            wish = {"command": ["true"], "array": f"0-{runs - 1}", "hold": True}
            await self.ok("POST", "/api/v1/jobs", wish | {"experiment": name})
        return str(made["experiment_id"])

    async def new_model(self) -> str:
        """Make a logged model."""
        body = {"experiment_id": "0", "name": f"m{self.fresh()}"}
        made = await self.mlflow("logged-models", body)
        return str(made["model"]["info"]["model_id"])

    async def new_lease(self, **more: Any) -> str:
        """Make a lease at a time of its own."""
        starts = LATER_MS + self.fresh() * 100 * MINUTE_MS
        wish = {"name": f"l{self.fresh()}", "nodes": ["g1", "g2"], "minutes": 60}
        made = await self.ok("POST", "/api/v1/leases", wish | {"starts_ms": starts} | more)
        return str(made.json()["lease"]["lease_id"])


async def furnish(platform: Platform) -> World:
    """Put jobs, runs, points, versions, files, traces, nodes and leases on the server."""
    world = World(platform, await prepared(platform))
    reports = [fake_node(f"g{n}", gpus=8) for n in range(NODES)]
    await platform.services.database.write(lambda tx: nodes.record(tx, "local", reports))
    wish = {"command": ["true"], "array": f"0-{JOBS - 1}", "hold": True, "name": "many"}
    world.array = (await world.ok("POST", "/api/v1/jobs", wish)).json()["array_id"]
    found = await world.mlflow("runs/search", {"experiment_ids": ["0"], "max_results": 1000})
    world.runs = [one["info"]["run_id"] for one in found["runs"]]
    await _tracked(world)
    await _registered(world)
    await _traced(world)
    await _jobs(world)
    return world


async def _tracked(world: World) -> None:
    for part in range(20):
        points = [
            {"key": "loss", "value": 1.0 * n, "timestamp": n, "step": part * 1000 + n}
            for n in range(1000)
        ]
        await world.mlflow("runs/log-batch", {"run_id": world.run, "metrics": points})
    names = [{"key": f"m{n}", "value": 1.0, "timestamp": n, "step": n} for n in range(1000)]
    await world.mlflow("runs/log-batch", {"run_id": world.run, "metrics": names})
    root = f"/api/2.0/mlflow-artifacts/artifacts/0/{world.run}/artifacts"
    for n in range(THINGS):
        await world.ok("PUT", f"{root}/f{n}", raw=b"x" * 100)
    for name in ("large", "large.txt", "folder/weights"):
        await world.ok("PUT", f"{root}/{name}", raw=b"line of text\n" * 80_000)


async def _registered(world: World) -> None:
    world.model = world.ground.known[1]
    first = {"name": "net", "source": f"runs:/{world.run}/folder", "run_id": world.run}
    await world.mlflow("model-versions/create", first)
    for n in range(THINGS):
        await world.mlflow("registered-models/create", {"name": f"net-{n}"})
        source = {"name": "net", "source": f"runs:/{world.run}/f{n}", "run_id": world.run}
        await world.mlflow("model-versions/create", source)
    alias = {"name": "net", "alias": "best", "version": "1"}
    await world.mlflow("registered-models/alias", alias)
    root = f"/api/2.0/mlflow-artifacts/artifacts/0/models/{world.model}/artifacts"
    await world.ok("PUT", f"{root}/weights", raw=b"x" * 1000)
    made = await world.mlflow("datasets/create", {"name": "set", "experiment_ids": ["0"]}, V3)
    world.dataset = made["dataset"]["dataset_id"]
    rows = json.dumps([{"inputs": {"q": str(n)}, "tags": {"a": "b"}} for n in range(1000)])
    await world.mlflow(f"datasets/{world.dataset}/records", {"records": rows}, V3)
    listed = await world.ok("GET", f"{V3}datasets/{world.dataset}/records?max_results=1000")
    world.records = [one["dataset_record_id"] for one in json.loads(listed.json()["records"])]
    for _ in range(20):
        scorer = {"experiment_id": "0", "name": "net", "serialized_scorer": json.dumps({"a": 1})}
        await world.mlflow("scorers/register", scorer, V3)


async def _traced(world: World) -> None:
    for n in range(THINGS):
        made = await world.mlflow("traces", {"trace": trace(n + 1, 20)}, V3)
        world.traces.append(made["trace"]["trace_info"]["trace_id"])
    kind = {"content-type": "application/json", "x-mlflow-experiment-id": "0"}
    await world.ok("POST", "/v1/traces", raw=json.dumps(spans(1, 1000)).encode(), headers=kind)
    given = {"assessment": {"assessment_name": "ok", "feedback": {"value": 1}}}
    path = f"traces/{world.traces[0]}/assessments"
    world.assessment = (await world.mlflow(path, given, V3))["assessment"]["assessment_id"]


async def _jobs(world: World) -> None:
    world.package = package(0)
    digest = hashlib.sha256(world.package).hexdigest()
    await world.ok("PUT", f"/api/v1/packages/{digest}", raw=world.package)
    await world.ok("PUT", "/api/packages/gcs/_ray_pkg_one.zip", raw=_zip())
    made = await world.ok("POST", "/api/jobs/", {"entrypoint": "true"})
    world.ray_job = made.json()["submission_id"]
    for _ in range(20):
        world.leases.append(await world.new_lease())


def _zip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("train.py", "print(1)\n")
    return out.getvalue()
