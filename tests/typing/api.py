"""The public names as a training script uses them. Never run, only type-checked by test_typing.py.

`assert_type` locks what a call returns; a line with an `error:` comment must not type-check.
"""

import os
from pathlib import Path
from typing import Any, Never, assert_type

import trackyard
from trackyard import checkpoint
from trackyard.checkpoint import Checkpoint, CheckpointError, Notice, Saver

assert_type(trackyard.__version__, str)


def train(model: dict[str, list[float]], steps: int) -> None:
    """The loop of the documentation."""
    checkpoint.catch_stop()
    found = checkpoint.latest()
    assert_type(found, Checkpoint | None)
    state = checkpoint.load(found) if found else {"step": 0}
    for step in range(int(state["step"]), steps):
        checkpoint.progress(step)
        if step % 500 == 0 or checkpoint.stop_asked():
            saved = checkpoint.save({"step": step, "model": model}, step=step, wait=False)
            assert_type(saved, Checkpoint | None)
        if checkpoint.stop_asked():
            checkpoint.wait()
            checkpoint.exit_saved()


def choose(folder: os.PathLike[str]) -> Saver:
    """Folders as text or paths, and a second place."""
    checkpoint.configure("checkpoints", keep=5)
    checkpoint.configure(upload="run")
    saver = checkpoint.configure(folder, keep=1, upload="https://host/place")
    assert_type(saver, Saver)
    saver.save(Path("folder"), step=3, metadata={"epoch": 1})
    assert_type(saver.latest(), Checkpoint | None)
    return saver


def look(found: Checkpoint) -> tuple[int, Path]:
    """What a checkpoint tells."""
    assert_type(found.step, int)
    assert_type(found.path, Path)
    return found.step, found.path


def leave() -> Never:
    """Leaving ends the process, and the checker knows."""
    told = checkpoint.notice()
    assert_type(told, Notice | None)
    checkpoint.exit_saved()


def frameworks() -> dict[str, Any]:
    """Callbacks of frameworks that may not be installed."""
    path = checkpoint.lightning_checkpoint()
    assert_type(path, str | None)
    assert_type(checkpoint.huggingface_checkpoint(), str | None)
    return {
        "callbacks": [checkpoint.lightning_callback(every_n_steps=100)],
        "trainer": [checkpoint.huggingface_callback()],
        "ckpt_path": path,
    }


def sharded(state: dict[str, Any]) -> None:
    """Every rank saves and loads its share."""
    checkpoint.save_distributed(state, step=7)
    assert_type(checkpoint.load_distributed(state), Checkpoint | None)


def mistakes() -> None:
    """What a checker must catch before a job has waited in a queue for it."""
    checkpoint.save({"step": 1})  # error: call-arg
    checkpoint.save({"step": 1}, 1)  # error: call-arg
    checkpoint.save({"step": 1}, step="1")  # error: arg-type
    print(checkpoint.latest().path)  # error: union-attr
    checkpoint.configure(keep="3")  # error: arg-type
    checkpoint.lightning_callback(500)  # error: call-arg
    trackyard.run()  # error: attr-defined
    try:
        checkpoint.wait(1)  # error: call-arg
    except CheckpointError as fault:
        print(fault)
