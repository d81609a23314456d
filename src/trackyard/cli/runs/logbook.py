"""`yard logbook RUN|TEAM`: what happened, in sentences; notes, exports, digests, causes."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from trackyard.cli.jobs.listing import get_job
from trackyard.cli.output import duration, emit_json, printable, say
from trackyard.client.api import Api
from trackyard.core.errors import SetupError
from trackyard.core.ids import JOB_ID, RUN_ID

_KINDS = (
    "run",
    "job",
    "attempt",
    "checkpoint",
    "config",
    "curve",
    "note",
    "node",
    "lease",
    "model",
    "alert",
)
_TONES = {"bad": "✗", "good": "✓", "warn": "!"}


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "logbook",
        help="what happened to a run or a team, in sentences",
        description="Print the logbook of a run (by its id, or by its job's id or name) or of a"
        " team. Without a name: of your team.",
    )
    parser.add_argument("name", nargs="?", metavar="RUN|TEAM", help="run, job or team")
    parser.add_argument("--lineage", action="store_true", help="with the runs it goes back to")
    parser.add_argument("--kind", action="append", default=[], choices=_KINDS, metavar="KIND")
    parser.add_argument("--search", metavar="WORDS", help="entries that hold these words")
    parser.add_argument("--days", type=int, default=7, help="of a team: days back (default 7)")
    parser.add_argument("-n", "--limit", type=int, default=500, help="entries at most")
    parser.add_argument(
        "--week",
        nargs="?",
        const="this",
        metavar="WEEK",
        help="digest of a team's week: this, last or 2026-W46",
    )
    parser.add_argument(
        "--month",
        nargs="?",
        const="this",
        metavar="MONTH",
        help="digest of a team's month: this, last or 2026-11",
    )
    parser.add_argument("--note", metavar="TEXT", help="write a note (Markdown, @name tells)")
    parser.add_argument("--step", type=int, help="the step that a note is about")
    parser.add_argument(
        "--picture", action="append", default=[], metavar="FILE", help="a picture for the note"
    )
    parser.add_argument(
        "--why-worse", type=int, metavar="STEP", help="what else changed around a step"
    )
    parser.add_argument("--metric", help="the curve that got worse; a loss unless told")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--markdown", action="store_true", help="print Markdown")
    shape.add_argument("--html", action="store_true", help="print a page of HTML")
    shape.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Print a logbook, or write a note."""
    api = Api.from_environment()
    run_id = _run_id(api, args.name)
    if run_id is None and (args.why_worse is not None or args.lineage or args.step is not None):
        raise SetupError(
            "--why-worse, --lineage and --step need a run", hint="yard logbook RUN --lineage"
        )
    if args.note is not None:
        return _write_note(api, args, run_id)
    if args.why_worse is not None:
        return _explain(api, args, run_id or "")
    if args.week is not None or args.month is not None:
        if run_id is not None:
            raise SetupError("digests are of teams", hint="yard logbook --week")
        return _digest(api, args)
    return _print_book(api, args, run_id)


def _run_id(api: Api, name: str | None) -> str | None:
    """Return the run that a word names; None where it names the caller's team."""
    if name is None:
        return None
    if RUN_ID.match(name):
        return name
    session = api.get("/api/v1/session")
    if name == session["team"]:
        return None
    if name in {team["name"] for team in session.get("teams", [])} and not JOB_ID.match(name):
        raise SetupError(
            f"the token in use is for team {session['team']}, not for {name}",
            hint="`yard login --team` stores a token of another team",
        )
    found: str = get_job(api, name)["job"]["run_id"]
    return found


def _format(args: argparse.Namespace) -> str:
    return "markdown" if args.markdown else "html" if args.html else "json"


def _get(api: Api, args: argparse.Namespace, path: str, query: dict[str, Any]) -> Any:
    """Ask, and print what is no JSON; return the rest."""
    shape = _format(args)
    if shape == "json":
        return api.get(path, query)
    body = b"".join(api.pieces(path, {**query, "format": shape}))
    sys.stdout.write(body.decode())
    return None


def _print_book(api: Api, args: argparse.Namespace, run_id: str | None) -> int:
    query: dict[str, Any] = {"limit": args.limit}
    if args.kind:
        query["kind"] = args.kind
    if args.search:
        query["q"] = args.search
    if run_id is None:
        since = datetime.now(UTC) - timedelta(days=args.days)
        query["since_ms"] = int(since.timestamp() * 1000)
        path = "/api/v1/logbook"
    else:
        path = f"/api/v1/runs/{run_id}/logbook"
        if args.lineage:
            query["lineage"] = 1
    book = _get(api, args, path, query)
    if book is None:
        return 0
    if args.json:
        emit_json(book)
        return 0
    if not book["entries"]:
        say("nothing is in this logbook yet")
    day = ""
    for entry in book["entries"]:
        day = _print_entry(entry, day, with_run=book["subject"] != "run")
    return 0


