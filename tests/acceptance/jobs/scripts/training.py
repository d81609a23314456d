"""A small deterministic training: resumes from its checkpoint and logs its loss step by step."""

import json
import os
import sys
import time
import urllib.request
from pathlib import Path

from trackyard import checkpoint

steps = int(sys.argv[1])
#: the first attempt that may come to its end: those before it wait to be disturbed
last_attempt = int(sys.argv[2]) if len(sys.argv) > 2 else 1
attempt = int(os.environ["YARD_ATTEMPT_ID"].rpartition("-a")[2])


def log(step: int, value: float) -> None:
    """Log one point with the attempt's own credential."""
    body = {
        "run_id": os.environ["MLFLOW_RUN_ID"],
        "key": "loss",
        "value": value,
        "step": step,
        "timestamp": int(time.time() * 1000),
    }
    request = urllib.request.Request(
        os.environ["MLFLOW_TRACKING_URI"] + "/api/2.0/mlflow/runs/log-metric",
        json.dumps(body).encode(),
        {
            "Content-Type": "application/json",
            "Authorization": f"Bearer {os.environ['MLFLOW_TRACKING_TOKEN']}",
        },
    )
    urllib.request.urlopen(request, timeout=20).read()


checkpoint.catch_stop()
found = checkpoint.latest()
state = (
    json.loads((found.path / "state.json").read_text()) if found else {"step": 0, "weight": 9.0}
)
print("from step", state["step"], flush=True)
for step in range(state["step"], steps):
    while step == steps - 1 and attempt < last_attempt and not checkpoint.stop_asked():
        time.sleep(0.03)
    weight = state["weight"]
    weight -= 0.1 * (2 * weight - 1)
    state = {"step": step + 1, "weight": weight}
    log(step, (weight - 0.5) ** 2)
    checkpoint.progress(step)
    time.sleep(0.03)
    if step % 5 == 4 or checkpoint.stop_asked():
        folder = Path("part")
        folder.mkdir(exist_ok=True)
        (folder / "state.json").write_text(json.dumps(state))
        checkpoint.save(folder, step=step + 1)
    if checkpoint.stop_asked():
        checkpoint.exit_saved()
print("final", repr((state["weight"] - 0.5) ** 2), flush=True)
