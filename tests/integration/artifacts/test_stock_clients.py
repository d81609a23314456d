"""Stock MLflow clients, old and new, send large files in parts and get them back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.serving import run_client
from tests.integration.artifacts.site import Site

SCRIPT = """
import os, tempfile
import mlflow

folder = tempfile.mkdtemp()
path = os.path.join(folder, "weights.bin")
data = os.urandom(23 * 1024 * 1024 + 7)
with open(path, "wb") as file:
    file.write(data)
mlflow.set_experiment("parts")
with mlflow.start_run() as run:
    mlflow.log_artifact(path, "model/data")
got = mlflow.artifacts.download_artifacts(f"runs:/{run.info.run_id}/model/data/weights.bin")
assert open(got, "rb").read() == data
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    server = Site(tmp_path_factory.mktemp("clients") / "home")
    server.start()
    yield server
    server.stop()


@pytest.mark.parametrize("generation", ["mlflow2", "mlflow3"])
def test_a_large_file_goes_up_in_parts(site: Site, tmp_path: Path, generation: str) -> None:
    """Clients are told to by their user; a server on a disk does not ask for parts by itself."""
    script = tmp_path / "parts.py"
    script.write_text(SCRIPT)
    told = {"MLFLOW_ENABLE_PROXY_MULTIPART_UPLOAD": "true"}
    run_client(
        site,
        generation,
        script,
        home=tmp_path,
        MLFLOW_MULTIPART_UPLOAD_MINIMUM_FILE_SIZE="1000000",
        MLFLOW_MULTIPART_UPLOAD_CHUNK_SIZE="5242880",
        **told,
    )
    [event] = [
        event
        for event in site.get("/api/v1/events", kind="artifact.written")["events"]
        if event["data"]["path"] == "model/data/weights.bin"
    ][-1:]
    assert event["data"]["size"] == 23 * 1024 * 1024 + 7
    assert len(site.blobs) == (1 if generation == "mlflow2" else 2)
