"""The latest sample of each node, as runners sent it to this process; kept in memory alone.

Owns how long a sample counts as present. The past is in the runs' system metrics and in `load`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

#: A node that sent nothing for so long has no present sample.
PRESENT_MS = 120_000
_PREFIX = re.compile(r"system/(?:\d+/)?")


class _Latest(NamedTuple):
    at_ms: int
    values: dict[str, float]


class NodeSamples:
    """What nodes were last heard to be doing."""

    def __init__(self) -> None:
        self._latest: dict[str, _Latest] = {}

    def note(self, node: str, now_ms: int, values: Mapping[str, float]) -> None:
        """Keep a sample; two jobs on one node tell of different GPUs."""
        named = {_PREFIX.sub("", key, count=1): value for key, value in values.items()}
        before = self._latest.get(node)
        if before is not None and now_ms - before.at_ms < PRESENT_MS:
            named = before.values | named
        self._latest[node] = _Latest(now_ms, named)

    def present(self, now_ms: int) -> dict[str, dict[str, float]]:
        """Return what is known of each node by name of metric; what is old is forgotten."""
        self._latest = {
            node: latest
            for node, latest in self._latest.items()
            if now_ms - latest.at_ms < PRESENT_MS
        }
        return {node: latest.values for node, latest in self._latest.items()}
