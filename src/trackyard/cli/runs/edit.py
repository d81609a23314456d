"""`yard edit`: change a run, a model or an experiment: name, notes, tags, deletion and return."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from trackyard.cli.output import say
from trackyard.client.api import Api
from trackyard.core.errors import SetupError

NOTE = "mlflow.note.content"
Call = tuple[str, str, dict[str, Any]]


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "edit",
        help="change runs, a model or an experiment",
        description="Change runs by their ids, or one model (--model NAME or NAME/VERSION), or one"
        " experiment (--experiment).",
    )
    parser.add_argument("run", nargs="*", help="run ids")
    parser.add_argument("--model", metavar="NAME[/VERSION]", help="change this model instead")
    parser.add_argument("--experiment", metavar="NAME", help="change this experiment instead")
    parser.add_argument("--name", help="a new name")
    parser.add_argument("--note", help="notes in Markdown; empty takes them away")
    parser.add_argument("--tag", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--untag", action="append", default=[], metavar="KEY")
    parser.add_argument("--stage", help="a model version's stage")
    life = parser.add_mutually_exclusive_group()
    life.add_argument("--delete", action="store_true", help="delete")
    life.add_argument("--restore", action="store_true", help="bring back what was deleted")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Make the changes, one call after the other."""
    named = [bool(args.run), args.model is not None, args.experiment is not None]
    if sum(named) != 1:
        raise SetupError(
            "name what to change: run ids, or --model, or --experiment",
            hint="yard edit RUN --tag team=vision",
        )
    api = Api.from_environment()
    if args.model is not None:
        calls = model_calls(args)
    elif args.experiment is not None:
        calls = experiment_calls(args, _experiment_id(api, args.experiment))
    else:
        calls = [call for one in args.run for call in run_calls(args, one)]
    if not calls:
        raise SetupError("nothing to change", hint="yard edit --help lists what can be changed")
    for method, path, body in calls:
        api.mlflow(method, path, body)
    say(f"{len(calls)} change{'s' if len(calls) != 1 else ''} made")
    return 0


def _pairs(tags: list[str]) -> list[tuple[str, str]]:
    """Read KEY=VALUE words."""
    found = []
    for word in tags:
        key, separator, value = word.partition("=")
        if not separator or not key:
            raise SetupError(f"{word!r} is not KEY=VALUE", hint="--tag team=vision")
        found.append((key, value))
    return found


def run_calls(args: argparse.Namespace, run_id: str) -> list[Call]:
    """Return the calls that change a run."""
    _refuse(args, "stage", "a model version (--model NAME/VERSION)")
    me = {"run_id": run_id}
    calls: list[Call] = []
    if args.restore:
        calls.append(("POST", "runs/restore", me))
    if args.name:
        calls.append(("POST", "runs/update", {**me, "run_name": args.name}))
    if args.note:
        calls.append(("POST", "runs/set-tag", {**me, "key": NOTE, "value": args.note}))
    elif args.note is not None:
        calls.append(("POST", "runs/delete-tag", {**me, "key": NOTE}))
    calls += [
        ("POST", "runs/set-tag", {**me, "key": key, "value": value})
        for key, value in _pairs(args.tag)
    ]
    calls += [("POST", "runs/delete-tag", {**me, "key": key}) for key in args.untag]
    if args.delete:
        calls.append(("POST", "runs/delete", me))
    return calls


def model_calls(args: argparse.Namespace) -> list[Call]:
    """Return the calls that change a registered model or one of its versions."""
    _refuse(args, "restore", "a run or an experiment")
    name, _, version = args.model.partition("/")
    root = "model-versions" if version else "registered-models"
    me = {"name": name} | ({"version": version} if version else {})
    calls: list[Call] = []
    if args.note is not None:
        calls.append(("PATCH", f"{root}/update", {**me, "description": args.note}))
    calls += [
        ("POST", f"{root}/set-tag", {**me, "key": key, "value": value})
        for key, value in _pairs(args.tag)
    ]
    calls += [("DELETE", f"{root}/delete-tag", {**me, "key": key}) for key in args.untag]
    if args.stage:
        if not version:
            raise SetupError("a stage belongs to a version", hint="--model NAME/VERSION")
        calls.append(("POST", f"{root}/transition-stage", {**me, "stage": args.stage}))
    if args.name:
        if version:
            raise SetupError("a version has no name of its own", hint="leave out /VERSION")
        calls.append(("POST", f"{root}/rename", {**me, "new_name": args.name}))
    if args.delete:
        calls.append(("DELETE", f"{root}/delete", me))
    return calls


def experiment_calls(args: argparse.Namespace, experiment_id: str) -> list[Call]:
    """Return the calls that change an experiment."""
    _refuse(args, "stage", "a model version (--model NAME/VERSION)")
    me = {"experiment_id": experiment_id}
    calls: list[Call] = []
    if args.restore:
        calls.append(("POST", "experiments/restore", me))
    if args.name:
        calls.append(("POST", "experiments/update", {**me, "new_name": args.name}))
    tags = _pairs(args.tag) + ([(NOTE, args.note)] if args.note is not None else [])
    calls += [
        ("POST", "experiments/set-experiment-tag", {**me, "key": key, "value": value})
        for key, value in tags
    ]
    calls += [
        ("POST", "experiments/delete-experiment-tag", {**me, "key": key}) for key in args.untag
    ]
    if args.delete:
        calls.append(("POST", "experiments/delete", me))
    return calls


def _refuse(args: argparse.Namespace, flag: str, belongs: str) -> None:
    if getattr(args, flag):
        raise SetupError(f"--{flag} belongs to {belongs}", hint="yard edit --help")


def _experiment_id(api: Api, wanted: str) -> str:
    """Find an experiment by name or id, deleted ones too."""
    known: Callable[[str], Any] = lambda deleted: api.get(  # noqa: E731
        "/api/v1/experiments", {"deleted": deleted}
    )["experiments"]
    for one in [*known("0"), *known("1")]:
        if wanted in (one["name"], one["experiment_id"]):
            return str(one["experiment_id"])
    raise SetupError(f"no experiment is named {wanted}", hint="`yard experiments` lists them")
