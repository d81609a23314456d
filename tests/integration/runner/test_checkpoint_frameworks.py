"""Lightning, Hugging Face and torch.distributed.checkpoint: stopped midway, they save, say so, and
end like an undisturbed run. The frameworks' own newest releases run in their environment.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.serving import python_of
from tests.integration.runner.conftest import Runner, Start

SOURCE = Path(__file__).resolve().parents[3] / "src"

#: each defines train(checkpointed) and gives the final loss; the second process, which resumed,
#: also trains without any disturbance to compare with
MAIN = """
resumed = checkpoint.latest() is not None
print("resumed", resumed, flush=True)
print("final", train(True), flush=True)
if resumed:
    print("whole", train(False), flush=True)
"""

TORCH = """
import time, torch
from trackyard import checkpoint
def train(checkpointed):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    start = 0
    if checkpointed:
        checkpoint.catch_stop()
        state = checkpoint.load()
        if state:
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            start = state["step"]
    for step in range(start, 60):
        x = torch.randn(8, 4, generator=torch.Generator().manual_seed(step))
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        if not checkpointed: continue
        print("step", step, flush=True); time.sleep(PAUSE)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        checkpoint.save({**state, "step": step + 1}, step=step + 1, wait=False)
        if checkpoint.stop_asked():
            checkpoint.wait(); checkpoint.exit_saved()
    return loss.item()
"""

LIGHTNING = """
import time, torch, lightning
from trackyard import checkpoint
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__(); torch.manual_seed(0); self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        print("step", self.global_step, flush=True); time.sleep(PAUSE)
        loss = (self.layer(batch) - 1).pow(2).mean(); self.last = loss.item(); return loss
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.1)
def train(checkpointed):
    data = torch.utils.data.DataLoader(torch.ones(1, 4), batch_size=1)
    callbacks = [checkpoint.lightning_callback(every_n_steps=10)] if checkpointed else []
    trainer = lightning.Trainer(max_epochs=30, callbacks=callbacks, logger=False,
        enable_checkpointing=False, accelerator="cpu", enable_progress_bar=False,
        enable_model_summary=False)
    model = Model()
    path = checkpoint.lightning_checkpoint() if checkpointed else None
    trainer.fit(model, data, ckpt_path=path)
    return model.last
"""

HUGGINGFACE = """
import time, torch, transformers
from trackyard import checkpoint
class Data(torch.utils.data.Dataset):
    def __len__(self): return 40
    def __getitem__(self, index): return {"x": torch.full((4,), float(index % 3))}
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__(); torch.manual_seed(0); self.layer = torch.nn.Linear(4, 1)
    def forward(self, x):
        loss = (self.layer(x) - 1).pow(2).mean()
        return {"loss": loss, "logits": loss[None]}
class Slow(transformers.TrainerCallback):
    def on_step_begin(self, args, state, control, **_):
        print("step", state.global_step, flush=True); time.sleep(PAUSE)
def train(checkpointed):
    args = transformers.TrainingArguments(output_dir="out", max_steps=30, save_steps=10,
        per_device_train_batch_size=1, report_to=[], use_cpu=True, disable_tqdm=True, seed=0)
    model = Model()
    callbacks = [checkpoint.huggingface_callback(), Slow()] if checkpointed else []
    trainer = transformers.Trainer(model=model, args=args, train_dataset=Data(),
        callbacks=callbacks)
    path = checkpoint.huggingface_checkpoint() if checkpointed else None
    trainer.train(resume_from_checkpoint=path)
    return model.layer.weight.sum().item()
"""

DISTRIBUTED = """
import torch, torch.distributed as dist, os
from trackyard import checkpoint
dist.init_process_group("gloo")
state = {"w": torch.zeros(4), "step": torch.tensor(0)}
found = checkpoint.load_distributed(state)
print("rank", dist.get_rank(), "loaded", found.step if found else None, int(state["step"]))
state["w"] += 1; state["step"] += 5
checkpoint.save_distributed(state, step=int(state["step"]))
dist.destroy_process_group()
"""


@pytest.fixture
def train(start: Start, tmp_path: Path) -> Any:
    """Start a training script in the frameworks' environment, under a real runner."""
    python = str(python_of("mlflow3"))

    def train(script: str, folder: str, pause: float = 0.0, **keys: Any) -> Runner:
        code = script.replace("PAUSE", str(pause))
        env = {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        place = tmp_path / folder
        return start(
            argv=[python, "-W", "ignore", "-c", code], env=env, checkpoint_dir=str(place), **keys
        )

    return train


@pytest.mark.parametrize("script", [TORCH, LIGHTNING, HUGGINGFACE])
def test_a_stopped_training_resumes_and_ends_like_an_undisturbed_one(
    train: Any, script: str
) -> None:
    first = train(script + MAIN, "checkpoints", pause=0.05)
    first.wait_for_log(b"step 13", seconds=120)
    first.send_stop("preempted", 60)
    record = first.wait(timeout=180)
    assert (record["cause"], record["saved"]) == ("preempted", True), first.log[-2000:]
    assert record["checkpoint"]["step"] >= 13
    second = train(script + MAIN, "checkpoints")
    assert second.wait(timeout=120)["cause"] == "succeeded", second.log[-2000:]
    said = second.log.decode().splitlines()
    assert "resumed True" in said
    assert "step 3" not in said[: said.index(value(said, "final"))]
    assert value(said, "final").split()[1] == value(said, "whole").split()[1]


def test_a_gang_saves_and_loads_one_sharded_checkpoint(train: Any, tmp_path: Path) -> None:
    import socket

    for expected in (b"loaded None 0", b"loaded 5 5"):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        gang = {"members": 2, "addresses": ["127.0.0.1"] * 2, "port": port}
        members = [
            train(DISTRIBUTED, "sharded", gang={**gang, "member": number}) for number in (0, 1)
        ]
        for member in members:
            assert member.wait(timeout=120)["cause"] == "succeeded", member.log[-2000:]
            assert expected in member.log


LAUNCHED = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1); dist.all_reduce(total)
line = f"rank {dist.get_rank()} of {dist.get_world_size()} sum {int(total)}\\n"
os.write(1, line.encode())  # in one piece, so that two ranks' lines stay apart
dist.destroy_process_group()
"""


def test_torchrun_starts_as_many_processes_as_asked(start: Start, tmp_path: Path) -> None:
    script = tmp_path / "all_reduce.py"
    script.write_text(LAUNCHED)
    runner = start(
        argv=["python", str(script)],
        base_env={"PATH": f"{python_of('mlflow3').parent}:/usr/bin:/bin", "HOME": str(tmp_path)},
        env={"OMP_NUM_THREADS": "1"},
        gang={"launcher": "torchrun", "processes": 2},
    )
    assert runner.wait(timeout=120)["cause"] == "succeeded", runner.log[-2000:]
    assert b"rank 0 of 2 sum 2" in runner.log
    assert b"rank 1 of 2 sum 2" in runner.log


def value(lines: list[str], word: str) -> str:
    return next(line for line in lines if line.startswith(word))
