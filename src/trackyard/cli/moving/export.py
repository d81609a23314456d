"""`yard export`: write everything a team holds into a store that stock MLflow opens."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from pathlib import Path

from trackyard.cli.moving.importing import ImportProgress, tell
from trackyard.cli.output import add_json
from trackyard.client.api import Api
from trackyard.moving.report import ImportReport


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "export",
        help="write runs, models and files into a store that MLflow opens",
        description="Write everything the team holds into a store of MLflow.",
    )
    formats = parser.add_subparsers(dest="format", metavar="FORMAT", required=True)
    folder = formats.add_parser(
        "mlruns",
        help="a file store of MLflow, in a new folder",
        description="Write a file store of MLflow into a new folder. Ids are kept.",
    )
    folder.add_argument("dest", metavar="DIR", type=Path, help="a folder that is new or empty")
    folder.set_defaults(func=run)
    server = formats.add_parser(
        "mlflow",
        help="a running MLflow server",
        description="Send everything to a running MLflow server by its REST API. It gives out"
        " ids of its own; the old ones stay as tags. What an earlier pass sent is not sent again.",
    )
    server.add_argument("url", metavar="URL", help="http(s)://… of the server")
    server.set_defaults(func=run)
    for child in (folder, server):
        child.add_argument(
            "--experiment",
            action="append",
            default=[],
            metavar="NAME",
            help="this experiment alone, by name or id, without the registry; may be repeated",
        )
        child.add_argument("--no-artifacts", action="store_true", help="leave the files out")
        add_json(child)


def run(args: argparse.Namespace) -> int:
    """Write it all and print the report; 1 if something could not be written."""
    from trackyard.moving.own_server import OwnServer

    api = Api.from_environment()
    source = OwnServer(api)
    where = str(args.dest if args.format == "mlruns" else args.url)
    report = ImportReport(source=where)
    began = time.monotonic()
    with ImportProgress(is_quiet=args.json) as bar:
        if args.format == "mlruns":
            from trackyard.moving.export import export_folder

            export_folder(
                source,
                args.dest,
                report,
                bar,
                experiments=_names(args.experiment),
                has_files=not args.no_artifacts,
            )
        else:
            from trackyard.moving.mlflow_send import MlflowSender

            sender = MlflowSender(source, args.url, report, bar)
            sender.run(experiments=_names(args.experiment), has_files=not args.no_artifacts)
    report.seconds = time.monotonic() - began
    tell(report, as_json=args.json)
    return 1 if report.missing else 0


def _names(given: Iterable[str]) -> frozenset[str]:
    return frozenset(given)
