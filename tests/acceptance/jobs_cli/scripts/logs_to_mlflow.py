"""A script that knows nothing of jobs: stock MLflow calls, nothing else."""

import mlflow

with mlflow.start_run():
    mlflow.log_param("lr", 0.1)
    for step in range(5):
        mlflow.log_metric("loss", 1 / (step + 1), step=step)
    mlflow.set_tag("from", "inside")
    mlflow.log_text("hello", "note.txt")
print("logged", flush=True)
