"""Requests that any route might accept, made from its types and from words that mean something.

Quick to make for a route that was added a moment ago; `heavy_requests` has accepted ones.
"""

import json
from typing import Any
from urllib.parse import quote

from msgspec import inspect

from tests.integration.server.test_fuzz import Ground
from trackyard.server.routing import Route

FILTER = " AND ".join(["metrics.loss > 0"] * 30)


class Plausible:
    """Makes a request of a route that has lists of a given length."""

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
        self._words |= {"array": "0-599", "after": array, "command": "true"}
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
