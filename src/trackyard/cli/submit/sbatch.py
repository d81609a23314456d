"""`yard sbatch [options] script.sh [arguments]`: a stock batch script as a job, on any engine.

Owns how the script is started and what it finds in SLURM_* variables. What its options mean is
`sbatch_script`'s; how a folder travels, `sending`'s.
"""

from __future__ import annotations

import argparse
import os
import shlex
import uuid
from pathlib import Path
from typing import Any

from trackyard.cli.jobs.jobview import now_ms
from trackyard.cli.jobs.waiting import exit_code, wait_for_end
from trackyard.cli.output import emit_json, say
from trackyard.cli.submit import sbatch_script, sending
from trackyard.cli.submit.submit import plan_text
from trackyard.cli.submit.wish import SubmissionFlags
from trackyard.client.api import Api
from trackyard.core.errors import SetupError

USAGE = "yard sbatch [--team TEAM] [--queue QUEUE] [options of sbatch] SCRIPT [ARGUMENT …]"
HELP = """

Queue a Slurm batch script as a job. Options of sbatch, on the line or in #SBATCH lines, are
honoured where that makes sense; the others are named.

  --team TEAM    team that pays (default: yours)
  --queue QUEUE  queue, in place of --partition
  --test-only    print the plan, queue nothing
  --parsable     print the job's id alone
  --wait         wait; exit 1 unless it succeeds
  --json         print JSON"""
