"""`yard backup`: fetch a consistent copy of a live server into a folder."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path
from typing import Any

from trackyard.cli.backup_folder import (
    DATABASE,
    Entry,
    Manifest,
    empty_folder,
    write_file,
    write_manifest,
)
from trackyard.cli.output import add_json, emit_json, say
from trackyard.client.api import Api, ApiFault, Unreachable
from trackyard.core.errors import SetupError

_BASE = "/api/v1/admin/backups"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "backup",
        help="copy a live server into a folder",
        description="Copy the database and every file it names into a new folder, while the"
        " server runs. What was acknowledged before the command began is in it.",
    )
    parser.add_argument("dest", metavar="DEST", type=Path, help="a folder that is new or empty")
    parser.add_argument(
        "--no-artifacts", action="store_true", help="the database alone, without files of runs"
    )
    add_json(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Fetch the backup and report."""
    folder: Path = args.dest
    empty_folder(folder, "the backup")
    api = Api.from_environment(timeout=None)
    info = api.post(_BASE)
    try:
        manifest = _fetch(api, info, folder, with_files=not args.no_artifacts)
    finally:
        # Whatever happened, let the server remove what was deleted meanwhile.
        with contextlib.suppress(ApiFault, Unreachable):
            api.call("DELETE", f"{_BASE}/{info['id']}")
    write_manifest(folder, manifest)
    if args.json:
        emit_json(
            {
                "folder": str(folder),
                "mark": manifest.mark,
                "files": len(manifest.entries),
                "bytes": manifest.total_bytes,
            }
        )
        return 0
    print(
        f"backed up {len(manifest.entries)} files ({manifest.total_bytes:,} bytes) to {folder},"
        f" up to event {manifest.mark}"
    )
    say(f"restore it with: yard restore {folder} --home DIR")
    return 0


def _fetch(api: Api, info: dict[str, Any], folder: Path, *, with_files: bool) -> Manifest:
    manifest = Manifest(
        version=info["version"],
        schema=info["schema"],
        created_ms=info["created_ms"],
        mark=info["mark"],
        has_artifacts=with_files,
    )
    base = f"{_BASE}/{info['id']}"
    database = Entry(DATABASE, info["database_bytes"], info["database_sha256"])
    manifest.entries.append(_fetch_one(api, f"{base}/database", folder, database))
    after = ""
    while with_files:
        page = api.get(f"{base}/files", {"after": after})["files"]
        for file in page:
            after = file["blob"]
            entry = Entry(file["path"], file["size"], file["sha256"])
            manifest.entries.append(_fetch_one(api, f"{base}/files/{after}", folder, entry))
        if not page:
            break
    return manifest


def _fetch_one(api: Api, path: str, folder: Path, entry: Entry) -> Entry:
    size, sha256 = write_file(folder / entry.path, api.download(path))
    if (size, sha256) != (entry.size, entry.sha256):
        raise SetupError(
            f"{entry.path} did not arrive as the server keeps it; the backup is not complete",
            hint="run `yard gc --scrub` to see whether the server's own file is damaged, then"
            " try again",
        )
    return entry
