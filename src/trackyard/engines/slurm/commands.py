"""Runs Slurm's commands: sbatch, squeue, scontrol, scancel, sacct, sacctmgr.

Owns their timeouts and environment, and the distinction between a controller that does not answer
and one that refuses a request. Knows nothing of attempts.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trackyard.core.ports import EngineError, EngineUnavailable, LaunchRefused
from trackyard.engines.wrapper import INHERITED_NAMES, INHERITED_PREFIXES

#: how long a command may take before the controller counts as unreachable
ANSWER_SECONDS = 20.0
#: what Slurm's commands say when they cannot reach the controller or get no answer in time
_SILENT = (
    "unable to contact slurm controller",
    "socket timed out",
    "connection refused",
    "unable to establish",
    "slurm backup controller in standby mode",
    "zero bytes were transmitted",
    "transport endpoint",
    "unable to connect to",
    "temporarily unable to accept job",
    "resource temporarily unavailable",
    "message authentication",
    "munge",
    "protocol authentication error",
    "connection timed out",
)
#: what Slurm says of a job beyond the number that its user, account or QOS may submit
_FULL = re.compile(r"\b(QOS|Assoc)(Max|Grp)SubmitJobs?(PerUser|PerAccount)?(Limit)?\b")
#: the server's own settings, which mean nothing on other machines
_NOT_FOR_NODES = frozenset({"VIRTUAL_ENV", "TMPDIR", "XDG_RUNTIME_DIR"})


class QueueFull(EngineUnavailable):
    """Slurm takes no more jobs of this user for now; the same job may be taken later."""


class Commands:
    """Slurm's commands as one site has them."""

    def __init__(self, *, folder: str = "", config: str = "", seconds: float = 0.0) -> None:
        self._folder = folder
        self._config = config
        self._seconds = seconds or ANSWER_SECONDS
        #: how often each command was run, to measure what a pass costs
        self.counts: dict[str, int] = {}

    def check(self) -> None:
        """Fail on a machine without Slurm's commands, saying what to install."""
        missing = [name for name in ("sbatch", "squeue", "scontrol") if not self._find(name)]
        if missing:
            raise EngineError(
                f"{', '.join(missing)} not found: the slurm engine runs on a machine from which"
                " jobs can be submitted; install Slurm's client (Debian: slurm-client) with the"
                " cluster's slurm.conf and munge key, or set `commands` in [slurm]"
            )

    def submit(self, arguments: Sequence[str], script: str) -> int:
        """Submit a batch script; return the job's id."""
        answer = self.run("sbatch", "--parsable", *arguments, given=script, refuses=True)
        first = answer.strip().partition(";")[0].splitlines()[-1:] or [""]
        try:
            return int(first[0])
        except ValueError:
            raise EngineUnavailable(f"sbatch answered {answer[:200]!r}, not a job id") from None

    def json(self, program: str, *arguments: str) -> dict[str, Any]:
        """Return what a command prints as JSON."""
        text = self.run(program, *arguments, "--json")
        try:
            data = json.loads(text)
        except ValueError as fault:
            raise EngineUnavailable(f"{program} --json printed no JSON: {fault}") from fault
        if not isinstance(data, dict):
            raise EngineUnavailable(f"{program} --json printed no object")
        if data.get("errors"):
            # It exits with 0 and an empty list if it could not reach the controller.
            raise EngineUnavailable(
                f"Slurm's controller does not answer {program}: {_errors(data['errors'])}"
            )
        return data

    def run(self, program: str, *arguments: str, given: str = "", refuses: bool = False) -> str:
        """Run a command to its end; EngineUnavailable if the controller did not answer."""
        self.counts[program] = self.counts.get(program, 0) + 1
        try:
            answer = subprocess.run(
                [self._find(program) or program, *arguments],
                input=given,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self._seconds,
                env=self.environment(),
                check=False,
            )
        except FileNotFoundError as fault:
            raise EngineError(f"{program} is not installed here") from fault
        except subprocess.TimeoutExpired as fault:
            raise EngineUnavailable(
                f"Slurm's controller did not answer {program} within {self._seconds:g} s"
            ) from fault
        if answer.returncode == 0:
            return answer.stdout
        words = _words(answer.stderr or answer.stdout) or f"exit code {answer.returncode}"
        if any(phrase in words.lower() for phrase in _SILENT):
            raise EngineUnavailable(f"Slurm's controller does not answer: {words}")
        if refuses and _FULL.search(words):
            raise QueueFull(words)
        kind = LaunchRefused if refuses else EngineError
        raise kind(f"Slurm refused: {words}")

    def environment(self) -> dict[str, str]:
        """Return the environment of Slurm's commands and, through sbatch, of batch scripts."""
        return clean_environment(os.environ, self._config)

    def _find(self, program: str) -> str | None:
        if self._folder:
            place = Path(self._folder) / program
            return str(place) if os.access(place, os.X_OK) else None
        return shutil.which(program)


def clean_environment(source: Mapping[str, str], config: str) -> dict[str, str]:
    """Return the variables that may be passed to a node: none of the server's secrets."""
    values = {
        name: value
        for name, value in source.items()
        if (name in INHERITED_NAMES or name.startswith(INHERITED_PREFIXES))
        and name not in _NOT_FOR_NODES
    }
    own = source.get("VIRTUAL_ENV")
    if own:
        parts = values.get("PATH", os.defpath).split(os.pathsep)
        values["PATH"] = os.pathsep.join(one for one in parts if not one.startswith(own))
    values.setdefault("PATH", os.defpath)
    if config or source.get("SLURM_CONF"):
        values["SLURM_CONF"] = config or source["SLURM_CONF"]
    return values


def _errors(found: object) -> str:
    """Return what the list of errors in a command's JSON says."""
    rows = found if isinstance(found, list) else [found]
    said = [
        ": ".join(str(row[key]) for key in ("description", "error") if row.get(key))
        if isinstance(row, dict)
        else str(row)
        for row in rows
    ]
    return "; ".join(said)[:500]


def _words(text: str) -> str:
    lines = (line.strip() for line in text.splitlines())
    parts = [line.partition("error: ")[2] or line for line in lines if line]
    return "; ".join(parts)[:500]
