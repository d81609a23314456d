"""The grammar of model version sources: what is read, and what is refused unseen."""

import pytest

from trackyard.core.errors import InvalidInput
from trackyard.registry.sources import (
    LoggedSource,
    RunSource,
    VersionSource,
    check_prompt_source,
    is_elsewhere,
    parse_source,
)

RUN = "0123456789abcdef0123456789abcdef"
MODEL = "m-" + RUN
ROOT = f"mlflow-artifacts:/17/{RUN}/artifacts"
ROOTS = [f"runs:/{RUN}", ROOT, f"mlflow-artifacts:/1/models/{MODEL}/artifacts"]

TRAVERSALS = [
    "..", "../..", "a/../b", ".", "a/./b", "%2e%2e", "%2E%2e/x", "%252e%252e", "%25252e%25252e",
    "..%2f..", "..\\..", "..;/x", "..;", "a\0b", "\uff0e\uff0e", "a\uff0f..\uff0fb", " .. ",
    "a//b", "", "a\nb", "x" * 5000, "a?b", "a#b", "a#/../b", "%00", "..%5c",
]  # fmt: skip

PLACES = [
    "/etc/passwd", "etc/passwd", "./model", "~/model", "file:/etc", "file:///etc/passwd",
    "file://localhost/etc", "FILE:///etc", " file:///etc", "file:etc", "C:\\models", "C:/models",
    "\\\\host\\share", "s3://bucket/../model", "gs://b/m/..", "dbfs:/x%2f..%2fy",
    "http://127.0.0.1/%2e%2e",
    "ftp://h/x/./y", "s3://b/x%00", " s3://b/x", "s3://b/x\ny", "hf://a\\b", "s3://b/?p=../x",
    f"RUNS:/{RUN}/model", f" runs:/{RUN}/model", f"runs:/{RUN}/model ", f"runs://{RUN}/model",
    f"runs:///{RUN}/model", f"runs:{RUN}/model", "runs:/", "runs://host/x/y", "runs:/short/model",
    f"runs:/{RUN.upper()}/model", f"runs:/{RUN}0/model", f"mlflow-artifacts://h/17/{RUN}/artifacts",
    f"mlflow-artifacts://user@h/17/{RUN}/artifacts", f"mlflow-artifacts:/x/{RUN}/artifacts/m",
    f"mlflow-artifacts:/17/{RUN}/other/m", f"mlflow-artifacts:/17/{RUN}", "mlflow-artifacts:/",
    f"mlflow-artifacts:/17/models/{RUN}/artifacts", f"mlflow-artifacts:/{RUN}/artifacts/m",
    "models:/", "models:/name", "models:/name/", "models:/name/one", "models:/name/1/2",
    "models:/na:me/1", "models:/@alias", "models:/name@bad alias", "models:/name/@",
    f"models:/{MODEL}/sub", "models:/m-short", "dummy-source", "", "runs", ":/x/1",
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "source"),
    [
        (f"runs:/{RUN}/model", RunSource(run_id=RUN, path="model")),
        (f"runs:/{RUN}/a/b c.d/", RunSource(run_id=RUN, path="a/b c.d")),
        (f"runs:/{RUN}", RunSource(run_id=RUN, path="")),
        (f"{ROOT}/model", RunSource(run_id=RUN, path="model", experiment="17")),
        (ROOT, RunSource(run_id=RUN, path="", experiment="17")),
        (
            f"mlflow-artifacts:/0/models/{MODEL}/artifacts",
            LoggedSource(model_id=MODEL, experiment="0"),
        ),
        (f"models:/{MODEL}", LoggedSource(model_id=MODEL)),
        ("models:/my net/3", VersionSource(name="my net", version=3)),
        ("models:/net@champion", VersionSource(name="net", alias="champion")),
        ("models:/net/@champion", VersionSource(name="net", alias="champion")),
        ("models:/net/latest", VersionSource(name="net")),
        ("models:/net/production", VersionSource(name="net", stage="Production")),
    ],
)
def test_each_form_is_read(text: str, source: object) -> None:
    assert parse_source(text) == source


@pytest.mark.parametrize("text", PLACES)
def test_every_other_place_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        assert is_elsewhere(text) or parse_source(text)


@pytest.mark.parametrize(
    "text",
    ["s3://bucket/model", "s3a://b/m", "gs://b/m", "dbfs:/x", "hf://meta/llama", "http://h/x",
     "ftp://h/x", "abfss://f@a.dfs.core.windows.net/x", "data:,x",
     "https://h/api/2.0/mlflow-artifacts/artifacts/17/x"],
)  # fmt: skip
def test_what_other_systems_keep_is_taken_and_not_read(text: str) -> None:
    assert is_elsewhere(text)
    with pytest.raises(InvalidInput):
        parse_source(text)


@pytest.mark.parametrize("text", ["/tmp/m", "m", "file:///tmp", "FILE:/x", "C:/models", ""])
def test_a_local_path_is_refused_in_mlflows_words(text: str) -> None:
    with pytest.raises(InvalidInput, match="To use a local path as a model version source"):
        is_elsewhere(text)


def test_a_step_up_is_refused_in_mlflows_words() -> None:
    with pytest.raises(InvalidInput, match="If supplying a source as an http, https,"):
        is_elsewhere("mlflow-artifacts://host:9000/models/..%2f..%2fartifacts")


def test_a_prompt_has_a_placeholder_for_a_source() -> None:
    check_prompt_source("dummy-source")
    check_prompt_source("prompt-template")
    with pytest.raises(InvalidInput, match="Invalid prompt source"):
        check_prompt_source("s3://bucket/prompt")


@pytest.mark.parametrize("path", TRAVERSALS)
@pytest.mark.parametrize("root", ROOTS)
def test_no_path_leads_out_of_its_root(root: str, path: str) -> None:
    """Traversal in any spelling is refused, whatever it is appended to."""
    if path == "":
        path = "/model"
    with pytest.raises(InvalidInput):
        parse_source(f"{root}/{path}")
    with pytest.raises(InvalidInput):
        parse_source(f"{root}/model/{path}/x")


def test_a_long_source_is_refused() -> None:
    with pytest.raises(InvalidInput):
        parse_source(f"runs:/{RUN}/" + "a/" * 3000 + "b")
