"""`yard lease …`: nodes promised for a time. Owns the actions and their flags; times are read in
`lease_times`, the picture is drawn in `lease_picture`.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from trackyard.cli.leases import lease_changes, lease_picture
from trackyard.cli.leases.lease_changes import add_name, add_zone, refused, tell
from trackyard.cli.leases.lease_times import Zone, find_zone, minutes, moment_ms, say
from trackyard.cli.output import add_json, duration, emit_json, table
from trackyard.cli.output import say as remark
from trackyard.client.api import Api
from trackyard.core.errors import SetupError

DAY_MS = 86_400_000


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("lease", help="reserve nodes for a time")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _register_add(actions)
    listing = actions.add_parser("ls", aliases=["list"], help="list leases")
    listing.add_argument("--mine", action="store_true", help="one's own")
    listing.add_argument("--team", help="those of a team")
    listing.add_argument("--node", help="those on a node")
    listing.add_argument("--all", action="store_true", help="also those that are over")
    _finish(listing, list_leases)
    showing = actions.add_parser("show", help="show one lease")
    add_name(showing)
    _finish(showing, show)
    lease_changes.register(actions)
    free = actions.add_parser("free", help="find the next free slots of a shape")
    add_choice(free)
    free.add_argument("--for", dest="length", default="1h", metavar="T", help="how long")
    free.add_argument("--start", default="now", metavar="TIME", help="not before")
    free.add_argument("--within", default="14d", metavar="T", help="how far ahead to look")
    _finish(free, free_slots)
    calendar = actions.add_parser("calendar", help="draw the calendar")
    calendar.add_argument("--days", type=int, default=2, help="how many days (1 to 60)")
    calendar.add_argument("--start", default="now", metavar="TIME", help="first moment")
    calendar.add_argument("--type", default="", help="nodes of a kind")
    calendar.add_argument("--where", default="", metavar="EXPR", help="nodes that fulfil it")
    _finish(calendar, draw_calendar)
    feed = actions.add_parser("feed", help="make a token for a calendar program")
    feed.add_argument("--label", default="calendar feed", help="what it is for")
    add_json(feed)
    feed.set_defaults(func=open_feed)


def _register_add(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    adding = actions.add_parser("add", help="reserve nodes")
    adding.add_argument("name", help="what to call it")
    add_choice(adding)
    adding.add_argument("--min", type=int, help="fewest nodes that will do")
    adding.add_argument("--max", type=int, help="most nodes")
    adding.add_argument("--start", default="now", metavar="TIME", help="when; now by default")
    adding.add_argument("--for", dest="length", metavar="T", help="how long, such as 3h")
    adding.add_argument("--end", metavar="TIME", help="until when")
    adding.add_argument("--team", default="", help="for another team")
    adding.add_argument("--user", default="", help="for another member of the team")
    adding.add_argument("--purpose", default="", help="what for")
    adding.add_argument(
        "--before-end",
        choices=("drain", "notify"),
        default="drain",
        help="let jobs save before the end, or only be told",
    )
    adding.add_argument("--personal", action="store_true", help="for oneself, not for the team")
    adding.add_argument("--pool", action="store_true", help="to hand out in parts (admins)")
    adding.add_argument("--from", dest="parent", default="", metavar="POOL", help="out of a pool")
    adding.add_argument("--provider", default="", help="site that provides the nodes")
    adding.add_argument("--dry-run", action="store_true", help="say what would happen")
    _finish(adding, add)


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Give an action the flags that choose nodes."""
    parser.add_argument("--node", action="append", default=[], help="this node, repeatable")
    parser.add_argument("--type", default="", help="nodes of a kind, such as a100")
    parser.add_argument(
        "--where", default="", metavar="EXPR", help="nodes that fulfil it, as gpu.count >= 2"
    )
    parser.add_argument("--count", type=int, help="how many nodes")


def _finish(parser: argparse.ArgumentParser, action: Callable[[argparse.Namespace], int]) -> None:
    add_zone(parser)
    add_json(parser)
    parser.set_defaults(func=refused(action))


def add(args: argparse.Namespace) -> int:
    """Reserve nodes."""
    zone, now_ms = find_zone(args.zone), int(time.time() * 1000)
    if (args.length is None) == (args.end is None):
        raise SetupError("say how long: --for or --end", hint="for example --for 3h")
    wish: dict[str, Any] = {
        "name": args.name,
        "nodes": args.node,
        "type": args.type,
        "where": args.where,
        "count": args.count,
        "min": args.min,
        "max": args.max,
        "starts_ms": moment_ms(args.start, zone, now_ms=now_ms, what="--start"),
        "team": args.team,
        "user": args.user,
        "purpose": args.purpose,
        "before_end": args.before_end,
        "personal": args.personal,
        "pool": args.pool,
        "parent": args.parent,
        "provider": args.provider,
        "dry_run": args.dry_run,
        "zone": zone.name,
    }
    if args.length is not None:
        wish["minutes"] = minutes(args.length, what="--for")
    else:
        wish["ends_ms"] = moment_ms(args.end, zone, now_ms=now_ms, what="--end") or (
            now_ms // 60_000 * 60_000
        )
    return tell(args, Api.from_environment().post("/api/v1/leases", wish), zone)


