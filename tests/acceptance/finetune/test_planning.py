"""`yard plan` as a user runs it: traces of real models against measured peaks, the closed form
where torch is not installed, and plans for the nodes of a server.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.jobs_cli.yarding import JobServer, Yard, end_all
from tests.acceptance.serving import python_of
from trackyard.finetune.planning import calibration
from trackyard.finetune.shapes import BUILT_IN

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
MLFLOW = "/api/2.0/mlflow/runs"
#: Cases that reach other parts of the tracer than the measured ones do.
OTHERS: list[dict[str, Any]] = [
    {
        "model": "qwen3-0.6b",
        "setup": {"method": "lora", "loss": "chunked", "seq": 512, "packing": True},
    },
    {
        "model": "tinyllama-1.1b",
        "setup": {"checkpointing": "selective", "seq": 512, "accumulation": 2},
    },
    {"model": "tinyllama-1.1b", "setup": {"compile": True, "loss": "chunked", "seq": 512}},
]
#: A minute of one core, which has to be waited for where the cores are busy.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def traced() -> list[dict[str, Any]]:
    """Everything traced in one process: torch is imported once."""
    measured = [cell for cell in calibration.recorded()["cells"] if cell["peak_gib"]]
    cases = [{"model": cell["model"], "setup": cell["setup"]} for cell in measured] + OTHERS
    done = subprocess.run(
        [python_of("train"), HERE / "scripts" / "trace_models.py"],
        input=json.dumps(cases),
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def test_traces_predict_the_measured_peaks(traced: list[dict[str, Any]]) -> None:
    measured = [cell for cell in calibration.recorded()["cells"] if cell["peak_gib"]]
    errors = []
    for cell, found in zip(measured, traced, strict=False):
        assert found["trace_gib"] is not None, cell
        errors.append(abs(found["trace_gib"] / cell["peak_gib"] - 1))
    assert max(errors) < 0.03
    assert sorted(errors)[len(errors) // 2] < 0.01


def test_traces_and_the_closed_form_agree(traced: list[dict[str, Any]]) -> None:
    for found in traced[:-1]:
        assert found["trace_gib"] == pytest.approx(found["closed_gib"], rel=0.03), found


def test_a_trace_is_made_once_and_kept(traced: list[dict[str, Any]]) -> None:
    assert traced[-1]["made_again"] == 0
    assert traced[-1]["files"] == traced[-2]["made"] == len(traced) - 1


def test_tokens_are_counted_by_the_models_own_tokenizer(traced: list[dict[str, Any]]) -> None:
    assert traced[-1]["data"] == {
        "rows": 3,
        "tokens": 3 + 5 + 16,
        "mean_length": 8.0,
        "longest": 16,
        "counted": True,
    }


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server whose one node has two declared GPUs."""
    home = tmp_path_factory.mktemp("plan") / "home"
    server = JobServer(home, gpus=2)
    server.start()
    server.wait_for_nodes()
    yield Yard(server, tmp_path_factory.mktemp("user"))
    server.kill()
    end_all(server.home)


def test_plans_for_the_fleet_name_its_gpus_and_the_queue_wait(fleet: Yard) -> None:
    asked = ["--on", "fleet", "--gpu", "H100", "--gpus", "2", "--no-trace", "--json"]
    found = json.loads(fleet.ok("plan", "llama-3.2-1b", *asked))
    (offer,) = found["plans"]
    assert offer["gpu"] == "H100"
    assert offer["fleet"] == {"type": "declared", "nodes": 1, "per_node": 2, "free": 2.0}
    assert offer["queue_wait"]["starts_now"]
    assert offer["plans"][0]["setup"]["sharding"] in ("ddp", "zero2", "zero3")
    assert found["so_far"] == "no run has been compared with its plan yet"


def test_a_gpu_nobody_knows_is_named(fleet: Yard) -> None:
    said = fleet.run("plan", "llama-3.2-1b", "--on", "fleet", "--no-trace")
    assert said.code == 2
    assert "declared is not in the table of GPUs" in said.err
    assert "the fleet has no GPU that can be planned for" in said.err


def test_the_plan_says_how_good_it_has_been_on_this_server(fleet: Yard) -> None:
    """A run that left predicted and actual figures is compared, and moves the factors."""
    api = fleet.server
    run = api.post(f"{MLFLOW}/create", experiment_id="0")["run"]["info"]["run_id"]
    predicted, actual, step, taken = calibration.METRICS
    for name, value in {predicted: 10.0, actual: 10.5, step: 1.0, taken: 1.2}.items():
        api.post(f"{MLFLOW}/log-metric", run_id=run, key=name, value=value, timestamp=1)
    for name, value in {calibration.GPU_PARAM: "H100", calibration.SETUP_PARAM: "{}"}.items():
        api.post(f"{MLFLOW}/log-parameter", run_id=run, key=name, value=value)
    asked = ["plan", "llama-3.2-1b", "--gpu", "H100", "--no-trace"]
    said = fleet.run(*asked)
    assert said.code == 0, said.err
    assert "so far on this server: peak memory of 1 finished run: off by 4.8%" in said.err
    before = json.loads(fleet.ok(*asked, "--json"))["plans"][0]["plans"][0]
    closed = subprocess.run(
        [sys.executable, "-m", "trackyard.cli.main", *asked, "--json"],
        env={**fleet.environment(), "YARD_URL": "http://127.0.0.1:9", "YARD_TOKEN": "x"},
        capture_output=True,
        text=True,
        check=True,
    )
    alone = json.loads(closed.stdout)
    assert alone["so_far"] is None
    table = alone["plans"][0]["plans"][0]
    assert before["memory_bytes"]["total"] > table["memory_bytes"]["total"]


def test_without_torch_the_closed_form_answers_and_says_so(fleet: Yard) -> None:
    said = fleet.run("plan", "openllama-13b", "--method", "full", "--gpu", "A10G")
    assert said.code == 1
    assert "does it fit: no" in said.out
    assert "what would make it fit: " in said.out
    assert "memory by closed form: torch and transformers are not installed here" in said.err


def test_data_is_counted_and_the_estimate_says_that_it_is_one(fleet: Yard) -> None:
    rows = [{"prompt": "a b c d " * 20, "completion": "e f g h " * 10}] * 50
    path = fleet.folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = ["plan", "tinyllama-1.1b", "--data", str(path), "--epochs", "3", "--no-trace"]
    found = json.loads(fleet.ok(*asked, "--json"))
    assert found["data"]["rows"] == 50
    assert not found["data"]["counted"]
    assert found["tokens"] == 3 * 50 * found["data"]["longest"]
    assert "estimated: no tokenizer" in fleet.ok(*asked)


def test_a_folder_and_the_hubs_cache_are_read(fleet: Yard) -> None:
    config = BUILT_IN["qwen2.5-0.5b"].config()
    folder = fleet.folder / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    found = json.loads(fleet.ok("plan", str(folder), "--no-trace", "--json"))
    assert found["model"]["params"] == 494_032_768
    cache = fleet.folder.parent / ".cache" / "huggingface" / "hub"
    snapshot = cache / "models--acme--tiny" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps(config))
    found = json.loads(fleet.ok("plan", "acme/tiny", "--no-trace", "--json"))
    assert found["model"]["name"] == "acme/tiny"
    said = fleet.run("plan", "acme/absent", "--no-trace")
    assert said.code == 2
    assert "no built-in one" in said.err
