"""Where a data set comes from: a folder, a file, an archive, an address, a bucket. Owns bringing
any of these to a folder of this machine, going on where an earlier try ended. Knows no server.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from trackyard.core.dataset import MAX_FILES, check_path
from trackyard.core.errors import SetupError
from trackyard.runner.workspace import archive

if TYPE_CHECKING:
    from obstore.store import S3Store

TRIES = 5
SECONDS = 60.0
PIECE = 1024 * 1024
DOWNLOADS = 8
ARCHIVES = {".zip": "zip", ".tar": "tar", ".tar.gz": "tar.gz", ".tgz": "tar.gz"}
_LIMITS = archive.Limits(entries=MAX_FILES, bytes=2 * 1024**4)
_PREFIX = re.compile(r"([0-9]{1,4})_.+\Z")
#: Told what is done, and bytes done and expected; the latter may be unknown.
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True, slots=True)
class DatasetOrigin:
    """A folder that holds the data set, and the staging folder to remove after it was added."""

    folder: Path
    staging: Path | None = None

    def clean(self) -> None:
        """Remove what was staged."""
        if self.staging is not None:
            shutil.rmtree(self.staging, ignore_errors=True)


def bring(source: str, *, unpack: bool, layout: str, progress: Progress) -> DatasetOrigin:
    """Return the folder that holds a source's files."""
    staging = staging_of(f"{source}\n{unpack}\n{layout}")
    if source.startswith("s3://"):
        origin = DatasetOrigin(_from_bucket(source, staging / "bucket", progress), staging)
    elif source.startswith(("http://", "https://")):
        origin = DatasetOrigin(_from_address(source, staging / "file", progress), staging)
    else:
        origin = _from_disk(source)
    if unpack:
        origin = DatasetOrigin(_unpacked(origin.folder, staging, progress), staging)
    if layout == "prefix":
        origin = DatasetOrigin(by_prefix(origin.folder, staging / "classes"), staging)
    return origin


