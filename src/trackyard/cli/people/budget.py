"""`yard budget ls|set`: what teams may use in a month, and what they have used."""

from __future__ import annotations

import argparse
from typing import Any

from trackyard.cli import amounts
from trackyard.cli.output import add_json, emit_json, say, table
from trackyard.client.api import Api
from trackyard.core.errors import SetupError


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("budget", help="show and set the budgets of teams")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", aliases=["ls"], help="list budgets and what is used")
    add_json(listing)
    listing.set_defaults(func=list_budgets)
    setting = actions.add_parser("set", help="set a team's monthly budget (admins)")
    setting.add_argument("team", help="a team, or a department for all teams in it")
    setting.add_argument("--gpu-hours", metavar="N", help="GPU-hours a month, or none")
    setting.add_argument("--cost", metavar="N", help="cost a month by the rate card, or none")
    setting.add_argument("--warn", metavar="PERCENT", help="warn from here on (default 80)")
    hold = setting.add_mutually_exclusive_group()
    hold.add_argument(
        "--hold", action="store_true", default=None, help="jobs wait once it is used up (default)"
    )
    hold.add_argument(
        "--no-hold", dest="hold", action="store_false", help="only tell people, hold nothing"
    )
    add_json(setting)
    setting.set_defaults(func=set_budget)


def list_budgets(args: argparse.Namespace) -> int:
    """List budgets."""
    found = Api.from_environment().get("/api/v1/budgets")
    if args.json:
        emit_json(found)
        return 0
    table(
        ["team", "month", "gpu-hours", "cost", "used", "state", "beyond it"],
        [
            (
                one["team"],
                one["month"],
                _of(one["used_gpu_hours"], one["gpu_hours"]),
                _of(one["used_cost"], one["cost"]),
                f"{100 * one['used_ratio']:.0f} %",
                one["state"],
                "jobs wait" if one["hold"] else "people are told",
            )
            for one in found["budgets"]
        ],
        empty="no team has a budget; `yard budget set TEAM --gpu-hours 5000` gives it one",
    )
    return 0


def set_budget(args: argparse.Namespace) -> int:
    """Change what is given of a budget, and leave the rest."""
    api = Api.from_environment()
    given = {"gpu_hours": args.gpu_hours, "cost": args.cost, "warn_at": args.warn}
    if all(value is None for value in given.values()) and args.hold is None:
        raise SetupError(
            "nothing is to be set", hint=f"yard budget set {args.team} --gpu-hours 5000"
        )
    known = {one["team"]: one for one in api.get("/api/v1/budgets")["budgets"]}
    before = known.get(args.team, {})
    body = {key: before[key] for key in (*given, "hold") if key in before}
    for key, value in given.items():
        if value is not None:
            body[key] = _amount(key, value)
    if args.hold is not None:
        body["hold"] = args.hold
    answer = api.call("PUT", f"/api/v1/teams/{args.team}/budget", body=body)
    if args.json:
        emit_json({"team": args.team, **answer})
    else:
        say(f"team {args.team}: {_words(answer)}")
    return 0


def _amount(key: str, value: str) -> float | None:
    if value == "none" and key != "warn_at":
        return None
    flag = {"gpu_hours": "--gpu-hours", "cost": "--cost", "warn_at": "--warn"}[key]
    found = amounts.number(value.rstrip("%"), what=flag)
    return found / 100 if key == "warn_at" else found


def _of(used: float, limit: float | None) -> str:
    return f"{used:,.1f}" if limit is None else f"{used:,.1f} of {limit:,.0f}"


def _words(answer: dict[str, Any]) -> str:
    parts = []
    if answer.get("gpu_hours") is not None:
        parts.append(f"{answer['gpu_hours']:g} GPU-hours a month")
    if answer.get("cost") is not None:
        parts.append(f"a cost of {answer['cost']:g} a month")
    if not parts:
        return "no budget"
    after = "then jobs wait" if answer.get("hold", True) else "then people are told"
    return f"{' and '.join(parts)}; warned from {100 * answer.get('warn_at', 0.8):g} % on, {after}"
