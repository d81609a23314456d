"""A Ray Train script that outlives its worker's node: it goes on from its checkpoint."""

import os
import sys
import tempfile
import time
from pathlib import Path

from ray import train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer

FOLDER = Path(sys.argv[1])


def loop(config):
    del config
    first, found = 0, train.get_checkpoint()
    if found is not None:
        with found.as_directory() as folder:
            first = int(Path(folder, "epoch").read_text()) + 1
    print(f"starts at {first}", flush=True)
    for epoch in range(first, 6):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "epoch").write_text(str(epoch))
            train.report({"epoch": epoch}, checkpoint=Checkpoint.from_directory(folder))
        (FOLDER / f"epoch-{epoch}").write_text(os.environ.get("RAY_NODE_ID", ""))
        while epoch == 2 and first == 0:
            time.sleep(0.2)


TorchTrainer(
    loop,
    train_loop_config={},
    torch_config=TorchConfig(backend="gloo"),
    scaling_config=ScalingConfig(
        num_workers=1, resources_per_worker={"GPU": 1, "CPU": 1}, use_gpu=True
    ),
    run_config=RunConfig(
        name="resume",
        storage_path=str(FOLDER / "storage"),
        failure_config=FailureConfig(max_failures=2),
    ),
).fit()
print("whole", sorted(path.name for path in FOLDER.glob("epoch-*"))[-1], flush=True)
