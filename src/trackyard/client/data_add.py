"""Sends a folder as a version of a data set: scanned, digested, what the server lacks sent in
packs, then named by a manifest. Owns the order and the repetition; equal content is sent once.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from trackyard.client.api import Api, ApiFault, Unreachable
from trackyard.core.dataset import (
    MAX_FILES,
    PART_BYTES,
    ManifestEntry,
    check_path,
    digest_of_parts,
    encode_manifest,
)
from trackyard.core.errors import SetupError

PACK_BYTES = 16 * 1024**2
PACK_CONTENTS = 2048
ASKED_AT_ONCE = 4096
CONNECTIONS = 4
#: Seconds for which a server that does not answer is asked again.
PATIENCE_SECONDS = 120.0
_AGAIN = "run the same command again: what was sent is kept for a day and not sent twice"
#: Told the phase, and bytes done of all.
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes of a file that are sent as one."""

    sha256: str
    size: int
    path: Path
    offset: int


@dataclass(frozen=True, slots=True)
class Scanned:
    """A folder as a manifest, and where each content lies."""

    entries: list[ManifestEntry]
    contents: dict[str, Content]
    size_bytes: int


def scan(folder: Path, progress: Progress) -> Scanned:
    """Digest every file below a folder, or one file."""
    files = _files(folder)
    total = sum(size for _, _, size in files)
    done = [0]
    lock = threading.Lock()

    def count(size: int) -> None:
        with lock:
            done[0] += size
            progress("digest", done[0], total)

    contents: dict[str, Content] = {}
    entries: list[ManifestEntry] = []
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for entry, pieces in pool.map(partial(_digest, count=count), files):
            entries.append(entry)
            for piece in pieces:
                contents.setdefault(piece.sha256, piece)
    if not entries:
        raise SetupError(f"{folder} holds no files", hint="name a folder with files in it")
    return Scanned(entries, contents, total)


def _files(folder: Path) -> list[tuple[str, Path, int]]:
    if folder.is_file():
        return [(_checked(folder.name), folder, folder.stat().st_size)]
    found: list[tuple[str, Path, int]] = []
    root = folder.resolve()
    for base, folders, names in os.walk(root):
        folders.sort()
        for name in names:
            path = Path(base) / name
            if path.is_symlink() and not path.resolve().is_relative_to(root):
                raise SetupError(
                    f"{path} is a link that leads out of {folder}",
                    hint="copy what it points to, or remove it",
                )
            if not path.is_file():
                raise SetupError(f"{path} is no plain file", hint="remove pipes, sockets, links")
            found.append((_checked(path.relative_to(root).as_posix()), path, path.stat().st_size))
            if len(found) > MAX_FILES:
                raise SetupError(
                    f"{folder} holds over {MAX_FILES:,} files",
                    hint="pack small files together, as in WebDataset's tar files",
                )
    return sorted(found)


def _checked(path: str) -> str:
    try:
        return check_path(path)
    except ValueError as fault:
        raise SetupError(str(fault), hint="rename the file") from fault


def _digest(
    file: tuple[str, Path, int], *, count: Callable[[int], None]
) -> tuple[ManifestEntry, list[Content]]:
    name, path, size = file
    pieces: list[Content] = []
    try:
        with path.open("rb") as source:
            for offset in range(0, size, PART_BYTES):
                wanted = min(PART_BYTES, size - offset)
                sha256 = hashlib.sha256()
                left = wanted
                while left and (data := source.read(min(left, 1024 * 1024))):
                    sha256.update(data)
                    left -= len(data)
                    count(len(data))
                if left:
                    raise SetupError(f"{path} shrank while it was read", hint="add it again")
                pieces.append(Content(sha256.hexdigest(), wanted, path, offset))
    except OSError as fault:
        raise SetupError(f"{path} cannot be read: {fault.strerror}") from fault
    if not pieces:
        return ManifestEntry(name, 0, hashlib.sha256(b"").hexdigest()), []
    if len(pieces) == 1:
        return ManifestEntry(name, size, pieces[0].sha256), pieces
    parts = tuple(piece.sha256 for piece in pieces)
    return ManifestEntry(name, size, digest_of_parts(parts), parts), pieces


