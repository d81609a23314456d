"""Data sets in words and bytes: names, references, manifests. Pure; shared by server and client.

A manifest is one JSON line per file, sorted by path: `["path", size, "sha256"]`, and for files
above PART_BYTES a fourth element with the SHA-256 of each part. The file's own digest is then the
SHA-256 of the concatenated hex digests of its parts, so that every digest follows from bytes the
server has checked. A version's digest is the SHA-256 of its manifest.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

#: The most bytes stored as one content; larger files are stored in parts of this size.
PART_BYTES = 32 * 1024**2
MAX_FILES = 1_000_000
MAX_PATH = 1024
MAX_SEGMENT = 255
MAX_DEPTH = 64

DATA_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_VERSION = re.compile(r"(?:v?([1-9][0-9]{0,8})|latest|sha256:([0-9a-f]{12,64}))\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
LAYOUTS = ("auto", "imagefolder", "prefix", "files")
NAME_HINT = "1-128 letters, digits and . _ -, the first a letter or digit"


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A file of a data set."""

    path: str
    size: int
    sha256: str
    #: digests of its parts, where it has several
    parts: tuple[str, ...] = ()

    def contents(self) -> list[tuple[str, int]]:
        """Return digest and size of each stored content that the file consists of."""
        if not self.size:
            return []
        if not self.parts:
            return [(self.sha256, self.size)]
        last = self.size - PART_BYTES * (len(self.parts) - 1)
        sizes = [PART_BYTES] * (len(self.parts) - 1) + [last]
        return list(zip(self.parts, sizes, strict=True))

    def line(self) -> bytes:
        """Return the file's line of the manifest."""
        row: list[object] = [self.path, self.size, self.sha256]
        if self.parts:
            row.append(list(self.parts))
        return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetReference:
    """`[VARIABLE=]NAME[@VERSION]` as people write it."""

    name: str
    #: 0 for the newest
    version: int = 0
    #: beginning of the digest, in place of a number
    digest: str = ""
    #: the environment variable that is to hold the path; empty for the usual one
    variable: str = ""


def parse_reference(text: str) -> DatasetReference:
    """Read a reference to a version of a data set; ValueError says what is wrong."""
    variable, equals, rest = text.rpartition("=")
    if equals and not _VARIABLE.match(variable):
        raise ValueError(f"{variable[:80]!r} in {text[:80]!r} is no name of a variable")
    name, at, version = rest.partition("@")
    if not DATA_NAME.match(name):
        raise ValueError(f"{name[:80]!r} is not a valid data set name: {NAME_HINT}")
    if not at:
        return DatasetReference(name=name, variable=variable)
    match = _VERSION.match(version)
    if match is None:
        raise ValueError(
            f"{version[:80]!r} in {text[:80]!r} is not a version: write {name}@v3, {name}@latest"
            f" or {name}@sha256:0123456789ab"
        )
    return DatasetReference(
        name=name, version=int(match[1] or 0), digest=match[2] or "", variable=variable
    )


def variable_of(name: str) -> str:
    """Return the variable that holds the path of a data set in a job."""
    return "YARD_DATA_" + re.sub(r"[^A-Za-z0-9]", "_", name).upper()


def check_path(path: str) -> str:
    """Return a path that can be made below any folder; ValueError says why not."""
    shown = repr(path[:120])
    if not path or len(path.encode("utf-8", "surrogateescape")) > MAX_PATH:
        raise ValueError(f"path {shown} is empty or longer than {MAX_PATH} bytes")
    if any(ord(char) < 32 or ord(char) == 127 or 0xD800 <= ord(char) <= 0xDFFF for char in path):
        raise ValueError(f"path {shown} has control or undecodable characters: rename the file")
    if path.startswith("/") or "\\" in path:
        raise ValueError(f"path {shown} is absolute or uses backslashes")
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"path {shown} has an empty part, '.' or '..'")
    if len(parts) > MAX_DEPTH or any(len(part.encode()) > MAX_SEGMENT for part in parts):
        raise ValueError(f"path {shown} is nested too deep or has an overlong part")
    return path


def digest_of_parts(parts: Sequence[str]) -> str:
    """Return the digest of a file that is stored in parts."""
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def encode_manifest(entries: Iterable[ManifestEntry]) -> bytes:
    """Return the manifest of files."""
    return b"".join(entry.line() for entry in sorted(entries, key=lambda entry: entry.path))


def decode_manifest(data: bytes) -> list[ManifestEntry]:
    """Read a manifest that need not be trusted; ValueError says what is wrong with it."""
    entries: list[ManifestEntry] = []
    folders: set[str] = set()
    before = ""
    for number, line in enumerate(data.splitlines(), start=1):
        if number > MAX_FILES:
            raise ValueError(f"a data set may have {MAX_FILES:,} files: pack small ones together")
        entry = _entry(line, number)
        if entry.path <= before:
            raise ValueError(f"line {number} is not in the order of paths, or {before!r} is twice")
        before = entry.path
        entries.append(entry)
        folder = entry.path.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    for entry in entries:
        if entry.path in folders:
            raise ValueError(f"{entry.path!r} is both a file and a folder")
    return entries


def _entry(line: bytes, number: int) -> ManifestEntry:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError(f"line {number} of the manifest is not JSON") from None
    if not isinstance(row, list) or len(row) not in (3, 4):
        raise ValueError(f'line {number} of the manifest is not ["path", size, "sha256"]')
    path, size, sha256 = row[:3]
    parts = row[3] if len(row) == 4 else []
    sound = isinstance(path, str) and isinstance(sha256, str) and isinstance(parts, list)
    if not sound or type(size) is not int or not 0 <= size < 2**50:
        raise ValueError(f"line {number} of the manifest holds a wrong value")
    check_path(path)
    for digest in (sha256, *parts):
        if not isinstance(digest, str) or not SHA256.match(digest):
            raise ValueError(f"line {number} has a digest that is not 64 hex digits")
    wanted = -(-size // PART_BYTES) if size > PART_BYTES else 0
    if len(parts) != wanted or (parts and digest_of_parts(parts) != sha256):
        raise ValueError(f"line {number}: the parts of {path!r} do not fit its size or digest")
    return ManifestEntry(path, size, sha256, tuple(parts))
