"""What the folders of a data set mean: splits, classes and the kinds of files. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath

from trackyard.core.dataset import ManifestEntry

#: split -> class -> files; data sets without splits have the split ''.
Classes = dict[str, dict[str, int]]

IMAGEFOLDER, FILES = "imagefolder", "files"
MAX_CLASSES = 10_000
KINDS = {
    "image": "png jpg jpeg gif webp bmp avif svg".split(),
    "audio": "wav mp3 flac ogg oga m4a opus".split(),
    "table": "csv tsv jsonl ndjson parquet".split(),
    "text": "txt md json yaml yml toml xml html log py rst ini cfg".split(),
}
_KIND_OF = {ending: kind for kind, endings in KINDS.items() for ending in endings}
_SPLITS = frozenset("train training val valid validation dev test testing eval evaluation".split())


def kind_of(path: str) -> str:
    """Return how a file can be shown: image, audio, table, text, or binary."""
    return _KIND_OF.get(PurePosixPath(path).suffix[1:].lower(), "binary")


def detect(entries: Sequence[ManifestEntry]) -> str:
    """Guess the layout: images or sounds that lie in folders are classes."""
    media = [entry.path for entry in entries if kind_of(entry.path) in ("image", "audio")]
    nested = [path for path in media if "/" in path]
    is_classes = bool(media) and len(nested) == len(media) and len(media) * 2 >= len(entries)
    return IMAGEFOLDER if is_classes else FILES


def count_classes(entries: Sequence[ManifestEntry], layout: str) -> Classes:
    """Count files by split and class, where the layout tells."""
    if layout != IMAGEFOLDER:
        return {}
    counts: Counter[tuple[str, str]] = Counter()
    for entry in entries:
        where = _class_of(entry.path)
        if where is not None:
            counts[where] += 1
    found: Classes = {}
    for (split, name), count in sorted(counts.items())[:MAX_CLASSES]:
        found.setdefault(split, {})[name] = count
    return found


def _class_of(path: str) -> tuple[str, str] | None:
    """Return split and class of `[root/][split/]class/file`."""
    folders = path.split("/")[:-1]
    if not folders:
        return None
    split = next((part for part in folders[:-1] if part.lower() in _SPLITS), "")
    if not split and folders[-1].lower() in _SPLITS:
        return None
    return split, folders[-1]
