"""The heaviest request that each route accepts, on a server with much to show: the loop goes on.

Requests are made from the live route table: as many items as the types allow, then fewer until
the request is accepted. A step is measured by the processor time that the loop's own thread takes
for it, so that a busy machine fails nothing. `HEAVY_TELL=1` prints the longest steps.
"""

import asyncio
import gc
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from msgspec import inspect

from tests.integration.server.fuzzing import Case
from tests.integration.server.platform import Platform, open_platform
from tests.integration.server.test_fuzz import Ground, Steps, ask, chosen, prepared, steps
from trackyard.server.routing import Route

__all__ = ["steps"]

#: Processor seconds of one step of the loop. The promise is 50 ms; a processor that is shared
#: with others takes longer for the same work.
MOST_SECONDS = 0.1
#: Items of a list, from as many as any type takes downwards.
COUNTS = (20_000, 5000, 1000, 100, 10, 1)
#: Jobs, and with them runs, that lie on the server.
JOBS = 2000
#: Routes that end what the others ask about; they come last.
LAST = ("delete", "stop", "release", "purge", "revoke", "gc", "abort", "disable", "rename")
FILTER = " AND ".join(["metrics.loss > 0"] * 30)


class Heavy:
    """Makes the largest request of a route that has lists of a given length."""

    def __init__(self, ground: Ground, runs: list[str], array: str) -> None:
        run, model, job, _, attempt = ground.known[:5]
        self._runs = runs
        self._paths = {"job": array, "run_id": run, "model_id": model, "attempt": attempt}
        self._paths |= {"team": "default", "user": "admin", "queue": "default", "thing": "jobs"}
        self._paths |= {
            "node": "node1",
            "name": "net",
            "protocol": "gcs",
            "path": f"0/{run}/artifacts/f",
        }
        self._words = {"run_id": run, "run_uuid": run, "model_id": model, "job": job}
        self._words |= {"experiment_id": "0", "experiment_ids": "0", "filter": FILTER}
        self._words |= {"order_by": "metrics.loss DESC", "metric_key": "loss", "name": "net"}
        self._words |= {
            "view_type": "ALL",
            "run_view_type": "ALL",
            "page_token": "",
            "key": "loss",
        }
        self._words |= {"array": f"0-{JOBS - 1}", "after": array, "command": "true"}
        self._words |= {"metrics": "loss", "params": "lr", "queue": "", "team": "", "user": ""}
        self._words |= {"order": "", "scope": "all", "state": "", "kind": "", "subject": ""}
        self._words |= {"priority": "normal", "version": "1", "status": "READY", "param": "lr"}

    def target(self, route: Route, count: int) -> str:
        """Return where the request goes."""
        path = "/".join(
            quote(self._paths.get(part.strip("{}."), "0"), safe="/") if "{" in part else part
            for part in route.path.split("/")
        )
        pairs = [(name, self._figure(name, count)) for name in route.query]
        if route.method in ("GET", "DELETE"):
            pairs += [(name, self._figure(name, count)) for name in self.fields(route)]
        pairs = [(name, value) for name, value in pairs if value]
        for name in ("run_ids", "run_id"):
            if any(name == one for one, _ in pairs) and count > 1 and "series" in path + "bulk":
                pairs += [(name, run) for run in self._runs[: min(count, 100)]]
        return f"{path}?" + "&".join(f"{name}={quote(value)}" for name, value in pairs)

    @staticmethod
    def fields(route: Route) -> list[str]:
        """Return the names of what a route's request holds."""
        kind = None if route.takes is None else inspect.type_info(route.takes)
        fields = kind.fields if isinstance(kind, inspect.StructType) else ()
        return [one.encode_name for one in fields]

    def _figure(self, name: str, count: int) -> str:
        if name in ("limit", "points", "max_results", "tail"):
            return str(count)
        if name in ("eta", "all", "smaller", "stuck", "orphans"):
            return "1"
        return self._words.get(name, "")

    def body(self, route: Route, count: int) -> bytes | None:
        """Return the body, or None where it would be larger than the route takes."""
        if route.takes is None:
            return b"{}"
        own = self._own(route.path, count)
        if own is not None:
            return json.dumps(own).encode()
        made = self._value(inspect.type_info(route.takes), "", count, 0)
        text = json.dumps(made).encode()
        return text if len(text) < (route.body_limit or 0) else None

    def _own(self, path: str, count: int) -> dict[str, Any] | None:
        """Return the body of a call whose fields depend on each other."""
        names = [f"m{n}" for n in range(min(count, 1000))]
        found: dict[str, dict[str, Any]] = {
            "/api/v1/jobs": {"command": ["true"], "array": f"0-{min(count, 10_000) - 1}"},
            "/api/v1/series": {"run_ids": self._runs[: max(1, count // 10)], "keys": ["loss"]},
            "/api/v1/runs/columns": {"run_ids": self._runs[:count], "metrics": names[:100]},
            "/api/v1/runs/table": {"limit": min(count, 1000), "metrics": names[:50]},
            "/api/v1/jobs/{job}/stop": {"grace_seconds": 0},
            "/api/v1/jobs/{job}/requeue": {"priority": "low"},
            "/api/2.0/mlflow/experiments/search": {"max_results": count},
            "/api/2.0/mlflow/runs/log-inputs": {
                "run_id": self._words["run_id"],
                "datasets": [
                    {
                        "dataset": {
                            "name": name,
                            "digest": name,
                            "source_type": "x",
                            "source": "y" * 100,
                        }
                    }
                    for name in names
                ],
            },
            "/api/v1/attempts/{attempt}/samples": {
                "member": 0,
                "samples": [
                    {"time_ms": n, "values": {"cpu": 1.0}} for n in range(min(count, 500))
                ],
            },
        }
        return found.get(path)

    def _value(self, kind: inspect.Type, name: str, count: int, at: int) -> Any:
        if isinstance(kind, inspect.Metadata):
            return self._value(kind.type, name, count, at)
        if isinstance(kind, inspect.UnionType):
            kinds = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
            return self._value(kinds[0], name, count, at)
        if isinstance(kind, inspect.StructType):
            fields = ((one.encode_name, one.type) for one in kind.fields)
            made = {one: self._value(part, one, count, at) for one, part in fields}
            return {one: value for one, value in made.items() if value is not None}
        if isinstance(kind, inspect.DictType):
            few = min(count, kind.max_length or count, 100)
            return {f"k{n}": self._value(kind.value_type, name, 1, n) for n in range(few)}
        if isinstance(kind, inspect.CollectionType):
            few = min(count, kind.max_length or count)
            return [self._value(kind.item_type, name, min(count, 3), n) for n in range(few)]
        return self._leaf(kind, name, at)

    def _leaf(self, kind: inspect.Type, name: str, at: int) -> Any:
        if isinstance(kind, inspect.StrType):
            if name in ("run_ids", "subject_id"):
                return self._runs[at % len(self._runs)]
            if name == "key" and at:
                return f"k{at}"
            return self._words.get(name)
        if isinstance(kind, inspect.FloatType):
            return float(at)
        if isinstance(kind, inspect.IntType):
            if name in ("max_results", "limit", "points"):
                return min(kind.le or 1000, 50_000)
            return at if name in ("step", "timestamp") else None
        return None


async def furnish(platform: Platform, ground: Ground) -> tuple[str, list[str]]:
    """Put jobs, runs, points, versions and files on the server."""
    admin = platform.admin
    wish = {"command": ["true"], "array": f"0-{JOBS - 1}", "hold": True, "name": "many"}
    array = (await admin("POST", "/api/v1/jobs", wish)).json()["array_id"]
    found = await admin.mlflow(
        "POST", "runs/search", {"experiment_ids": ["0"], "max_results": 1000}
    )
    runs = [one["info"]["run_id"] for one in found.json()["runs"]]
    run = ground.known[0]
    for part in range(20):
        points = [
            {"key": "loss", "value": 1.0 * n, "timestamp": n, "step": part * 1000 + n}
            for n in range(1000)
        ]
        answer = await admin.mlflow("POST", "runs/log-batch", {"run_id": run, "metrics": points})
        assert answer.status == 200
    names = [{"key": f"m{n}", "value": 1.0, "timestamp": n, "step": n} for n in range(1000)]
    await admin.mlflow("POST", "runs/log-batch", {"run_id": run, "metrics": names})
    for n in range(100):
        await admin.mlflow("POST", "registered-models/create", {"name": f"net-{n}"})
        path = f"/api/2.0/mlflow-artifacts/artifacts/0/{run}/artifacts/f{n}"
        assert (await admin("PUT", path, raw=b"x" * 100)).status == 200
    return array, runs


@pytest.fixture
def tuned() -> Iterator[None]:
    """Collect garbage as a server does."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


async def test_the_heaviest_request_of_every_route_holds_the_loop_for_no_time(
    sqlite_template: Path, tmp_path: Path, steps: Steps, tuned: None
) -> None:
    shutil.copy(sqlite_template, tmp_path / "yard.db")
    async with open_platform(f"sqlite:///{tmp_path / 'yard.db'}", tmp_path / "home") as platform:
        ground = await prepared(platform)
        steps.doing = "furnishing"
        heavy = Heavy(ground, (made := await furnish(platform, ground))[1], made[0])
        routes = [one for one in chosen(platform.application.router.routes) if not _is_file(one)]
        routes.sort(
            key=lambda one: any(word in one.path or word in one.method.lower() for word in LAST)
        )
        worst: dict[str, tuple[float, int]] = {}
        accepted = 0
        for route in routes:
            steps.longest, steps.during = 0.0, ""
            status = await send(platform, ground, heavy, route, steps)
            accepted += status < 400
            worst[steps.during or route.label] = (steps.longest, status)
    ranked = sorted(worst.items(), key=lambda one: -one[1][0])
    if os.environ.get("HEAVY_TELL"):
        for label, (seconds, status) in ranked[:25]:
            print(f"{seconds * 1000:6.1f} ms  {status}  {label}")
    over = [
        f"{seconds:.3f} s: {label}" for label, (seconds, _) in ranked if seconds > MOST_SECONDS
    ]
    assert not over, over
    # Enough comes through to reach what lies behind; the rest needs more than size.
    assert accepted > 60, ranked


def _is_file(route: Route) -> bool:
    return route.path.startswith("/assets/") or "backups" in route.path


async def send(
    platform: Platform, ground: Ground, heavy: Heavy, route: Route, steps: Steps
) -> int:
    """Send the largest request that is accepted; return the last answer's status."""
    status = 0
    is_commands = "/demand" in route.path or "/trials" in route.path
    caller = ground.command if is_commands else ground.admin
    if route.runners:
        caller = ground.runner
    for count in COUNTS:
        steps.doing = "making a request"
        body = await asyncio.to_thread(heavy.body, route, count)
        if body is None:
            continue
        steps.doing = f"{route.label} with {count}"
        sent = None if route.method == "GET" else body
        kind = (("content-type", "application/json"),)
        case = Case(route.method, heavy.target(route, count), sent, kind)
        status, _ = await ask(platform, caller, case)
        if status < 400:
            break
    return status
