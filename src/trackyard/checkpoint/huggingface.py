"""A Hugging Face TrainerCallback that commits the trainer's own folders. Imports it late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trackyard.checkpoint import stopping
from trackyard.checkpoint.saver import Saver
from trackyard.checkpoint.state import need


def callback(saver: Saver) -> Any:
    """Return a TrainerCallback: each save of the trainer becomes a checkpoint here.

    Resume with `trainer.train(resume_from_checkpoint=huggingface_checkpoint())`.
    """
    transformers = need("transformers", "transformers")

    class YardCheckpoint(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
        """Saves through trackyard.checkpoint."""

        def on_train_begin(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
            """Listen for the runner's notice."""
            stopping.catch_stop()

        def on_step_end(self, _args: Any, _state: Any, control: Any, **_: Any) -> Any:
            """Have the trainer save and end if the job is to stop."""
            if stopping.stop_asked():
                control.should_save = True
                control.should_training_stop = True
            return control

        def on_save(self, args: Any, state: Any, _control: Any, **_: Any) -> None:
            """Commit the folder the trainer has just written."""
            if not state.is_world_process_zero:
                return
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            # The trainer never changes these files again, and may delete them: share, not copy.
            saver.save(folder, step=int(state.global_step), link=True)

        def on_train_end(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
            """Leave with the word that all is saved, if that is why training ended."""
            saver.wait()
            if stopping.stop_asked() and state.global_step < state.max_steps:
                stopping.exit_saved()

    return YardCheckpoint()


def checkpoint_path(saver: Saver) -> str | None:
    """Return what `Trainer.train(resume_from_checkpoint=...)` takes, or None."""
    found = saver.latest()
    return None if found is None else str(found.path)
