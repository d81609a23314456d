"""`yard finetune`: train by a recipe, in the queue or here; look at its data, evaluate, merge.

Owns the flags and what is printed. Recipes, data and training are the finetune package's; queueing
is `yard submit`'s.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trackyard.cli.output import add_json, emit_json, say
from trackyard.cli.training import finetune_tools
from trackyard.client.api import Api, ApiFault, Unreachable
from trackyard.core.errors import SetupError
from trackyard.finetune import fit, launch
from trackyard.finetune.planning.fleet import read_offers
from trackyard.finetune.planning.gpus import GpuModel
from trackyard.finetune.recipe import Recipe, read

_EPILOG = """\
yard finetune recipe.yaml lr=1e-4 --dry-run    the whole recipe, the plan, the launch line
yard finetune recipe.yaml --now                train on this machine
yard finetune preview recipe.yaml              ten samples, tokenised, masked and packed
yard finetune eval recipe.yaml --model DIR     loss on the held-out rows
yard finetune merge ADAPTER OUT                add an adapter into its base
yard finetune import FILE                      translate a recipe of another tool
Words of the form key=value come before the flags. See docs/finetune.md."""

#: flags that go to `yard submit` as they are: name, metavar, help
_PASSED = (
    ("--team", "TEAM", "team that pays (default: yours)"),
    ("--queue", "QUEUE", "queue to stand in (default: default)"),
    ("--priority", "CLASS", "priority class (default normal)"),
    ("--time", "T", "limit of each attempt, as in 2h30m"),
    ("--lease", "LEASE", "run on this lease alone"),
    ("--experiment", "NAME", "experiment of its run"),
    ("--pip", "FILE", "requirements.txt to install first"),
)
_SWITCHES = (
    ("--preemptible", "may be stopped for others and go on later"),
    ("--yes", "do not ask before queueing"),
    ("--quiet", "print the job's id alone"),
    ("--wait", "wait; exit 1 unless it succeeds"),
    ("--follow", "print its log, then as --wait"),
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "finetune",
        help="fine-tune a language model by a recipe",
        usage="yard finetune RECIPE [key=value …] [flags]\n"
        "       yard finetune preview|eval|merge|import …",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EPILOG,
    )
    parser.add_argument("words", nargs="+", metavar="RECIPE", help="recipe file or shipped recipe")
    parser.add_argument("--dry-run", action="store_true", help="print recipe, plan, launch line")
    parser.add_argument("--now", action="store_true", help="train here, without the queue")
    parser.add_argument(
        "--launcher",
        choices=("torchrun", "accelerate", "mpirun"),
        default="torchrun",
        help="who starts the processes of several GPUs (default torchrun)",
    )
    parser.add_argument("--model", metavar="DIR", help="with eval: the trained model or adapter")
    parser.add_argument("--base", metavar="DIR", help="with merge: the base, if it has moved")
    parser.add_argument("--count", type=int, default=10, help="with preview: samples (default 10)")
    for flag, metavar, words in _PASSED:
        parser.add_argument(flag, metavar=metavar, help=words)
    parser.add_argument(
        "--env", action="append", metavar="NAME=VALUE", help="variable for the job"
    )
    for flag, words in _SWITCHES:
        parser.add_argument(flag, action="store_true", help=words)
    add_json(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Do what the first word says; a recipe is trained."""
    tools: dict[str, Callable[[argparse.Namespace, list[str]], int]] = {
        "preview": finetune_tools.preview,
        "eval": finetune_tools.evaluate,
        "merge": finetune_tools.merge,
        "import": finetune_tools.translate,
    }
    first, *rest = args.words
    if first in tools and not Path(first).is_file():
        return tools[first](args, rest)
    recipe = read(first, rest)
    if args.dry_run:
        return _show(args, recipe, first, rest)
    _require_data(recipe)
    if args.now:
        fit.refuse_what_cannot_fit(recipe)
        return _train_here(recipe, first, rest)
    fit.refuse_what_cannot_fit(recipe, () if recipe.gpu_type else _offered())
    return _queue(args, recipe, first, rest)


def _show(args: argparse.Namespace, recipe: Recipe, source: str, words: list[str]) -> int:
    found = fit.judge(recipe)
    command = launch.job_command(source, words, Path())
    flags = launch.submit_flags(recipe, launcher=args.launcher)
    line = launch.line(["yard", "submit", *flags, "--", *command])
    if args.json:
        plan = None if found is None else {"fits": found.fits, "sentence": found.sentence}
        emit_json({"recipe": recipe.plain(), "plan": plan, "launch": line})
        return 0
    print(recipe.yaml().rstrip())
    say("")
    if found is None:
        say("plan    none: gpu_type is not set, or the model or GPU is not known")
    else:
        say(f"plan    {found.sentence}" + (f"; {found.hint}" if found.hint else ""))
    say(f"launch  {line}")
    return 0


def _require_data(recipe: Recipe) -> None:
    for key, value in (("model", recipe.model), ("data.train", recipe.data.train)):
        if not value:
            raise SetupError(f"the recipe does not set {key}", hint=f"add {key}=…")


def _train_here(recipe: Recipe, source: str, words: list[str]) -> int:
    command = launch.local_command(source, words, recipe)
    say(launch.line(command))
    return subprocess.run(command, check=False, env=dict(os.environ)).returncode


def _offered() -> list[GpuModel]:
    """Return the types of GPU that the fleet has; none where one of them is not known here."""
    try:
        found, unknown = read_offers(Api.from_environment())
    except (Unreachable, ApiFault):
        return []
    return [] if unknown else [offer.gpu for offer in found]


def _queue(args: argparse.Namespace, recipe: Recipe, source: str, words: list[str]) -> int:
    from trackyard.cli.submit import submit

    argv: list[str] = launch.submit_flags(recipe, launcher=args.launcher)
    values: dict[str, Any] = vars(args)
    for flag, _, _ in _PASSED:
        if (value := values[flag[2:]]) is not None:
            argv += [flag, value]
    for pair in args.env or []:
        argv += ["--env", pair]
    argv += [flag for flag, _ in _SWITCHES if values[flag[2:]]]
    if args.json:
        argv.append("--json")
    argv += ["--", *launch.job_command(source, words, Path())]
    parser = argparse.ArgumentParser(prog="yard finetune")
    submit.register(parser.add_subparsers())
    parsed = parser.parse_args(["submit", *argv])
    return submit.run(parsed)
