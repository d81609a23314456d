"""What a node has: processors, memory, GPUs with vendor, model, memory, driver and CUDA or ROCm.

Printed by `python -m trackyard.runner --inventory`, so that every engine asks nodes alike.
"""

from __future__ import annotations

import os
import platform
import socket
from pathlib import Path
from typing import Any, Dict, List, Optional

from trackyard.runner.machine.gpus import drivers
from trackyard.runner.machine.samples import memory_bytes
from trackyard.runner.workspace import limits


def inventory(gpu_file: Optional[Path] = None) -> Dict[str, Any]:
    """Return the node's facts as JSON-ready values."""
    labels = {
        "os": platform.system().lower(),
        "arch": platform.machine(),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }
    gpus: List[Dict[str, Any]] = []
    for driver in drivers(gpu_file):
        labels.update(driver.labels)
        gpus.extend(
            {
                "index": facts.number,
                "vendor": facts.vendor,
                "model": facts.model,
                "memory_bytes": facts.memory_bytes,
                "uuid": facts.uuid,
            }
            for facts in driver.facts()
        )
    return {
        "hostname": socket.gethostname(),
        "cpus": usable_processors(),
        "memory_bytes": memory_bytes()[0],
        "gpus": gpus,
        "labels": labels,
        "limits": limits.describe(),
    }


def usable_processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
