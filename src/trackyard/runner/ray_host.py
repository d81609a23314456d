"""The Ray of the node itself, imported late: what runs inside a cluster uses no other."""

from __future__ import annotations

import sys
from typing import Any


def cluster_ray() -> Any:
    """Return the node's own Ray; None where there is none, which is said on stderr."""
    try:
        import ray
    except ImportError as fault:
        sys.stderr.write(f"python3 on this node has no ray: {fault}; put Ray's own first\n")
        return None
    return ray
