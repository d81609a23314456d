"""Checks in one process: each prints a line of JSON, so that torch is imported once for many."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import tiny
import torch

from trackyard.finetune.training.run import train

CHECKS: list[Callable[[Path], None]] = []


def check(function: Callable[[Path], None]) -> Callable[[Path], None]:
    CHECKS.append(function)
    return function


def go(folder: Path, name: str, **changes: object) -> list[float]:
    """Train in this process; return the losses."""
    code = train(
        tiny.recipe(folder, output=str(folder / name), **changes), device="cpu", say=_keep
    )
    assert code == 0, (code, SAID[-3:])
    return tiny.losses(folder / name)


SAID: list[str] = []


def _keep(words: str) -> None:
    SAID.append(words)


def near(one: list[float], other: list[float], tolerance: float = 2e-5) -> None:
    assert len(one) == len(other), (one, other)
    worst = max(abs(a - b) for a, b in zip(one, other, strict=True))
    assert worst <= tolerance, (worst, one, other)


def prepared(folder: Path) -> Path:
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    tiny.make_model(folder / "base")
    tiny.make_data(folder / "rows.jsonl")
    return folder


def main() -> int:
    torch.set_num_threads(1)
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        talk = io.StringIO()
        with contextlib.redirect_stderr(talk):
            folder = prepared(Path(name))
        for one in CHECKS:
            try:
                with contextlib.redirect_stderr(talk), contextlib.redirect_stdout(talk):
                    one(folder)
                line = {"check": one.__name__, "ok": True}
            except Exception:
                failed += 1
                line = {"check": one.__name__, "ok": False, "why": traceback.format_exc()[-3000:]}
            print(json.dumps(line), flush=True)
    return 1 if failed else 0


def finish() -> None:
    sys.exit(main())
