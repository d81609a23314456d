"""`yard demo`: fill a server with a project worth looking at. Owns the order of calls.

Everything goes through the public API, as a user's own training would; what the runs look like is
`demo_curves`' and `demo_files`' business.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trackyard.cli.demo import demo_gpus
from trackyard.cli.demo.demo_curves import DemoRun, Point, make_runs
from trackyard.cli.demo.demo_files import files_of
from trackyard.cli.demo.demo_logbook import tell_story
from trackyard.cli.output import say
from trackyard.client.api import Api, ApiFault, Unreachable
from trackyard.core.errors import SetupError

SEED = 20_260_816
BATCH = 1000
ALERTS = ("state failed", "nan", "batch/loss > 3", "log cuda-oom", "wait > 10s")
START_SECONDS = 60
NOTES = {
    "food11-classifier": "Which small network sorts eleven kinds of dishes best? *Demo data.*",
    "chat-finetune": "Adapters on small chat models. *Demo data.*",
    "demand-forecast": "Boosted trees on last year's orders. *Demo data.*",
}


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "demo",
        help="fill a server with demo runs and models",
        description="Log a demo project to the server in use. Where none answers, a throw-away"
        " server is started first and stays until Ctrl+C.",
    )
    parser.add_argument("--live", action="store_true", help="go on logging to the running runs")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the 248 runs to make")
    parser.add_argument("--port", type=int, default=8000, help="port of a server started for this")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Seed a running server, or one of our own."""
    if not 0.01 <= args.scale <= 100:
        raise SetupError("--scale must lie between 0.01 and 100", hint="1 makes 248 runs")
    try:
        api = Api.from_environment()
        api.get("/api/v1/session")
    except Unreachable:
        return _with_own_server(args)
    return _fill(api, args, live=args.live)


def _with_own_server(args: argparse.Namespace) -> int:
    home = Path(tempfile.mkdtemp(prefix="trackyard-demo-"))
    say(f"no server answers; starting one with a throw-away home at {home}")
    command = [sys.executable, "-m", "trackyard.cli.main", "up"]
    command += ["--home", str(home), "--port", str(args.port)]
    demo_gpus.declare(home)
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        url = _address(server)
        api = Api(url, (home / "token").read_text().strip())
        return _fill(api, args, live=True, with_gpus=True)
    except KeyboardInterrupt:
        return 0
    finally:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(30)
        shutil.rmtree(home, ignore_errors=True)


def _address(server: subprocess.Popen[str]) -> str:
    """Return the address that a starting server prints."""
    assert server.stdout is not None
    for line in server.stdout:
        found = re.search(r"ready at (\S+)", line)
        if found:
            return found[1]
    raise SetupError(
        "the server for the demo did not start",
        hint="`yard up` on its own says why; --port picks another port",
    )


def _fill(api: Api, args: argparse.Namespace, *, live: bool, with_gpus: bool = False) -> int:
    demo = Demo(api)
    if demo.is_there():
        say("the demo project is there already")
    else:
        demo.seed(args.scale, with_gpus=with_gpus)
    code = api.post("/api/v1/session/codes")["code"]
    print(
        f"\n  open      {api.url}/signin#code={code}   (works once, for 15 minutes)\n", flush=True
    )
    if live:
        say("logging to the runs that are still going; Ctrl+C ends it")
        try:
            with contextlib.suppress(KeyboardInterrupt):
                demo.go_on()
        finally:
            with contextlib.suppress(ApiFault, Unreachable):
                demo.end_running()
    else:
        demo.end_running()
    return 0


