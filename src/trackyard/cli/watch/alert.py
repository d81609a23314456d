"""`yard alert list|add|rm|ack|silence|test|log|channel`: rules, incidents and messages."""

from __future__ import annotations

import argparse
from typing import Any

from trackyard.cli.amounts import seconds
from trackyard.cli.output import add_json, ago, emit_json, say, table
from trackyard.cli.watch.alert_channels import register_channel
from trackyard.client.api import Api
from trackyard.core.errors import SetupError


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("alert", help="be told when something happens")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list incidents and rules")
    listing.add_argument("--all", action="store_true", help="resolved incidents, too")
    listing.add_argument("--job", default="", metavar="JOB", help="incidents of this job alone")
    add_json(listing)
    listing.set_defaults(func=list_alerts)
    _register_add(actions)
    remove = actions.add_parser("rm", help="remove a rule")
    remove.add_argument("alert", help="its id")
    remove.set_defaults(func=remove_rule)
    ack = actions.add_parser("ack", help="acknowledge an incident: it is not escalated")
    ack.add_argument("incident", type=int, help="its number")
    add_json(ack)
    ack.set_defaults(func=acknowledge)
    silence = actions.add_parser("silence", help="send nothing for a time")
    silence.add_argument("alert", nargs="?", default="", help="a rule's id (default: all)")
    silence.add_argument("--for", dest="length", default="1h", metavar="T", help="how long (1h)")
    silence.add_argument("--about", default="", metavar="ID", help="a job, run, node or lease")
    silence.add_argument("--reason", default="", help="why, for the others")
    silence.add_argument("--all-teams", action="store_true", help="for all teams (admin)")
    silence.add_argument("--end", metavar="SILENCE", help="end a silence early, by its id")
    add_json(silence)
    silence.set_defaults(func=silence_alerts)
    test = actions.add_parser("test", help="send an example to a channel now")
    test.add_argument("channel", help="its name")
    add_json(test)
    test.set_defaults(func=test_channel)
    log = actions.add_parser("log", help="list the messages that were sent")
    add_json(log)
    log.set_defaults(func=show_log)
    register_channel(actions)


