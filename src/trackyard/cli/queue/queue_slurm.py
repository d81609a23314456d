"""`yard queue import-slurm`: a Slurm site's partitions as queues with the site's own limits.

Owns what is printed. Reads Slurm on this machine, and changes queues through the API alone.
"""

from __future__ import annotations

import argparse
from typing import Any
from urllib.parse import quote

from trackyard.cli.output import emit_json, say
from trackyard.cli.queue import queues
from trackyard.client.api import Api
from trackyard.core.errors import SetupError
from trackyard.core.ports import EngineError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.add_argument(
        "--partition", action="append", default=[], metavar="NAME", help="only this one, repeated"
    )
    parser.add_argument("--conf", metavar="FILE", help="slurm.conf, where it is not the usual one")
    parser.add_argument("--dry-run", action="store_true", help="print, and change nothing")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Make or update one queue for each partition."""
    from trackyard.engines.slurm.commands import Commands
    from trackyard.engines.slurm.limits import read_partitions

    commands = Commands(config=args.conf or "")
    try:
        commands.check()
        found = read_partitions(commands)
    except EngineError as fault:
        raise SetupError(
            f"Slurm's partitions cannot be read: {fault}",
            hint="run it on a machine with Slurm's commands, such as a login node",
        ) from fault
    wanted = set(args.partition)
    missing = wanted - {one.name for one in found}
    if missing:
        names = ", ".join(one.name for one in found)
        raise SetupError(f"there is no partition {min(missing)}", hint=f"there are {names}")
    chosen = [one for one in found if not wanted or one.name in wanted]
    api = Api.from_environment()
    known = {row["name"]: row.get("settings", {}) for row in api.get("/api/v1/queues")["queues"]}
    done: list[dict[str, Any]] = []
    for one in chosen:
        before = known.get(one.queue, {})
        # What an admin added to an imported queue stays; only what Slurm says is brought up.
        settings = {**before, **one.settings()}
        settings["slurm"] = {**(before.get("slurm") or {}), **settings["slurm"]}
        if not args.dry_run:
            place = f"/api/v1/queues/{quote(one.queue, safe='')}"
            settings = api.call("PUT", place, body=settings)
        done.append({"name": one.queue, "partition": one.name, "settings": settings})
    if args.json:
        emit_json({"queues": done, "dry_run": args.dry_run})
        return 0
    verb = "would be" if args.dry_run else "is"
    for row in done:
        say(f"queue {row['name']} {verb} partition {row['partition']}: {_words(row['settings'])}")
    return 0


def _words(settings: dict[str, Any]) -> str:
    rules = settings.get("slurm", {}).get("rules", {})
    return "; ".join(rules.values()) or queues.rules(settings) or "no limits"
