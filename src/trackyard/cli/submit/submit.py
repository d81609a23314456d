"""`yard submit [flags] -- CMD…`: ask for a command to be run.

The plan comes first: feasible or not, about when, behind whom, what smaller request would start
now. stdout carries the job's id alone (or its log with --follow), everything else is talk.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import uuid
from typing import Any

from trackyard.cli.amounts import gpu_words, size_words
from trackyard.cli.jobs.joblog import follow
from trackyard.cli.jobs.jobview import label, now_ms, smaller_words, start_words
from trackyard.cli.jobs.waiting import exit_code, wait_for_array, wait_for_end
from trackyard.cli.output import add_json, emit_json, say
from trackyard.cli.submit import sending, wish
from trackyard.cli.submit.interacting import enter
from trackyard.client.api import Api
from trackyard.client.package import FolderPackage

NOT_SUBMITTED = 1


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "submit",
        help="queue a command as a job",
        usage="yard submit [flags] -- COMMAND [ARGUMENT …]\n       yard submit -f job.yaml",
        description="Package this folder and queue a command to run in it.",
        epilog="A job file has the same keys as the flags; see docs/submit.md.",
    )
    wish.add_flags(parser)
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask before queueing")
    parser.add_argument("-q", "--quiet", action="store_true", help="print the job's id alone")
    parser.add_argument("--dry-run", action="store_true", help="print the plan, queue nothing")
    until = parser.add_mutually_exclusive_group()
    until.add_argument("--wait", action="store_true", help="wait; exit 1 unless it succeeds")
    until.add_argument("--follow", action="store_true", help="print its log, then as --wait")
    until.add_argument(
        "--interactive", action="store_true", help="give it a terminal and attach this one"
    )
    add_json(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the command, after --")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Plan, ask, submit, and wait if told to."""
    asked = wish.collect(args)
    _refuse_what_cannot_fit(asked.fields)
    made = sending.build(asked)
    api = Api.from_environment()
    fields = dict(asked.fields)
    if made is not None:
        sending.send(api, made)
        fields["package"] = made.digest
        fields["source"] = sending.source_fields(asked.folder)
    if args.interactive:
        fields["interactive"] = {"kind": "terminal"}
    is_quiet = args.quiet or args.json
    asks = sys.stdin.isatty() and sys.stderr.isatty() and not args.yes and not args.json
    if asks or args.dry_run:
        planned = api.post("/api/v1/jobs", {**fields, "dry_run": True})
        if args.json:
            emit_json(planned["answer"])
            return 0
        say(plan_text(fields, planned["answer"], made, now_ms()))
        if args.dry_run:
            return 0
        if not _confirmed():
            say("nothing was queued")
            return NOT_SUBMITTED
    # The key makes a repeated request harmless: the answer may get lost, the job may not double.
    answer = api.post("/api/v1/jobs", {**fields, "key": uuid.uuid4().hex})
    if not asks and not is_quiet:
        say(plan_text(fields, answer["answer"], made, now_ms()))
    if args.interactive and not args.json:
        return enter(api, answer["jobs"][0]["job_id"])
    return _after(api, args, answer)


def _refuse_what_cannot_fit(fields: dict[str, Any]) -> None:
    """Refuse a fine-tuning command that its GPUs have no room for."""
    command = fields.get("command") or []
    if "trackyard.finetune" in command:
        from trackyard.finetune import fit

        fit.refuse_command(command, fields.get("gpu_types") or ())


def _after(api: Api, args: argparse.Namespace, answer: dict[str, Any]) -> int:
    jobs = answer["jobs"]
    name = jobs[0]["array_id"] or jobs[0]["job_id"]
    if args.json and not (args.wait or args.follow):
        emit_json(answer)
        return 0
    if not args.follow and not args.json:
        print(name, flush=True)
    if not (args.quiet or args.json):
        say(footer(jobs))
    if not (args.wait or args.follow):
        return 0
    if args.follow:
        follow(api, jobs[0]["job_id"], is_quiet=args.quiet or args.json)
    if jobs[0]["array_id"]:
        return _wait_for_array(api, args, answer)
    ended = wait_for_end(api, [name])
    if args.json:
        emit_json({**answer, "jobs": ended})
    elif not args.quiet:
        for job in ended:
            tail = f": {job['sentence']}" if job.get("sentence") else ""
            say(f"{job['job_id']} ({label(job)}) {job['state']}{tail}")
    return exit_code(ended)