def _print_entry(entry: dict[str, Any], day: str, *, with_run: bool) -> str:
    when = datetime.fromtimestamp(entry["time_ms"] / 1000, UTC).astimezone()
    today = f"{when:%A, %-d %B %Y}"
    if today != day:
        print(f"{'' if not day else chr(10)}{today}")
    name = entry["run_name"]
    run_name = f"{name}: " if with_run and name and name not in entry["sentence"] else ""
    sign = _TONES.get(entry["tone"], " ")
    hint = "  (found by rule)" if entry["is_suggestion"] else ""
    print(f"  {when:%H:%M} {sign} {printable(run_name + entry['sentence'])}{hint}")
    for line in entry["detail"].splitlines():
        print(f"          {printable(line)}")
    for one in entry["differences"]:
        before, after = one["before"] or "none", one["after"] or "none"
        print(printable(f"          {one['what']} {one['name']}: {before} → {after}"))
    for path in entry["pictures"]:
        print(printable(f"          picture: {path}"))
    return today


def _digest(api: Api, args: argparse.Namespace) -> int:
    if args.week is not None and args.month is not None:
        raise SetupError("--week and --month exclude each other", hint="ask for one of them")
    query = {"month": args.month} if args.month is not None else {"week": args.week}
    digest = _get(api, args, "/api/v1/logbook/digest", query)
    if digest is None:
        return 0
    if args.json:
        emit_json(digest)
        return 0
    print(f"{digest['team']}, {digest['period']}")
    for sentence in digest["sentences"]:
        print(f"  {printable(sentence)}")
    for note in digest["notes"]:
        when = datetime.fromtimestamp(note["time_ms"] / 1000, UTC).astimezone()
        where = f" on {note['run_name']}" if note["run_name"] else ""
        print(f"\n  {when:%Y-%m-%d %H:%M} {note['actor']}{where}:")
        for line in note["detail"].splitlines():
            print(f"    {printable(line)}")
    return 0


def _explain(api: Api, args: argparse.Namespace, run_id: str) -> int:
    query: dict[str, Any] = {"step": args.why_worse}
    if args.metric:
        query["metric"] = args.metric
    found = api.get(f"/api/v1/runs/{run_id}/why-worse", query)
    if args.json:
        emit_json(found)
        return 0
    print(f"{found['sentence']}  ({found['metric']})")
    for suspect in found["suspects"]:
        ago = suspect["before_ms"]
        side = "before" if (ago or 0) >= 0 else "after"
        when = "" if ago is None else f" ({duration(abs(ago) / 1000)} {side})"
        line = f"{suspect['weight']:.2f}  {suspect['kind']:<11} {suspect['sentence']}{when}"
        print(f"  {printable(line)}")
    for line in found["missing"]:
        print(f"  not known: {line}")
    return 0


def _write_note(api: Api, args: argparse.Namespace, run_id: str | None) -> int:
    if run_id is None:
        if args.picture:
            raise SetupError("pictures need a run", hint="yard logbook RUN --note … --picture …")
        path = "/api/v1/logbook/notes"
    else:
        path = f"/api/v1/runs/{run_id}/notes"
    body: dict[str, Any] = {"text": args.note}
    if args.step is not None:
        body["step"] = args.step
    if args.picture and run_id is not None:
        body["pictures"] = [_upload(api, run_id, Path(file)) for file in args.picture]
    made = api.post(path, body)
    if args.json:
        emit_json(made)
    else:
        say(f"noted ({made['id']})")
    return 0


def _upload(api: Api, run_id: str, file: Path) -> str:
    """Put a picture among the run's artifacts and return its path there."""
    if not file.is_file():
        raise SetupError(f"no file {str(file)!r}", hint="name a png, jpg, gif or webp file")
    page = api.get(f"/api/v1/runs/{run_id}")
    root = page["run"]["info"]["artifact_uri"].removeprefix("mlflow-artifacts:/")
    path = f"notes/{file.name}"
    where = f"/api/2.0/mlflow-artifacts/artifacts/{root}/{quote(path)}"
    api.call("PUT", where, raw=file.read_bytes())
    return path