def list_leases(args: argparse.Namespace) -> int:
    """List leases by start."""
    zone = find_zone(args.zone)
    query = {"zone": zone.name, "for_team": args.team, "node": args.node}
    query |= {"mine": "1" if args.mine else "", "all": "1" if args.all else ""}
    found = Api.from_environment().get(
        "/api/v1/leases", {key: value for key, value in query.items() if value}
    )
    if args.json:
        emit_json(found["leases"])
        return 0
    table(
        ["lease", "state", "nodes", "start", "end", "holder", "team", "how it stands"],
        [
            (
                row["name"],
                row["state"],
                ",".join(node["node_id"] for node in row["nodes"]),
                say(row["starts_ms"], zone),
                say(row["ends_ms"], zone),
                row["user"],
                row["team"],
                row["sentence"],
            )
            for row in found["leases"]
        ],
        empty="no leases",
    )
    return 0


def show(args: argparse.Namespace) -> int:
    """Show one lease."""
    zone = find_zone(args.zone)
    path = f"/api/v1/leases/{quote(args.name, safe='')}"
    lease = Api.from_environment().get(path, {"zone": zone.name})
    if args.json:
        emit_json(lease)
        return 0
    for name, value in _facts(lease, zone):
        print(f"{name:<12} {value}")
    return 0


def _facts(lease: dict[str, Any], zone: Zone) -> list[tuple[str, str]]:
    length = duration((lease["ends_ms"] - lease["starts_ms"]) / 1000)
    facts = [
        ("lease", f"{lease['name']} ({lease['lease_id']}), {lease['state']}"),
        ("", lease["sentence"]),
        ("holder", f"{lease['user']}, team {lease['team']}" + " alone" * lease["personal"]),
        ("start", say(lease["starts_ms"], zone)),
        ("end", f"{say(lease['ends_ms'], zone)} ({length})"),
    ]
    if lease["usable_until_ms"] < lease["ends_ms"]:
        facts.append(("jobs save", f"from {say(lease['usable_until_ms'], zone)}; another follows"))
    for node in lease["nodes"]:
        what = f"{node['gpus']}x{node['gpu_type']}" if node["gpus"] else "no GPU"
        facts.append(("node", f"{node['node_id']}: {what}, {node['state']}"))
    asked = lease["asked"]
    wanted = [*asked["nodes"], asked["type"], asked["where"]]
    facts.append(
        ("asked for", f"{asked['count']} of " + " ".join(part for part in wanted if part))
    )
    facts.append(("before end", lease["before_end"]))
    facts.append(("units", f"{lease['units']:g}"))
    for key, name in (("purpose", "purpose"), ("provider", "provider"), ("parent_name", "pool")):
        if lease[key]:
            facts.append((name, lease[key]))
    if lease["jobs"]:
        facts.append(("jobs", ", ".join(lease["jobs"])))
    return facts


def free_slots(args: argparse.Namespace) -> int:
    """Find the next free slots."""
    zone, now_ms = find_zone(args.zone), int(time.time() * 1000)
    within = minutes(args.within, what="--within") // 1440
    query: dict[str, Any] = {
        "type": args.type,
        "where": args.where,
        "node": args.node,
        "count": args.count,
        "minutes": minutes(args.length, what="--for"),
        "from_ms": moment_ms(args.start, zone, now_ms=now_ms, what="--start"),
        "within_days": max(1, within),
        "zone": zone.name,
    }
    query = {key: value for key, value in query.items() if value}
    found = Api.from_environment().get("/api/v1/leases/free", query)
    if args.json:
        emit_json(found)
        return 0
    table(
        ["start", "end", "free until", "nodes"],
        [
            (
                say(slot["starts_ms"], zone),
                say(slot["ends_ms"], zone),
                say(slot["free_until_ms"], zone) if slot["free_until_ms"] else "no end in sight",
                ",".join(slot["nodes"]),
            )
            for slot in found["slots"]
        ],
    )
    remark(found["sentence"])
    return 0 if found["slots"] else 1


def draw_calendar(args: argparse.Namespace) -> int:
    """Draw the calendar."""
    zone, now_ms = find_zone(args.zone), int(time.time() * 1000)
    if not 1 <= args.days <= 60:
        raise SetupError(f"--days {args.days} is not from 1 to 60", hint="write --days 7")
    start = moment_ms(args.start, zone, now_ms=now_ms, what="--start")
    query: dict[str, Any] = {"type": args.type, "where": args.where}
    if start is not None:
        query |= {"from_ms": start, "to_ms": start + args.days * DAY_MS}
    else:
        # The server's clock is the one that counts: ask it where now is.
        api = Api.from_environment()
        server_ms = api.get("/api/v1/leases", {"mine": "1"})["now_ms"]
        begin = server_ms // 3_600_000 * 3_600_000
        query |= {"from_ms": begin, "to_ms": begin + args.days * DAY_MS}
    query = {key: value for key, value in query.items() if value}
    found = Api.from_environment().get("/api/v1/leases/calendar", query)
    if args.json:
        emit_json(found)
        return 0
    for line in lease_picture.draw(found, zone, shutil.get_terminal_size((100, 24)).columns):
        print(line)
    return 0


def open_feed(args: argparse.Namespace) -> int:
    """Make a token that opens the calendar feed alone."""
    api = Api.from_environment()
    made = api.post("/api/v1/leases/feed", {"label": args.label})
    if args.json:
        emit_json({**made, "url": api.url + made["path"]})
        return 0
    print(f"address   {api.url}{made['path']}")
    print(f"user      {made['user']}")
    print(f"password  {made['token']}")
    remark(f"shown once; `yard token revoke {made['id']}` ends it")
    return 0
