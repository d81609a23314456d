"""`yard data add|list|show|files|diff|get|users|rm|gc`: data sets and their versions."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from trackyard.cli.data import data_view
from trackyard.cli.output import add_json, emit_json, say
from trackyard.cli.progress import ProgressBar
from trackyard.client.api import Api
from trackyard.core.dataset import LAYOUTS, DatasetReference, parse_reference
from trackyard.core.errors import SetupError


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("data", help="add, look at and fetch data sets")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, help_: str, func: Callable[[argparse.Namespace], int]) -> Any:
        made = actions.add_parser(name, help=help_, description=help_)
        add_json(made)
        made.set_defaults(func=func)
        return made

    add = action("add", "store a folder, file, archive or bucket as a version", add_data)
    add.add_argument("name", help="name of the data set")
    add.add_argument("source", help="folder, file, http(s):// address or s3://bucket/prefix")
    add.add_argument("--unpack", action="store_true", help="the source is a zip, tar or tar.gz")
    add.add_argument(
        "--layout",
        choices=LAYOUTS,
        default="auto",
        help="imagefolder: a folder per class; prefix: sort 3_17.jpg into class_03; files: no"
        " classes; auto (default): imagefolder where it looks like one",
    )
    listing = action("list", "list data sets", list_data)
    listing.set_defaults(func=list_data)
    show = action("show", "show a data set, its versions and its classes", show_data)
    show.add_argument("data", metavar="NAME[@VERSION]")
    files = action("files", "list the files of a version", list_files)
    files.add_argument("data", metavar="NAME[@VERSION]")
    files.add_argument("folder", nargs="?", default="", help="folder within the version")
    diff = action("diff", "compare two versions", diff_data)
    diff.add_argument("old", metavar="NAME@OLD")
    diff.add_argument("new", metavar="VERSION", nargs="?", default="latest")
    get = action("get", "fetch a version into a folder", get_data)
    get.add_argument("data", metavar="NAME[@VERSION]")
    get.add_argument("folder", type=Path)
    users = action("users", "list runs, jobs and models that used a version", list_users)
    users.add_argument("data", metavar="NAME[@VERSION]")
    remove = action("rm", "remove a version", remove_data)
    remove.add_argument("data", metavar="NAME@VERSION")
    remove.add_argument("--force", action="store_true", help="even if a model or job needs it")
    clean = action("gc", "remove versions that have not been used for long", clean_data)
    clean.add_argument(
        "--unused-days", type=int, metavar="N", help="versions not used for so many days"
    )
    clean.add_argument("--dry-run", action="store_true", help="only say what would go")


def add_data(args: argparse.Namespace) -> int:
    """Store a source as a version."""
    from trackyard.client import data_add, data_source

    _reference(args.name)
    api = Api.from_environment()
    # Fail early if there is no server or it does not accept the token.
    api.get("/api/v1/data", {"limit": 1})
    with ProgressBar(is_quiet=args.json) as bar:
        origin = data_source.bring(
            args.source, unpack=args.unpack, layout=args.layout, progress=bar.show
        )
        scanned = data_add.scan(origin.folder, bar.show)
        sent = data_add.send(Api.from_environment, scanned, bar.show)
        answer = data_add.name_version(
            Api.from_environment, args.name, scanned, layout=args.layout, source=args.source
        )
    if answer["version"] is None:
        raise SetupError(
            f"{len(answer['missing'])} contents have gone missing in the meantime",
            hint="run the same command again",
        )
    origin.clean()
    if args.json:
        emit_json({**answer, "sent_bytes": sent})
        return 0
    data_view.added(answer, sent)
    return 0


def list_data(args: argparse.Namespace) -> int:
    """List the team's data sets."""
    found = _pages(Api.from_environment(), "/api/v1/data", "data")
    if args.json:
        emit_json(found)
        return 0
    data_view.listed(found)
    return 0


