"""`yard runs`: find runs, with the filter and order language of the search box."""

from __future__ import annotations

import argparse
from typing import Any

from trackyard.cli.output import add_json, ago, duration, emit_json, say, table
from trackyard.client.api import Api
from trackyard.core.errors import SetupError


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "runs",
        help="find runs",
        description='Find runs: yard runs -e food11 -f "metrics.val_accuracy > 0.7"',
    )
    parser.add_argument("-e", "--experiment", action="append", help="name or id; may be repeated")
    parser.add_argument("-f", "--filter", default="", help="filter in MLflow's search language")
    parser.add_argument(
        "-o", "--order", action="append", default=[], help='order, such as "metrics.loss ASC"'
    )
    parser.add_argument("-m", "--metric", action="append", default=[], help="show this metric")
    parser.add_argument("-p", "--param", action="append", default=[], help="show this parameter")
    parser.add_argument("-n", "--limit", type=int, default=50, help="runs at most (default 50)")
    parser.add_argument("--deleted", action="store_true", help="find deleted runs instead")
    parser.add_argument("-q", "--quiet", action="store_true", help="print run ids only")
    add_json(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Search and print."""
    api = Api.from_environment()
    query = {
        "experiment_ids": experiment_ids(api, args.experiment),
        "filter": args.filter,
        "order_by": args.order,
        "limit": args.limit,
        "metrics": args.metric,
        "params": args.param,
        "view": "DELETED_ONLY" if args.deleted else "ACTIVE_ONLY",
    }
    found = api.post("/api/v1/runs/table", query)
    if args.json:
        emit_json(_rows(found))
    elif args.quiet:
        for run_id in found["run_id"]:
            print(run_id)
    else:
        _print(found, args)
        if found.get("next_page_token"):
            say(f"more runs match; raise --limit above {args.limit}")
    return 0


def experiment_ids(api: Api, wanted: list[str] | None) -> list[str]:
    """Return the ids of the experiments named, or of all."""
    known = api.get("/api/v1/experiments")["experiments"]
    if not wanted:
        return [row["experiment_id"] for row in known]
    by_name = {row["name"]: row["experiment_id"] for row in known}
    ids = {row["experiment_id"] for row in known}
    chosen = []
    for name in wanted:
        if name not in by_name and name not in ids:
            raise SetupError(
                f"no experiment {name!r}", hint="`yard experiments` lists them by name and id"
            )
        chosen.append(by_name.get(name, name))
    return chosen


def _rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for place, run_id in enumerate(found["run_id"]):
        rows.append(
            {
                "run_id": run_id,
                "experiment_id": found["experiment_id"][place],
                "name": found["name"][place],
                "user": found["user"][place],
                "status": found["status"][place],
                "start_ms": found["start_ms"][place],
                "end_ms": found["end_ms"][place],
                "metrics": {
                    key: {stat: column[stat][place] for stat in ("last", "min", "max", "step")}
                    for key, column in found["metrics"].items()
                },
                "params": {key: column[place] for key, column in found["params"].items()},
            }
        )
    return rows


def _print(found: dict[str, Any], args: argparse.Namespace) -> None:
    headers = ["run", "name", "status", "user", "started", "took", *args.metric, *args.param]
    rows = []
    for place, run_id in enumerate(found["run_id"]):
        start, end = found["start_ms"][place], found["end_ms"][place]
        took = (end - start) / 1000 if start is not None and end is not None else None
        rows.append(
            (
                run_id,
                found["name"][place],
                found["status"][place],
                found["user"][place],
                ago(start),
                duration(took),
                *(found["metrics"][key]["last"][place] for key in args.metric),
                *(found["params"][key][place] for key in args.param),
            )
        )
    table(headers, rows, empty="no run matches")
