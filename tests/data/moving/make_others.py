"""Makes small stores of other trackers with their own packages, in the present folder.

    pip install wandb tensorboardX trackio neptune aim && python make_others.py

One run each, `first`, with a parameter, a curve of 25 steps, a NaN, and a note where there is one.
"""

import math
import os
import sys
from pathlib import Path

STEPS = 25


def loss(step: int) -> float:
    return 1 / (1 + step)


def tensorboard() -> None:
    from tensorboardX import SummaryWriter

    writer = SummaryWriter("tensorboard/first")
    for step in range(STEPS):
        writer.add_scalar("train/loss", loss(step), step, walltime=1_700_000_000 + step)
    writer.add_scalar("odd", math.nan, 3, walltime=1_700_000_003)
    writer.add_text("note", "hello", 0, walltime=1_700_000_000)
    writer.add_hparams({"lr": 0.1, "name": "x"}, {"best": 0.5}, name="hp", global_step=0)
    writer.close()


def wandb() -> None:
    import wandb

    run = wandb.init(
        project="vision",
        name="first",
        config={"lr": 0.1, "nested": {"depth": 4}},
        mode="offline",
        dir=".",
        tags=["a", "b"],
        notes="hello",
        group="g",
    )
    for step in range(STEPS):
        run.log({"train/loss": loss(step)} | ({"odd": math.nan} if step == 3 else {}))
    run.summary["best"] = 0.5
    run.finish()


def trackio() -> None:
    os.environ["TRACKIO_DIR"] = str(Path("trackio").resolve())
    import trackio

    run = trackio.init(project="vision", name="first", config={"lr": 0.1})
    for step in range(STEPS):
        run.log({"train/loss": loss(step)} | ({"odd": math.nan} if step == 3 else {}))
    trackio.finish()


def neptune() -> None:
    import neptune

    run = neptune.init_run(
        mode="offline",
        name="first",
        capture_hardware_metrics=False,
        capture_stdout=False,
        capture_stderr=False,
        capture_traceback=False,
        git_ref=False,
        tags=["a"],
    )
    run["params"] = {"lr": 0.1, "name": "x"}
    for step in range(STEPS):
        run["train/loss"].append(loss(step), step=step, timestamp=1_700_000_000 + step)
    run.stop()


def aim() -> None:
    import aim

    Path("aim").mkdir()
    quiet = {"system_tracking_interval": None, "capture_terminal_logs": False}
    run = aim.Run(repo="aim", experiment="vision", **quiet)
    run.name, run.description = "first", "hello"
    run["hparams"] = {"lr": 0.1, "nested": {"depth": 4}, "layers": [1, 2]}
    run.add_tag("a")
    run.add_tag("b")
    for step in range(STEPS):
        run.track(loss(step), name="loss", step=step, context={"subset": "train"})
        run.track(2 * loss(step), name="loss", step=step, context={"subset": "val"})
    run.track(math.nan, name="odd", step=3)
    run.track(aim.Text("hello"), name="note", step=0)
    run.close()


if __name__ == "__main__":
    for name in sys.argv[1:] or ("tensorboard", "wandb", "trackio", "neptune", "aim"):
        globals()[name]()
