"""What a backup looks like as a folder: a manifest, the database, and files by their blob's name.

Owns writing files so that they last, and checking them against the manifest. Knows no server.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from trackyard.core.errors import SetupError

FORMAT = "trackyard-backup-1"
MANIFEST = "manifest.json"
DATABASE = "trackyard.db"
_PIECE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class BackupEntry:
    """A file of the backup, and what it must be."""

    #: below the backup's folder and below the home it is restored to
    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Damaged:
    """A file that could not be copied, since the server's own is damaged."""

    #: run or logged model that holds it, or `package`
    owner: str
    #: its path there, or the package's digest
    name: str
    blob: str
    what: str

    def __str__(self) -> str:
        return f"{self.owner}/{self.name} (blob {self.blob}): {self.what}"


@dataclass(slots=True, kw_only=True)
class Manifest:
    """Everything a backup holds."""

    version: str
    schema: str
    created_ms: int
    #: id of the last event in it
    mark: int
    #: whether the files of runs and models are in it too
    has_artifacts: bool
    entries: list[BackupEntry] = field(default_factory=list)
    #: files that the database names and the backup lacks
    damaged: list[Damaged] = field(default_factory=list)
    #: what was wrong with the database itself
    database_damage: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Tell whether all that the database names is here."""
        return not self.damaged and not self.database_damage

    @property
    def total_bytes(self) -> int:
        """Return the size of all files together."""
        return sum(entry.size for entry in self.entries)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest, last of all: a backup without one is none."""
    shaped = {"format": FORMAT, **asdict(manifest)}
    write_file(folder / MANIFEST, [json.dumps(shaped, indent=1).encode()])


def read_manifest(folder: Path) -> Manifest:
    """Read a backup's manifest, or say why this is no backup."""
    try:
        shaped: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    except OSError as fault:
        raise SetupError(
            f"{folder} holds no backup: it has no {MANIFEST}",
            hint="name the folder that `yard backup` wrote; one that was cut short has none",
        ) from fault
    except ValueError as fault:
        raise SetupError(f"{folder / MANIFEST} is damaged: {fault}") from fault
    if shaped.pop("format", None) != FORMAT:
        raise SetupError(f"{folder / MANIFEST} is of a form this release does not know")
    try:
        entries = [BackupEntry(**entry) for entry in shaped.pop("entries")]
        damaged = [Damaged(**one) for one in shaped.pop("damaged", [])]
        manifest = Manifest(**shaped, entries=entries, damaged=damaged)
    except (KeyError, TypeError) as fault:
        raise SetupError(f"{folder / MANIFEST} is damaged: {fault}") from fault
    for entry in entries:
        _check_inside(entry.path)
    return manifest


def checked_pieces(folder: Path, entry: BackupEntry) -> Iterator[bytes]:
    """Yield a file's bytes; raise at the end unless they are what the manifest says."""
    sha256, size = hashlib.sha256(), 0
    try:
        with (folder / entry.path).open("rb") as file:
            while piece := file.read(_PIECE):
                sha256.update(piece)
                size += len(piece)
                yield piece
    except OSError as fault:
        raise SetupError(f"{folder / entry.path} cannot be read: {fault.strerror}") from fault
    if (size, sha256.hexdigest()) != (entry.size, entry.sha256):
        raise SetupError(
            f"{folder / entry.path} is not what the manifest says; the backup is damaged",
            hint="use another backup",
        )


def write_file(path: Path, pieces: Iterable[bytes]) -> tuple[int, str]:
    """Write a file for its owner alone, wait for the disk, and return its size and SHA-256."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".partial")
    sha256, size = hashlib.sha256(), 0
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            for piece in pieces:
                file.write(piece)
                sha256.update(piece)
                size += len(piece)
            file.flush()
            os.fsync(file.fileno())
        beside.rename(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return size, sha256.hexdigest()


def empty_folder(folder: Path, what: str) -> None:
    """Make a folder, or insist that it is empty; what this process makes is its owner's alone."""
    os.umask(0o077)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_used = any(folder.iterdir())
    except OSError as fault:
        raise SetupError(f"cannot use {folder}: {fault.strerror}") from fault
    if is_used:
        raise SetupError(f"{folder} is not empty", hint=f"name a new folder for {what}")


def _check_inside(path: str) -> None:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or "\\" in path or "\0" in path or not pure.parts:
        raise SetupError(f"the manifest names {path!r}, which lies outside the backup")
