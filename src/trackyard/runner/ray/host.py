"""The Ray of the node itself, imported late, and the end of what runs inside a cluster with it."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

WATCH_SECONDS = 1.0
LEFT_BEHIND_CODE = 70


def cluster_ray() -> Any:
    """Return the node's own Ray; None where there is none, which is said on stderr."""
    try:
        import ray
    except ImportError as fault:
        sys.stderr.write(f"python3 on this node has no ray: {fault}; put Ray's own first\n")
        return None
    return ray


def end_with_the_cluster() -> None:
    """End this process once Ray's own process above it is gone, whatever it is doing then.

    Calls into a cluster that is gone may block for ever, so a thread of its own looks.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH_SECONDS)
        os._exit(LEFT_BEHIND_CODE)

    threading.Thread(target=watch, name="cluster", daemon=True).start()
