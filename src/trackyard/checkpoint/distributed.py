"""torch.distributed.checkpoint into our folders: every rank writes, the first rank commits.

Owns the order across ranks. The folder must be one that all ranks see. Imports torch late.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from trackyard.checkpoint.saver import Saver
from trackyard.checkpoint.state import need
from trackyard.checkpoint.store import Checkpoint, CheckpointError


def save(saver: Saver, state: dict[str, Any], *, step: int) -> None:
    """Save a sharded state dict from all ranks as one checkpoint. Call it on every rank."""
    torch_distributed, dcp = _torch()
    shared = saver.folder / f".dcp-{step}"
    if _rank(torch_distributed) == 0:
        shutil.rmtree(shared, ignore_errors=True)
        shared.mkdir(parents=True)
    _barrier(torch_distributed)
    dcp.save(state, checkpoint_id=str(shared))
    _barrier(torch_distributed)
    if _rank(torch_distributed) == 0:
        saver.commit(lambda folder: _move_all(shared, folder), step=step)
        shutil.rmtree(shared, ignore_errors=True)
    _barrier(torch_distributed)


def load(saver: Saver, state: dict[str, Any]) -> Checkpoint | None:
    """Load the newest checkpoint into `state`, in place, on every rank; None if there is none."""
    torch_distributed, dcp = _torch()
    found = saver.latest(checksums=_rank(torch_distributed) == 0)
    if found is None:
        return None
    if not (found.path / ".metadata").exists():
        raise CheckpointError(
            f"checkpoint {found.name} was not written by torch.distributed.checkpoint"
        )
    dcp.load(state, checkpoint_id=str(found.path))
    return found


def _torch() -> tuple[Any, Any]:
    need("torch", "torch")
    return need("torch.distributed", "torch"), need("torch.distributed.checkpoint", "torch")


def _rank(torch_distributed: Any) -> int:
    ready = torch_distributed.is_available() and torch_distributed.is_initialized()
    return int(torch_distributed.get_rank()) if ready else 0


def _barrier(torch_distributed: Any) -> None:
    if torch_distributed.is_available() and torch_distributed.is_initialized():
        torch_distributed.barrier()


def _move_all(source: Path, target: Path) -> None:
    for path in list(source.iterdir()):
        path.rename(target / path.name)
