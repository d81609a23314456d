"""A Ray Tune script with ASHA: as many trials at once as the cluster gives it."""

import tempfile
import time

import ray
from ray import tune
from ray.tune.schedulers import ASHAScheduler


def trial(config):
    for epoch in range(4):
        began = time.time()
        time.sleep(0.5)
        node = ray.get_runtime_context().get_node_id()
        print(f"trial {config['rate']} {began:.2f} {time.time():.2f} on {node}", flush=True)
        tune.report({"accuracy": config["rate"] * (epoch + 1)})


tuner = tune.Tuner(
    tune.with_resources(trial, {"CPU": 1, "GPU": 0.5}),
    param_space={"rate": tune.grid_search([1, 2, 3, 4, 5])},
    tune_config=tune.TuneConfig(
        metric="accuracy",
        mode="max",
        scheduler=ASHAScheduler(max_t=4, grace_period=1, reduction_factor=2),
    ),
    run_config=tune.RunConfig(storage_path=tempfile.mkdtemp(), verbose=0),
)
results = tuner.fit()
print("trials", len(results), "best", results.get_best_result().config["rate"], flush=True)
