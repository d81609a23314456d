"""`yard show JOB|RUN`: one job with its attempts, or one run, as a page."""

from __future__ import annotations

import argparse
from typing import Any

from trackyard.cli.jobs.jobview import FINAL, draw_job
from trackyard.cli.jobs.listing import get_job
from trackyard.cli.output import ago, duration, table
from trackyard.cli.watching import add_watch, present
from trackyard.client.api import Api
from trackyard.core.ids import RUN_ID

#: Tags of MLflow's that the page shows in words of its own.
_SOURCE, _COMMIT, _NOTE = (
    "mlflow.source.name",
    "mlflow.source.git.commit",
    "mlflow.note.content",
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("show", help="show one job or run")
    parser.add_argument("name", metavar="JOB|RUN", help="job id, job name, or run id")
    add_watch(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Print the job, or the run."""
    api = Api.from_environment()
    if RUN_ID.match(args.name):
        return present(args, lambda: api.get(f"/api/v1/runs/{args.name}"), _print)
    return present(
        args,
        lambda: get_job(api, args.name),
        draw_job,
        done=lambda page: page["job"]["state"] in FINAL,
    )


def _where(uri: str) -> str:
    """Return where a run's files are, and whose they are."""
    is_kept = uri.startswith("mlflow-artifacts:")
    return uri if is_kept else f"{uri}  (held elsewhere; the server does not open it)"


def _print(page: dict[str, Any]) -> None:
    info, data = page["run"]["info"], page["run"]["data"]
    tags = {tag["key"]: tag["value"] for tag in data.get("tags", [])}
    start, end = info.get("start_time"), info.get("end_time")
    facts = [
        ("run", f"{info['run_name']}  ({info['run_id']})"),
        ("experiment", page["experiment_name"]),
        ("status", info["status"]),
        ("user", info["user_id"]),
        ("started", ago(start)),
        ("took", duration((end - start) / 1000 if start and end else None)),
        ("source", tags.get(_SOURCE)),
        ("commit", tags.get(_COMMIT)),
        ("artifacts", _where(info["artifact_uri"])),
    ]
    for name, value in facts:
        if value:
            print(f"{name:<11} {value}")
    if tags.get(_NOTE):
        print(f"\n{tags[_NOTE]}")
    if page["metrics"]:
        print()
        table(
            ["metric", "last", "min", "max", "step"],
            [
                (row["key"], row["last"], row["min"], row["max"], row["step"])
                for row in page["metrics"]
            ],
        )
    if data.get("params"):
        print()
        table(["parameter", "value"], [(row["key"], row["value"]) for row in data["params"]])
    own = [(key, value) for key, value in sorted(tags.items()) if not key.startswith("mlflow.")]
    if own:
        print()
        table(["tag", "value"], own)