def staging_of(text: str) -> Path:
    """Return where a source is staged: the same place at every try."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return base / "trackyard" / "data" / hashlib.sha256(text.encode()).hexdigest()[:24]


def _from_disk(source: str) -> DatasetOrigin:
    path = Path(source).expanduser()
    if path.is_dir() or path.is_file():
        return DatasetOrigin(path)
    if "://" in source:
        scheme = source.partition("://")[0]
        raise SetupError(
            f"data cannot be fetched by {scheme}://",
            hint="name a folder, an http(s):// address or s3://bucket/prefix",
        )
    raise SetupError(f"{source} is neither a folder nor a file", hint="check the path")


# -- addresses ------------------------------------------------------------------------------


def _from_address(address: str, staging: Path, progress: Progress) -> Path:
    """Download one file, going on where an earlier try ended."""
    name = unquote(PurePosixPath(urlsplit(address).path).name) or "data"
    target = staging / _safe_name(name)
    if target.exists():
        return target
    staging.mkdir(parents=True, exist_ok=True)
    beside = staging / f".{target.name}.part"
    trouble = ""
    for _ in range(TRIES):
        try:
            _download(address, beside, progress)
        except urllib.error.HTTPError as fault:
            if fault.code == 416 and beside.exists():
                beside.unlink()
                continue
            raise SetupError(
                f"{address} answered {fault.code} {fault.reason}", hint="check the address"
            ) from fault
        except (OSError, http.client.HTTPException) as fault:
            trouble = str(fault)
            continue
        beside.replace(target)
        return target
    raise SetupError(
        f"{address} could not be fetched: {trouble}",
        hint="run the same command again: it goes on where it ended",
    )


def _download(address: str, beside: Path, progress: Progress) -> None:
    have = beside.stat().st_size if beside.exists() else 0
    note = beside.with_name(f"{beside.name}.etag")
    headers = {"User-Agent": "trackyard"}
    if have and note.exists():
        headers |= {"Range": f"bytes={have}-", "If-Range": note.read_text()}
    request = urllib.request.Request(address, headers=headers)  # noqa: S310 - http(s) alone
    with urllib.request.urlopen(request, timeout=SECONDS) as response:  # noqa: S310
        is_rest = response.status == 206
        have = have if is_rest else 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        tag = response.headers.get("ETag") or response.headers.get("Last-Modified") or ""
        if tag and not tag.startswith("W/"):
            note.write_text(tag)
        with beside.open("ab" if is_rest else "wb") as sink:
            while piece := response.read(PIECE):
                sink.write(piece)
                have += len(piece)
                progress("download", have, total)
        if total is not None and have != total:
            raise http.client.IncompleteRead(b"", total - have)


def _safe_name(name: str) -> str:
    try:
        check_path(name)
    except ValueError:
        return "data"
    return "data" if "/" in name else name


# -- buckets --------------------------------------------------------------------------------


def _from_bucket(address: str, staging: Path, progress: Progress) -> Path:
    """Download every object below a prefix; those that are here already are not fetched again."""
    import obstore

    bucket, _, prefix = address[len("s3://") :].partition("/")
    store = _bucket(bucket, address)
    prefix = prefix.strip("/")
    try:
        listed = [
            (str(one["path"]), int(one["size"]), str(one.get("e_tag") or one["last_modified"]))
            for page in obstore.list(store, prefix or None)
            for one in page
        ]
    except Exception as fault:
        raise _bucket_fault(address, fault) from fault
    if not listed:
        raise SetupError(f"{address} holds no objects", hint="check bucket and prefix")
    names = _names(listed, prefix)
    total, done = sum(size for _, size, _ in listed), [0]
    notes = staging.parent / "etags"
    notes.mkdir(parents=True, exist_ok=True)

    def fetch(one: tuple[str, str, int, str]) -> None:
        key, name, size, tag = one
        target = staging / name
        note = notes / hashlib.sha256(key.encode()).hexdigest()[:32]
        is_here = target.is_file() and note.exists() and note.read_text() == tag
        if not is_here:
            target.parent.mkdir(parents=True, exist_ok=True)
            beside = target.with_name(f".{target.name}.part")
            with beside.open("wb") as sink:
                for piece in obstore.get(store, key).stream(min_chunk_size=PIECE):
                    sink.write(bytes(piece))
            beside.replace(target)
            note.write_text(tag)
        done[0] += size
        progress("download", done[0], total)

    try:
        with ThreadPoolExecutor(DOWNLOADS) as pool:
            list(pool.map(fetch, names))
    except SetupError:
        raise
    except Exception as fault:
        raise _bucket_fault(address, fault) from fault
    return staging


def _bucket(bucket: str, address: str) -> S3Store:
    from obstore.store import S3Store

    if not bucket:
        raise SetupError(f"{address} names no bucket", hint="write s3://bucket/prefix")
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    options: dict[str, Any] = {"region": os.environ.get("AWS_REGION") or "us-east-1"}
    if endpoint:
        options |= {"endpoint": endpoint, "virtual_hosted_style_request": False}
    is_plain = bool(endpoint) and str(endpoint).startswith("http://")
    return S3Store(bucket, client_options={"allow_http": is_plain}, **options)


def _names(listed: list[tuple[str, int, str]], prefix: str) -> list[tuple[str, str, int, str]]:
    found = []
    for key, size, tag in listed:
        name = key[len(prefix) :].strip("/") if prefix and key != prefix else key
        if key == prefix:
            name = PurePosixPath(key).name
        if key.endswith("/"):
            continue
        try:
            check_path(name)
        except ValueError as fault:
            raise SetupError(f"object {key[:200]!r} cannot be a file: {fault}") from fault
        found.append((key, name, size, tag))
    return found


def _bucket_fault(address: str, fault: Exception) -> SetupError:
    words = " ".join(str(fault).split())[:300]
    return SetupError(
        f"{address} cannot be read: {words}",
        hint="credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, another store's"
        " address from AWS_ENDPOINT_URL",
    )


# -- archives and layouts -------------------------------------------------------------------


def _unpacked(source: Path, staging: Path, progress: Progress) -> Path:
    """Unpack an archive into a fresh folder; its single top folder, if it has one, is left out."""
    path = source
    if source.is_dir():
        inside = [one for one in sorted(source.iterdir()) if _kind(one.name)]
        if len(inside) != 1:
            raise SetupError(
                f"--unpack needs one archive, and {source} holds {len(inside)}",
                hint="name the archive itself",
            )
        path = inside[0]
    kind = _kind(path.name)
    if kind is None:
        raise SetupError(
            f"{path.name} is no archive that is known",
            hint=f"--unpack takes {', '.join(ARCHIVES)}; leave it out to add the file as it is",
        )
    target = staging / "unpacked"
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    progress("unpack", 0, None)
    try:
        archive.unpack(path, target, kind=kind, limits=_LIMITS)
    except archive.BadArchiveError as fault:
        shutil.rmtree(target, ignore_errors=True)
        raise SetupError(
            f"{path.name} was refused: {fault}",
            hint="unpack it by hand, look at it, and add the folder",
        ) from fault
    inside = list(target.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else target


def _kind(name: str) -> str | None:
    lower = name.lower()
    return next((kind for ending, kind in ARCHIVES.items() if lower.endswith(ending)), None)


def by_prefix(folder: Path, target: Path) -> Path:
    """Sort files named `<class>_<rest>` into folders `class_<NN>`, beside the source, by links."""
    shutil.rmtree(target, ignore_errors=True)
    moved = 0
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        match = _PREFIX.match(path.name)
        relative = path.relative_to(folder)
        if match:
            relative = relative.parent / f"class_{int(match[1]):02d}" / path.name
            moved += 1
        place = target / relative
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, place)
        except OSError:
            shutil.copyfile(path, place)
    if not moved:
        raise SetupError(
            f"{folder} has no files named <class>_<rest>, as in 3_17.jpg",
            hint="--layout imagefolder is for files that lie in a folder per class",
        )
    return target