class Demo:
    """Logs the demo project."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._experiments: dict[str, str] = {}
        self._running: list[tuple[str, DemoRun]] = []
        self._best: dict[str, list[tuple[float, str]]] = {}

    def is_there(self) -> bool:
        """Say whether the project was logged before."""
        found = self._api.get("/api/v1/experiments")["experiments"]
        return any(one["name"] in NOTES and one["runs"] for one in found)

    def seed(self, scale: float, *, with_gpus: bool = False) -> None:
        """Log experiments, runs, artifacts and models; run jobs where GPUs are the demo's own."""
        runs = list(make_runs(SEED, int(time.time() * 1000), scale))
        began = time.monotonic()
        points = 0
        self._watch()
        if with_gpus:
            demo_gpus.submit(self._api)
        for number, one in enumerate(runs, 1):
            self._log_run(one)
            points += len(one.points)
            _progress(f"{number}/{len(runs)} runs, {points:,} points")
        self._register()
        with contextlib.suppress(ApiFault):  # a server that takes no such job has the rest
            run_id = tell_story(self._api)
            say(f"  read a logbook: yard logbook {run_id}")
        _progress(f"{len(runs)} runs, {points:,} points in {time.monotonic() - began:.0f} s")
        print(file=sys.stderr)

    def _watch(self) -> None:
        """Make a few alert rules, so that there is something to read on the page of alerts."""
        for text in ALERTS:
            # A server that has them already, or a member who may not make them, goes on without.
            with contextlib.suppress(ApiFault):
                self._api.post("/api/v1/alerts", {"text": text})

    def _post(self, path: str, body: dict[str, Any], method: str = "POST") -> Any:
        return self._api.mlflow(method, path, body)

    def _experiment(self, name: str) -> str:
        if name not in self._experiments:
            try:
                made = self._post("experiments/create", {"name": name})["experiment_id"]
            except ApiFault as fault:
                if fault.code != "RESOURCE_ALREADY_EXISTS":
                    raise
                found = self._api.mlflow(
                    "GET", "experiments/get-by-name", {"experiment_name": name}
                )
                made = found["experiment"]["experiment_id"]
            self._experiments[name] = made
            note = {"experiment_id": made, "key": "mlflow.note.content", "value": NOTES[name]}
            self._post("experiments/set-experiment-tag", note)
        return self._experiments[name]

    def _log_run(self, one: DemoRun) -> None:
        made = self._post(
            "runs/create",
            {
                "experiment_id": self._experiment(one.experiment),
                "run_name": one.name,
                "user_id": one.user,
                "start_time": one.start_ms,
                "tags": _pairs(one.tags),
            },
        )["run"]["info"]
        run_id = made["run_id"]
        self._post("runs/log-batch", {"run_id": run_id, "params": _pairs(one.params)})
        for batch in _batches(one.points):
            self._post("runs/log-batch", {"run_id": run_id, "metrics": batch})
        if one.experiment == "food11-classifier":
            self._log_dataset(run_id)
        if one.files:
            self._upload(made["artifact_uri"], one)
            if one.status == "FINISHED":
                self._best.setdefault(one.experiment, []).append((one.merit, run_id))
        if one.status == "RUNNING":
            self._running.append((run_id, one))
        else:
            ended = {"run_id": run_id, "status": one.status, "end_time": one.end_ms}
            self._post("runs/update", ended)

    def _log_dataset(self, run_id: str) -> None:
        dataset = {
            "name": "food11",
            "digest": "9f2c41d0",
            "source_type": "local",
            "source": '{"uri": "/data/food11"}',
            "profile": '{"num_rows": 16643}',
        }
        context = [{"key": "mlflow.data.context", "value": "training"}]
        self._post(
            "runs/log-inputs",
            {"run_id": run_id, "datasets": [{"tags": context, "dataset": dataset}]},
        )

    def _upload(self, artifact_uri: str, one: DemoRun) -> None:
        root = artifact_uri.removeprefix("mlflow-artifacts:/")
        for path, data in files_of(one):
            where = f"/api/2.0/mlflow-artifacts/artifacts/{root}/{path}"
            self._api.call("PUT", where, raw=data)

    def _register(self) -> None:
        """Register the best runs' models, the best of each as champion."""
        names = {
            "food11-classifier": ("food11", "Sorts photographs of dishes into eleven kinds."),
            "chat-finetune": ("gourmet-chat", "Answers questions about recipes."),
            "demand-forecast": ("demand", "Orders per day and kitchen."),
        }
        for experiment, found in self._best.items():
            name, text = names[experiment]
            with contextlib.suppress(ApiFault):
                self._post("registered-models/create", {"name": name, "description": text})
            versions = []
            for _, run_id in sorted(found)[-4:]:
                made = self._post(
                    "model-versions/create",
                    {"name": name, "source": f"runs:/{run_id}/model", "run_id": run_id},
                )
                versions.append(made["model_version"]["version"])
            aliases = dict(zip(("champion", "challenger"), reversed(versions), strict=False))
            for alias, version in aliases.items():
                body = {"name": name, "alias": alias, "version": version}
                self._post("registered-models/alias", body)
            task = {"name": name, "key": "task", "value": experiment.split("-")[0]}
            self._post("registered-models/set-tag", task)

    def end_running(self) -> None:
        """End the runs that nobody logs to from now on, so that none reads as running for ever."""
        now = int(time.time() * 1000)
        for run_id, _ in self._running:
            self._post("runs/update", {"run_id": run_id, "status": "KILLED", "end_time": now})
        self._running.clear()

    def go_on(self) -> None:
        """Log to the runs that are still going, about once a second, until interrupted."""
        rng = random.Random(SEED)  # noqa: S311 - play data
        last = {run_id: _last(one.points) for run_id, one in self._running}
        while last:
            time.sleep(1.0)
            now = int(time.time() * 1000)
            for run_id, values in last.items():
                metrics = []
                for key, (value, step) in values.items():
                    new = value * rng.uniform(0.985, 1.012)
                    values[key] = (new, step + 1)
                    metrics.append({"key": key, "value": new, "step": step + 1, "timestamp": now})
                self._post("runs/log-batch", {"run_id": run_id, "metrics": metrics})


def _last(points: list[Point]) -> dict[str, tuple[float, int]]:
    return {key: (value, step) for key, value, step, _ in points}


def _batches(points: list[Point]) -> Iterator[list[dict[str, Any]]]:
    for start in range(0, len(points), BATCH):
        yield [
            {"key": key, "value": value, "step": step, "timestamp": when}
            for key, value, step, when in points[start : start + BATCH]
        ]


def _pairs(values: dict[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in values.items()]


def _progress(text: str) -> None:
    """Write over the same line on a terminal; stay silent in a pipe but for the end."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K  {text}")
        sys.stderr.flush()
    elif " in " in text:
        sys.stderr.write(f"  {text}")
