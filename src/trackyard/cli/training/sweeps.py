"""`yard sweeps`: list them, show one, stop it, give it more, search around its best, train or
register the best.
"""

from __future__ import annotations

import argparse
from typing import Any
from urllib.parse import quote

from trackyard.cli import amounts
from trackyard.cli.output import add_json, ago, duration, emit_json, say, table
from trackyard.cli.watching import add_watch, present
from trackyard.client.api import Api
from trackyard.core.errors import SetupError

#: Trials of a sweep that are shown unless all are asked for.
SHOWN = 20


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("sweeps", help="list sweeps, show one, act on it")
    add_watch(parser)
    parser.set_defaults(func=_list)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    show = actions.add_parser("show", help="best so far, importance, rungs, cost, trials")
    show.add_argument("sweep", help="sweep id, or name (the newest of it)")
    show.add_argument("--all", action="store_true", help=f"every trial, not the best {SHOWN}")
    add_watch(show)
    show.set_defaults(func=_show)
    _add_action(actions, "stop", "stop a sweep and its trials", _stop)
    add = _add_action(actions, "add", "give it more trials or time; an ended one goes on", _add)
    _add_budget(add)
    around = _add_action(actions, "around", "a new sweep around its best trials", _around)
    around.add_argument("--top", type=int, default=5, metavar="N", help="of the best N (5)")
    around.add_argument("--name", default="", help="name of the new sweep")
    _add_budget(around)
    train = _add_action(actions, "train", "train with the best values, to the end", _train)
    train.add_argument("--trial", type=int, metavar="N", help="with this trial's values")
    train.add_argument(
        "--set", action="append", metavar="NAME=VALUE", help="add or change a value", default=[]
    )
    train.add_argument("--name", default="", help="name of the job")
    best = _add_action(actions, "register", "make the best trial's model a version", _register)
    best.add_argument("model", help="name of the model; it is made if there is none")
    best.add_argument("--path", default="", help="folder among the run's artifacts")
    best.add_argument("--trial", type=int, metavar="N", help="this trial's model")


def _add_action(actions: Any, name: str, words: str, func: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=words)
    parser.add_argument("sweep", help="sweep id, or name (the newest of it)")
    add_json(parser)
    parser.set_defaults(func=func)
    return parser


def _add_budget(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, metavar="N", help="so many trials")
    parser.add_argument("--gpu-hours", type=float, metavar="N", help="so many GPU-hours")
    parser.add_argument("--time", metavar="T", help="so much time, as in 2h")


def _budget(args: argparse.Namespace) -> dict[str, Any]:
    told = {"trials": args.trials, "gpu_hours": args.gpu_hours}
    found: dict[str, Any] = {key: value for key, value in told.items() if value is not None}
    if args.time is not None:
        found["seconds"] = amounts.seconds(args.time, what="--time")
    return found


def _path(args: argparse.Namespace, action: str = "") -> str:
    return f"/api/v1/sweeps/{quote(args.sweep, safe='')}" + (f"/{action}" if action else "")


def _list(args: argparse.Namespace) -> int:
    api = Api.from_environment()
    return present(
        args,
        lambda: api.get("/api/v1/sweeps")["sweeps"],
        draw_list,
        each=lambda rows: [(row["sweep_id"], row) for row in rows],
    )


def draw_list(rows: list[dict[str, Any]]) -> None:
    """Print sweeps as a table."""
    table(
        ["sweep", "name", "state", "trials", "best", "metric", "sampler", "stop", "user", "began"],
        [
            (
                row["sweep_id"],
                row["name"],
                row["state"],
                progress(row),
                row["best_value"],
                row["metric"],
                row["sampler"],
                row["stop"],
                row["user"],
                ago(row["created_ms"]),
            )
            for row in rows
        ],
        empty="no sweeps yet; `yard sweep --help` shows how to begin one",
    )


def progress(row: dict[str, Any]) -> str:
    """Say how many trials have ended, of how many."""
    ended = sum(count for state, count in row["counts"].items() if state != "running")
    return f"{ended}/{row['trials']}" if row["trials"] is not None else str(ended)


def _show(args: argparse.Namespace) -> int:
    api = Api.from_environment()
    return present(
        args,
        lambda: api.get(_path(args)),
        lambda found: draw(found, everything=args.all),
        done=lambda found: found["sweep"]["state"] != "running",
    )


