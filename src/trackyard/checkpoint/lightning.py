"""A Lightning callback that saves, resumes and leaves in time. Imports Lightning late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trackyard.checkpoint import stopping
from trackyard.checkpoint.saver import Saver, progress
from trackyard.checkpoint.state import need
from trackyard.checkpoint.store import CheckpointError

CHECKPOINT_FILE = "lightning.ckpt"


def callback(saver: Saver, *, every_n_steps: int = 500) -> Any:
    """Return a Lightning callback that saves every so many steps and when asked to stop.

    Resume with `trainer.fit(model, ckpt_path=lightning_checkpoint())`.
    """
    lightning = _lightning()
    steps = _Steps(saver, every_n_steps)

    class YardCheckpoint(lightning.Callback):  # type: ignore[misc, name-defined]
        """Saves through trackyard.checkpoint."""

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            """Listen for the runner's notice."""
            del trainer, pl_module
            stopping.catch_stop()

        def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
            """Save when it is time, and leave if the job is to stop."""
            steps.batch_ended(trainer)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            """Save the end."""
            del pl_module
            steps.training_ended(trainer)

    return YardCheckpoint()


class _Steps:
    """What is saved when."""

    def __init__(self, saver: Saver, every: int) -> None:
        self._saver = saver
        self._every = every
        self._saved = -1

    def batch_ended(self, trainer: Any) -> None:
        step = int(trainer.global_step)
        asked = stopping.stop_asked()
        due = step > 0 and step % self._every == 0
        if (asked or due) and step != self._saved:
            self._save(trainer, step)
        if asked:
            self._saver.wait()
            stopping.exit_saved()
        progress(step)

    def training_ended(self, trainer: Any) -> None:
        step = int(trainer.global_step)
        if step != self._saved:
            self._save(trainer, step)
        self._saver.wait()

    def _save(self, trainer: Any, step: int) -> None:
        self._saved = step
        # Every rank takes part in save_checkpoint; only the first commits what was written.
        shared = self._saver.folder / f".lightning-{step}.ckpt"
        trainer.save_checkpoint(shared)
        trainer.strategy.barrier()
        if trainer.is_global_zero:
            self._saver.commit(lambda folder: _move(shared, folder / CHECKPOINT_FILE), step=step)
        trainer.strategy.barrier()


def checkpoint_path(saver: Saver) -> str | None:
    """Return what `Trainer.fit(ckpt_path=...)` takes: the newest checkpoint's file, or None."""
    found = saver.latest()
    if found is None or not (found.path / CHECKPOINT_FILE).exists():
        return None
    return str(found.path / CHECKPOINT_FILE)


def _move(source: Path, target: Path) -> None:
    source.rename(target)


def _lightning() -> Any:
    try:
        return need("lightning.pytorch", "lightning")
    except CheckpointError:
        return need("pytorch_lightning", "lightning")
