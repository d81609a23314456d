"""Traces kept on disk: one file for each model, setup and version of the code that was traced.

Owns the key and the folder. A trace takes seconds, reading one back takes none; a change of
training/, of the tracer, of torch or of transformers makes a new one.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable
from functools import cache
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from trackyard.finetune.planning import trace as tracing
from trackyard.finetune.planning.memory import MemoryParts
from trackyard.finetune.setup import TrainingSetup
from trackyard.finetune.shapes import ModelShape

log = logging.getLogger(__name__)
#: Fields that change nothing in a trace: they are accounted for afterwards.
_UNTRACED = {"optimizer": "adamw", "sharding": "none", "offload": False, "gpus": 1, "nodes": 1}


_TRACER = ("planning/trace.py", "planning/live.py", "planning/kernels.py")


def folder() -> Path:
    """Return where traces are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "trackyard" / "traces"


def is_traceable(setup: TrainingSetup) -> bool:
    """Tell whether there is a trace: not of what is sharded, offloaded or compiled with
    checkpoints inside.
    """
    is_cut_again = setup.compile and setup.checkpointing != "none"
    return (
        setup.world == 1
        and not is_cut_again
        and not setup.offload
        and setup.sharding == "none"
        and setup.precision != "float8"
        and setup.checkpointing != "offload"
        and not setup.in_backward
    )


class Traces:
    """Traces that are made when they are first asked for."""

    def __init__(
        self, where: Path | None = None, said: Callable[[str], None] | None = None
    ) -> None:
        self._folder = where or folder()
        self._said = said or (lambda _words: None)
        self._known: dict[str, tracing.MemoryTrace] = {}
        self.made = 0

    def __call__(self, shape: ModelShape, setup: TrainingSetup) -> MemoryParts | None:
        """Return the traced parts of a setup, or None where it cannot be traced."""
        if not is_traceable(setup):
            return None
        traced = self.get(shape, setup)
        return None if traced is None else tracing.peak(traced, shape, setup)

    def get(self, shape: ModelShape, setup: TrainingSetup) -> tracing.MemoryTrace | None:
        """Return the trace of a setup from memory, from disk, or by making it."""
        plain = setup.but(**_UNTRACED, accumulation=min(2, setup.accumulation))
        key = trace_key(shape, plain)
        if key in self._known:
            return self._known[key]
        path = self._folder / f"{key}.json"
        found = _read(path)
        if found is None:
            self._said(f"tracing {shape.name}: {words(plain)}")
            try:
                found = tracing.trace(shape, plain)
            except Exception:
                # Whatever another torch does, the closed form is there.
                log.debug("cannot trace %s, %s", shape.name, words(plain), exc_info=True)
                self._said("it cannot be traced with this torch: the closed form stands")
                return None
            self.made += 1
            _write(path, found)
        self._known[key] = found
        return found


def words(setup: TrainingSetup) -> str:
    """Name what distinguishes a trace, in a few words."""
    parts = [setup.method, setup.precision, f"{setup.micro_batch}x{setup.seq}"]
    if setup.checkpointing != "none":
        parts.append(f"checkpointing {setup.checkpointing}")
    parts += [name for name in ("compile", "packing") if getattr(setup, name)]
    return ", ".join([*parts, f"{setup.loss} loss"])


def trace_key(shape: ModelShape, setup: TrainingSetup) -> str:
    """Return the name of a trace: a digest of all that it depends on."""
    batches = tracing.batches_of(setup)
    facts = [shape.config(), setup.but(micro_batch=1).json(), batches, _versions()]
    text = json.dumps(facts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@cache
def _versions() -> list[str]:
    """The code that is traced, and the libraries it stands on."""
    package = resources.files("trackyard.finetune")
    digest = hashlib.sha256()
    for name in ("training/build.py", "training/loss.py", "training/lora.py"):
        digest.update(package.joinpath(name).read_bytes())
    for name in ("training/activations.py", *_TRACER):
        digest.update(package.joinpath(name).read_bytes())
    return [digest.hexdigest(), metadata.version("torch"), metadata.version("transformers")]


def _read(path: Path) -> tracing.MemoryTrace | None:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        return tracing.MemoryTrace(tuple(found["batches"]), found["points"])
    except (OSError, ValueError, KeyError):
        return None


def _write(path: Path, traced: tracing.MemoryTrace) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(f".{os.getpid()}")
    half.write_text(json.dumps({"batches": traced.batches, "points": traced.points}))
    half.replace(path)
