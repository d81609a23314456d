"""`yard verify`: read everything the server keeps, and name what is damaged or missing."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from trackyard.cli.output import add_json, emit_json, say
from trackyard.cli.server.backup_compare import Missing, fetch_copy, missing_rows
from trackyard.cli.server.backup_folder import DATABASE, read_manifest
from trackyard.client.api import Api, ApiFault
from trackyard.core.errors import SetupError

_BASE = "/api/v1/admin/verify"
_INTERNAL_ERROR = 500


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "verify",
        help="look for damage in the database and in stored files",
        description="Have the server read its database and every stored file, compare them with"
        " their checksums and name what is damaged. The server goes on. With --against, also"
        " compare it with a backup: all that the backup holds must be there.",
    )
    parser.add_argument(
        "--against",
        metavar="BACKUP",
        type=Path,
        help="folder of a backup, all of which the server must hold: for a restored server",
    )
    parser.add_argument(
        "--database-only", action="store_true", help="leave out files of runs, models and jobs"
    )
    add_json(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Verify, report, and return 1 if anything is damaged or missing."""
    manifest = None if args.against is None else read_manifest(args.against)
    api = Api.from_environment(timeout=None)
    database = _database(api)
    files, total, damaged = (0, 0, []) if args.database_only else _files(api)
    missing: list[Missing] = []
    if manifest is not None:
        missing = _missing(api, args.against, manifest.mark)
    if args.json:
        emit_json(
            {
                "files": files,
                "bytes": total,
                "damaged": damaged,
                "database_damage": database,
                "missing": [{"table": one.table, "row": one.row} for one in missing],
            }
        )
    else:
        print(f"verified the database and {files} files ({total:,} bytes)")
        if manifest is not None:
            print(f"compared with {args.against}, up to event {manifest.mark}")
        _complain(database, damaged, missing)
    return 1 if database or damaged or missing else 0


def _complain(database: list[str], damaged: list[dict[str, Any]], missing: list[Missing]) -> None:
    for complaint in database:
        say(f"damaged in the database: {complaint}")
    for file in damaged:
        say(f"damaged file: {file['owner']}/{file['path']} (blob {file['blob']}): {file['what']}")
    for row in missing:
        say(f"missing: {row.table} {row.row}")
    if database or missing:
        say("hint: bring back a backup with `yard restore`")
    elif damaged:
        say("hint: upload these files again, or copy their blobs from a backup into the store")


def _database(api: Api) -> list[str]:
    found: list[str] = []
    after: int | None = 0
    while after is not None:
        page = api.get(f"{_BASE}/database", {"after": after})
        found += page["damaged"]
        after = page["next"]
    return found


def _files(api: Api) -> tuple[int, int, list[dict[str, Any]]]:
    files = total = 0
    damaged: list[dict[str, Any]] = []
    after: str | None = ""
    while after is not None:
        try:
            page = api.get(f"{_BASE}/files", {"after": after})
        except ApiFault as fault:
            if fault.status != _INTERNAL_ERROR:
                raise
            # The rows that name the files are damaged themselves; that was told with the database.
            say(f"not all files could be looked at: {fault}")
            break
        files += page["files"]
        total += page["bytes"]
        damaged += page["damaged"]
        after = page["next"]
    return files, total, damaged


def _missing(api: Api, backup: Path, mark: int) -> list[Missing]:
    with tempfile.TemporaryDirectory(prefix="yard-verify-") as folder:
        live = Path(folder) / DATABASE
        reached = fetch_copy(api, live)
        if reached < mark:
            raise SetupError(
                f"the server ends at event {reached}, before the backup's {mark}",
                hint="this is not the server that the backup is of, nor one restored from it",
            )
        return missing_rows(backup / DATABASE, live)
