"""`python -m bench.artifacts`: files through the stock MLflow client, here and through MLflow's
own proxy, in turn in one run.

Measures one large file up and down, many small ones up and down, and a listing of a large folder.
The client is the one of the environment `mlflow3`; both servers run with their own defaults.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from bench.tracking.servers import ENVS, Server, start

PEERS = ("mlflow", "trackyard")
#: name -> what it is called, and whether more is better
ROWS = {
    "up_s": "one file up",
    "down_s": "one file down",
    "small_up_s": "small files up",
    "small_down_s": "small files down",
    "list_ms": "listing of the large folder",
}

CLIENT = """
import json, pathlib, shutil, sys, time
import mlflow
from mlflow import MlflowClient

folder, small, listed = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
client, found = MlflowClient(), {}
run = client.create_run("0").info.run_id


def timed(name, work):
    began = time.perf_counter()
    work()
    found[name] = time.perf_counter() - began


def download(path, target):
    target.mkdir()
    client.download_artifacts(run, path, str(target))


timed("up_s", lambda: client.log_artifact(run, str(folder / "large.bin")))
timed("down_s", lambda: download("large.bin", folder / "back"))
assert (folder / "back/large.bin").stat().st_size == (folder / "large.bin").stat().st_size
if small:
    timed("small_up_s", lambda: client.log_artifacts(run, str(folder / "small"), "small"))
    timed("small_down_s", lambda: download("small", folder / "back-small"))
    assert len(list((folder / "back-small/small").iterdir())) == small
if listed:
    client.list_artifacts(listed, "many")
    times = []
    for _ in range(5):
        began = time.perf_counter()
        assert len(client.list_artifacts(listed, "many")) > 1
        times.append(time.perf_counter() - began)
    found["list_ms"] = sorted(times)[2] * 1000
shutil.rmtree(folder / "back")
shutil.rmtree(folder / "back-small", ignore_errors=True)
print(json.dumps(found))
"""


def main(arguments: list[str] | None = None) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.artifacts", description=__doc__)
    parser.add_argument("--mb", type=int, default=520, help="size of the large file")
    parser.add_argument("--small", type=int, default=300, help="small files of 4 kB")
    parser.add_argument("--listed", type=int, default=10_000, help="files in the large folder")
    parser.add_argument("--rounds", type=int, default=3, help="the middle one counts")
    parser.add_argument("--peers", default=",".join(PEERS), help="servers, comma separated")
    parser.add_argument("--out", type=Path, help="write the figures to this file as JSON")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="yard-bench-") as name:
        figures = _measure(options, Path(name))
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(figures, indent=2))
    print(_table(figures))
    return 0


def _measure(options: argparse.Namespace, folder: Path) -> dict[str, dict[str, float]]:
    files = folder / "files"
    (files / "small").mkdir(parents=True)
    with (files / "large.bin").open("wb") as large:
        for _ in range(options.mb):
            large.write(os.urandom(1 << 20))
    for number in range(options.small):
        (files / "small" / f"{number:05}.bin").write_bytes(os.urandom(4096))
    taken: dict[str, list[dict[str, float]]] = {}
    servers: dict[str, Server] = {}
    try:
        for peer in options.peers.split(","):
            servers[peer] = start(peer, folder, wait=600)
            servers[peer].freeze()
        for turn in range(options.rounds):
            for peer, server in servers.items():
                server.thaw()
                listed = _fill(server, options.listed) if turn == 0 and options.listed else ""
                taken.setdefault(peer, []).append(_client(server, files, options.small, listed))
                print(peer, taken[peer][-1], file=sys.stderr)
                server.freeze()
    finally:
        for server in servers.values():
            server.thaw()
            server.stop()
    return {
        peer: {
            key: median(one[key] for one in rounds if key in one)
            for key in ROWS
            if key in rounds[0]
        }
        for peer, rounds in taken.items()
    }


def _fill(server: Server, count: int) -> str:
    """Put many empty files into one folder by plain requests; return the run."""
    info = server.call("POST", "runs/create", {"experiment_id": "0"})["run"]["info"]
    root = info["artifact_uri"].removeprefix("mlflow-artifacts:/").lstrip("/")
    base = f"/api/2.0/mlflow-artifacts/artifacts/{root}/many"
    if server.name == "mlflow":
        # Its store is a folder; this saves an hour of requests and lists the same.
        place = server.home / "artifacts" / root / "many"
        place.mkdir(parents=True)
        for number in range(count):
            (place / f"{number:05}.txt").write_bytes(b"x")
        return str(info["run_id"])
    for number in range(count):
        status, answer = server.request("PUT", f"{base}/{number:05}.txt", b"x")
        if status != 200:
            raise SystemExit(f"{server.name} answered {status}: {answer[:200]!r}")
    return str(info["run_id"])


def _client(server: Server, files: Path, small: int, listed: str) -> dict[str, float]:
    done = subprocess.run(
        [ENVS / "mlflow3/bin/python", "-c", CLIENT, files, str(small), listed],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(files),
            "MLFLOW_TRACKING_URI": f"http://{server.host}:{server.port}",
            **({"MLFLOW_TRACKING_TOKEN": server.token} if server.token else {}),
            "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
            "MLFLOW_DISABLE_TELEMETRY": "true",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    if done.returncode:
        raise SystemExit(f"{server.name}: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _table(figures: dict[str, dict[str, Any]]) -> str:
    peers = list(figures)
    lines = [f"| | {' | '.join(peers)} | ratio |", "|---|" + "---|" * (len(peers) + 1)]
    for key, words in ROWS.items():
        cells = [figures[peer].get(key) for peer in peers]
        if any(cell is None for cell in cells):
            continue
        unit = "ms" if key.endswith("_ms") else "s"
        shown = " | ".join(f"{cell:.2f} {unit}" for cell in cells if cell is not None)
        ratio = f"{cells[0] / cells[-1]:.1f}x" if len(cells) > 1 and cells[0] and cells[-1] else ""
        lines.append(f"| {words} | {shown} | {ratio} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
