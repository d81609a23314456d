"""GPUs for the server that a demo starts for itself, and jobs that hold them for a minute.

Owns the declared GPUs and what the jobs do, so that usage, goodput, alerts and the fleet over time
have something to show. A server that somebody else runs is never given such jobs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from trackyard.client.api import Api

GPUS, MODEL = 8, "H100 (demo)"
#: Prices of a GPU-hour, so that costs are not all zero.
RATES = {"currency": "USD", "rates": {"H100": {"per_gpu_hour": 2.5}}, "carbon_g_per_kwh": 380}
#: name -> GPUs, steps of half a second, and the step at which the first attempt runs out of memory
JOBS: dict[str, tuple[int, int, int]] = {
    "demo-pretrain": (4, 60, 0),
    "demo-out-of-memory": (2, 50, 30),
    "demo-finetune": (2, 70, 0),
    "demo-all-gpus": (8, 20, 0),
}
SCRIPT = r"""
import os, sys, time
from trackyard import checkpoint
steps, breaks_at = int(sys.argv[1]), int(sys.argv[2])
checkpoint.catch_stop()
found = checkpoint.latest()
first = checkpoint.load(found)["step"] + 1 if found else 0
for step in range(first, steps):
    time.sleep(0.5)
    checkpoint.progress(step)
    print("step", step, flush=True)
    if step % 20 == 19:
        checkpoint.save({"step": step}, step=step)
        checkpoint.wait()
    if step == breaks_at and os.environ["YARD_ATTEMPT"] == "1" and breaks_at:
        print("torch.OutOfMemoryError: CUDA out of memory", file=sys.stderr)
        sys.exit(1)
    if checkpoint.stop_asked():
        checkpoint.save({"step": step}, step=step)
        checkpoint.exit_saved()
"""


def declare(home: Path) -> None:
    """Declare GPUs in the home of a server that is about to start."""
    readings = {"utilization_percentage": 87, "temperature_celsius": 64, "clock_megahertz": 1755}
    memory = {"memory_bytes": 80 * 10**9, "memory_used_bytes": 61 * 10**9}
    power = {"power_watts": 540, "power_limit_watts": 700}
    found = [
        {"index": index, "vendor": "nvidia", "model": MODEL, **memory, **power, **readings}
        for index in range(GPUS)
    ]
    engine = home / "engine"
    engine.mkdir(parents=True, exist_ok=True)
    (engine / "gpus.json").write_text(json.dumps(found))


def submit(api: Api) -> None:
    """Submit the jobs; they end by themselves."""
    api.call("PUT", "/api/v1/usage/rates", body=RATES)
    for name, (gpus, steps, breaks_at) in JOBS.items():
        wish: dict[str, Any] = {
            "name": name,
            "command": [sys.executable, "-c", SCRIPT, str(steps), str(breaks_at)],
            "experiment": "chat-finetune",
            "gpus": gpus,
            "retries": 1,
        }
        api.post("/api/v1/jobs", wish)
