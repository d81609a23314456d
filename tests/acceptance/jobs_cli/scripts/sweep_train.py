"""A training that logs over MLflow's protocol and saves with `trackyard.checkpoint`.

`--sleep` makes an epoch take its time; with `--save` it goes on from the newest checkpoint; with
`--model` it leaves what MLflow takes for a model.
"""

import argparse
import json
import math
import os
import time
import urllib.request


def log(key: str, value: float, step: int) -> None:
    body = {"run_id": os.environ["MLFLOW_RUN_ID"], "key": key, "value": value, "step": step}
    request = urllib.request.Request(
        f"{os.environ['MLFLOW_TRACKING_URI']}/api/2.0/mlflow/runs/log-metric",
        json.dumps(body | {"timestamp": int(time.time() * 1000)}).encode(),
        {
            "Authorization": f"Bearer {os.environ['MLFLOW_TRACKING_TOKEN']}",
            "Content-Type": "application/json",
        },
    )
    ends = time.monotonic() + 120
    while True:
        try:
            urllib.request.urlopen(request, timeout=30).read()
            return
        except OSError:
            # The server may be away: tests kill it.
            if time.monotonic() > ends:
                raise
            time.sleep(0.2)


def log_model() -> None:
    server, run = os.environ["MLFLOW_TRACKING_URI"], os.environ["MLFLOW_RUN_ID"]
    token = {"Authorization": f"Bearer {os.environ['MLFLOW_TRACKING_TOKEN']}"}
    ask = urllib.request.Request(f"{server}/api/2.0/mlflow/runs/get?run_id={run}", headers=token)
    info = json.load(urllib.request.urlopen(ask, timeout=30))["run"]["info"]
    place = info["artifact_uri"].partition(":/")[2].lstrip("/")
    urllib.request.urlopen(
        urllib.request.Request(
            f"{server}/api/2.0/mlflow-artifacts/artifacts/{place}/net/MLmodel",
            b"flavors: {}\n",
            token,
            method="PUT",
        ),
        timeout=30,
    ).read()


parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.001)
parser.add_argument("--layers", type=int, default=3)
parser.add_argument("--epochs", type=int, default=9)
parser.add_argument("--sleep", type=float, default=0.1)
parser.add_argument("--save", action="store_true")
parser.add_argument("--model", action="store_true")
args = parser.parse_args()

first, loss = 0, 5.0
if args.save:
    from trackyard import checkpoint

    state = checkpoint.load()
    if state:
        first, loss = int(state["step"]), float(state["loss"])
        print(f"goes on after {first} with {loss}", flush=True)
goal = (math.log10(args.lr) + 3) ** 2 + 0.3 * abs(args.layers - 3)
for epoch in range(first + 1, args.epochs + 1):
    time.sleep(args.sleep)
    loss = goal + (loss - goal) * 0.6
    if args.save:
        checkpoint.save({"step": epoch, "loss": loss}, step=epoch)
    log("val_loss", loss, epoch)
if args.model:
    log_model()
