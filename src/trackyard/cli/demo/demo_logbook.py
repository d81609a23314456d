"""The demo's run with a story: a job that fails once, goes on, spikes, and is noted upon.

Owns the script that the job runs and what people wrote. The script needs the standard library
alone, and ends within seconds.
"""

from __future__ import annotations

from typing import Any

from trackyard.client.api import Api

NAME, EXPERIMENT = "demo-two-attempts", "chat-finetune"
#: Attempt 1 reaches step 212 and fails; attempt 2 goes on after step 160, and spikes at 240.
SCRIPT = r"""
import json, math, os, random, sys, time, urllib.request
rng = random.Random(7)
attempt = int(os.environ["YARD_ATTEMPT"])
first, last = (0, 212) if attempt == 1 else (161, 420)
now = int(time.time() * 1000)
metrics = []
for step in range(first, last + 1):
    loss = 3.2 * math.exp(-step / 150) + 0.9 + rng.uniform(-0.02, 0.02)
    if step in (240, 241, 242):
        loss *= 3.5
    metrics.append({"key": "train/loss", "value": loss, "step": step, "timestamp": now + step})
    print(time.strftime("%Y-%m-%dT%H:%M:%S"), f"step {step} loss {loss:.4f}")
body = {"run_id": os.environ["YARD_RUN_ID"], "metrics": metrics}
if attempt == 1:
    body["params"] = [{"key": "learning_rate", "value": "3e-4"}]
request = urllib.request.Request(
    os.environ["YARD_URL"] + "/api/2.0/mlflow/runs/log-batch",
    json.dumps(body).encode(),
    {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["YARD_TOKEN"]},
)
urllib.request.urlopen(request).read()
if attempt == 1:
    print("RuntimeError: NCCL communicator was aborted on rank 3", file=sys.stderr)
    sys.exit(1)
"""
NOTES: tuple[tuple[str, int | None], ...] = (
    ("Watching this one tonight. *Demo data.*", None),
    ("Spike at step 240: the **same shard** as last week? Skipping it next time.", 240),
)


def tell_story(api: Api) -> str:
    """Submit the job and write the notes; return the run's id. It ends by itself."""
    wish: dict[str, Any] = {
        "name": NAME,
        "command": ["python3", "-c", SCRIPT],
        "experiment": EXPERIMENT,
        "gpus": 0,
        "retries": 1,
    }
    run_id: str = api.post("/api/v1/jobs", wish)["jobs"][0]["run_id"]
    for text, step in NOTES:
        body = {"text": text} if step is None else {"text": text, "step": step}
        api.post(f"/api/v1/runs/{run_id}/notes", body)
    return run_id
