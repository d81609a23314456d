"""What this machine has and how it is doing, in one answer to whoever started the runner for it.

Printed by `python -m trackyard.runner --inventory [JSON]`. Without options it only counts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict

from trackyard.runner.machine import health
from trackyard.runner.machine.gpus import drivers
from trackyard.runner.machine.inventory import inventory


def survey(options: str = "{}") -> Dict[str, Any]:
    """Return the inventory, and the health of what it lists if a work folder is named.

    Options: `folder`, `gpu_file`, `limits`, `live` (ids of attempts that run) and `memory` (a file
    that remembers stuck processes).
    """
    told = json.loads(options)
    gpu_file = Path(told["gpu_file"]) if told.get("gpu_file") else None
    found = inventory(gpu_file)
    if told.get("folder"):
        live = told.get("live")
        subject = health.CheckSubject(
            folder=Path(told["folder"]),
            drivers=drivers(gpu_file),
            live=None if live is None else set(live),
            memory=Path(told["memory"]) if told.get("memory") else None,
        )
        found["checks"] = health.look(subject, told.get("limits") or {})
    return found