def _wait_for_array(api: Api, args: argparse.Namespace, answer: dict[str, Any]) -> int:
    array = answer["array_id"]
    counts = wait_for_array(api, array)
    if args.json:
        emit_json({**answer, "counts": counts})
    elif not args.quiet:
        words = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        say(f"{array} has ended: {words}")
    is_ok = counts.get("succeeded") == len(answer["job_ids"])
    return 0 if is_ok else 1


def _confirmed() -> bool:
    sys.stderr.write("queue it? [Y/n] ")
    sys.stderr.flush()
    reply = sys.stdin.readline()
    # An end of input is no consent.
    return bool(reply) and reply.strip().lower() in ("", "y", "yes")


def plan_text(
    fields: dict[str, Any], answer: dict[str, Any], made: FolderPackage | None, now: int
) -> str:
    """Say what is asked for and what the queue answers."""
    rows = [
        ("command", shlex.join(fields["command"])),
        ("asks for", _request(fields, answer)),
        ("queue", f"{fields.get('queue', 'default')}, priority {_priority(fields)}"),
    ]
    if made is not None:
        content = f"{made.files} files, {size_words(made.size_bytes)}"
        left = f", {len(made.left_out)} left out" if made.left_out else ""
        rows.append(("package", f"{content}{left} ({made.digest[:12]})"))
    if answer.get("preemption"):
        rows.append(("preemption", answer["preemption"]))
    rows += _answer_rows(answer, now)
    return "\n".join(f"{name:<11} {value}" for name, value in rows)


def _answer_rows(answer: dict[str, Any], now: int) -> list[tuple[str, str]]:
    if answer["starts_now"]:
        return [("starts", "now")]
    rows = []
    if not answer["feasible"]:
        rows.append(("feasible", f"no: {answer['sentence']}"))
    else:
        rows.append(("waits", answer["sentence"]))
        rows.append(("starts", start_words(answer.get("eta"), now)))
    if answer.get("position"):
        of = f" of {answer['waiting'] + 1}" if answer.get("waiting") is not None else ""
        rows.append(("position", f"{answer['position']}{of} in line"))
    if answer.get("reasons"):
        rows.append(("remedy", answer["reasons"][0]["remedy"]))
    rows += [("smaller", sentence) for sentence in smaller_words(answer.get("smaller"))]
    return rows


def _request(fields: dict[str, Any], answer: dict[str, Any]) -> str:
    words = [gpu_words(fields.get("gpus"), fields.get("gpu_types"), fields.get("nodes", 1))]
    cpus, memory = fields.get("cpus"), fields.get("memory_bytes")
    if cpus:
        words.append(f"{cpus:g} cpus")
    elif cpus is None and answer.get("cpus"):
        words.append(f"{answer['cpus']:g} cpus by default")
    if memory:
        words.append(size_words(memory))
    elif memory is None and answer.get("memory_bytes"):
        words.append(f"{size_words(answer['memory_bytes'])} by default")
    if fields.get("array"):
        words.append(f"array {fields['array']}")
    return ", ".join(words)


def _priority(fields: dict[str, Any]) -> str:
    return str(fields.get("priority", "normal"))


def footer(jobs: list[dict[str, Any]]) -> str:
    """Name the next commands, with the ids filled in."""
    first = jobs[0]
    name = first["array_id"] or first["job_id"]
    what = f"{first['name']}, {len(jobs)} jobs" if first["array_id"] else label(first)
    return (
        f"\nqueued {name} ({what})\n"
        f"  yard logs -f {first['job_id']}\n"
        f"  yard why {first['job_id']}\n"
        f"  yard show {first['job_id']}\n"
        f"  yard stop {name}"
    )
