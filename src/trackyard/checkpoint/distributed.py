"""torch.distributed.checkpoint into our folders: every rank writes, the first rank commits.

Owns the order across ranks, and writing while training goes on. The folder must be one that all
ranks see. Imports torch late.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trackyard.checkpoint.saver import Saver
from trackyard.checkpoint.state import copied, need
from trackyard.checkpoint.store import Checkpoint, CheckpointError, read_manifest

#: the group that carries saving, once it is needed
_groups: list[Any] = []


def save(
    saver: Saver,
    state: dict[str, Any],
    *,
    step: int,
    metadata: Mapping[str, Any] | None = None,
    wait: bool = True,
) -> None:
    """Save a sharded state dict from all ranks as one checkpoint. Call it on every rank.

    With `wait=False` tensors are copied to main memory and written behind; the checkpoint exists
    once every rank has written, and a save that is cut short leaves none.
    """
    torch_distributed, dcp = _torch()
    saver.wait()
    shared = saver.folder / f".dcp-{step}"
    is_first = _rank(torch_distributed) == 0
    if is_first:
        shutil.rmtree(shared, ignore_errors=True)
        shared.mkdir(parents=True)
    _barrier(torch_distributed)
    written = _write(torch_distributed, dcp, state, shared, wait=wait)
    if not is_first:
        saver.behind(written)
    else:

        def fill(folder: Path) -> None:
            written()
            _move_all(shared, folder)
            shutil.rmtree(shared, ignore_errors=True)

        saver.commit(fill, step=step, metadata=metadata, wait=wait)
    if wait:
        saver.wait()
        _barrier(torch_distributed)


def _write(
    torch_distributed: Any, dcp: Any, state: dict[str, Any], shared: Path, *, wait: bool
) -> Callable[[], None]:
    """Write this rank's part now, or begin to; return what waits for the end of it."""
    if wait:
        dcp.save(state, checkpoint_id=str(shared))
        return lambda: None
    if not _is_distributed(torch_distributed):
        held = copied(state)
        return lambda: dcp.save(held, checkpoint_id=str(shared))
    # A group of its own: collectives of training go on meanwhile on the default one.
    if not _groups:
        _groups.append(torch_distributed.new_group(backend="gloo"))
    future = dcp.async_save(state, checkpoint_id=str(shared), process_group=_groups[0])
    done: Callable[[], None] = future.result
    return done


def newest(saver: Saver) -> Checkpoint | None:
    """Return the newest whole checkpoint, the same on every rank: the first rank chooses it."""
    torch_distributed, _ = _torch()
    if not _is_distributed(torch_distributed):
        return saver.latest()
    is_first = _rank(torch_distributed) == 0
    found = saver.latest() if is_first else None
    chosen = [found.name if found is not None else None]
    torch_distributed.broadcast_object_list(chosen, src=0)
    if is_first or chosen[0] is None:
        return found
    return read_manifest(saver.folder / str(chosen[0]))


def load(
    saver: Saver, state: dict[str, Any], found: Checkpoint | None = None
) -> Checkpoint | None:
    """Load a checkpoint, by default the newest, into `state`, in place, on every rank; return it,
    or None if there is none.
    """
    _, dcp = _torch()
    found = found or newest(saver)
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
    return int(torch_distributed.get_rank()) if _is_distributed(torch_distributed) else 0


def _is_distributed(torch_distributed: Any) -> bool:
    return bool(torch_distributed.is_available() and torch_distributed.is_initialized())


def _barrier(torch_distributed: Any) -> None:
    if _is_distributed(torch_distributed):
        torch_distributed.barrier()


def _move_all(source: Path, target: Path) -> None:
    for path in list(source.iterdir()):
        path.rename(target / path.name)
