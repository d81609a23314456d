"""Tokenised data on disk: one array of tokens, one of masks, and where each row begins.

Owns the cache of tokenised sets, named by the content they were made from, and read by memory
map, so that a set larger than memory can be trained on. Knows nothing of batches.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trackyard.core.errors import SetupError
from trackyard.finetune.data import rows
from trackyard.finetune.data.render import Renderer
from trackyard.finetune.recipe import DataPart

VERSION = 1
_FLUSH_TOKENS = 4 * 1024 * 1024
Tokens = np.ndarray[Any, np.dtype[np.int32]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Prepared:
    """A tokenised set."""

    tokens: Tokens
    learned: Mask
    offsets: np.ndarray[Any, np.dtype[np.int64]]
    digest: str
    truncated: int

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def row(self, number: int) -> tuple[Tokens, Mask]:
        """Return a row's tokens and mask."""
        start, end = self.offsets[number], self.offsets[number + 1]
        return self.tokens[start:end], self.learned[start:end]

    def lengths(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the length of every row."""
        return np.diff(self.offsets)

    def labels(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return how many tokens of each row are learned; a row's first has nothing before it."""
        counts = np.add.reduceat(self.learned, self.offsets[:-1], dtype=np.int64)
        return counts - self.learned[self.offsets[:-1]]

    def subset(self, first: int, last: int) -> Prepared:
        """Return rows `first` to `last`, without copying."""
        start = self.offsets[first]
        return Prepared(
            tokens=self.tokens[start : self.offsets[last]],
            learned=self.learned[start : self.offsets[last]],
            offsets=self.offsets[first : last + 1] - start,
            digest=self.digest,
            truncated=self.truncated,
        )


def cache_folder() -> Path:
    """Return where tokenised sets are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "trackyard" / "finetune"


def prepare(
    part: DataPart, source: str, tokenizer: Any, *, seq: int, cache: Path | None = None
) -> Prepared:
    """Tokenise a source, or find it tokenised already."""
    digest = rows.digest(source)
    name = _name(part, digest, tokenizer, seq)
    folder = (cache or cache_folder()) / name
    if not (folder / "meta.json").is_file():
        _build(part, source, tokenizer, seq=seq, folder=folder, digest=digest)
    meta = json.loads((folder / "meta.json").read_text())
    return Prepared(
        tokens=np.load(folder / "tokens.npy", mmap_mode="r"),
        learned=np.load(folder / "learned.npy", mmap_mode="r"),
        offsets=np.load(folder / "offsets.npy"),
        digest=digest,
        truncated=meta["truncated"],
    )


def _name(part: DataPart, digest: str, tokenizer: Any, seq: int) -> str:
    words = [VERSION, digest, seq, repr(part), getattr(tokenizer, "chat_template", None)]
    backend = getattr(tokenizer, "backend_tokenizer", None)
    words.append(backend.to_str() if backend is not None else repr(tokenizer))
    return hashlib.sha256(repr(words).encode()).hexdigest()[:32]


def _build(
    part: DataPart, source: str, tokenizer: Any, *, seq: int, folder: Path, digest: str
) -> None:
    renderer = Renderer(tokenizer, part)
    hidden = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(hidden, ignore_errors=True)
    hidden.mkdir(parents=True)
    offsets, truncated = [0], 0
    tokens, learned = (
        _Growing(hidden / "tokens.npy", np.int32),
        _Growing(hidden / "learned.npy", np.bool_),
    )
    for row in rows.read(part, source):
        ids, mask = renderer.tokens(row)
        truncated += len(ids) > seq
        ids, mask = ids[:seq], mask[:seq]
        if not any(mask[1:]):
            continue
        tokens.add(ids)
        learned.add(mask)
        offsets.append(offsets[-1] + len(ids))
    if len(offsets) == 1:
        raise SetupError(
            f"{source} has no row with anything to learn",
            hint="`yard finetune preview` shows what rows become",
        )
    tokens.close(offsets[-1])
    learned.close(offsets[-1])
    np.save(hidden / "offsets.npy", np.array(offsets, dtype=np.int64))
    meta = {"digest": digest, "rows": len(offsets) - 1, "truncated": truncated}
    (hidden / "meta.json").write_text(json.dumps(meta))
    try:
        hidden.rename(folder)
    except OSError:
        # Another process made the same set meanwhile.
        shutil.rmtree(hidden, ignore_errors=True)


class _Growing:
    """An array on disk that grows; at the end it gets the header that numpy reads."""

    def __init__(self, path: Path, kind: Any) -> None:
        self._path, self._kind = path, np.dtype(kind)
        self._raw = path.with_suffix(".raw")
        self._file = self._raw.open("wb")
        self._held: list[Any] = []
        self._count = 0

    def add(self, values: list[Any]) -> None:
        self._held.append(np.array(values, dtype=self._kind))
        self._count += len(values)
        if self._count >= _FLUSH_TOKENS:
            self._flush()

    def close(self, total: int) -> None:
        self._flush()
        self._file.close()
        with self._path.open("wb") as out, self._raw.open("rb") as raw:
            header = {"descr": self._kind.str, "fortran_order": False, "shape": (total,)}
            np.lib.format.write_array_header_1_0(out, header)
            shutil.copyfileobj(raw, out)
        self._raw.unlink()

    def _flush(self) -> None:
        for array in self._held:
            self._file.write(array.tobytes())
        self._held, self._count = [], 0
