"""The programs that users of small clusters start with, and what each prints, on any engine."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.acceptance.jobs_cli.yarding import Yard
from tests.acceptance.serving import python_of

SCRIPTS = Path(__file__).parent / "scripts"
PATIENCE = 400.0


def settle(yard: Yard) -> list[str]:
    """Copy the programs into the user's folder; return the options that find torch."""
    shutil.copytree(SCRIPTS, yard.folder, dirs_exist_ok=True)
    path = f"PATH={python_of('train').parent}:/usr/bin:/bin"
    found = []
    for pair in (path, f"HOME={yard.folder}", "OMP_NUM_THREADS=1", "HF_HUB_OFFLINE=1"):
        found += ["--env", pair]
    return found


def finished(yard: Yard, job: str) -> str:
    """Wait until a job has succeeded; return what it printed."""
    page = yard.until_state(job, "succeeded", "failed", "stopped", patience=PATIENCE)
    printed = yard.logs(job)
    assert page["job"]["state"] == "succeeded", f"{page['attempts']}\n{printed}"
    return printed


def single(yard: Yard, *more: str) -> None:
    """One process: 64 steps an epoch."""
    job = yard.submit(*settle(yard), *more, "--", "python", "single_gpu.py", "50", "10")
    printed = finished(yard, job)
    assert printed.count("[GPU0] Epoch ") == 50
    assert "[GPU0] Epoch 49 | Batchsize: 32 | Steps: 64" in printed
    assert printed.count("checkpoint saved") == 5


def twice_over_two_nodes(yard: Yard, *more: str) -> None:
    """Two nodes: 32 steps each, one snapshot, which a second start loads."""
    line = 'cd "$YARD_CHECKPOINT_DIR" && exec python "$OLDPWD/multinode.py" 50 10'
    gang = ["--nodes", "2", "--launcher", "torchrun", "--processes-per-node", "1"]
    job = yard.submit(*settle(yard), *more, *gang, "--", "sh", "-c", line)
    printed = finished(yard, job)
    for rank in (0, 1):
        steps = re.findall(
            rf"^\[rank {rank}\] \[GPU{rank}\] Epoch \d+ .* Steps: 32$", printed, re.M
        )
        assert len(steps) == 50, printed
    assert printed.count("snapshot saved") == 5
    assert "Loading snapshot" not in printed
    yard.ok("requeue", job)
    yard.until(job, lambda page: len(page["attempts"]) == 2, PATIENCE)
    printed = finished(yard, job)
    assert printed.count("Loading snapshot") >= 1
    assert "[rank 1] Loading snapshot" in printed
    assert "[rank 0] Resuming training from snapshot at Epoch 40" in printed
    assert len(re.findall(r"^\[rank \d\] \[GPU\d\] Epoch 4\d ", printed, re.M)) == 20


def trainer(yard: Yard, nodes: int, *more: str) -> None:
    """Transformers' Trainer by accelerate: the more ranks, the fewer steps."""
    gang = ["--nodes", str(nodes), "--launcher", "accelerate"]
    job = yard.submit(*settle(yard), *more, *gang, "--", "python", "finetune.py")
    printed = finished(yard, job)
    for rank in range(nodes):
        assert f"world {nodes} rank {rank} steps {8 // nodes}" in printed, printed


def by_mpirun(yard: Yard, *more: str) -> None:
    """Mpirun over two nodes, by its launcher, without ssh."""
    line = "echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on member $YARD_MEMBER"
    gang = ["--nodes", "2", "--launcher", "mpirun", "--processes-per-node", "2"]
    job = yard.submit(*settle(yard), *more, *gang, "--", "sh", "-c", line)
    printed = finished(yard, job)
    for rank in range(4):
        assert f"[rank {rank}] rank {rank} of 4 on member {rank // 2}" in printed, printed


def by_the_sites_scripts(yard: Yard, *more: str) -> None:
    """Batch scripts as sites have them, the second with mpirun around torchrun."""
    told = [*settle(yard), *more]
    pairs = [word.removeprefix("--env") for word in told if word != "--env"]
    export = f"--export={','.join(['ALL', *pairs])}"
    one = yard.ok("sbatch", "--parsable", export, "trainer.sh").strip()
    two = yard.ok("sbatch", "--parsable", export, "two_nodes.sh").strip()
    assert "world 1 rank 0 steps 8" in finished(yard, one)
    printed = finished(yard, two)
    assert "on 2 nodes" in printed
    for rank in (0, 1):
        assert printed.count(f"[GPU{rank}] Epoch") == 3, printed
    assert "Epoch 2 | Batchsize: 32 | Steps: 32" in printed
