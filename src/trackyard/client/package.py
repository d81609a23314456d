"""A working folder as a package: the same files give the same bytes and the same name.

Owns what goes in (what git would not ignore), the order, the limit and the digest. Knows
nothing of where packages are sent.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pathspec

LIMIT_BYTES = 100 * 1024**2
LARGEST_SHOWN = 5
IGNORE_FILES = (".gitignore", ".yardignore")
#: never part of a job, whatever the ignore files say
ALWAYS_LEFT_OUT = (".git/", "__pycache__/", "*.pyc", ".DS_Store")
#: the runner refuses entries that expand further than this; such files are stored as they are
_MOST_EXPANSION = 100
_EPOCH = (1980, 1, 1, 0, 0, 0)


class PackageError(Exception):
    """The folder cannot be packaged; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderPackage:
    """A packaged folder."""

    #: SHA-256 of `content`, which names the package
    digest: str
    content: bytes
    files: int
    #: bytes of the files before packing
    size_bytes: int
    #: paths left out though nothing ignores them: links that lead outside, sockets, pipes
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    path: Path
    size: int
    executable: bool


def build(
    folder: str | os.PathLike[str],
    *,
    limit_bytes: int = LIMIT_BYTES,
    exclude: Sequence[str] = (),
) -> FolderPackage:
    """Package `folder`, honouring .gitignore and .yardignore at every level.

    `exclude` holds further patterns in .gitignore's language. Raises PackageError if the folder
    is over the limit, naming its largest files.
    """
    root = Path(folder)
    if not root.is_dir():
        raise PackageError(f"{root} is not a folder: give the folder your command runs in")
    entries, left_out = _collect(root, exclude)
    total = sum(entry.size for entry in entries)
    if total > limit_bytes:
        raise PackageError(_too_large(root, entries, total, limit_bytes))
    content = _pack(entries)
    return FolderPackage(
        digest=hashlib.sha256(content).hexdigest(),
        content=content,
        files=len(entries),
        size_bytes=total,
        left_out=tuple(left_out),
    )


def _collect(root: Path, exclude: Sequence[str]) -> tuple[list[_Entry], list[str]]:
    entries: list[_Entry] = []
    left_out: list[str] = []
    real_root = root.resolve()
    ignores = (_spec([*ALWAYS_LEFT_OUT, *exclude], ""), *_above(real_root))
    for name, path in _walk(root, "", ignores):
        try:
            facts = path.stat()
        except OSError:
            left_out.append(name)
            continue
        outside = path.is_symlink() and not path.resolve().is_relative_to(real_root)
        if outside or not stat.S_ISREG(facts.st_mode):
            left_out.append(name)
            continue
        entries.append(_Entry(name, path, facts.st_size, bool(facts.st_mode & 0o111)))
    return sorted(entries, key=lambda entry: entry.name), sorted(left_out)


@dataclass(frozen=True, slots=True)
class _Ignore:
    """The patterns of one ignore file and the folder they count from."""

    base: str
    spec: pathspec.GitIgnoreSpec
    #: path from there to the packaged folder, for files that lie above it
    below: str = ""

    def verdict(self, name: str) -> bool | None:
        """Tell whether `name` is ignored (True), kept again (False) or not spoken of (None)."""
        if not name.startswith(self.base):
            return None
        return self.spec.check_file(self.below + name[len(self.base) :]).include


def _walk(folder: Path, prefix: str, ignores: tuple[_Ignore, ...]) -> Iterator[tuple[str, Path]]:
    for name in IGNORE_FILES:
        lines = _lines(folder / name)
        if lines:
            ignores = (*ignores, _spec(lines, prefix))
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        name = f"{prefix}{entry.name}"
        is_folder = entry.is_dir(follow_symlinks=False)
        if _ignored(f"{name}/" if is_folder else name, ignores):
            continue
        if is_folder:
            yield from _walk(Path(entry.path), f"{name}/", ignores)
        else:
            yield name, Path(entry.path)


def _above(root: Path) -> list[_Ignore]:
    """Return the rules of the work tree that `root` is a subfolder of, outermost first."""
    found: list[_Ignore] = []
    for folder in (root, *root.parents):
        below = f"{root.relative_to(folder).as_posix()}/" if folder != root else ""
        if folder != root:
            found.append(_Ignore("", _spec(_lines(folder / ".gitignore"), "").spec, below))
        if (folder / ".git").exists():
            excluded = _lines(folder / ".git" / "info" / "exclude")
            return [_Ignore("", _spec(excluded, "").spec, below), *reversed(found)]
    return []


def _ignored(name: str, ignores: tuple[_Ignore, ...]) -> bool:
    # The deepest file has the last word, as in git; our own rules cannot be undone.
    if ignores[0].verdict(name):
        return True
    for ignore in reversed(ignores[1:]):
        verdict = ignore.verdict(name)
        if verdict is not None:
            return verdict
    return False


def _spec(lines: Sequence[str], base: str) -> _Ignore:
    try:
        return _Ignore(base, pathspec.GitIgnoreSpec.from_lines(lines))
    except ValueError as fault:
        raise PackageError(f"an ignore pattern cannot be read: {fault}") from fault


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _pack(entries: Sequence[_Entry]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for entry in entries:
            data = _read(entry)
            info = zipfile.ZipInfo(entry.name, _EPOCH)
            info.create_system = 3
            mode = 0o755 if entry.executable else 0o644
            info.external_attr = (stat.S_IFREG | mode) << 16
            info.compress_type = _method(data)
            archive.writestr(info, data)
    return target.getvalue()


def _read(entry: _Entry) -> bytes:
    if any(ord(char) < 32 or char == "\\" for char in entry.name):
        raise PackageError(
            f"{entry.name!r} has a control character or backslash in its name: rename or ignore it"
        )
    try:
        return entry.path.read_bytes()
    except OSError as fault:
        raise PackageError(f"{entry.name} cannot be read: {fault}; ignore it or fix it") from fault


def _method(data: bytes) -> int:
    if len(data) < 1024 * 1024:
        return zipfile.ZIP_DEFLATED
    squeezed = len(zlib.compress(data, 1))
    return zipfile.ZIP_STORED if squeezed * _MOST_EXPANSION < len(data) else zipfile.ZIP_DEFLATED


def _too_large(root: Path, entries: Sequence[_Entry], total: int, limit: int) -> str:
    largest = sorted(entries, key=lambda entry: (-entry.size, entry.name))[:LARGEST_SHOWN]
    shown = ", ".join(f"{entry.name} ({_megabytes(entry.size)})" for entry in largest)
    return (
        f"{root} holds {_megabytes(total)} in {len(entries)} files, over the limit of "
        f"{_megabytes(limit)}. The largest: {shown}. Name what the job does not need in "
        ".yardignore, or put data where the nodes can read it"
    )


def _megabytes(count: int) -> str:
    return f"{count / 1024**2:.1f} MiB"
