"""Sweeps in figures: what a budget finds here and by Ray Tune's ASHA, and how busy slots are.

    python -m bench.sweeps                       # two seeds, about five minutes on two cores
    python -m bench.sweeps --seeds 1 --trials 20

Both sides search the same real problem (`sweep_search/train.py`: a numpy network on an invented
data set) with ASHA (1 to 27 epochs, eta 3), the same number of trials and slots, one after the
other in one run. `asha` takes the very configurations that Ray gets; `tpe+asha` lets the model
choose. Ray is taken from the environment `raytrain` of the tests. The busy share counts, from the
first start to the last, the time that trials hold slots. Prints one JSON object a search, and a
table.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from bench.jobs import Server

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = Path(__file__).parent / "sweep_search" / "train.py"
ENVS = Path(os.environ.get("YARD_TEST_ENVS") or ROOT / ".cache" / "envs")
RULE = {"method": "asha", "min": 1, "max": 27, "eta": 3}
SPACE = {
    "lr": {"log": [1e-4, 10.0]},
    "width": {"int": [2, 64]},
    "decay": {"log": [1e-6, 0.1]},
    "momentum": {"range": [0.0, 0.99]},
}


def by_ray(seed: int, args: argparse.Namespace) -> dict[str, Any]:
    """Search with Ray Tune, in its own interpreter and folders."""
    with tempfile.TemporaryDirectory(prefix="yard-ray-") as folder:
        command = [
            str(ENVS / "raytrain" / "bin" / "python"), str(SCRIPT), "--ray", "--seed", str(seed),
            "--trials", str(args.trials), "--slots", str(args.slots), "--pause", str(args.pause),
            "--folder", folder,
        ]  # fmt: skip
        environment = {**os.environ, "HOME": folder, "RAY_TMPDIR": folder, "PYTHONPATH": ""}
        environment |= {"RAY_AIR_NEW_OUTPUT": "0", "RAY_USAGE_STATS_ENABLED": "0"}
        environment |= {"RAY_AUTH_MODE": "disabled"}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=900, check=False
        )
    if done.returncode != 0:
        raise SystemExit(f"Ray failed: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def by_us(server: Server, seed: int, sampler: str, args: argparse.Namespace) -> dict[str, Any]:
    """Search with a sweep of ours and wait for its end."""
    headers = {"Authorization": f"Bearer {(server.home / 'token').read_text().strip()}"}
    url = f"http://127.0.0.1:{server.port}/api/v1"
    command = [sys.executable, str(SCRIPT), "--seed", str(seed), "--pause", str(args.pause)]
    is_grid = sampler == "grid"
    body = {
        "name": f"{sampler}-{seed}",
        "metric": "loss",
        "space": {"index": list(range(args.trials))} if is_grid else SPACE,
        "sampler": sampler,
        "seed": seed,
        "stop": RULE,
        "budget": {"trials": args.trials},
        "slots": args.slots,
        "job": {"command": command, "cpus": 0.1},
    }
    with httpx.Client(headers=headers, timeout=60) as client:
        sweep = client.post(f"{url}/sweeps", json=body).raise_for_status().json()["sweep"]
        while True:
            found = client.get(f"{url}/sweeps/{sweep['sweep_id']}").json()
            if found["sweep"]["state"] != "running":
                break
            time.sleep(0.5)
        spans = [span(client, url, trial["job_id"]) for trial in found["trials"]]
    whole = [one for one in found["trials"] if one["state"] == "complete"]
    return {
        "best": min(one["value"] for one in whole or found["trials"] if one["value"] is not None),
        "epochs": sum(one["step"] or 0 for one in found["trials"]),
        "whole": len(whole),
        "seconds": found["cost"]["seconds"],
        "busy": round(busy(spans, args.slots), 3),
    }


def span(client: httpx.Client, url: str, job: str) -> tuple[int, int]:
    """Return when a trial held its slot, in milliseconds."""
    attempts = client.get(f"{url}/jobs/{job}").json()["attempts"]
    return attempts[0]["admitted_ms"], attempts[-1]["ended_ms"]


def busy(spans: list[tuple[int, int]], slots: int) -> float:
    """Return the share of slots in use while there was a trial to start."""
    first, last = min(start for start, _ in spans), max(start for start, _ in spans)
    used = sum(min(end, last) - start for start, end in spans if start < last)
    return used / (slots * (last - first))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--pause", type=float, default=0.2, help="seconds added to each epoch")
    args = parser.parse_args()
    rows = []

    def tell(name: str, seed: int, found: dict[str, Any]) -> None:
        rows.append((name, seed, found))
        print(json.dumps({"search": name, "seed": seed, **found}), flush=True)

    for seed in range(args.seeds):
        with Server(args.slots) as server:
            tell("asha", seed, by_us(server, seed, "grid", args))
            tell("tpe+asha", seed, by_us(server, seed, "tpe", args))
        tell("ray asha", seed, by_ray(seed, args))
    print(
        f"\n{'search':<10} {'seed':>4} {'best':>9} {'epochs':>7} {'whole':>6} {'s':>6} {'busy':>6}"
    )
    for name, seed, found in rows:
        share = f"{found['busy']:.1%}" if "busy" in found else "-"
        print(
            f"{name:<10} {seed:>4} {found['best']:>9.4f} {found['epochs']:>7} {found['whole']:>6}"
            f" {found['seconds']:>6.0f} {share:>6}"
        )


if __name__ == "__main__":
    main()
