"""`yard import`: bring what another tracker holds, in as many passes as one likes."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from trackyard.cli.output import add_json, emit_json, say, table
from trackyard.client.api import Api
from trackyard.core.errors import SetupError
from trackyard.moving.records import RecordSource
from trackyard.moving.report import ImportReport

#: Entries of each kind that are shown; `--json` tells all.
_SHOWN = 20
_FORMATS = {
    "mlflow": "a database, file store or running server of MLflow 2.x or 3.x",
    "tensorboard": "a folder of TensorBoard's event files",
    "wandb": "a folder `wandb` of Weights & Biases, as runs write it on disk",
    "trackio": "the folder of Trackio, or one project's database",
    "neptune": "a folder `.neptune` that runs in offline mode wrote",
    "aim": "a repository of Aim, the folder `.aim`",
}


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "import",
        help="bring runs, models and files from another tracker",
        description="Bring what another tracker holds. Ids, times, users and states are kept. Run"
        " it again whenever you like: what is here is not written twice, and what changed at the"
        " source since then is brought.",
    )
    formats = parser.add_subparsers(dest="format", metavar="FORMAT", required=True)
    for name, what in _FORMATS.items():
        child = formats.add_parser(name, help=what, description=f"Import {what}.")
        _add_common(child, is_mlflow=name == "mlflow")
        child.set_defaults(func=run)


def _add_common(parser: argparse.ArgumentParser, *, is_mlflow: bool) -> None:
    where = (
        "sqlite:///mlflow.db, postgresql://…, http(s)://… or a folder `mlruns`"
        if is_mlflow
        else "the folder or file"
    )
    parser.add_argument("--from", dest="source", metavar="WHERE", required=True, help=where)
    parser.add_argument(
        "--experiment",
        action="append",
        default=[],
        metavar="NAME",
        help="bring this experiment alone, by name or id; may be repeated",
    )
    parser.add_argument(
        "--same-name",
        choices=("rename", "merge"),
        default="rename",
        help="where the team has an experiment of the same name: call the new one `… (imported)`,"
        " or put its runs into the one that is here",
    )
    parser.add_argument(
        "--artifacts",
        choices=("copy", "leave", "skip"),
        default="copy",
        help="copy files to this server, leave them where they are, or bring none",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="compare every point and file by its content, not by number, size and time",
    )
    if is_mlflow:
        parser.add_argument(
            "--artifacts-root",
            metavar="WHERE",
            help="folder or bucket of the old server's `--artifacts-destination`, for a database",
        )
        parser.add_argument(
            "--workspace", metavar="NAME", help="workspace of MLflow to read, where it has several"
        )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Do one pass and print the report; 1 if something could not come."""
    from trackyard.moving.target import ServerTarget
    from trackyard.moving.transfer import ImportChoices, ServerTransfer

    source = open_source(args)
    report = ImportReport(source=_plain(args.source))
    choices = ImportChoices(
        artifacts=args.artifacts,
        same_name=args.same_name,
        experiments=frozenset(args.experiment),
        is_thorough=args.verify,
    )
    began = time.monotonic()
    with ImportProgress(is_quiet=args.json) as bar:
        target = ServerTarget(Api.from_environment())
        ServerTransfer(source, target, report, bar, choices).run()
    report.seconds = time.monotonic() - began
    tell(report, as_json=args.json)
    return 1 if report.missing else 0


def open_source(args: argparse.Namespace) -> RecordSource:
    """Open what `--from` names."""
    where: str = args.source
    if args.format != "mlflow":
        return _open_other(args.format, Path(where))
    if where.startswith(("http://", "https://")):
        from trackyard.moving.mlflow_rest import MlflowServer

        return MlflowServer(where)
    if where.startswith(("sqlite:", "postgres")):
        from trackyard.moving.mlflow_sql import MlflowDatabase

        return MlflowDatabase(where, artifacts_root=args.artifacts_root, workspace=args.workspace)
    if "://" in where and not where.startswith("file://"):
        raise SetupError(
            f"{_plain(where)} is nothing that this command reads",
            hint="--from sqlite:///mlflow.db, postgresql://…, http://… or a folder mlruns",
        )
    from trackyard.moving.mlflow_folder import MlflowFolder

    return MlflowFolder(Path(where.removeprefix("file://").removeprefix("file:")))


def _open_other(name: str, path: Path) -> RecordSource:
    """Open the folder or file of another tracker than MLflow."""
    if not path.exists():
        raise SetupError(f"there is no {path}", hint=f"--from takes {_FORMATS[name]}")
    if name == "tensorboard":
        from trackyard.moving.tensorboard import TensorBoard

        return TensorBoard(path)
    if name == "wandb":
        from trackyard.moving.wandb import WandbFolder

        return WandbFolder(path)
    if name == "trackio":
        from trackyard.moving.trackio import TrackioFolder

        return TrackioFolder(path)
    if name == "aim":
        from trackyard.moving.aim import AimRepository

        return AimRepository(path)
    from trackyard.moving.neptune import NeptuneFolder

    return NeptuneFolder(path)


def _plain(where: str) -> str:
    """Return an address without the password in it."""
    scheme, found, rest = where.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if found else where


def tell(report: ImportReport, *, as_json: bool) -> None:
    """Print a report."""
    if as_json:
        emit_json(report.shaped())
        return
    table(["what", "new", "changed", "here already", "missing"], report.rows())
    for title, entries, key in (
        ("not quite as it was", report.notes, "note"),
        ("could not come", report.missing, "reason"),
    ):
        if entries:
            say(f"\n{title}:")
            for one in entries[:_SHOWN]:
                say(f"  {one['kind']} {one['id']}: {one[key]}")
            if len(entries) > _SHOWN:
                say(f"  … and {len(entries) - _SHOWN} more; --json lists all")
    size = f", {report.copied_bytes / 1e6:.1f} MB of files" if report.copied_bytes else ""
    say(f"\ndone in {report.seconds:.1f} s{size}")


class ImportProgress:
    """A line on the terminal that tells what is under way; nothing where there is no terminal."""

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_shown = sys.stderr.isatty() and not is_quiet
        self._progress: Any = None
        self._task: Any = None
        self._counts: dict[str, int] = {}
        self._doing = ""

    def __enter__(self) -> ImportProgress:
        if self._is_shown:
            from rich.console import Console
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            self._progress = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._progress.start()
            self._task = self._progress.add_task("starting", total=None)
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def doing(self, what: str) -> None:
        """Say what is under way."""
        self._doing = what
        self._show()

    def did(self, kind: str, number: int = 1) -> None:
        """Count what was looked at."""
        self._counts[kind] = self._counts.get(kind, 0) + number
        self._show()

    def _show(self) -> None:
        if self._progress is not None:
            done = ", ".join(f"{number:,} {kind}" for kind, number in self._counts.items())
            self._progress.update(self._task, description=f"{self._doing}  {done}")
