"""What Slurm's accounting knows of jobs that the controller has forgotten.

Owns running sacct and reading its rows. A site without accounting is asked once.
"""

from __future__ import annotations

import time
from datetime import datetime

from trackyard.core.ports import EngineError, EngineUnavailable
from trackyard.engines.slurm.commands import Commands
from trackyard.engines.slurm.parse import SlurmJob, expand

FIELDS = ("JobIDRaw", "JobName", "State", "NodeList", "Start", "End")


class Accounting:
    """sacct, as one site has it or not."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        #: None: not asked yet
        self._is_there: bool | None = None

    def job(self, job_id: int, name: str) -> SlurmJob | None:
        """Return how a job of this name ran first; None without accounting.

        Slurm keeps a row for each time that a job was put back into its queue. The first is the
        attempt; the later ones never run the command again.
        """
        if self._is_there is False or not job_id:
            return None
        try:
            text = self._commands.run(
                "sacct",
                f"--jobs={job_id}",
                "--allocations",
                "--duplicates",
                "--noheader",
                "--parsable2",
                f"--format={','.join(FIELDS)}",
            )
        except EngineUnavailable:
            return None
        except EngineError:
            # Not installed, or "Slurm accounting storage is disabled".
            self._is_there = False
            return None
        self._is_there = True
        rows = [row for row in map(read_row, text.splitlines()) if row is not None]
        # A controller that lost its state gives numbers again: the name tells whose it is.
        return next((job for job in rows if job.name == name), None)


def read_row(line: str) -> SlurmJob | None:
    """Read one row of sacct's."""
    parts = line.strip().split("|")
    if len(parts) != len(FIELDS) or not parts[0].isdigit():
        return None
    number, name, words, nodes, start, end = parts
    # `CANCELLED by 1000` names who did it.
    state = words.split()[0].rstrip("+") if words else ""
    return SlurmJob(
        job_id=int(number),
        name=name,
        state="PREEMPTED" if state == "REQUEUED" else state,
        nodes=tuple(expand(nodes)) if nodes not in ("", "None assigned") else (),
        start=_seconds(start),
        end=_seconds(end),
    )


def _seconds(text: str) -> int:
    try:
        return int(time.mktime(datetime.fromisoformat(text).timetuple()))
    except ValueError:
        return 0
