"""`python -m trackyard.finetune RECIPE [key=value …]`: what a job's processes run.

Owns the command line of one rank; `yard finetune` builds it. `--device cpu` keeps off the GPU.
"""

from __future__ import annotations

import argparse
import os
import sys

from trackyard.core.errors import SetupError, YardError
from trackyard.finetune.recipe import read

MISSING = "fine-tuning needs torch and transformers: pip install 'trackyard[train]'"


def main(argv: list[str] | None = None) -> int:
    """Train by a recipe; faults become a sentence and exit code 2."""
    parser = argparse.ArgumentParser(prog="python -m trackyard.finetune")
    parser.add_argument("recipe")
    parser.add_argument("words", nargs="*", metavar="key=value")
    parser.add_argument("--device", choices=("cpu",), default="")
    args = parser.parse_args(argv)
    # Segments that grow: what is freed in one size serves another.
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    try:
        recipe = read(args.recipe, args.words)
        try:
            from trackyard.finetune.training.run import train
        except ModuleNotFoundError as fault:
            if fault.name in ("torch", "transformers", "safetensors"):
                raise SetupError(MISSING) from fault
            raise
        return train(recipe, device=args.device)
    except (SetupError, YardError) as fault:
        hint = getattr(fault, "hint", None)
        sys.stderr.write(f"error: {fault.message}\n" + (f"\nhint: {hint}\n" if hint else ""))
        return 2


if __name__ == "__main__":
    sys.exit(main())
