"""`yard doctor`: is this installation sound, and is the server."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import sqlite3
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trackyard.cli.fleet.doctor_gang import check_gang
from trackyard.cli.fleet.doctor_node import check_node
from trackyard.cli.output import add_json, emit_json
from trackyard.client.api import Api, ApiFault, Unreachable, home

LOW_DISK = 1 << 30


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at."""

    what: str
    ok: bool
    says: str
    remedy: str = ""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("doctor", help="check this installation and the server")
    parser.add_argument(
        "--node",
        nargs="?",
        const="",
        help="check a node's health instead: this machine now, or NODE by what the server knows",
    )
    parser.add_argument(
        "--gang",
        nargs="?",
        type=int,
        const=0,
        metavar="N",
        help="look at N nodes as a gang instead (default: all that take work): network, clocks,"
        " versions, a small all-reduce",
    )
    parser.add_argument("--gpus", type=int, default=0, help="GPUs on each node of the gang")
    parser.add_argument("--queue", default="", help="queue that the gang goes to")
    add_json(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Check, print, and return 1 if anything is wrong."""
    if args.node is not None:
        return check_node(args.node, as_json=args.json)
    if args.gang is not None:
        return check_gang(args.gang, gpus=args.gpus, queue=args.queue, as_json=args.json)
    findings = [*_local(), *_server()]
    if args.json:
        emit_json(
            [
                {"what": one.what, "ok": one.ok, "says": one.says, "remedy": one.remedy}
                for one in findings
            ]
        )
    else:
        for one in findings:
            print(f"{'ok ' if one.ok else 'BAD'}  {one.what:<12} {one.says}")
            if one.remedy and not one.ok:
                print(f"     {'':<12} hint: {one.remedy}")
    return 0 if all(one.ok for one in findings) else 1


def _local() -> list[Finding]:
    folder = home()
    found = [
        Finding(
            "python",
            sys.version_info >= (3, 11),
            sys.version.split()[0],
            "Trackyard needs Python 3.11 or newer",
        ),
        Finding(
            "sqlite",
            sqlite3.sqlite_version_info >= (3, 35),
            sqlite3.sqlite_version,
            "SQLite 3.35 or newer is needed; a newer Python brings one",
        ),
        Finding(
            "web pages",
            _web_is_built(),
            "built" if _web_is_built() else "not built",
            "`make web` in a checkout builds them; wheels hold them",
        ),
    ]
    if folder.exists():
        free = shutil.disk_usage(folder).free
        found.append(
            Finding(
                "disk",
                free > LOW_DISK,
                f"{free / (1 << 30):.1f} GiB free at {folder}",
                "`yard gc` frees what was deleted",
            )
        )
        found.append(_private(folder / "token"))
    return found


def _web_is_built() -> bool:
    spec = importlib.util.find_spec("trackyard.web")
    return bool(spec and spec.origin and (Path(spec.origin).parent / "index.html").exists())


def _private(path: Path) -> Finding:
    if not path.exists():
        return Finding("token", True, "no server has used this home yet")
    mode = stat.S_IMODE(path.stat().st_mode)
    own = path.stat().st_uid == os.getuid()
    return Finding(
        "token",
        mode & 0o077 == 0 and own,
        f"{path} has mode {mode:04o}",
        f"chmod 600 {path}",
    )


def _server() -> list[Finding]:
    try:
        api = Api.from_environment()
        api.get("/ready")
    except (Unreachable, ApiFault) as fault:
        hint = fault.hint if isinstance(fault, Unreachable) else "the server's log says more"
        return [Finding("server", False, str(fault), hint)]
    found = [Finding("server", True, f"{api.url} is ready")]
    try:
        who = api.get("/api/v1/session")
    except ApiFault as fault:
        return [*found, Finding("credential", False, str(fault), "`yard login` or YARD_TOKEN")]
    found.append(
        Finding("credential", True, f"{who['user']}, {who['role']} of team {who['team']}")
    )
    if who["is_admin"]:
        found += _facts(api.get("/api/v1/admin/facts"))
    return found


def _facts(facts: dict[str, Any]) -> list[Finding]:
    per_point = facts["metric_bytes"] / facts["metric_points"] if facts["metric_points"] else 0
    return [
        Finding("version", True, f"server {facts['version']}, schema {facts['schema']}"),
        Finding("database", True, f"{facts['database']} ({_size(facts['database_bytes'])})"),
        Finding(
            "metrics",
            facts["waiting_rows"] < 100_000,
            f"{facts['metric_points']:,} points, {per_point:.1f} bytes each;"
            f" {facts['waiting_rows']} batches to settle",
            "`yard gc` settles them now",
        ),
        Finding(
            "rejected",
            not facts["rejected_writes"],
            f"{facts['rejected_writes']} acknowledged writes could not be put into their tables",
            "the table rejected_writes has their rows and the reason; restore from a backup, or"
            " delete those rows once you have looked at them",
        ),
        Finding(
            "scheduler",
            True,
            "this server schedules jobs" if facts["schedules"] else "another server schedules",
        ),
        Finding("memory", True, f"{_size(facts['resident_bytes'])} resident"),
        Finding("isolation", True, _isolation(facts)),
        Finding(
            "server disk",
            facts["disk_free_bytes"] > LOW_DISK,
            f"{_size(facts['disk_free_bytes'])} free",
            "free space, or move the home folder",
        ),
    ]


def _isolation(facts: dict[str, Any]) -> str:
    """Say whom jobs run as; a choice of the operator's, so no fault."""
    if facts["shared_rights"]:
        return f"WARNING: {facts['shared_rights']}"
    return f"jobs run as: {facts['run_as']}"


def _size(count: int | None) -> str:
    return "?" if count is None else f"{count / (1 << 20):.1f} MiB"
