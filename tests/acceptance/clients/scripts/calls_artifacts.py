"""Artifacts of every kind through the server, as a client sees them."""

import json
import os
import tempfile
import uuid
from pathlib import Path
from unittest import mock

import mlflow
import numpy
from checks import Checks
from mlflow import MlflowClient


def logging(c: Checks, client: MlflowClient, prefix: str) -> None:
    """Text, dict, image, table, files and folders go up and come back equal."""
    mlflow.set_experiment(f"{prefix}-artifacts")
    with mlflow.start_run() as run, tempfile.TemporaryDirectory() as folder:
        mlflow.log_text("No GPU found.", "gpu-info.txt")
        mlflow.log_text("<b>größe ✓</b>", "deep/er/page.html")
        mlflow.log_dict({"a": [1, 2, {"b": None}]}, "config.json")
        mlflow.log_dict({"a": 1}, "config.yaml")
        pixels = (numpy.arange(12 * 12 * 3).reshape(12, 12, 3) % 255).astype("uint8")
        mlflow.log_image(pixels, "picture.png")
        # The old client puts a random id behind a percent sign and decodes it later: an id that
        # spells `?` or `#` there is lost on any server, so this one is chosen.
        chosen = uuid.UUID("8ae3f6ba-5bb7-4abf-ab94-b287c2cb7b95")
        with mock.patch("uuid.uuid4", return_value=chosen):
            mlflow.log_image(pixels, key="sample", step=4)
            mlflow.flush_artifact_async_logging()
        mlflow.log_table({"q": ["one", "two"], "n": [1, 2]}, "table.json")
        mlflow.log_table({"q": ["three"], "n": [3]}, "table.json")
        tree = Path(folder, "tree")
        (tree / "sub dir" / "empty name").mkdir(parents=True)
        (tree / "top.bin").write_bytes(os.urandom(3_000_000))
        (tree / "sub dir" / "ä +%&=.txt").write_text("odd name")
        (tree / "sub dir" / "empty name" / "zero").write_bytes(b"")
        mlflow.log_artifacts(str(tree), "tree")
        mlflow.log_artifact(str(tree / "top.bin"))
        top = (tree / "top.bin").read_bytes()
    run_id = run.info.run_id
    listed = {f.path: (f.is_dir, f.file_size) for f in client.list_artifacts(run_id)}
    c.same(
        "top of the tree",
        sorted(listed),
        [
            "config.json",
            "config.yaml",
            "deep",
            "gpu-info.txt",
            "images",
            "picture.png",
            "table.json",
            "top.bin",
            "tree",
        ],
    )
    c.same("folders have no size", listed["deep"], (True, None))
    c.same("files have one", listed["gpu-info.txt"], (False, 13))
    c.same("a folder", [f.path for f in client.list_artifacts(run_id, "deep")], ["deep/er"])
    c.same(
        "odd names",
        [f.path for f in client.list_artifacts(run_id, "tree/sub dir")],
        ["tree/sub dir/empty name", "tree/sub dir/ä +%&=.txt"],
    )
    c.same("a file's listing is empty", client.list_artifacts(run_id, "gpu-info.txt"), [])
    c.same("nothing there", client.list_artifacts(run_id, "absent"), [])
    images = [f.path for f in client.list_artifacts(run_id, "images")]
    c.same("an image and its thumbnail", len(images), 2)
    c.true("its name has key and step", all("sample" in i and "step" in i for i in images))
    with tempfile.TemporaryDirectory() as folder:
        got = Path(client.download_artifacts(run_id, "", folder))
        c.same("binary is whole", (got / "tree/top.bin").read_bytes() == top, True)
        c.same("odd name is whole", (got / "tree/sub dir/ä +%&=.txt").read_text(), "odd name")
        c.same("empty file", (got / "tree/sub dir/empty name/zero").stat().st_size, 0)
        c.same("text", (got / "deep/er/page.html").read_text(), "<b>größe ✓</b>")
        c.same("every image", all((got / i).stat().st_size > 50 for i in images), True)
        c.same("json", json.loads((got / "config.json").read_text()), {"a": [1, 2, {"b": None}]})
        one = mlflow.artifacts.download_artifacts(
            run_id=run_id, artifact_path="tree", dst_path=folder
        )
        c.true("folder by path", Path(one, "top.bin").exists())
    c.same(
        "load_text", mlflow.artifacts.load_text(f"runs:/{run_id}/gpu-info.txt"), "No GPU found."
    )
    c.same("load_dict", mlflow.artifacts.load_dict(f"runs:/{run_id}/config.json")["a"][0], 1)
    c.same("load_image", mlflow.artifacts.load_image(f"runs:/{run_id}/picture.png").size, (12, 12))
    c.same("load_table", list(mlflow.load_table("table.json", [run_id])["n"]), [1, 2, 3])
    c.fact("run", run_id)


def overwriting_and_deleting(c: Checks, client: MlflowClient, prefix: str) -> None:
    """A file logged again is the new one; deleted artifacts are gone."""
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    mlflow.set_experiment(f"{prefix}-artifacts")
    with mlflow.start_run() as run:
        mlflow.log_text("first, and longer", "model/notes.txt")
        mlflow.log_text("second", "model/notes.txt")
    uri = client.get_run(run.info.run_id).info.artifact_uri
    c.same("overwritten", mlflow.artifacts.load_text(f"{uri}/model/notes.txt"), "second")
    repository = get_artifact_repository(uri)
    repository.delete_artifacts("model/notes.txt")
    c.same("gone", client.list_artifacts(run.info.run_id, "model"), [])
    with tempfile.TemporaryDirectory() as folder:
        for path in ("model/notes.txt", "never/was.txt"):
            try:
                client.download_artifacts(run.info.run_id, path, folder)
            except Exception as error:
                c.true(f"absent {path}: {error!r}"[:300], True)
            else:
                c.same(f"absent {path}", "downloaded", "an error")


def in_parts(c: Checks, client: MlflowClient, prefix: str) -> None:
    """A large file goes up in parts where the client may, and comes back whole either way."""
    os.environ["MLFLOW_ENABLE_PROXY_MULTIPART_UPLOAD"] = "true"
    os.environ["MLFLOW_ENABLE_PROXY_MULTIPART_DOWNLOAD"] = "true"
    os.environ["MLFLOW_MULTIPART_UPLOAD_MINIMUM_FILE_SIZE"] = str(6 << 20)
    os.environ["MLFLOW_MULTIPART_DOWNLOAD_MINIMUM_FILE_SIZE"] = str(6 << 20)
    os.environ["MLFLOW_MULTIPART_UPLOAD_CHUNK_SIZE"] = str(5 << 20)
    os.environ["MLFLOW_MULTIPART_DOWNLOAD_CHUNK_SIZE"] = str(5 << 20)
    mlflow.set_experiment(f"{prefix}-artifacts")
    whole = os.urandom(12_000_001)
    with mlflow.start_run() as run, tempfile.TemporaryDirectory() as folder:
        Path(folder, "weights.bin").write_bytes(whole)
        mlflow.log_artifact(f"{folder}/weights.bin", "checkpoints")
        got = client.download_artifacts(run.info.run_id, "checkpoints/weights.bin", folder)
        c.true("whole after parts", Path(got).read_bytes() == whole)
    listed = client.list_artifacts(run.info.run_id, "checkpoints")
    c.same(
        "one file",
        [(f.path, f.file_size) for f in listed],
        [("checkpoints/weights.bin", 12_000_001)],
    )


PARTS = (logging, overwriting_and_deleting, in_parts)
