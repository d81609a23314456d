"""Unpacks a job's package and refuses every archive that would reach outside its folder.

Owns the rules for names, kinds, counts and sizes of archive entries. Knows nothing of where
packages come from. Sizes in headers are not believed: bytes are counted as they come out.
"""

from __future__ import annotations

import os
import stat
import struct
import tarfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Dict, Set, Tuple

MAX_ENTRIES = 50_000
MAX_BYTES = 20 * 1024**3
MAX_RATIO = 200
#: below this an archive may expand as it likes
FREE_EXPANSION_BYTES = 1024 * 1024
MAX_NAME_BYTES = 1024
MAX_SEGMENT_BYTES = 255
MAX_DEPTH = 64
CHUNK_BYTES = 256 * 1024

_ZIP_END = struct.Struct("<4s4H2LH")
_ZIP_END_MAGIC = b"PK\x05\x06"
_ZIP_ENTRY_BYTES = 46


class BadArchiveError(Exception):
    """The archive was refused; the message names the entry and the rule."""


@dataclass(frozen=True)
class Limits:
    """How much one archive may hold."""

    entries: int = MAX_ENTRIES
    bytes: int = MAX_BYTES
    ratio: int = MAX_RATIO


def unpack(archive: Path, target: Path, *, kind: str, limits: Limits = Limits()) -> int:
    """Unpack `archive` into the new folder `target`; return how many files were written."""
    target.mkdir(parents=True, mode=0o700)
    writer = _Writer(target, limits, archive.stat().st_size)
    try:
        if kind == "zip":
            _unpack_zip(archive, writer)
        elif kind in ("tar", "tar.gz"):
            _unpack_tar(archive, writer, compressed=kind == "tar.gz")
        else:
            raise BadArchiveError(f"a package is a zip, tar or tar.gz, not {kind!r}")
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, struct.error) as fault:
        raise BadArchiveError(f"the archive is damaged: {fault}") from fault
    except (RuntimeError, ValueError) as fault:
        raise BadArchiveError(f"the archive cannot be read: {fault}") from fault
    return writer.files


def safe_segments(name: str) -> Tuple[str, ...]:
    """Return the parts of an entry's name, or refuse it."""
    shown = repr(name[:120])
    if not name or len(name.encode("utf-8", "surrogateescape")) > MAX_NAME_BYTES:
        raise BadArchiveError(f"entry {shown} has an empty or overlong name")
    if any(ord(char) < 32 or ord(char) == 127 or 0xD800 <= ord(char) <= 0xDFFF for char in name):
        raise BadArchiveError(f"entry {shown} has control or undecodable characters in its name")
    if name.startswith("/") or "\\" in name or (len(name) > 1 and name[1] == ":"):
        raise BadArchiveError(f"entry {shown} is an absolute path or uses backslashes")
    parts = tuple(name[:-1].split("/") if name.endswith("/") else name.split("/"))
    if any(part in ("", ".", "..") for part in parts):
        raise BadArchiveError(f"entry {shown} leaves the package folder or has an empty part")
    if len(parts) > MAX_DEPTH or any(len(os.fsencode(part)) > MAX_SEGMENT_BYTES for part in parts):
        raise BadArchiveError(f"entry {shown} is nested too deep or has an overlong part")
    return parts


