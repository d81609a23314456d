"""`yard sweep [sweep.yaml] [flags] -- CMD…`: search over parameters; each trial is a job.

Owns the sweep file, its flags and how both become one request. What they mean is checked by the
server, whose sentences name the nearest right word. stdout carries the sweep's id alone.
"""

from __future__ import annotations

import argparse
import shlex
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trackyard.cli import amounts
from trackyard.cli.jobs.waiting import ask
from trackyard.cli.output import add_json, emit_json, say
from trackyard.cli.submit import jobfile, sending, wish
from trackyard.cli.training.sweeps import headline
from trackyard.client.api import Api
from trackyard.core.errors import SetupError

#: Keys of a sweep file that go into the request as they are.
PLAIN = (
    "name", "metric", "goal", "sampler", "seed", "slots", "values_as", "value", "max_failed",
)  # fmt: skip
KEYS = (*PLAIN, "space", "stop", "budget", "grace", "job", "command")
BUDGET = ("trials", "gpu_hours", "time")
LOOK_SECONDS = 1.0


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "sweep",
        help="search over parameters; each trial is a job",
        usage="yard sweep [SWEEP.yaml] [flags] -- COMMAND [ARGUMENT …]",
        description="Try a command with many values and keep what is best.",
        epilog="Flags of `yard submit` say what each trial needs; see docs/sweeps.md.",
    )
    parser.add_argument("sweep_file", nargs="?", type=Path, metavar="SWEEP.yaml")
    _add_search_flags(parser)
    wish.add_flags(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="print the sweep's id alone")
    parser.add_argument("--dry-run", action="store_true", help="show the first trials, run none")
    parser.add_argument("--wait", action="store_true", help="wait; exit 1 unless it finishes")
    add_json(parser)
    parser.set_defaults(func=run, command=[])
    _split_command(parser)


def _add_search_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--param", action="append", metavar="NAME=VALUES",
        help="lr=log:1e-5:0.1, layers=int:1:4, dropout=range:0:0.5 or opt=adam,sgd")  # fmt: skip
    add("--metric", help="metric that decides, as the script logs it")
    add("--goal", help="minimize (default) or maximize it")
    add("--sampler", help="tpe, random, grid, gp or cmaes")
    add("--seed", metavar="N", help="seed of the search (default 0)")
    add("--stop", metavar="METHOD[:KEY=N,…]",
        help="early stopping: asha:min=1,max=27,eta=3, hyperband, median, pbt")  # fmt: skip
    add("--trials", metavar="N", help="budget: number of trials")
    add("--gpu-hours", metavar="N", help="budget: GPU-hours of all trials")
    add("--budget-time", metavar="T", help="budget: time from start to end, as in 8h")
    add("--slots", metavar="N", help="trials that run at once (default 1)")
    add("--values-as", metavar="HOW", help="flags (default), assignments, env or params")
    add("--value", metavar="WHICH", help="which value counts: last (default) or best")
    add("--max-failed", metavar="N", help="failed trials in a row before it gives up (5)")


def _split_command(parser: argparse.ArgumentParser) -> None:
    """Let the parser see only what stands before `--`; the rest is the command."""
    parse = parser.parse_known_args

    def split(args: Sequence[str] | None = None, namespace: Any = None) -> Any:
        words, command = list(args or ()), list[str]()
        if "--" in words:
            at = words.index("--")
            words, command = words[:at], words[at + 1 :]
        found, rest = parse(words, namespace)
        found.command = command
        return found, rest

    parser.parse_known_args = split  # type: ignore[method-assign, assignment]


def run(args: argparse.Namespace) -> int:
    """Read file and flags, send the folder, begin the sweep."""
    fields = search_fields(args)
    told = fields.pop("job", {})
    if not isinstance(told, dict):
        raise SetupError("`job` holds no keys", hint="write `job:` with `gpus: 1` below it")
    jobfile.check_keys(args.sweep_file or Path("job"), told, wish.KEYS)
    base = args.sweep_file.parent if args.sweep_file else Path()
    if "command" in fields:
        told = {"command": fields.pop("command"), **told}
    asked = wish.collect(args, told, base)
    made = sending.build(asked)
    api = Api.from_environment()
    job = dict(asked.fields)
    # One flag names the sweep and its jobs.
    fields.setdefault("name", job.pop("name", ""))
    if made is not None:
        if not args.dry_run:
            sending.send(api, made)
            job["package"] = made.digest
        job["source"] = sending.source_fields(asked.folder)
    body = {**fields, "job": job, "dry_run": args.dry_run, "key": uuid.uuid4().hex}
    answer = api.post("/api/v1/sweeps", body)
    return _after(api, args, answer)


