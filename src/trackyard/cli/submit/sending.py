"""A working folder on its way to the server: packaged, told apart by content, sent once.

Owns what is refused before anything is sent; how a folder is packaged is `client.package`'s.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trackyard.cli.submit.wish import SubmissionFlags
from trackyard.client import package, source
from trackyard.client.api import Api, ApiFault
from trackyard.core.errors import SetupError


def build(asked: SubmissionFlags) -> package.FolderPackage | None:
    """Package the folder; None if there is none to send."""
    if asked.folder is None:
        return None
    folder = asked.folder.resolve()
    if not asked.folder_is_named and folder in (Path.home().resolve(), Path("/")):
        raise SetupError(
            f"{folder} is not a folder to send along by accident",
            hint="go to your code, name it with --working-dir, or send nothing: --no-working-dir",
        )
    try:
        return package.build(folder, exclude=asked.exclude)
    except package.PackageError as fault:
        raise SetupError(
            str(fault), hint="`--exclude PATTERN` leaves more out, --no-working-dir everything"
        ) from fault


def send(api: Api, made: package.FolderPackage) -> bool:
    """Send a package unless the server has it; return whether it was sent."""
    path = f"/api/v1/packages/{made.digest}"
    try:
        api.call("HEAD", path)
        return False
    except ApiFault as fault:
        if fault.status != 404:
            raise
    api.call("PUT", path, query={"format": "zip"}, raw=made.content)
    return True


def source_fields(folder: Path | None) -> dict[str, Any] | None:
    """Return the git state of the folder as the submission wants it."""
    found = source.capture(folder) if folder is not None else None
    if found is None:
        return None
    return {
        "commit": found.commit,
        "branch": found.branch,
        "remote": found.remote,
        "dirty": found.dirty,
        "diff": found.diff,
    }
