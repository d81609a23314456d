"""`yard queue import-slurm`: a Slurm site's partitions as queues with the site's own limits.

Owns what is printed. Reads Slurm on this machine, and changes queues through the API alone.
"""

from __future__ import annotations

import argparse
import getpass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from trackyard.cli.output import emit_json, say
from trackyard.cli.queue import queues
from trackyard.client.api import Api
from trackyard.core.errors import SetupError
from trackyard.core.ports import EngineError

if TYPE_CHECKING:
    from trackyard.engines.slurm.limits import Accounts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.add_argument(
        "--partition", action="append", default=[], metavar="NAME", help="only this one, repeated"
    )
    parser.add_argument(
        "--account", default="", help="account whose limits hold (default: user's)"
    )
    parser.add_argument("--qos", default="", help="QOS of the jobs (default: the account's)")
    parser.add_argument(
        "--user", default="", help="user that the server submits as (default: you)"
    )
    parser.add_argument(
        "--behind",
        action="store_true",
        help="Slurm queues: its limits on running jobs are its own",
    )
    parser.add_argument("--conf", metavar="FILE", help="slurm.conf, where it is not the usual one")
    parser.add_argument("--dry-run", action="store_true", help="print, and change nothing")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Make or update one queue for each partition."""
    from trackyard.engines.slurm.commands import Commands
    from trackyard.engines.slurm.limits import partition, read_accounts, read_partitions

    commands = Commands(config=args.conf or "")
    try:
        commands.check()
        rows = read_partitions(commands)
        accounts = read_accounts(commands, args.user or getpass.getuser())
    except EngineError as fault:
        raise SetupError(
            f"Slurm's partitions cannot be read: {fault}",
            hint="run it on a machine with Slurm's commands, such as a login node",
        ) from fault
    wanted = set(args.partition)
    missing = wanted - {row["PartitionName"] for row in rows}
    if missing:
        names = ", ".join(row["PartitionName"] for row in rows)
        raise SetupError(f"there is no partition {min(missing)}", hint=f"there are {names}")
    _check_names(args, accounts)
    chosen = [row for row in rows if not wanted or row["PartitionName"] in wanted]
    api = Api.from_environment()
    known = {row["name"]: row.get("settings", {}) for row in api.get("/api/v1/queues")["queues"]}
    done: list[dict[str, Any]] = []
    for row in chosen:
        one = partition(row, accounts, account=args.account, qos=args.qos, is_behind=args.behind)
        settings = _updated(known.get(one.queue, {}), one.settings(), args)
        if not args.dry_run:
            place = f"/api/v1/queues/{quote(one.queue, safe='')}"
            settings = api.call("PUT", place, body=settings)
        done.append({"name": one.queue, "partition": one.name, "settings": settings})
    if args.json:
        emit_json({"queues": done, "dry_run": args.dry_run})
        return 0
    verb = "would be" if args.dry_run else "is"
    for made in done:
        words = _words(made["settings"])
        say(f"queue {made['name']} {verb} partition {made['partition']}: {words}")
    return 0


def _updated(
    before: dict[str, Any], found: dict[str, Any], args: argparse.Namespace
) -> dict[str, Any]:
    """Return a queue's settings with what Slurm says now; what an admin added to it stays."""
    slurm = before.get("slurm") or {}
    # A limit that an earlier import set, and that the site has lifted since, goes.
    own = {name: value for name, value in before.items() if name not in slurm.get("rules", {})}
    named = {"account": args.account, "qos": args.qos}
    slurm = {**slurm, **{name: value for name, value in named.items() if value}, **found["slurm"]}
    return {**own, **found, "slurm": slurm}


def _check_names(args: argparse.Namespace, accounts: Accounts) -> None:
    """Refuse an account or QOS that Slurm's accounting does not know."""
    names = sorted({row["Account"] for row in accounts.associations})
    if args.account and accounts.associations and args.account not in names:
        raise SetupError(
            f"{args.user or getpass.getuser()} has no account {args.account}",
            hint=f"there are {', '.join(names)}",
        )
    if args.qos and accounts.qos and args.qos not in accounts.qos:
        known = ", ".join(sorted(accounts.qos))
        raise SetupError(f"there is no QOS {args.qos}", hint=f"there are {known}")


def _words(settings: dict[str, Any]) -> str:
    rules = settings.get("slurm", {}).get("rules", {})
    return "; ".join(rules.values()) or queues.rules(settings) or "no limits"