def send(
    connect: Callable[[], Api],
    scanned: Scanned,
    progress: Progress,
    *,
    patience: float = PATIENCE_SECONDS,
) -> int:
    """Send the contents that the server lacks; return how many bytes were sent."""
    calls = _Calls(connect, patience)
    wanted = list(scanned.contents)
    missing: list[Content] = []
    for at in range(0, len(wanted), ASKED_AT_ONCE):
        part = wanted[at : at + ASKED_AT_ONCE]
        answer = calls.post("/api/v1/data/missing", {"contents": part})
        missing += [scanned.contents[sha256] for sha256 in answer["missing"]]
    total = sum(content.size for content in missing)
    done = [0]
    lock = threading.Lock()

    def send_pack(pack: list[Content]) -> None:
        calls.send(pack)
        with lock:
            done[0] += sum(content.size for content in pack)
            progress("send", done[0], total)

    progress("send", 0, total)
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for _ in pool.map(send_pack, _packs(missing)):
            pass
    return total


def name_version(
    connect: Callable[[], Api],
    name: str,
    scanned: Scanned,
    *,
    layout: str,
    source: str,
    patience: float = PATIENCE_SECONDS,
) -> dict[str, Any]:
    """Make the version, once all its contents are there."""
    calls = _Calls(connect, patience)
    query = urlencode({"layout": layout, "source": source})
    path = f"/api/v1/data/{name}/versions?{query}"
    manifest = encode_manifest(scanned.entries)
    answer = calls.repeat(
        lambda api: api.send(
            "POST", path, manifest, headers={"Content-Type": "application/octet-stream"}
        )
    )
    assert isinstance(answer, dict)
    return answer


class _Calls:
    """Calls that outlive a restart of the server, each thread with its own connection."""

    def __init__(self, connect: Callable[[], Api], patience: float) -> None:
        self._connect = connect
        self._patience = patience
        self._local = threading.local()

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return self.repeat(lambda api: api.post(path, body))

    def send(self, pack: Sequence[Content]) -> None:
        body = _body(pack)
        headers = {"Content-Type": "application/octet-stream"}
        self.repeat(lambda api: api.send("POST", "/api/v1/data/contents", body, headers=headers))

    def repeat(self, call: Callable[[Api], Any]) -> Any:
        until = time.monotonic() + self._patience
        delay = 0.1
        while True:
            try:
                api = getattr(self._local, "api", None)
                if api is None:
                    api = self._local.api = self._connect()
                return call(api)
            except Unreachable as fault:
                self._local.api = None
                if time.monotonic() >= until:
                    raise Unreachable(str(fault), _AGAIN) from fault
            except ApiFault as fault:
                if fault.status not in (408, 429, 502, 503) or time.monotonic() >= until:
                    raise
            time.sleep(delay)
            delay = min(delay * 2, 3.0)


def _packs(contents: Sequence[Content]) -> Iterator[list[Content]]:
    pack: list[Content] = []
    size = 0
    for content in contents:
        if pack and (size + content.size > PACK_BYTES or len(pack) >= PACK_CONTENTS):
            yield pack
            pack, size = [], 0
        pack.append(content)
        size += content.size
    if pack:
        yield pack


def _body(pack: Sequence[Content]) -> bytes:
    pieces = [json.dumps([[one.sha256, one.size] for one in pack]).encode(), b"\n"]
    for content in pack:
        try:
            with content.path.open("rb") as file:
                file.seek(content.offset)
                data = file.read(content.size)
        except OSError as fault:
            raise SetupError(f"{content.path} cannot be read: {fault.strerror}") from fault
        if len(data) != content.size:
            raise SetupError(f"{content.path} changed while it was sent", hint="add it again")
        pieces.append(data)
    return b"".join(pieces)
