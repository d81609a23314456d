"""`yard lease extend|shrink|move|transfer|release|recall`, and how every lease command tells what
became of it: the sentence, jobs that move, warnings, or the refusal with the nearest slots.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from trackyard.cli.leases.lease_times import Zone, find_zone, minutes, moment_ms, say
from trackyard.cli.output import add_json, emit_json
from trackyard.cli.output import say as remark
from trackyard.client.api import Api, ApiFault
from trackyard.core.errors import SetupError

Action = Callable[[argparse.Namespace], int]
REFUSED = 1


def register(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the actions that change a lease."""
    longer = _action(actions, "extend", "prolong a lease", extend)
    longer.add_argument("--for", dest="length", metavar="T", help="by how much")
    longer.add_argument("--end", metavar="TIME", help="until when")
    longer.add_argument("--dry-run", action="store_true", help="say what would happen")
    shorter = _action(actions, "shrink", "give up a part of a lease", shrink)
    shorter.add_argument("--for", dest="length", metavar="T", help="by how much it ends earlier")
    shorter.add_argument("--end", metavar="TIME", help="an earlier end")
    shorter.add_argument("--start", metavar="TIME", help="a later start")
    shorter.add_argument("--node", action="append", default=[], help="give back, repeatable")
    shorter.add_argument("--dry-run", action="store_true", help="say what would happen")
    other = _action(actions, "move", "give a lease another time, nodes or name", move)
    other.add_argument("--start", metavar="TIME", help="a new start; the length stays")
    other.add_argument("--end", metavar="TIME", help="a new end")
    other.add_argument("--node", action="append", default=[], help="these nodes, repeatable")
    other.add_argument("--name", dest="new_name", help="a new name")
    other.add_argument("--purpose", help="another purpose")
    other.add_argument("--before-end", choices=("drain", "notify"), help="how it ends")
    other.add_argument("--dry-run", action="store_true", help="say what would happen")
    handed = _action(actions, "transfer", "hand a lease over to someone else", transfer)
    handed.add_argument("user", help="who takes it")
    handed.add_argument("--team", default="", help="in another team")
    given = _action(actions, "release", "give a lease back", release)
    given.add_argument("--note", default="", help="why")
    _action(actions, "recall", "call lent nodes back at once", recall)


def _action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    words: str,
    act: Action,
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=words)
    add_name(parser)
    add_zone(parser)
    add_json(parser)
    parser.set_defaults(func=refused(act))
    return parser


def add_name(parser: argparse.ArgumentParser) -> None:
    """Give an action its lease."""
    parser.add_argument("name", metavar="lease", help="name or id of the lease")


def add_zone(parser: argparse.ArgumentParser) -> None:
    """Give an action its zone."""
    parser.add_argument("--zone", metavar="ZONE", help="zone of times; this machine's by default")


def extend(args: argparse.Namespace) -> int:
    """Prolong a lease."""
    zone = find_zone(args.zone)
    wish = {**_end(args, zone, needed=True), "dry_run": args.dry_run, "zone": zone.name}
    return tell(args, _post(args, "extend", wish), zone)


def shrink(args: argparse.Namespace) -> int:
    """Give up a part of a lease."""
    zone = find_zone(args.zone)
    wish = {**_end(args, zone), "nodes": args.node, "dry_run": args.dry_run, "zone": zone.name}
    if args.start is not None:
        wish["starts_ms"] = _moment(args.start, zone, "--start")
    return tell(args, _post(args, "shrink", wish), zone)


def move(args: argparse.Namespace) -> int:
    """Give a lease another time, other nodes or another name."""
    zone = find_zone(args.zone)
    wish: dict[str, Any] = {"dry_run": args.dry_run, "zone": zone.name}
    for key, value in (("starts_ms", args.start), ("ends_ms", args.end)):
        if value is not None:
            flag = "--start" if key == "starts_ms" else "--end"
            wish[key] = _moment(value, zone, flag)
    others = {
        "nodes": args.node or None,
        "name": args.new_name,
        "purpose": args.purpose,
        "before_end": args.before_end,
    }
    wish |= {key: value for key, value in others.items() if value is not None}
    if len(wish) == 2:
        raise SetupError("say what to change", hint="--start, --end, --node, --name or --purpose")
    return tell(args, _post(args, "move", wish), zone)


