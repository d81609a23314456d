"""`yard logs JOB`: what a job printed, once or as it comes."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from trackyard.cli.jobs import joblog
from trackyard.cli.jobs.jobview import FINAL
from trackyard.cli.jobs.listing import get_job
from trackyard.cli.output import add_json, say
from trackyard.client.api import Api
from trackyard.core.errors import SetupError


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("logs", help="print what a job printed")
    parser.add_argument("job", help="job id or name")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on until the job ends, attempts and all"
    )
    parser.add_argument(
        "--rank", metavar="N", help="one member of a gang (default: all, with their number)"
    )
    parser.add_argument(
        "--attempt", metavar="N", help="number of the attempt, or `all` (default: the latest)"
    )
    parser.add_argument("-n", "--tail", type=int, metavar="LINES", help="only the last lines")
    add_json(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Print the log."""
    api = Api.from_environment()
    if args.tail is not None and args.tail < 0:
        raise SetupError("--tail cannot be negative", hint="write -n 100 for the last 100 lines")
    page = get_job(api, args.job)
    # A name means the newest job of it; the one found now stays meant.
    job = page["job"]["job_id"]
    rank = None if args.rank is None else _number(args.rank, "--rank")
    if args.follow and args.attempt is None and not args.json:
        ranks = None if rank is None else [rank]
        joblog.follow(api, job, ranks=ranks, tail=args.tail)
        return 0
    attempts = _attempts(page, args.attempt)
    if not attempts:
        _say_nothing_yet(page)
    for attempt in attempts:
        ranks = list(range(attempt["ranks"])) if rank is None else [rank]
        if len(attempts) > 1 and not args.json:
            say(f"--- attempt {attempt['number']} ---")
        for one in ranks:
            part = joblog.LogPart(
                attempt=attempt["number"], rank=one, tail=args.tail, word=joblog.mark_of(page)
            )
            pieces = joblog.read(api, job, part, is_followed=args.follow)
            _print(pieces, part, is_json=args.json, has_prefix=len(ranks) > 1)
    return 0


def _print(pieces: Any, part: joblog.LogPart, *, is_json: bool, has_prefix: bool) -> None:
    out = sys.stdout.buffer
    if not is_json and not has_prefix:
        for piece in pieces:
            out.write(piece)
            out.flush()
        return
    for line in joblog.lines(pieces):
        if is_json:
            text = line.rstrip(b"\n").decode("utf-8", "replace")
            print(json.dumps({"attempt": part.attempt, "rank": part.rank, "line": text}))
        else:
            out.write(joblog.prefixed(part, line))
    sys.stdout.flush()
    out.flush()


def _attempts(page: dict[str, Any], wanted: str | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page["attempts"]
    if wanted == "all":
        return found
    if wanted is None:
        return found[-1:]
    number = _number(wanted, "--attempt")
    chosen = [one for one in found if one["number"] == number]
    if not chosen:
        raise SetupError(
            f"{page['job']['job_id']} has no attempt {number}",
            hint=f"it has {len(found)}; `yard show {page['job']['job_id']}` lists them",
        )
    return chosen


def _number(text: str, what: str) -> int:
    if not text.isdigit():
        raise SetupError(f"{what} {text!r} is not a number", hint=f"write {what} 0")
    return int(text)


def _say_nothing_yet(page: dict[str, Any]) -> None:
    job = page["job"]
    if job["state"] in FINAL:
        say(f"{job['job_id']} ended before it started, so it printed nothing")
    else:
        say(f"{job['job_id']} has not started; `yard why {job['job_id']}` says why")
