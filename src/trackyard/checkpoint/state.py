"""What can be saved: a dict of tensors or arrays, a folder, a file. And how it comes back.

Owns the choice of format by content. torch and numpy are imported only when the state holds
their types; nothing is pickled except by torch, and read back with weights only.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trackyard.checkpoint.store import Checkpoint, CheckpointError

TORCH_FILE = "state.pt"
NUMPY_FILE = "state.npz"
JSON_FILE = "state.json"
State = Mapping[str, Any] | str | os.PathLike[str]
Fill = Callable[[Path], None]


def need(module: str, extra: str) -> Any:
    """Import a heavy module late, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as fault:
        name = module.partition(".")[0]
        raise CheckpointError(
            f"this needs {name}, which is not installed: pip install {extra}"
        ) from fault


def filler(state: State, *, snapshot: bool, link: bool = False) -> Fill:
    """Return what writes `state` into a folder; a snapshot is taken now if it is written later."""
    if isinstance(state, Mapping):
        return _fill_dict(copied(state) if snapshot else state)
    path = Path(state)
    if path.is_dir():
        return lambda target: _copy_folder(path, target, link=link)
    if path.is_file():
        return lambda target: _copy(path, target / path.name, link=link)
    raise CheckpointError(f"{path} is neither a file nor a folder: nothing to save")


def load(checkpoint: Checkpoint, *, map_location: Any = "cpu") -> Any:
    """Return the dict that was saved; folders and files are read from `checkpoint.path`."""
    names = {part.name for part in checkpoint.parts}
    if TORCH_FILE in names:
        torch = need("torch", "torch")
        return torch.load(
            checkpoint.path / TORCH_FILE, map_location=map_location, weights_only=True
        )
    if NUMPY_FILE in names:
        numpy = need("numpy", "numpy")
        with numpy.load(checkpoint.path / NUMPY_FILE, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    if JSON_FILE in names:
        return json.loads((checkpoint.path / JSON_FILE).read_bytes())
    raise CheckpointError(
        f"checkpoint {checkpoint.name} holds files, not a dict: read them from {checkpoint.path}"
    )


def _fill_dict(state: Mapping[str, Any]) -> Fill:
    if _holds(state, "torch", "Tensor"):
        torch = need("torch", "torch")
        return lambda target: torch.save(dict(state), target / TORCH_FILE)
    if _holds(state, "numpy", "ndarray"):
        return lambda target: _save_arrays(state, target / NUMPY_FILE)
    try:
        text = json.dumps(dict(state))
    except (TypeError, ValueError) as fault:
        raise CheckpointError(
            f"this dict holds neither tensors nor arrays and is not plain JSON ({fault}); "
            "save it to a folder yourself and pass the folder"
        ) from fault
    return lambda target: _write(target / JSON_FILE, text)


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def _save_arrays(state: Mapping[str, Any], path: Path) -> None:
    numpy = need("numpy", "numpy")
    arrays = {name: numpy.asarray(value) for name, value in state.items()}
    odd = [name for name, array in arrays.items() if array.dtype.hasobject]
    if odd:
        raise CheckpointError(f"{odd[0]!r} is no array of numbers; save such state to a folder")
    numpy.savez(path, **arrays)


def _holds(value: Any, module: str, kind: str) -> bool:
    loaded = sys.modules.get(module)
    wanted = getattr(loaded, kind, None)
    if wanted is None:
        return False
    if isinstance(value, wanted):
        return True
    if isinstance(value, Mapping):
        return any(_holds(item, module, kind) for item in value.values())
    if isinstance(value, list | tuple):
        return any(_holds(item, module, kind) for item in value)
    return False


def copied(value: Any) -> Any:
    """Copy tensors and arrays to main memory, so that training may go on changing them."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if numpy is not None and isinstance(value, numpy.ndarray):
        return value.copy()
    if isinstance(value, Mapping):
        return {name: copied(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(copied(item) for item in value)
    return value


def _copy_folder(source: Path, target: Path, *, link: bool) -> None:
    for path in sorted(source.rglob("*")):
        if path.is_symlink():
            raise CheckpointError(f"{path} is a link; a checkpoint holds plain files")
        place = target / path.relative_to(source)
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            _copy(path, place, link=link)


def _copy(source: Path, target: Path, *, link: bool) -> None:
    if link:
        try:
            os.link(source, target)
        except OSError:
            pass
        else:
            return
    shutil.copyfile(source, target)
