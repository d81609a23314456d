"""Creates a run and registers a model once each, over a line that may lose the answers."""

import sys
import tempfile
from pathlib import Path

import mlflow
from mlflow import MlflowClient

name = sys.argv[1]
mlflow.set_experiment(name)
with mlflow.start_run() as run:
    mlflow.log_metric("loss", 1.0, step=1)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "MLmodel").write_text("flavors: {}\n")
        mlflow.log_artifacts(folder, "model")
client = MlflowClient()
client.create_registered_model(name)
source = f"{client.get_run(run.info.run_id).info.artifact_uri}/model"
version = client.create_model_version(name, source, run_id=run.info.run_id)
print("MADE", run.info.run_id, version.version)
