"""The search that `bench.sweeps` runs: a two-layer numpy network on an invented data set.

Runs in any interpreter that has numpy: as a trial of ours (a script with flags), inside Ray Tune's
ASHA (`--ray`), with the same configurations for the same seed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

EPOCHS = 27


def configuration(seed: int, index: int) -> dict[str, Any]:
    """Return the values of a trial: the same for both sides."""
    source = random.Random(f"{seed}:{index}")
    return {
        "lr": math.exp(source.uniform(math.log(1e-4), math.log(10.0))),
        "width": source.randint(2, 64),
        "decay": math.exp(source.uniform(math.log(1e-6), math.log(0.1))),
        "momentum": source.uniform(0.0, 0.99),
    }


def losses(config: dict[str, Any], pause: float) -> Iterator[float]:
    """Train and yield the validation loss of each epoch."""
    import numpy as np

    source = np.random.default_rng(0)
    x = source.normal(size=(600, 8))
    y = (np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] > 0).astype(float)[:, None]
    train, test = slice(0, 400), slice(400, 600)
    width = int(config["width"])
    weights = [source.normal(size=(8, width)) / 3, source.normal(size=(width, 1)) / width**0.5]
    speed = [np.zeros_like(part) for part in weights]
    with np.errstate(all="ignore"):
        for _ in range(EPOCHS):
            for at in range(0, 400, 50):
                part = slice(at, at + 50)
                hidden = np.tanh(x[train][part] @ weights[0])
                wrong = 1 / (1 + np.exp(-hidden @ weights[1])) - y[train][part]
                back = (wrong @ weights[1].T) * (1 - hidden**2)
                slopes = [x[train][part].T @ back / 50, hidden.T @ wrong / 50]
                for which in (0, 1):
                    slope = slopes[which] + config["decay"] * weights[which]
                    speed[which] = config["momentum"] * speed[which] - config["lr"] * slope
                    weights[which] = weights[which] + speed[which]
            chance = 1 / (1 + np.exp(-np.tanh(x[test] @ weights[0]) @ weights[1]))
            sure = np.clip(chance, 1e-6, 1 - 1e-6)
            found = float(-(y[test] * np.log(sure) + (1 - y[test]) * np.log(1 - sure)).mean())
            time.sleep(pause)
            yield found if math.isfinite(found) else 100.0


def log(value: float, step: int) -> None:
    """Log a point to this job's run."""
    body = {"run_id": os.environ["MLFLOW_RUN_ID"], "key": "loss", "value": value, "step": step}
    request = urllib.request.Request(
        os.environ["MLFLOW_TRACKING_URI"] + "/api/2.0/mlflow/runs/log-metric",
        json.dumps(body | {"timestamp": int(time.time() * 1000)}).encode(),
        {
            "Authorization": "Bearer " + os.environ["MLFLOW_TRACKING_TOKEN"],
            "Content-Type": "application/json",
        },
    )
    urllib.request.urlopen(request).read()


def by_ray(seed: int, trials: int, slots: int, pause: float, folder: str) -> dict[str, Any]:
    """Search with Ray Tune's ASHA and return what it found."""
    import ray
    from ray import tune
    from ray.tune.schedulers import ASHAScheduler

    def trainable(config: dict[str, Any]) -> None:
        for loss in losses(configuration(seed, config["index"]), pause):
            tune.report({"loss": loss})

    ray.init(num_cpus=slots, include_dashboard=False, log_to_driver=False)
    began = time.monotonic()
    found = tune.Tuner(
        trainable,
        param_space={"index": tune.grid_search(list(range(trials)))},
        tune_config=tune.TuneConfig(
            metric="loss",
            mode="min",
            scheduler=ASHAScheduler(max_t=EPOCHS, grace_period=1, reduction_factor=3),
            max_concurrent_trials=slots,
        ),
        run_config=tune.RunConfig(storage_path=folder, verbose=0),
    ).fit()
    seconds = time.monotonic() - began
    told = [(one.metrics["loss"], one.metrics["training_iteration"]) for one in found]
    whole = [loss for loss, epochs in told if epochs >= EPOCHS]
    ray.shutdown()
    return {
        "best": min(whole or [loss for loss, _ in told]),
        "epochs": sum(epochs for _, epochs in told),
        "whole": len(whole),
        "seconds": round(seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--pause", type=float, default=0.2)
    parser.add_argument("--folder", default="")
    parser.add_argument("--index", type=int)
    for name, kind in (("lr", float), ("width", int), ("decay", float), ("momentum", float)):
        parser.add_argument(f"--{name}", type=kind)
    args = parser.parse_args()
    if args.ray:
        print(json.dumps(by_ray(args.seed, args.trials, args.slots, args.pause, args.folder)))
        return
    config = configuration(args.seed, args.index) if args.index is not None else vars(args)
    for epoch, loss in enumerate(losses(config, args.pause), start=1):
        log(loss, epoch)


if __name__ == "__main__":
    main()
