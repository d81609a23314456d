"""`yard restore`: put a backup into a new home folder, checking every file on the way."""

from __future__ import annotations

import argparse
import contextlib
import sqlite3
from dataclasses import asdict
from pathlib import Path

from trackyard.cli.output import add_json, emit_json, say
from trackyard.cli.server.backup_folder import (
    DATABASE,
    Manifest,
    checked_pieces,
    empty_folder,
    read_manifest,
    write_file,
)
from trackyard.core.errors import SetupError


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "restore",
        help="put a backup into a new home folder",
        description="Check a backup and put it into a home folder that is new or empty; then"
        " `yard up --home DIR` serves it. No server is needed.",
    )
    parser.add_argument("src", metavar="SRC", type=Path, help="folder of the backup")
    parser.add_argument("--home", metavar="DIR", type=Path, help="home folder to fill")
    parser.add_argument("--check", action="store_true", help="check the backup, restore nothing")
    add_json(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Check, copy and report."""
    source: Path = args.src
    home: Path | None = args.home
    if home is None and not args.check:
        raise SetupError("no home folder is named", hint="add --home DIR, or --check to look only")
    manifest = read_manifest(source)
    if args.check:
        _check(source, manifest)
    elif home is not None:
        empty_folder(home, "the restored server")
        _restore(source, manifest, home)
    keys = _keys((source if args.check or home is None else home) / DATABASE)
    # What there is was restored; a check is asked whether that is all.
    code = 0 if manifest.is_whole or not args.check else 1
    if args.json:
        emit_json(
            {
                "checked": True,
                "home": None if args.check else str(home),
                "mark": manifest.mark,
                "files": len(manifest.entries),
                "bytes": manifest.total_bytes,
                "damaged": [asdict(one) for one in manifest.damaged],
                "database_damage": manifest.database_damage,
                "sealed": [
                    {"key": key, "secrets": secrets, "submissions": jobs}
                    for key, (secrets, jobs) in keys.items()
                ],
            }
        )
        return code
    done = "checked" if args.check else "restored"
    print(
        f"{done} {len(manifest.entries)} files ({manifest.total_bytes:,} bytes),"
        f" up to event {manifest.mark}"
    )
    if not args.check:
        say(f"serve it with: yard up --home {home}   (it makes a new admin token)")
    if not manifest.has_artifacts:
        say("the backup was taken without artifacts: point --artifacts at the store that has them")
    for key, (secrets, jobs) in keys.items():
        place = (home or Path("HOME")) / "secrets.key"
        say(
            f"sealed with the key {key}, which no backup holds: {secrets} secrets, and variables"
            f" of {jobs} submissions whose jobs have not ended. Before the start, copy"
            f" `secrets.key` of the old home to {place} (mode 0600). If it is lost, `yard secret"
            " set` stores the secrets anew, and those jobs end with that reason"
        )
    for one in manifest.damaged:
        say(f"not in the backup, it was damaged before: {one}")
    for complaint in manifest.database_damage:
        say(f"damaged in the database before the backup: {complaint}")
    return code


def _check(source: Path, manifest: Manifest) -> None:
    for entry in manifest.entries:
        for _ in checked_pieces(source, entry):
            pass
    _check_database(source / DATABASE, manifest)
    _check_contents(source / DATABASE, manifest)


def _restore(source: Path, manifest: Manifest, home: Path) -> None:
    """Copy the database last, so that a home with a database has all its files."""
    for entry in sorted(manifest.entries, key=lambda entry: entry.path == DATABASE):
        write_file(home / entry.path, checked_pieces(source, entry))
    _check_database(home / DATABASE, manifest)
    _check_contents(home / DATABASE, manifest)
    _mark_store(home)


def _mark_store(home: Path) -> None:
    """Give the restored files the name under which the restored database knows its store."""
    with contextlib.closing(_open(home / DATABASE)) as conn:
        row = conn.execute("SELECT value FROM settings WHERE key = 'artifact_store'").fetchone()
    if row is not None:
        name = str(row[0]).removeprefix("pending:")
        write_file(home / "artifacts" / "store.id", [f"{name}\n".encode()])


def _keys(path: Path) -> dict[str, tuple[int, int]]:
    """Return the keys that values in a database are sealed with, and how many of them.

    Those are secrets of teams, and submissions with variables whose jobs may yet start.
    """
    found: dict[str, tuple[int, int]] = {}
    with contextlib.closing(_open(path)) as conn:
        try:
            secrets = [row[0] for row in conn.execute("SELECT sealed FROM secrets")]
            specs = conn.execute(
                'SELECT s.spec FROM job_specs s WHERE s.spec LIKE \'%"sealed":"1.%\' AND EXISTS'
                " (SELECT 1 FROM jobs j WHERE j.spec_id = s.id AND j.ended_ms IS NULL)"
            )
            jobs = [row[0].partition('"sealed":"')[2] for row in specs]
        except sqlite3.Error:
            # A backup of a release without them, or one that is damaged, which was told.
            return {}
    for at, values in enumerate((secrets, jobs)):
        for value in values:
            key, counts = value.split(".", 2)[1], [0, 0]
            counts[at] = 1
            before = found.get(key, (0, 0))
            found[key] = (before[0] + counts[0], before[1] + counts[1])
    return found


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True)


def _check_contents(path: Path, manifest: Manifest) -> None:
    """Insist that the copy reaches its mark and that every file it names is there or excused."""
    with contextlib.closing(_open(path)) as conn:
        mark = conn.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()[0]
        rows = conn.execute(
            "SELECT blob, owner || '/' || path FROM artifacts"
            " UNION SELECT blob, 'package/' || digest FROM packages"
        ).fetchall()
        # Backups of releases before there were data sets lack the table.
        if conn.execute("SELECT 1 FROM sqlite_master WHERE name = 'data_packs'").fetchone():
            rows += conn.execute("SELECT blob, 'data/' || blob FROM data_packs").fetchall()
    if mark != manifest.mark:
        raise SetupError(
            f"the database ends at event {mark}, the manifest says {manifest.mark}",
            hint="use another backup",
        )
    if not manifest.has_artifacts:
        return
    known = {entry.path.rpartition("/")[2] for entry in manifest.entries}
    known |= {one.blob for one in manifest.damaged}
    lacking = sorted(name for blob, name in rows if blob not in known)
    if lacking:
        raise SetupError(
            f"the backup lacks {len(lacking)} files that its database names: {lacking[0]}",
            hint="use another backup",
        )


def _check_database(path: Path, manifest: Manifest) -> None:
    if manifest.database_damage:
        return
    try:
        conn = _open(path)
        try:
            answer = conn.execute("PRAGMA quick_check(1)").fetchone()[0]
        finally:
            conn.close()
    except sqlite3.Error as fault:
        answer = str(fault)
    if answer != "ok":
        raise SetupError(f"the database in the backup is damaged: {answer}")
