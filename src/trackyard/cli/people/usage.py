"""`yard usage`: GPU-hours, goodput and cost of a month; closed months; the rate card.

Owns the verb's arguments and its tables. Sums are the server's.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

from trackyard.cli.output import add_json, ago, emit_json, say, table
from trackyard.client.api import Api
from trackyard.core.errors import SetupError

_EPILOG = """examples:
  yard usage                            this month by team, with the causes of loss
  yard usage --by project,user          whose projects used what
  yard usage --by week                  goodput over time
  yard usage --by node --month 2026-10  each node's time, free and broken included
  yard usage --csv > october.csv
  yard usage close 2026-10              freeze a month that is over (admins)
  yard usage rates prices.toml          set what a GPU-hour costs (admins)"""
_ACTIONS = ("report", "months", "close", "rates")


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "usage",
        help="GPU-hours, goodput and cost by team, user, project, job or node",
        description="Show where GPU time went and what it cost.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "action",
        nargs="?",
        default="report",
        choices=_ACTIONS,
        help="report (default), months, close MONTH, rates [FILE]",
    )
    parser.add_argument("what", nargs="?", help="the month to close, or a file with rates")
    parser.add_argument("--month", metavar="YYYY-MM", help="a month (default: the present one)")
    parser.add_argument("--days", type=int, metavar="N", help="the last N days instead of a month")
    parser.add_argument("--team", help="only this team")
    parser.add_argument("--user", help="only this user")
    parser.add_argument("--project", help="only this project (experiment)")
    parser.add_argument("--job", help="only this job, by id or name")
    parser.add_argument(
        "--by",
        default="team",
        metavar="WHAT",
        help="team, user, project, queue, job, node, gpu, cause, class, day, week; several with"
        " commas",
    )
    add_json(parser)
    parser.add_argument("--csv", action="store_true", help="print CSV")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Carry out the verb."""
    api = Api.from_environment()
    if args.action == "months":
        return _months(api, args)
    if args.action == "close":
        return _close(api, args)
    if args.action == "rates":
        return _rates(api, args)
    if args.what:
        raise SetupError(f"`yard usage` takes no {args.what!r}", hint=f"--team {args.what}")
    query = _query(args)
    if args.csv:
        for piece in api.stream("/api/v1/usage", {**query, "format": "csv"}):
            sys.stdout.write(piece.decode())
        return 0
    found = api.get("/api/v1/usage", query)
    if args.json:
        emit_json(found)
    else:
        draw(found)
    return 0


def _query(args: argparse.Namespace) -> dict[str, Any]:
    query: dict[str, Any] = {"by": args.by}
    query |= {
        name: value
        for name in ("user", "project", "job", "month")
        if (value := getattr(args, name))
    }
    if args.team:
        query["of_team"] = args.team
    if args.days is not None:
        if args.month:
            raise SetupError("--month and --days exclude each other", hint="leave one out")
        if args.days < 1:
            raise SetupError("--days is a whole number from 1 up", hint="--days 7")
        import time

        query["since"] = int(time.time() * 1000) - args.days * 86_400_000
    return query


def draw(found: dict[str, Any]) -> None:
    """Print a report for people."""
    by, money = found["by"], found["currency"]
    heads = [*by, "gpu-hours", "goodput", "lost", "idle held", "leased idle"]
    has_quota = any(one["quota_ratio"] is not None for one in found["groups"])
    is_hardware = any(
        "free" in one["classes"] or "broken" in one["classes"] for one in found["groups"]
    )
    heads += ["free", "broken"] if is_hardware else []
    heads += [f"cost {money}", "kg CO2e"] + (["of quota"] if has_quota else [])
    rows = []
    for one in found["groups"]:
        kinds = one["classes"]
        cells = [one["key"][name] or "-" for name in by]
        if "job" in by and one["name"]:
            cells[by.index("job")] += f" {one['name']}"
        cells += [_hours(one["gpu_hours"]), _percent(one["goodput"])]
        names = ["lost", "idle_held", "idle_leased", *(["free", "broken"] if is_hardware else [])]
        cells += [_hours(kinds.get(name, 0.0)) for name in names]
        cells += [f"{one['cost']:,.2f}", f"{one['carbon_kg']:,.1f}"]
        rows.append(cells + ([_percent(one["quota_ratio"])] if has_quota else []))
    table(heads, rows, empty="no GPU time was used")
    if not sys.stdout.isatty():
        return
    print()
    for line in summary(found):
        print(line)