class _Writer:
    """Writes entries below one fresh folder and keeps count."""

    def __init__(self, target: Path, limits: Limits, archive_bytes: int) -> None:
        self.files = 0
        self._target = target
        self.limits = limits
        self._allowed = min(
            limits.bytes, max(FREE_EXPANSION_BYTES, limits.ratio * max(archive_bytes, 1))
        )
        self._archive_bytes = archive_bytes
        self._written = 0
        self._entries = 0
        self._files: Set[Tuple[str, ...]] = set()
        self._folders: Set[Tuple[str, ...]] = {()}

    def count(self) -> None:
        """Take note of one more entry."""
        self._entries += 1
        if self._entries > self.limits.entries:
            raise BadArchiveError(f"the archive has over {self.limits.entries} entries")

    def add_folder(self, name: str) -> None:
        """Make a folder and those above it; naming one twice is fine."""
        self._make_folders(safe_segments(name), name)

    def add_file(self, name: str, source: IO[bytes], *, mode: int, packed: int) -> None:
        """Write one file from `source`; `packed` is its compressed size, or 0 if not known."""
        parts = safe_segments(name)
        if name.endswith("/"):
            raise BadArchiveError(f"entry {name!r} is a file named like a folder")
        if mode & (stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX):
            raise BadArchiveError(f"entry {name!r} carries a setuid, setgid or sticky bit")
        if parts in self._files or parts in self._folders:
            raise BadArchiveError(f"entry {name!r} is there twice")
        self._make_folders(parts[:-1], name)
        self._files.add(parts)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(
            self._target.joinpath(*parts), flags, 0o755 if mode & 0o111 else 0o644
        )
        with os.fdopen(descriptor, "wb") as sink:
            self._copy(name, source, sink, packed)
        self.files += 1

    def _copy(self, name: str, source: IO[bytes], sink: IO[bytes], packed: int) -> None:
        allowed = max(FREE_EXPANSION_BYTES, self.limits.ratio * packed) if packed else None
        size = 0
        while True:
            chunk = source.read(CHUNK_BYTES)
            if not chunk:
                return
            size += len(chunk)
            self._written += len(chunk)
            if self._written > self._allowed or (allowed is not None and size > allowed):
                raise BadArchiveError(
                    f"entry {name!r} expands too far: over {self.limits.ratio} times its packed "
                    f"size, or over {self.limits.bytes} bytes in all"
                )
            sink.write(chunk)

    def _make_folders(self, parts: Tuple[str, ...], name: str) -> None:
        for depth in range(1, len(parts) + 1):
            folder = parts[:depth]
            if folder in self._folders:
                continue
            if folder in self._files:
                raise BadArchiveError(f"entry {name!r} lies below a file")
            self._target.joinpath(*folder).mkdir(mode=0o755)
            self._folders.add(folder)


def _unpack_zip(archive: Path, writer: _Writer) -> None:
    _check_zip_directory(archive, writer.limits)
    with zipfile.ZipFile(archive) as bundle:
        for info in bundle.infolist():
            writer.count()
            # zipfile cuts names at NUL and rewrites separators; judge what is in the archive.
            name = info.orig_filename
            kind = stat.S_IFMT(info.external_attr >> 16)
            if info.flag_bits & 0x1:
                raise BadArchiveError(f"entry {name!r} is encrypted")
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise BadArchiveError(f"entry {name!r} is a link or device")
            if info.is_dir():
                writer.add_folder(name)
                continue
            mode = (info.external_attr >> 16) & 0o7777
            with bundle.open(info) as source:
                packed = max(info.compress_size, 1)
                writer.add_file(name, source, mode=mode, packed=packed)


def _check_zip_directory(archive: Path, limits: Limits) -> None:
    # zipfile reads the whole directory into objects: refuse a million entries before it does.
    with archive.open("rb") as file:
        file.seek(0, os.SEEK_END)
        size = file.tell()
        file.seek(max(0, size - _ZIP_END.size - 65535))
        tail = file.read()
    at = tail.rfind(_ZIP_END_MAGIC)
    if at < 0 or len(tail) - at < _ZIP_END.size:
        raise BadArchiveError("the archive is damaged: no zip directory")
    fields = _ZIP_END.unpack_from(tail, at)
    entries, directory_bytes = fields[4], fields[5]
    most = (_ZIP_ENTRY_BYTES + MAX_NAME_BYTES + 64) * limits.entries
    longest = 64 * 1024**2 * max(1, limits.entries // MAX_ENTRIES)
    too_many = entries > limits.entries or directory_bytes > min(most, longest)
    if too_many:
        raise BadArchiveError(f"the archive has over {limits.entries} entries")


def _unpack_tar(archive: Path, writer: _Writer, *, compressed: bool) -> None:
    refused: Dict[bytes, str] = {
        tarfile.SYMTYPE: "a link",
        tarfile.LNKTYPE: "a link",
        tarfile.CHRTYPE: "a device",
        tarfile.BLKTYPE: "a device",
        tarfile.FIFOTYPE: "a pipe",
    }
    with tarfile.open(archive, mode="r|gz" if compressed else "r|") as bundle:
        for member in bundle:
            writer.count()
            if member.isdir():
                writer.add_folder(member.name)
                continue
            if not member.isreg() or member.issparse():
                kind = refused.get(member.type, "no plain file")
                raise BadArchiveError(f"entry {member.name!r} is {kind}")
            source = bundle.extractfile(member)
            if source is None:
                raise BadArchiveError(f"entry {member.name!r} cannot be read")
            writer.add_file(member.name, source, mode=member.mode, packed=0)
