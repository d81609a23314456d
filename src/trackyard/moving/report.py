"""What an import or export did, and what it could not do and why. Owns counting and wording."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

#: Kinds in the order in which they are told.
KINDS = (
    "experiments",
    "runs",
    "points",
    "logged models",
    "models",
    "traces",
    "evaluation data sets",
    "scorers",
    "files",
)


@dataclass(slots=True)
class ImportReport:
    """Counts by kind and outcome, remarks, and what was refused."""

    source: str = ""
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    #: things that came, but not quite as they were
    notes: list[dict[str, str]] = field(default_factory=list)
    #: things that did not come
    missing: list[dict[str, str]] = field(default_factory=list)
    copied_bytes: int = 0
    seconds: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, kind: str, outcome: str, number: int = 1) -> None:
        """Count things by what became of them."""
        if number:
            with self._lock:
                self.counts.setdefault(kind, Counter())[outcome] += number

    def note(self, kind: str, name: str, text: str) -> None:
        """Remark on something that is not quite as it was."""
        with self._lock:
            self.notes.append({"kind": kind, "id": name, "note": text})

    def miss(self, kind: str, name: str, why: str, number: int = 1) -> None:
        """Record something that did not come."""
        self.count(kind, "missing", number)
        with self._lock:
            self.missing.append({"kind": kind, "id": name, "reason": why})

    def copied(self, size: int) -> None:
        """Count the bytes of a file that was copied."""
        with self._lock:
            self.copied_bytes += size

    def shaped(self) -> dict[str, Any]:
        """Return the report for `--json`."""
        return {
            "source": self.source,
            "counts": {kind: dict(found) for kind, found in self.counts.items()},
            "copied_bytes": self.copied_bytes,
            "seconds": round(self.seconds, 3),
            "notes": self.notes,
            "missing": self.missing,
        }

    def rows(self) -> list[list[Any]]:
        """Return one row per kind: what came, changed, was there already, is missing."""
        known = [*KINDS, *sorted(set(self.counts) - set(KINDS))]
        return [
            [
                kind,
                found["created"] + found["merged"],
                found["updated"],
                found["unchanged"],
                found["missing"],
            ]
            for kind in known
            if (found := self.counts.get(kind)) is not None
        ]
