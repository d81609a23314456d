"""The difference between two versions: files added, removed, changed and moved. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trackyard.core.dataset import ManifestEntry


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that is not the same in both versions."""

    #: `added`, `removed`, `changed` or `moved`
    what: str
    path: str
    size: int
    #: what it was before: its size where it changed, its path where it moved
    old_size: int = 0
    old_path: str = ""


@dataclass(slots=True)
class VersionDifference:
    """The changes from one version to another."""

    added: int = 0
    removed: int = 0
    changed: int = 0
    moved: int = 0
    same: int = 0
    added_bytes: int = 0
    removed_bytes: int = 0
    #: the first of them, by path
    changes: list[FileChange] = field(default_factory=list)
    is_cut: bool = False


def compare(
    old: Sequence[ManifestEntry], new: Sequence[ManifestEntry], *, most: int = 1000
) -> VersionDifference:
    """Compare two versions; at most so many changes are listed, all are counted."""
    before = {entry.path: entry for entry in old}
    after = {entry.path: entry for entry in new}
    gone = {entry.sha256: entry for entry in old if entry.path not in after}
    found = VersionDifference()
    changes: list[FileChange] = []
    moved_from: set[str] = set()
    for entry in new:
        known = before.get(entry.path)
        if known is not None:
            if known.sha256 == entry.sha256:
                found.same += 1
                continue
            found.changed += 1
            changes.append(FileChange("changed", entry.path, entry.size, old_size=known.size))
            continue
        origin = gone.get(entry.sha256)
        if origin is not None and origin.path not in moved_from:
            moved_from.add(origin.path)
            found.moved += 1
            changes.append(FileChange("moved", entry.path, entry.size, old_path=origin.path))
            continue
        found.added += 1
        found.added_bytes += entry.size
        changes.append(FileChange("added", entry.path, entry.size))
    for entry in old:
        if entry.path not in after and entry.path not in moved_from:
            found.removed += 1
            found.removed_bytes += entry.size
            changes.append(FileChange("removed", entry.path, entry.size))
    changes.sort(key=lambda change: (change.path, change.what))
    found.changes, found.is_cut = changes[:most], len(changes) > most
    return found
