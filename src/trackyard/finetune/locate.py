"""Where a model and its tokenizer lie on this disk. Owns the lookup alone; needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trackyard.core.errors import SetupError

INSTALL = "pip install 'trackyard[train]'"


def model_folder(name: str) -> Path:
    """Return the folder of a model: a path, or a hub name whose files are on this disk."""
    if not name:
        raise SetupError("the recipe names no model", hint="set model to a folder or a hub name")
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    try:
        from transformers.utils import cached_file
    except ModuleNotFoundError as fault:
        raise SetupError("fine-tuning needs transformers", hint=INSTALL) from fault
    try:
        return Path(cached_file(name, "config.json", local_files_only=True)).parent
    except OSError as fault:
        raise SetupError(
            f"the model {name!r} is not on this disk",
            hint="name its folder, or download it first: `hf download NAME`",
        ) from fault


def load_tokenizer(folder: Path) -> Any:
    """Return the model's tokenizer."""
    try:
        from transformers import AutoTokenizer
    except ModuleNotFoundError as fault:
        raise SetupError("fine-tuning needs transformers", hint=INSTALL) from fault
    try:
        return AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError) as fault:
        raise SetupError(
            f"{folder} holds no tokenizer: {fault}",
            hint="download the tokenizer's files beside the weights",
        ) from fault