OWN = frozenset({"team", "queue", "json", "help"})
#: where Slurm runs beneath, its own values stand; elsewhere these are what a script reads
LIVE = {
    "SLURM_JOB_ID": "$YARD_JOB_ID",
    "SLURM_JOBID": "$YARD_JOB_ID",
    "SLURM_JOB_NODELIST": "$YARD_NODE_LIST",
    "SLURM_NODELIST": "$YARD_NODE_LIST",
    "SLURM_NODEID": "$YARD_MEMBER",
    "SLURM_PROCID": "$YARD_MEMBER",
    "SLURM_LOCALID": "0",
    "SLURM_RESTART_COUNT": "$((YARD_ATTEMPT - 1))",
    "SLURM_SUBMIT_DIR": "$PWD",
}
ARRAY = {
    "SLURM_ARRAY_TASK_ID": "$YARD_ARRAY_INDEX",
    "SLURM_ARRAY_JOB_ID": "$YARD_ARRAY_ID",
    "SLURM_ARRAY_TASK_COUNT": "$YARD_ARRAY_SIZE",
}


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "sbatch",
        help="queue a batch script with #SBATCH lines",
        usage=USAGE,
        description="Queue a Slurm batch script as a job.",
        add_help=False,
        # Every word is sbatch's, or the script's own: none is for this parser to guess at.
        prefix_chars="\0",
    )
    parser.add_argument("words", nargs=argparse.REMAINDER, help="options, script, arguments")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Read the script, submit, and print what sbatch prints."""
    options, rest = sbatch_script.split(args.words)
    own = {name: value for name, value in options if name in OWN}
    options = [(name, value) for name, value in options if name not in OWN]
    if "help" in own:
        print(USAGE + HELP)
        return 0
    args = argparse.Namespace(
        team=own.get("team", ""), queue=own.get("queue", ""), json="json" in own
    )
    wraps = dict(options).get("wrap", "")
    if not rest and not wraps:
        raise SetupError("there is no batch script", hint="`yard sbatch script.sh`")
    text = "" if wraps else _read(Path(rest[0]))
    batch = sbatch_script.read([*sbatch_script.split(sbatch_script.directives(text))[0], *options])
    folder = Path(batch.folder or ".")
    fields = _fields(args, batch)
    fields["command"] = command(batch, text, rest, folder)
    api = Api.from_environment()
    _place(api, args, batch, fields)
    asked = SubmissionFlags(
        fields=fields, folder=folder, folder_is_named=bool(batch.folder), exclude=()
    )
    made = sending.build(asked)
    if made is not None:
        sending.send(api, made)
        fields |= {"package": made.digest, "source": sending.source_fields(folder)}
    for words in batch.ignored:
        say(f"not honoured: {words}")
    if batch.is_test:
        planned = api.post("/api/v1/jobs", {**fields, "dry_run": True})
        if args.json:
            emit_json({**planned["answer"], "not_honoured": batch.ignored})
        else:
            say(plan_text(fields, planned["answer"], made, now_ms()))
        return 0
    answer = api.post("/api/v1/jobs", {**fields, "key": uuid.uuid4().hex})
    return _after(api, args, batch, answer)


def _after(
    api: Api, args: argparse.Namespace, batch: sbatch_script.BatchScript, answer: dict[str, Any]
) -> int:
    jobs = answer["jobs"]
    name = jobs[0]["array_id"] or jobs[0]["job_id"]
    if args.json:
        emit_json({**answer, "not_honoured": batch.ignored})
    else:
        print(name if batch.is_parsable else f"Submitted batch job {name}", flush=True)
    return exit_code(wait_for_end(api, [name])) if batch.waits else 0


def command(
    batch: sbatch_script.BatchScript, text: str, words: list[str], folder: Path
) -> list[str]:
    """Return what the job runs: the variables that scripts read, then the script itself."""
    live = {**batch.variables, **LIVE, **(ARRAY if "array" in batch.fields else {})}
    if "name" in batch.fields:
        live["SLURM_JOB_NAME"] = batch.fields["name"]
    if batch.partition:
        live["SLURM_JOB_PARTITION"] = batch.partition
    lines = [f'export {name}="${{{name}:-{value}}}"' for name, value in sorted(live.items())]
    if batch.wraps:
        return ["sh", "-c", "\n".join([*lines, batch.wraps])]
    place = Path(os.path.relpath(Path(words[0]).resolve(), folder.resolve()))
    if place.parts[:1] == ("..",):
        raise SetupError(
            f"{words[0]} does not lie in {folder.resolve()}, which is what travels",
            hint="go to its folder, or name one that holds it with --chdir",
        )
    first = text.splitlines()[0] if text else ""
    program = shlex.split(first[2:]) if first.startswith("#!") else ["/bin/sh"]
    line = shlex.join([*program, str(place), *words[1:]])
    return ["sh", "-c", "\n".join([*lines, f"exec {line}"])]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise SetupError(f"{path} cannot be read: {fault}", hint="name a batch script") from fault


def _fields(args: argparse.Namespace, batch: sbatch_script.BatchScript) -> dict[str, Any]:
    fields = dict(batch.fields)
    missing = [name for name, value in fields.get("env", {}).items() if value is None]
    for name in missing:
        if name not in os.environ:
            raise SetupError(
                f"--export names {name}, which is not set here", hint=f"write {name}=VALUE"
            )
        fields["env"][name] = os.environ[name]
    if args.team:
        fields["team"] = args.team
    return fields


def _place(
    api: Api, args: argparse.Namespace, batch: sbatch_script.BatchScript, fields: dict[str, Any]
) -> None:
    """Find the queue, label and lease that partition, constraint and reservation stand for."""
    if args.queue:
        fields["queue"] = args.queue
    elif batch.partition:
        rows = api.get("/api/v1/queues")["queues"]
        names = {row["name"]: (row.get("settings") or {}).get("slurm") or {} for row in rows}
        meant = [name for name, one in names.items() if one.get("partition") == batch.partition]
        if batch.partition.lower() in names:
            meant = [batch.partition.lower(), *meant]
        if meant:
            fields["queue"] = meant[0]
        else:
            batch.ignored.append(
                f"--partition={batch.partition}: there is no such queue; it stands in default"
            )
    if batch.constraint:
        label = f"feature/{batch.constraint}"
        nodes = api.get("/api/v1/nodes")["nodes"]
        if any(label in (node.get("labels") or {}) for node in nodes):
            fields["labels"] = {label: "yes"}
        else:
            batch.ignored.append(f"--constraint={batch.constraint}: no node carries {label}")
    if batch.reservation:
        leases = api.get("/api/v1/leases")["leases"]
        if any(batch.reservation in (one["name"], one["lease_id"]) for one in leases):
            fields["lease"] = batch.reservation
        else:
            batch.ignored.append(f"--reservation={batch.reservation}: there is no such lease")
