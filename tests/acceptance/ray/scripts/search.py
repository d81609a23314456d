"""A Ray Tune script with ASHA: as many trials at once as the cluster gives it."""

import tempfile
import time

from ray import tune
from ray.tune.schedulers import ASHAScheduler


def trial(config):
    for epoch in range(4):
        began = time.time()
        time.sleep(0.5)
        accuracy = config["rate"] * (epoch + 1)
        tune.report({"accuracy": accuracy, "began": began, "ended": time.time()})


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
for result in results:
    for row in result.metrics_dataframe.itertuples():
        print(f"epoch of {result.config['rate']} from {row.began:.2f} to {row.ended:.2f}")
print("trials", len(results), "best", results.get_best_result().config["rate"], flush=True)