def search_fields(args: argparse.Namespace) -> dict[str, Any]:
    """Join sweep file and flags; a flag wins over the file."""
    found = jobfile.load(args.sweep_file, KEYS) if args.sweep_file else {}
    for key in PLAIN:
        given = getattr(args, key, None)
        if given is not None and key != "name":
            found[key] = given
    for key in ("seed", "slots", "max_failed"):
        if key in found:
            found[key] = amounts.whole(found[key], what=key)
    if "grace" in found:
        found["grace_seconds"] = amounts.seconds(found.pop("grace"), what="grace")
    if args.param:
        found["space"] = {**found.get("space", {}), **dict(_param(text) for text in args.param)}
    if args.stop:
        found["stop"] = _stop(args.stop)
    elif isinstance(found.get("stop"), str):
        found["stop"] = _stop(found["stop"])
    found["budget"] = _budget(args, found.get("budget") or {})
    if "metric" not in found or "space" not in found:
        raise SetupError(
            "a sweep needs a metric and a space",
            hint="`--metric val_loss --param lr=log:1e-5:0.1`, or a file; see docs/sweeps.md",
        )
    return found


def _budget(args: argparse.Namespace, told: Any) -> dict[str, Any]:
    if not isinstance(told, dict):
        raise SetupError(f"budget {told!r} has no keys", hint="write `budget: {trials: 50}`")
    given = {key.replace("-", "_"): value for key, value in told.items()}
    jobfile.check_keys(Path("budget"), given, BUDGET)
    flags = {"trials": args.trials, "gpu_hours": args.gpu_hours, "time": args.budget_time}
    given |= {key: value for key, value in flags.items() if value is not None}
    return amounts_of(given)


def amounts_of(given: dict[str, Any]) -> dict[str, Any]:
    """Return a budget as the server wants it."""
    found: dict[str, Any] = {}
    if "trials" in given:
        found["trials"] = amounts.whole(given["trials"], what="trials")
    if "gpu_hours" in given:
        found["gpu_hours"] = amounts.number(given["gpu_hours"], what="gpu_hours")
    if "time" in given:
        found["seconds"] = amounts.seconds(given["time"], what="time")
    return found


def _param(text: str) -> tuple[str, Any]:
    name, values = amounts.pair(text, what="--param")
    kind, colon, rest = values.partition(":")
    if not colon or kind not in ("log", "range", "int"):
        return name, [plain(word) for word in values.split(",")]
    parts = [plain(word) for word in rest.split(":")]
    if len(parts) not in (2, 3):
        raise SetupError(
            f"--param {text!r} is not understood", hint=f"write {name}={kind}:LOW:HIGH"
        )
    told: dict[str, Any] = {kind: parts[:2]}
    if len(parts) == 3:
        told["step"] = parts[2]
    return name, told


def plain(word: str) -> Any:
    """Read a value of a flag as YAML would: a number, true or false, else text."""
    for read in (int, float):
        try:
            return read(word)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(word.lower(), word)


def _stop(text: str) -> dict[str, Any]:
    method, _, rest = text.partition(":")
    found: dict[str, Any] = {"method": method}
    for part in filter(None, rest.split(",")):
        key, value = amounts.pair(part, what="--stop")
        found[key] = plain(value)
    return found


def _after(api: Api, args: argparse.Namespace, answer: dict[str, Any]) -> int:
    if args.dry_run:
        if args.json:
            emit_json(answer)
            return 0
        trials = (
            answer["trials"] if answer["trials"] is not None else "as many as its budget takes"
        )
        say(f"sampler {answer['sampler']}, trials: {trials}; such as")
        for command in answer["preview"]:
            print(shlex.join(command))
        return 0
    sweep = answer["sweep"]
    if args.json and not args.wait:
        emit_json(answer)
        return 0
    if not args.json:
        print(sweep["sweep_id"], flush=True)
        if not args.quiet:
            say(_footer(sweep))
    if not args.wait:
        return 0
    ended = wait(api, sweep["sweep_id"])
    if args.json:
        emit_json(ended)
    elif not args.quiet:
        say(headline(ended["sweep"]))
    return 0 if ended["sweep"]["state"] == "finished" else 1


def wait(api: Api, sweep: str) -> dict[str, Any]:
    """Return a sweep when it has ended, through restarts of the server."""
    while True:
        found: dict[str, Any] = ask(lambda: api.get(f"/api/v1/sweeps/{sweep}"))
        if found["sweep"]["state"] != "running":
            return found
        time.sleep(LOOK_SECONDS)


def _footer(sweep: dict[str, Any]) -> str:
    name = sweep["sweep_id"]
    return (
        f"\nbegan {name} ({sweep['name']}), its jobs are {sweep['array_id']}-0, -1, …\n"
        f"  yard sweeps show {name}\n"
        f"  yard logs -f {sweep['array_id']}-0\n"
        f"  yard sweeps stop {name}"
    )