def headline(sweep: dict[str, Any]) -> str:
    """Say how a sweep stands, in one line."""
    counts = ", ".join(f"{count} {state}" for state, count in sorted(sweep["counts"].items()))
    best = (
        "nothing yet"
        if sweep["best_value"] is None
        else f"{sweep['metric']} {sweep['best_value']:.6g} by trial {sweep['best_number']}"
    )
    tail = f" {sweep['sentence']}" if sweep["sentence"] else ""
    return f"{sweep['sweep_id']} ({sweep['name']}) {sweep['state']}: {counts}; best {best}.{tail}"


def draw(found: dict[str, Any], *, everything: bool) -> None:
    """Print one sweep."""
    sweep, cost = found["sweep"], found["cost"]
    print(headline(sweep))
    if found["best"]:
        values = " ".join(f"{name}={value}" for name, value in found["best"]["params"].items())
        print(f"best: {values} (job {found['best']['job_id']}, run {found['best']['run_id']})")
    foreseen = ""
    if sweep["state"] == "running" and cost["total_seconds"] is not None:
        foreseen = (
            f"; about {duration(cost['total_seconds'])} and {cost['total_gpu_hours']:.3g}"
            " GPU-hours in all"
        )
    print(f"cost: {duration(cost['seconds'])}, {cost['gpu_hours']:.3g} GPU-hours{foreseen}")
    if found["importance"]:
        shares = ", ".join(f"{one['name']} {one['share']:.0%}" for one in found["importance"])
        print(f"importance: {shares}")
    for rung in found["rungs"]:
        print(
            f"rung {rung['resource']}: {rung['reached']} reached it, {rung['went_on']} went on,"
            f" best {rung['best']:.4g}"
            if rung["best"] is not None
            else f"rung {rung['resource']}: {rung['reached']} reached it"
        )
    _draw_trials(found, everything=everything)


def _draw_trials(found: dict[str, Any], *, everything: bool) -> None:
    sweep = found["sweep"]
    sign = 1 if sweep["goal"] == "minimize" else -1
    trials = found["trials"]
    if not everything:
        trials = sorted(
            trials,
            key=lambda one: (
                one["state"] not in ("complete", "running"),
                one["value"] is None,
                sign * (one["value"] or 0),
            ),
        )[:SHOWN]
    names = list(found["space"])
    table(
        ["trial", "state", sweep["metric"], "step", *names, "time", "job", "why"],
        [
            (
                one["number"],
                one["state"],
                one["value"],
                one["step"],
                *(one["params"].get(name) for name in names),
                duration(one["seconds"]),
                one["job_id"],
                one["sentence"] or None,
            )
            for one in trials
        ],
    )


def _stop(args: argparse.Namespace) -> int:
    return _told(args, Api.from_environment().post(_path(args, "stop"), {}))


def _add(args: argparse.Namespace) -> int:
    more = _budget(args)
    if not more:
        raise SetupError("there is nothing to add", hint="give --trials, --gpu-hours or --time")
    return _told(args, Api.from_environment().post(_path(args, "extend"), more))


def _told(args: argparse.Namespace, sweep: dict[str, Any]) -> int:
    if args.json:
        emit_json(sweep)
    else:
        say(headline(sweep))
    return 0


def _around(args: argparse.Namespace) -> int:
    body = {"top": args.top, "budget": _budget(args), "name": args.name}
    made = Api.from_environment().post(_path(args, "around"), body)
    if args.json:
        emit_json(made)
    else:
        print(made["sweep"]["sweep_id"])
    return 0


def _train(args: argparse.Namespace) -> int:
    from trackyard.cli.training.sweep import plain

    pairs = (amounts.pair(text, what="--set") for text in args.set)
    values = {name: plain(value) for name, value in pairs}
    body = {"trial": args.trial, "values": values, "name": args.name}
    job = Api.from_environment().post(_path(args, "train"), body)
    if args.json:
        emit_json(job)
    else:
        print(job["job_id"])
    return 0


def _register(args: argparse.Namespace) -> int:
    body = {"model": args.model, "path": args.path, "trial": args.trial}
    made = Api.from_environment().post(_path(args, "register"), body)
    if args.json:
        emit_json(made)
    else:
        print(f"{made['model']} version {made['version']} is trial {made['trial']}")
    return 0
