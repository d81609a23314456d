"""Save and resume inside a job: `trackyard.checkpoint`. Works without a server and without torch.

    from trackyard import checkpoint

    checkpoint.catch_stop()
    found = checkpoint.latest()
    state = checkpoint.load(found) if found else fresh()
    for step in range(state["step"], total):
        ...
        checkpoint.progress(step)
        if step % 500 == 0 or checkpoint.stop_asked():
            checkpoint.save({"step": step, "model": model.state_dict()}, step=step)
        if checkpoint.stop_asked():
            checkpoint.exit_saved()

Owns the module-level saver over YARD_CHECKPOINT_DIR; the rest lies in the modules beside.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trackyard.checkpoint import distributed, huggingface, lightning
from trackyard.checkpoint.saver import Saver, progress
from trackyard.checkpoint.state import State
from trackyard.checkpoint.state import load as _load
from trackyard.checkpoint.stopping import Notice, catch_stop, exit_saved, notice, stop_asked
from trackyard.checkpoint.store import Checkpoint, CheckpointError
from trackyard.checkpoint.upload import Target

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "Notice",
    "Saver",
    "catch_stop",
    "configure",
    "exit_saved",
    "huggingface_callback",
    "huggingface_checkpoint",
    "latest",
    "lightning_callback",
    "lightning_checkpoint",
    "load",
    "load_distributed",
    "notice",
    "progress",
    "save",
    "save_distributed",
    "stop_asked",
    "wait",
]

DEFAULT_FOLDER = "checkpoints"
_lock = threading.Lock()
_saver: Saver | None = None


def configure(
    folder: str | os.PathLike[str] | None = None,
    *,
    keep: int = 3,
    upload: str | Target | None = None,
) -> Saver:
    """Choose folder, how many to keep, and a second place: `run`, an address or a folder.

    Without it: YARD_CHECKPOINT_DIR (set inside a job) or `checkpoints/`, the last 3, and the
    second place that YARD_CHECKPOINT_UPLOAD names, if any.
    """
    global _saver  # noqa: PLW0603
    place = folder or os.environ.get("YARD_CHECKPOINT_DIR") or DEFAULT_FOLDER
    second = upload or os.environ.get("YARD_CHECKPOINT_UPLOAD") or None
    with _lock:
        _saver = Saver(Path(place), keep=keep, upload=second)
        return _saver


def save(
    state: State,
    *,
    step: int,
    metadata: Mapping[str, Any] | None = None,
    wait: bool = True,
) -> Checkpoint | None:
    """Save a dict of tensors or arrays, a folder or a file as the checkpoint of `step`.

    With `wait=False` it returns as soon as tensors are copied; writing and upload go on behind.
    """
    return _default().save(state, step=step, metadata=metadata, wait=wait)


def latest(*, checksums: bool = True) -> Checkpoint | None:
    """Return the newest complete checkpoint, or None if there is none."""
    return _default().latest(checksums=checksums)


def load(checkpoint: Checkpoint | None = None, *, map_location: Any = "cpu") -> Any:
    """Return the dict saved in `checkpoint` or in the newest one; None if there is none."""
    found = checkpoint or latest()
    return None if found is None else _load(found, map_location=map_location)


def wait() -> None:
    """Wait until everything saved is on disk and uploaded."""
    _default().wait()


def lightning_callback(*, every_n_steps: int = 500) -> Any:
    """Return a Lightning callback that saves every so many steps and when asked to stop."""
    return lightning.callback(_default(), every_n_steps=every_n_steps)


def lightning_checkpoint() -> str | None:
    """Return the newest checkpoint for `trainer.fit(ckpt_path=...)`."""
    return lightning.checkpoint_path(_default())


def huggingface_callback() -> Any:
    """Return a TrainerCallback that makes each save of the trainer a checkpoint."""
    return huggingface.callback(_default())


def huggingface_checkpoint() -> str | None:
    """Return the newest checkpoint for `trainer.train(resume_from_checkpoint=...)`."""
    return huggingface.checkpoint_path(_default())


def save_distributed(
    state: dict[str, Any],
    *,
    step: int,
    metadata: Mapping[str, Any] | None = None,
    wait: bool = True,
) -> None:
    """Save a sharded state dict with torch.distributed.checkpoint. Call it on every rank.

    With `wait=False` it returns as soon as tensors are copied; every rank writes behind.
    """
    distributed.save(_default(), state, step=step, metadata=metadata, wait=wait)


def load_distributed(state: dict[str, Any]) -> Checkpoint | None:
    """Load the newest sharded checkpoint into `state`, in place. Call it on every rank."""
    return distributed.load(_default(), state)


def _default() -> Saver:
    return _saver if _saver is not None else configure()