def transfer(args: argparse.Namespace) -> int:
    """Hand a lease over."""
    zone = find_zone(args.zone)
    wish = {"user": args.user, "team": args.team, "zone": zone.name}
    return tell(args, _post(args, "transfer", wish), zone)


def release(args: argparse.Namespace) -> int:
    """Give a lease back."""
    zone = find_zone(args.zone)
    return tell(args, _post(args, "release", {"note": args.note, "zone": zone.name}), zone)


def recall(args: argparse.Namespace) -> int:
    """Call lent nodes back."""
    zone = find_zone(args.zone)
    return tell(args, _post(args, "recall", {"zone": zone.name}), zone)


def tell(args: argparse.Namespace, answer: dict[str, Any], zone: Zone) -> int:
    """Say what became, or would become, of a lease."""
    if args.json:
        emit_json(answer)
        return 0
    remark(answer["sentence"])
    for effect in answer["effects"]:
        who = effect["name"] or effect["job_id"] or "a job"
        whose = f" of {effect['user']}" if effect["user"] else f" of {effect['team']}"
        when = f" ({say(effect['at_ms'], zone)})" if effect["at_ms"] else ""
        where = f" on {', '.join(effect['node_ids'])}" if effect["node_ids"] else ""
        remark(f"  job {who}{whose}{where} {effect['sentence']}{when}")
    for warning in answer["warnings"]:
        remark(f"  note: {warning}")
    if not answer["dry_run"]:
        print(answer["lease"]["lease_id"])
    return 0


def refused(action: Action) -> Action:
    """Let an action print a refusal with its remedy and the nearest slots."""

    def run(args: argparse.Namespace) -> int:
        try:
            return action(args)
        except ApiFault as fault:
            if "refusal" not in fault.details:
                raise
            return _explain(args, fault.details)

    return run


def _explain(args: argparse.Namespace, details: dict[str, Any]) -> int:
    if args.json:
        emit_json({"refused": details})
        return REFUSED
    zone = find_zone(args.zone)
    print(f"error: {details['sentence'].rstrip('.')}", file=sys.stderr)
    print(f"\nhint: {details['remedy'].rstrip('.')}", file=sys.stderr)
    for slot in details["slots"]:
        nodes = ", ".join(slot["nodes"])
        span = f"{say(slot['starts_ms'], zone)} to {say(slot['ends_ms'], zone)}"
        print(f"  free: {span} on {nodes}", file=sys.stderr)
    return REFUSED


def _post(args: argparse.Namespace, verb: str, wish: dict[str, Any]) -> dict[str, Any]:
    path = f"/api/v1/leases/{quote(args.name, safe='')}/{verb}"
    answer: dict[str, Any] = Api.from_environment().post(path, wish)
    return answer


def _end(args: argparse.Namespace, zone: Zone, *, needed: bool = False) -> dict[str, Any]:
    if args.length is not None and args.end is not None:
        raise SetupError("--for and --end exclude each other", hint="give one of them")
    if args.length is not None:
        return {"minutes": minutes(args.length, what="--for")}
    if args.end is not None:
        return {"ends_ms": _moment(args.end, zone, "--end")}
    if needed:
        raise SetupError("say how long: --for or --end", hint="for example --for 1h")
    return {}


def _moment(text: str, zone: Zone, what: str) -> int:
    now_ms = int(time.time() * 1000)
    found = moment_ms(text, zone, now_ms=now_ms, what=what)
    return now_ms // 60_000 * 60_000 if found is None else found
