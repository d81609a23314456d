"""`yard team add|list|set|members|member|remove`: teams, their share, and who is in them."""

from __future__ import annotations

import argparse
from typing import Any

from trackyard.cli import amounts
from trackyard.cli.output import add_json, ago, emit_json, say, table
from trackyard.cli.queue.queue import add_classes, classes
from trackyard.client.api import Api
from trackyard.core.errors import SetupError

#: What stands for nothing in a claim; for the others it is null.
_NOTHING = {"parent": "", "lendable_gpus": 0}


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("team", help="add teams and manage their members")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add = actions.add_parser("add", help="create a team")
    add.add_argument("name")
    add.set_defaults(func=add_team)
    share = actions.add_parser("set", help="set a team's share, quota and limits (admins)")
    share.add_argument("name", metavar="team")
    share.add_argument("--share", metavar="N", help="weight among its siblings (default 1)")
    share.add_argument("--parent", metavar="TEAM", help="the team that is its department, or none")
    share.add_argument("--quota", metavar="GPUS", help="GPUs that are its own, or none")
    share.add_argument("--limit", metavar="GPUS", help="most GPUs at once, or none")
    share.add_argument(
        "--lendable",
        metavar="GPUS",
        help="GPUs of its quota that others may borrow for jobs that may not be preempted",
    )
    share.add_argument("--max-running", metavar="N", help="most jobs at once, or none")
    add_classes(share)
    share.add_argument(
        "--urgent-budget",
        metavar="HOURS",
        help="GPU-hours that its urgent jobs may use in seven days, as in 24h, or none",
    )
    add_json(share)
    share.set_defaults(func=set_share)
    listing = actions.add_parser("list", aliases=["ls"], help="list teams")
    add_json(listing)
    listing.set_defaults(func=list_teams)
    members = actions.add_parser("members", help="list the members of your team")
    add_json(members)
    members.set_defaults(func=list_members)
    member = actions.add_parser("member", help="put a user into a team, or change the role")
    member.add_argument("team")
    member.add_argument("user")
    member.add_argument("--role", default="member", help="viewer, member, maintainer or owner")
    member.set_defaults(func=set_member)
    remove = actions.add_parser("remove", help="take a user out of a team")
    remove.add_argument("team")
    remove.add_argument("user")
    remove.set_defaults(func=remove_member)


def add_team(args: argparse.Namespace) -> int:
    """Create a team."""
    Api.from_environment().post("/api/v1/teams", {"name": args.name})
    say(f"team {args.name} is there")
    return 0


def set_share(args: argparse.Namespace) -> int:
    """Change what is given of a team's claim, and leave the rest."""
    api = Api.from_environment()
    given = {
        "share": None if args.share is None else amounts.number(args.share, what="--share"),
        "quota_gpus": _limit(args.quota, "--quota"),
        "limit_gpus": _limit(args.limit, "--limit"),
        "lendable_gpus": _limit(args.lendable, "--lendable"),
        "parent": args.parent,
        "max_running": _limit(args.max_running, "--max-running", is_whole=True),
        "urgent_gpu_hours": _hours(args.urgent_budget),
    }
    if all(value is None for value in given.values()) and not args.classes:
        raise SetupError(
            "nothing is to be set", hint=f"yard team set {args.name} --share 2 --quota 8"
        )
    known = {row["team"]: row for row in api.get("/api/v1/shares")["teams"]}
    before = known.get(args.name, {})
    body = {key: before[key] for key in given if key in before}
    body |= {key: _value(key, value) for key, value in given.items() if value is not None}
    body["classes"] = classes(args.classes or [], before.get("classes") or {})
    answer = api.call("PUT", f"/api/v1/teams/{args.name}/share", body=body)
    if args.json:
        emit_json({"team": args.name, **answer})
    else:
        quota, limit = answer.get("quota_gpus"), answer.get("limit_gpus")
        say(
            f"team {args.name} has share {answer['share']:g},"
            f" quota {'none' if quota is None else f'{quota:g} gpus'},"
            f" limit {'none' if limit is None else f'{limit:g} gpus'}{_more(answer)}"
        )
    return 0


def _more(answer: dict[str, Any]) -> str:
    """Say what is set about departments, loans and priority classes, if anything is."""
    words = [f"in department {answer['parent']}"] if answer.get("parent") else []
    if answer.get("lendable_gpus"):
        words.append(f"lends {answer['lendable_gpus']:g} gpus for good")
    words += [f"{name} for {role}s" for name, role in (answer.get("classes") or {}).items()]
    if answer.get("urgent_gpu_hours") is not None:
        words.append(f"{answer['urgent_gpu_hours']:g} urgent gpu-hours a week")
    return "".join(f", {word}" for word in words)


def _hours(text: str | None) -> Any:
    """Read GPU-hours: `24h`, `2d` or a bare number of hours."""
    if text is None or text == "none":
        return text
    if text.replace(".", "", 1).isdigit():
        return float(text)
    return amounts.seconds(text, what="--urgent-budget") / 3600


def _limit(text: str | None, what: str, *, is_whole: bool = False) -> Any:
    if text is None or text == "none":
        return text
    return amounts.whole(text, what=what) if is_whole else amounts.number(text, what=what)


def _value(key: str, given: Any) -> Any:
    return _NOTHING.get(key) if given == "none" else given


def list_teams(args: argparse.Namespace) -> int:
    """Show the teams."""
    found = Api.from_environment().get("/api/v1/teams")["teams"]
    if args.json:
        emit_json(found)
        return 0
    table(
        ["team", "members", "created"],
        [(row["name"], row["members"], ago(row["created_ms"])) for row in found],
    )
    return 0


def list_members(args: argparse.Namespace) -> int:
    """Show who is in one's team."""
    found = Api.from_environment().get("/api/v1/members")["members"]
    if args.json:
        emit_json(found)
        return 0
    table(["user", "role"], [(row["user"], row["role"]) for row in found])
    return 0


def set_member(args: argparse.Namespace) -> int:
    """Give a user a role in a team."""
    path = f"/api/v1/teams/{args.team}/members/{args.user}"
    Api.from_environment().call("PUT", path, body={"role": args.role})
    say(f"{args.user} is {args.role} in team {args.team}")
    return 0


def remove_member(args: argparse.Namespace) -> int:
    """Take a user out of a team."""
    Api.from_environment().call("DELETE", f"/api/v1/teams/{args.team}/members/{args.user}")
    say(f"{args.user} left team {args.team}")
    return 0
