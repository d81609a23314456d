"""A run that waits to be interrupted; then, started again, one that finishes."""

import sys
import time

import mlflow

mlflow.set_experiment(sys.argv[1])
mlflow.end_run()
with mlflow.start_run(run_name=sys.argv[2]) as run:
    mlflow.log_metric("step", 1)
    print("STARTED", run.info.run_id, flush=True)
    if sys.argv[2] == "first":
        time.sleep(120)
