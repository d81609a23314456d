"""`yard gc`: settle metric points, remove what was deleted, collect orphaned files."""

from __future__ import annotations

import argparse

from trackyard.cli.output import add_json, emit_json
from trackyard.client.api import Api


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "gc",
        help="clean up the store",
        description="Settle metric points into blocks, remove abandoned files, logs and keys that"
        " were kept long enough and, with --purge-days, runs deleted long ago.",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would go, remove nothing")
    parser.add_argument(
        "--purge-days", type=int, metavar="N", help="remove runs deleted N days ago or earlier"
    )
    parser.add_argument(
        "--log-days",
        type=int,
        metavar="N",
        help="remove logs of jobs that ended N days ago (default: the setting log_days)",
    )
    parser.add_argument(
        "--key-days",
        type=int,
        metavar="N",
        help="forget keys of submissions made N days ago (default: the setting key_days)",
    )
    add_json(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Clean up and report."""
    wish = {
        "dry_run": args.dry_run,
        "purge_days": args.purge_days,
        "log_days": args.log_days,
        "key_days": args.key_days,
    }
    api = Api.from_environment(timeout=None)
    done = api.post("/api/v1/admin/gc", wish)
    if args.json:
        emit_json(done)
        return 0
    verb = "would remove" if args.dry_run else "removed"
    print(f"settled {done['settled_rows']} batches of metric points")
    print(
        f"{verb} {done['purged_runs']} deleted runs, {done['blobs']} orphaned files"
        f" ({done['blob_bytes']:,} bytes), {done['uploads']} abandoned uploads"
    )
    print(
        f"{verb} {done['logs']} logs of ended jobs ({done['log_bytes']:,} bytes),"
        f" {done['keys']} keys of submissions"
    )
    return 0