def _register_add(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    add = actions.add_parser(
        "add",
        help="make a rule",
        description="Make a rule, as in: yard alert add 'loss > 10 for 5m' --job JOB --via ops",
    )
    add.add_argument("rule", help="'loss > 10 for 5m', 'state failed', 'log xid', 'wait > 2h', …")
    about = add.add_mutually_exclusive_group()
    about.add_argument("--job", default="", metavar="JOB", help="for this job, array or run alone")
    about.add_argument("--run", default="", metavar="RUN", help="for this run alone")
    about.add_argument("--all-teams", action="store_true", help="for all teams (admin)")
    add.add_argument("--via", default="", metavar="NAMES", help="channels (default: inbox)")
    add.add_argument("--critical", action="store_true", help="critical instead of warning")
    add.add_argument("--cooldown", metavar="T", help="tell of the same again after (10m)")
    add.add_argument("--group", metavar="T", help="collect for so long into one message (15s)")
    add.add_argument("--escalate-after", metavar="T", help="tell others unless acknowledged by")
    add.add_argument("--escalate-via", default="", metavar="NAMES", help="… by these channels")
    add_json(add)
    add.set_defaults(func=add_rule)


def add_rule(args: argparse.Namespace) -> int:
    """Make a rule."""
    body: dict[str, Any] = {
        "text": args.rule,
        "scope": args.job or args.run,
        "all_teams": args.all_teams,
        "via": _names(args.via),
        "escalate_via": _names(args.escalate_via),
        "severity": "critical" if args.critical else "warning",
    }
    for key, value, flag in (
        ("cooldown_seconds", args.cooldown, "--cooldown"),
        ("group_seconds", args.group, "--group"),
        ("escalate_seconds", args.escalate_after, "--escalate-after"),
    ):
        if value is not None:
            body[key] = seconds(value, what=flag)
    made = Api.from_environment().post("/api/v1/alerts", body)
    if args.json:
        emit_json(made)
        return 0
    print(made["id"])
    say(f"{made['text']}: told by {', '.join(made['via']) or 'inbox'}")
    return 0


def _names(text: str) -> list[str]:
    return [word for word in text.replace(",", " ").split() if word]


def list_alerts(args: argparse.Namespace) -> int:
    """Show incidents, then rules."""
    api = Api.from_environment()
    query = ["" if args.all else "state=open", f"job={args.job}" if args.job else ""]
    words = "&".join(one for one in query if one)
    found = api.get(f"/api/v1/incidents?{words}")["incidents"]
    rules = api.get("/api/v1/alerts")["rules"]
    silences = api.get("/api/v1/silences")["silences"]
    if args.json:
        emit_json({"incidents": found, "rules": rules, "silences": silences})
        return 0
    table(
        ["incident", "state", "since", "about", "what happened"],
        [
            (
                one["id"],
                one["state"],
                ago(one["opened_ms"]),
                f"{one['subject_kind']} {one['subject_name'] or one['subject_id']}",
                one["sentence"] + (f" ({one['times']} times)" if one["times"] > 1 else ""),
            )
            for one in found
        ],
        empty="no open incidents",
    )
    if args.job:
        return 0
    print()
    table(
        ["alert", "rule", "for", "via", "by"],
        [
            (
                one["id"],
                one["text"],
                "all teams" if one["is_all_teams"] else one["scope"] or "the team",
                ", ".join(one["via"]) or "inbox",
                one["actor"],
            )
            for one in rules
            if one["enabled"]
        ],
        empty="no rules; `yard alert add 'state failed'` makes one",
    )
    for one in silences:
        say(f"silent ({one['id']}): {one['rule_id'] or one['subject_id'] or 'everything'}")
    return 0


def remove_rule(args: argparse.Namespace) -> int:
    """Remove a rule."""
    Api.from_environment().call("DELETE", f"/api/v1/alerts/{args.alert}")
    say(f"{args.alert} is removed")
    return 0


def acknowledge(args: argparse.Namespace) -> int:
    """Acknowledge an incident."""
    found = Api.from_environment().post(f"/api/v1/incidents/{args.incident}/acknowledge", {})
    if args.json:
        emit_json(found)
    else:
        say(f"incident {args.incident} is {found['state']}")
    return 0


def silence_alerts(args: argparse.Namespace) -> int:
    """Ask for silence, or end it."""
    api = Api.from_environment()
    if args.end:
        api.call("DELETE", f"/api/v1/silences/{args.end}")
        say(f"{args.end} is over")
        return 0
    body = {
        "rule_id": args.alert,
        "subject_id": args.about,
        "seconds": seconds(args.length, what="--for"),
        "reason": args.reason,
        "all_teams": args.all_teams,
    }
    made = api.post("/api/v1/silences", body)
    if args.json:
        emit_json(made)
    else:
        say(f"silent for {args.length}; `yard alert silence --end {made['id']}` ends it")
    return 0


def test_channel(args: argparse.Namespace) -> int:
    """Send an example."""
    reply = Api.from_environment().post(f"/api/v1/alert-channels/{args.channel}/test", {})
    if args.json:
        emit_json(reply)
    elif reply["success"]:
        say(f"{args.channel} took the message")
    else:
        raise SetupError(
            f"{args.channel} did not take the message: {reply['error'] or reply['status']}",
            hint="`yard alert log` lists every try",
        )
    return 0 if reply["success"] else 1


def show_log(args: argparse.Namespace) -> int:
    """List messages."""
    found = Api.from_environment().get("/api/v1/alert-deliveries")["deliveries"]
    if args.json:
        emit_json(found)
        return 0
    table(
        ["message", "when", "channel", "what", "state", "tries", "error"],
        [
            (
                one["id"],
                ago(one["created_ms"]),
                one["channel"],
                one["what"],
                one["state"],
                one["tries"],
                one["error"],
            )
            for one in found
        ],
        empty="nothing was sent yet",
    )
    return 0
