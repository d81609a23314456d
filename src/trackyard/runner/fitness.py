"""The node around one attempt: is it fit before the start, and what is wrong after a failure.

Owns which failed checks keep a command from starting: those it could not live with. The others
are only reported; the server knows what an operator has accepted.
"""

from __future__ import annotations

import time
from typing import Any, Dict, List, Optional

from trackyard.runner.machine import health
from trackyard.runner.machine.gpus import GpuDriver, drivers
from trackyard.runner.spec import RunnerSpec

#: checks without which no command can do its work
VITAL = ("disk", "gpus")
#: ends after which the node is looked at: what the user or the queue asked for is not among them
SUSPICIOUS = ("exit_code", "signal", "setup")


class Fitness:
    """Looks at the node for one attempt."""

    def __init__(self, spec: RunnerSpec) -> None:
        self._spec = spec
        #: the last look, for the heartbeat
        self.checks: List[Dict[str, Any]] = []
        self._noted: List[Dict[str, Any]] = []

    def before(self) -> Optional[str]:
        """Look before the start; return a sentence if the command cannot start here."""
        self.checks = self._look()
        for check in self.checks:
            if check["verdict"] == health.FAIL and check["name"] in VITAL:
                return f"The node is not fit for the job: {check['sentence']}"
        return None

    def note_unfit(self, name: str, sentence: str) -> None:
        """Remember a failed check that was made elsewhere."""
        self._noted.append(_failed(name, sentence))

    def after(self, cause: str) -> List[Dict[str, Any]]:
        """Look after a failure; after any other end, tell what was noted."""
        return [*(self._look() if cause in SUSPICIOUS else []), *self._noted]

    def _look(self) -> List[Dict[str, Any]]:
        spec = self._spec
        if spec.health is None:
            return []
        wanted = {gpu.index for gpu in spec.gpus or ()}
        opened: List[GpuDriver] = drivers(spec.health.gpu_file) if wanted else []
        # The engine's own folder, which attempts share, where it is there already.
        shared = spec.cache_dir.parent
        folder = shared if shared.is_dir() else spec.state_dir
        subject = health.CheckSubject(folder=folder, drivers=opened, gpus=wanted)
        found = health.look(subject, spec.health.limits)
        present = {facts.number for driver in opened for facts in driver.facts()}
        gone = sorted(wanted - present) if present else []
        if gone:
            names = ", ".join(str(index) for index in gone)
            said = _failed("gpus", f"GPU {names}, given to the job, is not there.")
            found.append({**said, "number": float(len(gone)), "unit": "GPUs"})
        return found


def _failed(name: str, sentence: str) -> Dict[str, Any]:
    return {
        "name": name,
        "verdict": health.FAIL,
        "sentence": sentence[:300],
        "at_ms": time.time_ns() // 1_000_000,
    }
