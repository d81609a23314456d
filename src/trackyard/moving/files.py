"""Files of a source: on a disk, in an object store, or behind a tracking server.

Owns telling which of them an address means. Yields files; copies none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from trackyard.core.storage_uri import scheme_of
from trackyard.moving.records import CannotRead, SourceFile

_PIECE = 1 << 20
#: Addresses that an object store is opened by, in the spelling of the library that opens it.
_OBJECT_STORES = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gs",
    "abfs": "abfs",
    "abfss": "abfss",
    "wasbs": "az",
    "wasb": "az",
    "azure": "az",
    "r2": "r2",
}


class Proxy(Protocol):
    """A tracking server that hands out files."""

    def proxied(self, path: str) -> Iterator[SourceFile]:
        """Yield the files below a path of its artifact store."""
        ...


class Files:
    """Finds the files behind addresses."""

    def __init__(
        self, *, base: Path | None = None, root: str | None = None, proxy: Proxy | None = None
    ) -> None:
        #: what relative paths are relative to
        self._base = base or Path()
        #: what the old server's `mlflow-artifacts:` addresses lie below
        self._root = root
        self._proxy = proxy

    def below(self, uri: str) -> Iterator[SourceFile]:
        """Yield the files below an address."""
        scheme = scheme_of(uri)
        if scheme in ("", "file"):
            yield from local_files(self.path_of(uri))
        elif scheme == "mlflow-artifacts" or "/api/2.0/mlflow-artifacts/artifacts" in uri:
            yield from self._proxied(uri)
        elif scheme in _OBJECT_STORES:
            yield from object_files(uri)
        else:
            raise CannotRead(
                f"{uri[:200]} is in a kind of store that this command does not read; its files"
                " can stay there: --artifacts leave"
            )

    def path_of(self, uri: str) -> Path:
        """Return the local path that an address means."""
        text = unquote(urlsplit(uri).path) if uri.startswith("file:") else uri
        path = Path(text)
        return path if path.is_absolute() else self._base / path

    def _proxied(self, uri: str) -> Iterator[SourceFile]:
        path = urlsplit(uri).path
        path = path.partition("/api/2.0/mlflow-artifacts/artifacts")[2] or path
        if self._root is not None:
            root = self._root.rstrip("/")
            if "://" in root:
                yield from object_files(f"{root}/{path.strip('/')}")
            else:
                yield from local_files(Path(root.removeprefix("file:")) / path.strip("/"))
        elif self._proxy is not None:
            yield from self._proxy.proxied(path.strip("/"))
        else:
            raise CannotRead(
                f"{uri[:200]} is held by the old server; name its artifact folder or bucket"
                " (`mlflow server --artifacts-destination`) with --artifacts-root, or import"
                " from the server's address"
            )


def local_files(folder: Path) -> Iterator[SourceFile]:
    """Yield the files below a folder; one that does not exist holds none."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(parent) / name
            try:
                facts = path.stat()
            except OSError as fault:
                raise CannotRead(f"{path} cannot be read: {fault.strerror}") from fault
            yield SourceFile(
                path=path.relative_to(folder).as_posix(),
                size=facts.st_size,
                changed_ms=facts.st_mtime_ns // 1_000_000,
                read=partial(_read_local, path),
            )


def _read_local(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                yield piece
    except OSError as fault:
        raise CannotRead(f"{path} cannot be read: {fault.strerror}") from fault


def object_files(uri: str) -> Iterator[SourceFile]:
    """Yield the files below an address of an object store; credentials come from the environment
    variables and profiles that its own tools use.
    """
    import obstore
    from obstore.exceptions import BaseError
    from obstore.store import from_url

    parts = urlsplit(uri)
    address = f"{_OBJECT_STORES[parts.scheme.lower()]}://{parts.netloc}"
    prefix = unquote(parts.path).strip("/")
    try:
        store: Any = from_url(address, client_options={"allow_http": True})
        for page in obstore.list(store, prefix=prefix):
            for one in page:
                yield SourceFile(
                    path=one["path"].removeprefix(prefix).lstrip("/"),
                    size=one["size"],
                    changed_ms=int(one["last_modified"].timestamp() * 1000),
                    read=partial(_read_object, store, one["path"]),
                )
    except (BaseError, ValueError) as fault:
        raise CannotRead(f"{uri[:200]} cannot be read: {str(fault)[:300]}") from fault


def _read_object(store: Any, path: str) -> Iterator[bytes]:
    import obstore
    from obstore.exceptions import BaseError

    try:
        yield from (
            bytes(piece) for piece in obstore.get(store, path).stream(min_chunk_size=_PIECE)
        )
    except BaseError as fault:
        raise CannotRead(f"{path} cannot be read: {str(fault)[:300]}") from fault
