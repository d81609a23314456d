"""`yard finetune` as a user types it: refusals, the dry run, a job from queue to registry."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.jobs_cli.yarding import JobServer, Yard, end_all
from tests.acceptance.serving import ROOT, pairs, python_of

SCRIPTS = Path(__file__).parent / "scripts"
RECIPE = """
model: {folder}/base
method: lora
precision: fp32
seq: 64
micro_batch: 2
global_batch: 4
steps: 5
checkpointing: none
register: tiny-chat
data: {{train: {folder}/rows.jsonl, eval_fraction: 0.2}}
save: {{every_steps: 2}}
eval: {{prompts: [the cat], new_tokens: 4}}
"""


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    server = JobServer(tmp_path_factory.mktemp("jobs") / "home", gpus=1)
    server.start()
    server.wait_for_nodes()
    folder = tmp_path_factory.mktemp("user")
    yield Yard(server, folder)
    server.kill()
    end_all(server.home)


@pytest.mark.timeout(900)
def test_a_recipe_goes_from_the_queue_to_the_registry(yard: Yard, tmp_path: Path) -> None:
    """Its run has curve, settings and files; the registry has a version with its lineage."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "src"),
        "HOME": str(tmp_path),
    }
    subprocess.run(
        [python_of("train"), "make_tiny.py", str(tmp_path)],
        cwd=SCRIPTS,
        env=environment,
        check=True,
        capture_output=True,
    )
    (yard.folder / "recipe.yaml").write_text(RECIPE.format(folder=tmp_path))
    path = f"PATH={python_of('train').parent}:/usr/bin:/bin"
    source = f"PYTHONPATH={ROOT / 'src'}"
    told = [
        "--env",
        path,
        "--env",
        source,
        "--env",
        f"HOME={tmp_path}",
        "--env",
        "CUDA_VISIBLE_DEVICES=",
    ]
    said = yard.run("finetune", "recipe.yaml", "lr=1e-3", *told, "--yes", "--wait", patience=800)
    jobs = yard.read("ps", "-a")
    name = jobs[0]["job_id"]
    assert said.code == 0, f"{said.err}\n{yard.logs(name)}"
    run_id = yard.page(name)["job"]["run_id"]
    data = yard.server.get("runs/get", run_id=run_id)["run"]["data"]
    assert pairs(data["params"])["optimizer.lr"] == "0.001"
    assert {"loss", "grad_norm", "learning_rate", "tokens_per_second", "eval_loss"} <= set(
        pairs(data["metrics"])
    )
    points = yard.server.history(run_id, "loss")
    assert [point["step"] for point in points] == [1, 2, 3, 4, 5]
    files = yard.server.files(run_id)
    assert {"recipe.yaml", "samples/step-00000005.md", "model/adapter_model.safetensors"} <= set(
        files
    )
    version = yard.server.get("model-versions/get", name="tiny-chat", version="1")["model_version"]
    assert version["run_id"] == run_id
    assert pairs(version["tags"])["method"] == "lora"


def test_a_dry_run_asks_nobody(yard: Yard) -> None:
    """It prints the whole recipe and the launch line, without a server."""
    words = ["chat-lora", "model=base", "gpus=2", "sharding=zero3", "micro_batch=1", "--dry-run"]
    said = yard.run("finetune", *words)
    assert said.code == 0, said.err
    assert "method: lora" in said.out
    assert "--launcher torchrun --processes-per-node 2 -- python -m trackyard.finetune" in said.err


def test_a_wrong_key_is_refused_before_anything_is_queued(yard: Yard) -> None:
    """With the nearest right one."""
    said = yard.run("finetune", "chat-lora", "lora.rnk=8")
    assert said.code == 2
    assert "no key lora.rnk" in said.err
    assert "did you mean lora.rank?" in said.err


def test_other_tools_recipes_are_translated(yard: Yard) -> None:
    """The recipe goes to stdout, what was left out to stderr."""
    (yard.folder / "axolotl.yaml").write_text(
        "base_model: m\nadapter: lora\nlora_r: 4\nmicro_batch_size: 2\nwandb_project: p\n"
    )
    said = yard.run("finetune", "import", "axolotl.yaml")
    assert said.code == 0, said.err
    assert "rank: 4" in said.out
    assert "left out: wandb_project" in said.err
