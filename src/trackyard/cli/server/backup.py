"""`yard backup`: fetch a consistent copy of a live server into a folder."""

from __future__ import annotations

import argparse
import contextlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trackyard.cli.output import add_json, emit_json, say
from trackyard.cli.server.backup_folder import (
    DATABASE,
    BackupEntry,
    Damaged,
    Manifest,
    empty_folder,
    write_file,
    write_manifest,
)
from trackyard.client.api import Api, ApiFault, Unreachable
from trackyard.core.errors import SetupError

_BASE = "/api/v1/admin/backups"
#: status of an answer about a file that is gone or shorter than it was
_INTERNAL_ERROR = 500


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "backup",
        help="copy a live server into a folder",
        description="Copy the database and every file it names into a new folder, while the"
        " server runs. What was acknowledged before the command began is in it; a file that is"
        " damaged on the server is left out and named.",
    )
    parser.add_argument("dest", metavar="DEST", type=Path, help="a folder that is new or empty")
    parser.add_argument(
        "--no-artifacts", action="store_true", help="the database alone, without files of runs"
    )
    add_json(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Fetch the backup and report; 1 if something could not be copied because it is damaged."""
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
                "damaged": [asdict(one) for one in manifest.damaged],
                "database_damage": manifest.database_damage,
            }
        )
        return 0 if manifest.is_whole else 1
    print(
        f"backed up {len(manifest.entries)} files ({manifest.total_bytes:,} bytes) to {folder},"
        f" up to event {manifest.mark}"
    )
    for one in manifest.damaged:
        say(f"left out, damaged on the server: {one}")
    for complaint in manifest.database_damage:
        say(f"damaged in the database itself: {complaint}")
    if manifest.is_whole:
        say(f"restore it with: yard restore {folder} --home DIR")
        return 0
    say("hint: bring back what is damaged from an older backup or upload it again; `yard verify`")
    return 1


def _fetch(api: Api, info: dict[str, Any], folder: Path, *, with_files: bool) -> Manifest:
    manifest = Manifest(
        version=info["version"],
        schema=info["schema"],
        created_ms=info["created_ms"],
        mark=info["mark"],
        has_artifacts=with_files,
        database_damage=info.get("damage", []),
    )
    base = f"{_BASE}/{info['id']}"
    database = BackupEntry(DATABASE, info["database_bytes"], info["database_sha256"])
    what = _fetch_one(api, f"{base}/database", folder, database)
    if what is not None:
        raise SetupError(
            f"the copy of the database did not arrive whole: {what}", hint="try again"
        )
    manifest.entries.append(database)
    after = ""
    while with_files:
        page = api.get(f"{base}/files", {"after": after})["files"]
        for file in page:
            after = file["blob"]
            entry = BackupEntry(file["path"], file["size"], file["sha256"])
            what = _fetch_one(api, f"{base}/files/{after}", folder, entry)
            if what is None:
                manifest.entries.append(entry)
            else:
                manifest.damaged.append(Damaged(file["owner"], file["name"], after, what))
        if not page:
            break
    return manifest


def _fetch_one(api: Api, path: str, folder: Path, entry: BackupEntry) -> str | None:
    """Copy a file; return what is wrong with the server's own if it is damaged."""
    what = ""
    # Twice, for a byte may also be lost on the way here.
    for _ in range(2):
        try:
            size, sha256 = write_file(folder / entry.path, api.download(path))
        except ApiFault as fault:
            if fault.status != _INTERNAL_ERROR:
                raise
            what = str(fault)
        except Unreachable:
            # The server cuts a file short where its own ends early; one that is gone is no rot.
            api.get("/ready")
            what = "it cannot be read to its end"
        else:
            if (size, sha256) == (entry.size, entry.sha256):
                return None
            (folder / entry.path).unlink()
            what = "its bytes are not those that were stored"
    return what
