"""`yard queue set|list|remove|import-slurm`: queues and their rules, for admins."""

from __future__ import annotations

import argparse
from typing import Any
from urllib.parse import quote

from trackyard.cli import amounts
from trackyard.cli.output import emit_json, say
from trackyard.cli.queue import queue_slurm, queues
from trackyard.client.api import Api
from trackyard.core.errors import SetupError

ORDERS = ("default", "fifo", "fair", "dominant", "shortest")
#: Flags that take a number or `none`, with the setting each stands for.
LIMITS = {
    "quota": ("quota_gpus", "GPUs its jobs may hold at once"),
    "max_running": ("max_running", "jobs that run at once"),
    "max_gpus": ("max_gpus_per_job", "GPUs of one job"),
    "max_nodes": ("max_nodes_per_job", "nodes of one job"),
    "max_user_gpus": ("max_gpus_per_user", "GPUs of one user at once"),
    "max_user_running": ("max_running_per_user", "jobs of one user at once"),
}
_WHOLE = ("max_running", "max_nodes", "max_user_running")
#: The same for CPUs and memory: what jobs get that state none, and the most of one job.
AMOUNTS = {
    "default_cpus": ("default_cpus", "CPUs of a job without GPUs that states none"),
    "default_memory": ("default_memory_bytes", "memory of a job without GPUs that states none"),
    "default_cpus_per_gpu": ("default_cpus_per_gpu", "CPUs for each GPU where none are stated"),
    "default_memory_per_gpu": ("default_memory_per_gpu_bytes", "memory for each GPU, likewise"),
    "max_cpus": ("max_cpus_per_job", "CPUs of one job, all nodes together"),
    "max_memory": ("max_memory_per_job_bytes", "memory of one job, all nodes together"),
}
PREEMPTIBLE = ("no", "yes", "always")


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("queue", help="set up queues and their limits")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", aliases=["ls"], help="list queues")
    queues.add_arguments(listing)
    change = actions.add_parser("set", help="make a queue, or change its rules")
    change.add_argument("name")
    change.add_argument("--teams", metavar="A,B", help="teams that may use it; `all` for every")
    change.add_argument("--rank", type=int, help="lower goes first among jobs of one class")
    change.add_argument("--order", choices=ORDERS, help="who goes first in it")
    change.add_argument(
        "--gang",
        metavar="GANG",
        help="gang of jobs that ask for nothing themselves, as in 2x1gpu,8cpu, or none",
    )
    change.add_argument("--max-time", metavar="T", help="longest time limit of a job, or none")
    for flag, (_, words) in LIMITS.items():
        change.add_argument(f"--{flag.replace('_', '-')}", metavar="N", help=f"{words}, or none")
    for flag, (_, words) in AMOUNTS.items():
        metavar = "SIZE" if "memory" in flag else "N"
        option = f"--{flag.replace('_', '-')}"
        change.add_argument(option, metavar=metavar, help=f"{words}, or none")
    change.add_argument(
        "--zero-cpus", choices=("yes", "no"), help="whether jobs may ask for no CPUs (--cpus 0)"
    )
    add_classes(change)
    change.add_argument(
        "--preemptible-default",
        choices=PREEMPTIBLE,
        help="whether jobs that say nothing may be stopped for others; `always`: no opting out",
    )
    change.add_argument("--json", action="store_true", help="print JSON")
    change.set_defaults(func=set_queue)
    slurm = actions.add_parser(
        "import-slurm", help="make queues of a Slurm site's partitions, with the site's limits"
    )
    queue_slurm.add_arguments(slurm)
    remove = actions.add_parser("remove", aliases=["rm"], help="remove an empty queue")
    remove.add_argument("name")
    remove.set_defaults(func=remove_queue)


def set_queue(args: argparse.Namespace) -> int:
    """Make a queue, or change those of its rules that are given."""
    api = Api.from_environment()
    found = {row["name"]: row for row in api.get("/api/v1/queues")["queues"]}
    known = found.get(args.name, {}).get("settings", {})
    settings = {**known, **changes(args)}
    if args.classes:
        settings["classes"] = classes(args.classes, known.get("classes") or {})
    answer = api.call("PUT", f"/api/v1/queues/{quote(args.name, safe='')}", body=settings)
    if args.json:
        emit_json({"name": args.name, "settings": answer})
    else:
        verb = "has new rules" if args.name in found else "is there"
        say(f"queue {args.name} {verb}: {queues.rules(answer) or 'no limits'}")
    return 0


def changes(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that the flags change."""
    changed: dict[str, Any] = {}
    if args.teams is not None:
        names = [word.strip() for word in args.teams.split(",") if word.strip()]
        changed["teams"] = [] if names == ["all"] else names
    if args.rank is not None:
        changed["rank"] = args.rank
    if args.order is not None:
        changed["order"] = args.order
    if args.gang is not None:
        changed["gang"] = "" if args.gang == "none" else args.gang
    if args.max_time is not None:
        changed["max_wall_seconds"] = (
            None if args.max_time == "none" else amounts.seconds(args.max_time, what="--max-time")
        )
    for flag, (setting, _) in LIMITS.items():
        given = getattr(args, flag)
        if given is not None:
            changed[setting] = limit(given, flag)
    return changed | _defaults(args)


def _defaults(args: argparse.Namespace) -> dict[str, Any]:
    """Return what the flags change about jobs that leave something open."""
    changed: dict[str, Any] = {}
    for flag, (setting, _) in AMOUNTS.items():
        given = getattr(args, flag)
        if given is not None:
            changed[setting] = _amount(given, flag)
    if args.zero_cpus is not None:
        changed["zero_cpus"] = args.zero_cpus == "yes"
    if args.preemptible_default is not None:
        changed["preemptible_default"] = args.preemptible_default
    return changed


def add_classes(parser: argparse.ArgumentParser) -> None:
    """Add the flag by which classes are given to roles."""
    parser.add_argument(
        "--class",
        dest="classes",
        action="append",
        metavar="CLASS=ROLE",
        help="least role for a priority class: member, maintainer, owner or admin;"
        " CLASS=default forgets the rule",
    )


def classes(given: list[str], known: dict[str, str]) -> dict[str, str]:
    """Join rules about classes with those there are."""
    found = dict(known)
    for text in given:
        name, role = amounts.pair(text, what="--class")
        if role == "default":
            found.pop(name, None)
        else:
            found[name] = role
    return found


def _amount(text: str, flag: str) -> float | int | None:
    if text == "none":
        return None
    what = f"--{flag.replace('_', '-')}"
    if "memory" in flag:
        return 0 if text == "0" else amounts.memory_bytes(text, what=what)
    return amounts.number(text, what=what)


def limit(text: str, flag: str) -> float | int | None:
    """Read a limit: a number, or `none` for no limit."""
    if text == "none":
        return None
    what = f"--{flag.replace('_', '-')}"
    if flag in _WHOLE:
        return amounts.whole(text, what=what)
    return amounts.number(text, what=what)


def remove_queue(args: argparse.Namespace) -> int:
    """Remove a queue."""
    if args.name == "default":
        raise SetupError(
            "the queue `default` cannot be removed", hint="`yard queue set default` limits it"
        )
    Api.from_environment().call("DELETE", f"/api/v1/queues/{quote(args.name, safe='')}")
    say(f"queue {args.name} is gone")
    return 0