def summary(found: dict[str, Any]) -> list[str]:
    """Say what the whole amounts to, in a few lines."""
    total, fleet, wall = found["total"], found["fleet"], found["wall_gpu_hours"]
    state = (
        f"closed {ago(found['closed_ms'])} by {found['closed_by']}"
        if found["closed_ms"]
        else "open"
    )
    head = f"{found['month']} ({state}): " if found["month"] else ""
    first = (
        f"{head}{_hours(total['gpu_hours'])} GPU-hours, goodput {_percent(total['goodput'])},"
        f" {total['cost']:,.2f} {found['currency']}, {total['carbon_kg']:,.1f} kg CO2e at"
        f" {found['carbon_g_per_kwh']:g} g/kWh and PUE {found['pue']:g}"
    )
    lines = [first]
    if wall:
        parts = [
            f"{name.replace('_', ' ')} {100 * hours / wall:.1f} %"
            for name, hours in fleet.items()
            if hours
        ]
        lines.append(f"fleet: {_hours(wall)} GPU-hours of wall time: {', '.join(parts)}")
    if found["job_mtbf_hours"] is not None:
        lines.append(
            f"a job runs {found['job_mtbf_hours']:.1f} h between interruptions"
            f" ({found['interruptions']})"
        )
    if found["node_mtbf_hours"] is not None:
        lines.append(
            f"a node is in service {found['node_mtbf_hours']:.1f} h between failures"
            f" ({found['node_failures']})"
        )
    for one in found["losses"][:5]:
        cause = f" ({one['cause'].replace('_', ' ')})" if one["cause"] else ""
        worst = f", most in {one['job_name'] or one['job']}" if one["job"] else ""
        lines.append(
            f"  {one['kind'].replace('_', ' ')}{cause}: {_hours(one['gpu_hours'])} GPU-hours,"
            f" {one['cost']:,.2f} {found['currency']}{worst}"
        )
    return lines


def _hours(value: float) -> str:
    return f"{value:,.1f}" if value >= 0.05 or value == 0 else f"{value:.2g}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _months(api: Api, args: argparse.Namespace) -> int:
    found = api.get("/api/v1/usage/months")
    if args.json:
        emit_json(found)
        return 0
    rows = [(one["month"], ago(one["closed_ms"]), one["closed_by"]) for one in found["months"]]
    table(["month", "closed", "by"], rows, empty="no month is closed yet")
    return 0


def _close(api: Api, args: argparse.Namespace) -> int:
    if not args.what:
        raise SetupError("which month is to be closed?", hint="yard usage close 2026-10")
    found = api.post(f"/api/v1/usage/months/{args.what}/close")
    if args.json:
        emit_json(found)
    else:
        say(f"{found['month']} is closed; what changes later does not alter it")
    return 0


def _rates(api: Api, args: argparse.Namespace) -> int:
    if args.what:
        found = api.call("PUT", "/api/v1/usage/rates", body=_read(Path(args.what)))
    else:
        found = api.get("/api/v1/usage/rates")
    if args.json or not args.what:
        print(json.dumps(found, indent=2))
    else:
        say("the rates are set; closed months keep theirs")
    return 0


def _read(path: Path) -> Any:
    """Read a rate card from TOML or JSON."""
    try:
        text = path.read_text()
        return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError) as fault:
        raise SetupError(
            f"cannot read rates from {path}: {fault}", hint="docs/usage.md shows such a file"
        ) from fault
