"""Sixteen trials of half a GPU with ASHA, as the lab's: its table of trials at the end."""

import tempfile
from pathlib import Path

from ray import tune
from ray.tune.schedulers import ASHAScheduler


def trial(config):
    for epoch in range(4):
        tune.report({"val_accuracy": 0.5 + config["lr"] * (epoch + 1) / 10})


tuner = tune.Tuner(
    tune.with_resources(trial, {"CPU": 1, "GPU": 0.5}),
    param_space={"lr": tune.uniform(0.1, 1.0), "layers": tune.choice([1, 2])},
    tune_config=tune.TuneConfig(
        metric="val_accuracy",
        mode="max",
        num_samples=16,
        scheduler=ASHAScheduler(max_t=4, grace_period=1, reduction_factor=2),
    ),
    run_config=tune.RunConfig(name="lab", storage_path=tempfile.mkdtemp()),
)
results = tuner.fit()
Path("result.txt").write_text(str(results.get_best_result().metrics["val_accuracy"]))
print("trials", len(results), "errors", results.num_errors, Path("tune16.py").exists(), flush=True)
