"""How data sets are printed. Knows the shapes of the API's answers, no server."""

from __future__ import annotations

from typing import Any

from trackyard.cli.amounts import size_words
from trackyard.cli.output import ago, say, table

_SIGNS = {"added": "+", "removed": "-", "changed": "~", "moved": ">"}


def size(count: int) -> str:
    """Format a number of bytes."""
    return size_words(count) if count >= 1024**2 else f"{count / 1024:.1f} KiB"


def label(version: dict[str, Any]) -> str:
    """Return a version as `NAME@vN`."""
    return f"{version['name']}@v{version['version']}"


def added(answer: dict[str, Any], sent: int) -> None:
    """Print the outcome of adding a version."""
    version = answer["version"]
    print(label(version))
    what = "is new" if answer["is_new"] else "has the same content already"
    say(f"{label(version)} {what}: {version['files']} files, {size(version['size_bytes'])}")
    say(f"  {size(sent)} sent; sha256:{version['digest'][:12]}")
    if answer["is_new"]:
        say(f"  yard submit --data {label(version)} -- python train.py")
        say(f"  yard data show {label(version)}")


def listed(found: list[dict[str, Any]]) -> None:
    """Print data sets."""
    table(
        ["name", "newest", "files", "size", "layout", "versions", "added", "used"],
        [
            (
                row["newest"]["name"],
                f"v{row['newest']['version']}",
                row["newest"]["files"],
                size(row["newest"]["size_bytes"]),
                row["newest"]["layout"],
                row["versions"],
                ago(row["newest"]["created_ms"]),
                ago(row["newest"]["used_ms"]),
            )
            for row in found
        ],
        empty="no data sets yet; `yard data add NAME FOLDER` adds one",
    )


def detail(shown: dict[str, Any], version: dict[str, Any]) -> None:
    """Print a data set: its versions, and the classes of one."""
    table(
        ["version", "files", "size", "by", "source", "added", "used", "digest"],
        [
            (
                f"v{row['version']}",
                row["files"],
                size(row["size_bytes"]),
                row["user"],
                row["source"],
                ago(row["created_ms"]),
                ago(row["used_ms"]),
                row["digest"][:12],
            )
            for row in shown["versions"]
        ],
    )
    splits = list(version["classes"])
    if not splits:
        return
    say(f"\nfiles by class in {label(version)}")
    names = sorted({name for counts in version["classes"].values() for name in counts})
    table(
        ["class", *(split or "files" for split in splits)],
        [(name, *(version["classes"][split].get(name, 0) for split in splits)) for name in names],
    )


def files(folders: list[dict[str, Any]], found: list[dict[str, Any]]) -> None:
    """Print a folder."""
    rows: list[tuple[Any, ...]] = [
        (f"{one['name']}/", one["files"], size(one["size_bytes"]), "folder") for one in folders
    ]
    rows += [
        (one["path"].rpartition("/")[2], 1, size(one["size_bytes"]), one["kind"]) for one in found
    ]
    table(["name", "files", "size", "kind"], rows)


def difference(found: dict[str, Any]) -> None:
    """Print how two versions differ."""
    say(
        f"{label(found['old'])} -> {label(found['new'])}: {found['added']} added,"
        f" {found['removed']} removed, {found['changed']} changed, {found['moved']} moved,"
        f" {found['same']} the same"
    )
    for change in found["changes"]:
        came = f"  (was {change['old_path']})" if change["old_path"] else ""
        print(f"{_SIGNS[change['what']]} {change['path']}{came}")
    if found["is_cut"]:
        say("… and more; --json lists the first 1,000")


def users(found: dict[str, Any]) -> None:
    """Print who used a version."""
    table(
        ["run", "name", "job", "models", "when"],
        [
            (
                use["run_id"],
                use["run_name"],
                use["job_id"] or "-",
                ", ".join(use["models"]) or "-",
                ago(use["created_ms"]),
            )
            for use in found["uses"]
        ],
        empty=f"nobody used {label(found['version'])} yet",
    )
    if found["nodes"]:
        say(f"held by {', '.join(found['nodes'])}")


def cleaned(found: dict[str, Any]) -> None:
    """Print what clean-up removed."""
    verb = "would remove" if found["dry_run"] else "removed"
    for version in found["versions"]:
        say(f"{verb} {label(version)}, last used {ago(version['used_ms'])}")
    for kept in found["kept"]:
        say(f"keeps {label(kept['version'])}: needed by {kept['needed_by']}")
    say(f"{verb} {found['contents']} contents, {size(found['content_bytes'])}")