def show_data(args: argparse.Namespace) -> int:
    """Show one data set."""
    wanted = _reference(args.data)
    api = Api.from_environment()
    shown = api.get(f"/api/v1/data/{wanted.name}")
    version = api.get(_path(wanted))
    if args.json:
        emit_json({**shown, "shown": version})
        return 0
    data_view.detail(shown, version)
    return 0


def list_files(args: argparse.Namespace) -> int:
    """List a folder of a version."""
    api, path = Api.from_environment(), f"{_path(_reference(args.data))}/files"
    first = api.get(path, {"folder": args.folder, "limit": 1000})
    files, after = first["files"], first["next"]
    while after:
        page = api.get(path, {"folder": args.folder, "limit": 1000, "after": after})
        files, after = files + page["files"], page["next"]
    if args.json:
        emit_json({"folders": first["folders"], "files": files})
        return 0
    data_view.files(first["folders"], files)
    return 0


def diff_data(args: argparse.Namespace) -> int:
    """Compare two versions of one data set."""
    old = _reference(args.old)
    new = _reference(args.new if "@" in args.new else f"{old.name}@{args.new}")
    if new.name != old.name:
        raise SetupError(
            "both versions must be of one data set",
            hint=f"write `yard data diff {old.name}@v1 v2`",
        )
    query = {"old": _version(old), "new": _version(new)}
    found = Api.from_environment().get(f"/api/v1/data/{old.name}/diff", query)
    if args.json:
        emit_json(found)
        return 0
    data_view.difference(found)
    return 0


def get_data(args: argparse.Namespace) -> int:
    """Fetch a version."""
    from trackyard.client import data_get

    api = Api.from_environment()
    version = api.get(_path(_reference(args.data)))
    total = version["size_bytes"]
    with ProgressBar(is_quiet=args.json) as bar:
        fetched = data_get.fetch(
            api, version, args.folder, lambda done: bar.show("fetch", done, total)
        )
    if args.json:
        emit_json({"version": version, "folder": str(args.folder), "fetched_bytes": fetched})
        return 0
    label = f"{version['name']}@v{version['version']}"
    say(
        f"{label} is in {args.folder}: {version['files']} files, {data_view.size(fetched)} fetched"
    )
    return 0


def list_users(args: argparse.Namespace) -> int:
    """List who used a version."""
    found = Api.from_environment().get(f"{_path(_reference(args.data))}/users")
    if args.json:
        emit_json(found)
        return 0
    data_view.users(found)
    return 0


def remove_data(args: argparse.Namespace) -> int:
    """Remove one version."""
    wanted = _reference(args.data)
    if not wanted.version and not wanted.digest:
        raise SetupError(
            f"which version of {wanted.name}?", hint=f"write `yard data rm {wanted.name}@v1`"
        )
    query = {"force": "1"} if args.force else None
    gone = Api.from_environment().call("DELETE", _path(wanted), query=query)
    if args.json:
        emit_json(gone)
        return 0
    say(f"{gone['name']}@v{gone['version']} is removed; `yard data gc` frees what only it held")
    return 0


def clean_data(args: argparse.Namespace) -> int:
    """Remove versions by last use, and contents no version refers to."""
    wish = {"unused_days": args.unused_days, "dry_run": args.dry_run}
    found = Api.from_environment().post("/api/v1/data/clean", wish)
    if args.json:
        emit_json(found)
        return 0
    data_view.cleaned(found)
    return 0


def _reference(text: str) -> DatasetReference:
    try:
        found = parse_reference(text)
    except ValueError as fault:
        raise SetupError(str(fault)) from fault
    if found.variable:
        raise SetupError(f"{text!r} names a variable", hint="write NAME or NAME@v3")
    return found


def _version(wanted: DatasetReference) -> str:
    if wanted.digest:
        return f"sha256:{wanted.digest}"
    return f"v{wanted.version}" if wanted.version else "latest"


def _path(wanted: DatasetReference) -> str:
    return f"/api/v1/data/{wanted.name}/versions/{quote(_version(wanted))}"


def _pages(api: Api, path: str, key: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after = ""
    while True:
        page = api.get(path, {"after": after, "limit": 1000})
        found += page[key]
        after = page["next"]
        if not after:
            return found
