"""The state of a run, saved and found again by the platform's checkpoints.

Owns what belongs to it: weights that learn, optimizer, position in the data, random numbers. It
is written sharded, each rank its own part, behind training; it is read onto any number of ranks.
A checkpoint that is not whole does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from trackyard.checkpoint import distributed as sharded
from trackyard.checkpoint.saver import Saver
from trackyard.checkpoint.store import Checkpoint
from trackyard.core.errors import SetupError
from trackyard.finetune.training.optimizers import Stepper
from trackyard.finetune.training.sharding import RankPlace

#: what must be equal for a run to go on from a checkpoint, and the words for it
_MUST_MATCH = {
    "data_digest": "data",
    "global_batch": "global_batch",
    "seq": "seq",
    "packing": "packing",
    "seed": "seed",
    "method": "method",
    "model": "model",
}


@dataclass
class TrainingProgress:
    """Where a run is."""

    #: optimizer steps taken
    step: int = 0
    #: sequences seen, in the order of the stream
    position: int = 0
    tokens: int = 0
    repairs: int = 0
    losses: dict[str, Any] = field(default_factory=dict)
    scaler: dict[str, Any] = field(default_factory=dict)


class RunState:
    """Saves and restores one run."""

    def __init__(
        self,
        folder: Path,
        *,
        keep: int,
        model: nn.Module,
        stepper: Stepper,
        place: RankPlace,
        identity: dict[str, Any],
    ) -> None:
        self._saver = Saver(folder, keep=keep)
        self._model = model
        self._stepper = stepper
        self._place = place
        self._identity = identity

    def save(self, progress: TrainingProgress, *, wait: bool) -> None:
        """Save the run as it is now; call it on every rank."""
        state: dict[str, Any] = {f"model/{k}": v for k, v in self._learned().items()}
        state |= {f"optimizer/{k}": v for k, v in self._stepper.state().items()}
        state |= {f"random/{self._place.rank}/{k}": v for k, v in self._random().items()}
        metadata = {**self._identity, **vars(progress), "world": self._place.world}
        sharded.save(self._saver, state, step=progress.step, metadata=metadata, wait=wait)

    def find(self) -> Checkpoint | None:
        """Return the newest whole checkpoint, if it is of this run."""
        found = sharded.newest(self._saver)
        if found is not None:
            self._check(found)
        return found

    def restore(self, found: Checkpoint) -> TrainingProgress:
        """Make the run what it was; call it on every rank."""
        from torch.distributed.checkpoint import FileSystemReader

        known = FileSystemReader(str(found.path)).read_metadata().state_dict_metadata
        state: dict[str, Any] = {f"model/{k}": v for k, v in self._learned().items()}
        sizes = {
            name.removeprefix("optimizer/"): (entry.size, entry.properties.dtype)
            for name, entry in known.items()
            if name.startswith("optimizer/")
        }
        room = self._stepper.allocate(sizes)
        state |= {f"optimizer/{k}": v for k, v in room.items()}
        is_same = found.metadata["world"] == self._place.world
        numbers = {f"random/{self._place.rank}/{k}": v for k, v in self._random().items()}
        if is_same:
            state |= {name: value for name, value in numbers.items() if name in known}
        with torch.no_grad():
            sharded.load(self._saver, state, found)
        self._stepper.restore_plain()
        if is_same:
            self._set_random({name.rpartition("/")[2]: state[name] for name in numbers})
        kept = TrainingProgress()
        return TrainingProgress(
            **{key: found.metadata.get(key, vars(kept)[key]) for key in vars(kept)}
        )

    def wait(self) -> None:
        """Wait until everything is written."""
        self._saver.wait()

    @property
    def folder(self) -> Path:
        """Return where checkpoints lie."""
        return self._saver.folder

    def _learned(self) -> dict[str, torch.Tensor]:
        found = {}
        for name, one in self._model.named_parameters():
            if one.requires_grad:
                found[name.removeprefix("module.")] = one.detach()
        return found

    def _random(self) -> dict[str, torch.Tensor]:
        found = {"cpu": torch.get_rng_state()}
        if self._place.device.type == "cuda":
            found["cuda"] = torch.cuda.get_rng_state(self._place.device)
        return found

    def _set_random(self, state: dict[str, torch.Tensor]) -> None:
        torch.set_rng_state(state["cpu"])
        if "cuda" in state:
            torch.cuda.set_rng_state(state["cuda"], self._place.device)

    def _check(self, found: Checkpoint) -> None:
        for key, word in _MUST_MATCH.items():
            had, has = found.metadata.get(key), self._identity.get(key)
            if had != has:
                raise SetupError(
                    f"the checkpoint at step {found.step} was made with another {word}: "
                    f"{had!r}, not {has!r}",
                    hint="choose another save.folder, or set save.resume=false to start anew",
                )
