"""`yard finetune preview|eval|merge|import`: looking at data, judging, merging, translating.

Owns what these print; the work is the finetune package's, imported when it is asked for.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from trackyard.cli.output import emit_json, say
from trackyard.core.errors import SetupError
from trackyard.finetune.locate import INSTALL
from trackyard.finetune.recipe import load, parse, read

_GREEN, _GREY, _PLAIN = "\033[32m", "\033[90m", "\033[0m"


def preview(args: argparse.Namespace, words: list[str]) -> int:
    """Show samples as the model will see them; what is learned is green."""
    from trackyard.finetune.preview import look

    recipe = read(_first(words, "a recipe"), words[1:])
    found = look(recipe, count=args.count)
    if args.json:
        emit_json(found.json())
        return 0
    colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for number, sample in enumerate(found.samples, start=1):
        print(f"-- sequence {number}: {len(sample)} rows")
        for row in sample:
            print("".join(_paint(one.text, one.learned, colours) for one in row))
    say(
        f"\n{found.rows} rows ({found.truncated} cut), {found.sequences} sequences, "
        f"{found.tokens:,} tokens, {found.learned:,} learned, {found.padding:.1%} padding"
    )
    return 0


def _paint(text: str, learned: bool, colours: bool) -> str:
    if colours:
        return f"{_GREEN if learned else _GREY}{text}{_PLAIN}"
    # Without colour, what is learned stands in brackets.
    return f"[{text}]" if learned else text


def evaluate(args: argparse.Namespace, words: list[str]) -> int:
    """Print the loss on the held-out rows."""
    recipe = read(_first(words, "a recipe"), words[1:])
    if not args.model:
        raise SetupError("eval needs --model DIR", hint="name the trained model or adapter")
    numbers = _training("run").evaluate(recipe, Path(args.model))
    if args.json:
        emit_json(numbers)
        return 0
    for key, value in numbers.items():
        print(f"{key:<16} {value:.4f}")
    return 0


def merge(args: argparse.Namespace, words: list[str]) -> int:
    """Write a base with an adapter added into it."""
    if len(words) != 2:
        raise SetupError("merge needs an adapter and a folder", hint="yard finetune merge DIR OUT")
    adapter, target = Path(words[0]), Path(words[1])
    base = Path(args.base) if args.base else None
    found = _training("export").merge(adapter, target, base=base)
    if args.json:
        emit_json({**found, "folder": str(target)})
    else:
        say(f"merged {found['merged']} of {found['tensors']} tensors into {target}")
    return 0


def translate(args: argparse.Namespace, words: list[str]) -> int:
    """Print a recipe of another tool as one of ours, and say what has no counterpart."""
    import yaml

    from trackyard.finetune.convert import convert

    made = convert(load(_first(words, "a file")))
    recipe = parse(made.values)
    if args.json:
        emit_json({"tool": made.tool, "recipe": made.values, "left_out": made.left_out})
        return 0
    print(yaml.safe_dump(made.values, sort_keys=False).rstrip())
    say(f"\nfrom {made.tool}; {recipe.method}, {recipe.precision}")
    for key, why in made.left_out.items():
        say(f"left out: {key}: {why}")
    return 0


def _first(words: list[str], what: str) -> str:
    if not words:
        raise SetupError(f"name {what}", hint="`yard finetune --help` shows how")
    return words[0]


def _training(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(f"trackyard.finetune.training.{name}")
    except ModuleNotFoundError as fault:
        if fault.name in ("torch", "transformers", "safetensors"):
            raise SetupError("this needs torch and transformers", hint=INSTALL) from fault
        raise
