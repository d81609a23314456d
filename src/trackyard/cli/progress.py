"""A progress bar on stderr: drawn on a terminal, silent in a pipe. Knows no command."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any


class ProgressBar:
    """Shows phases of long work, each with bytes done of all."""

    def __init__(self, *, is_quiet: bool = False) -> None:
        self._is_shown = sys.stderr.isatty() and not is_quiet
        self._drawn: Any = None
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> ProgressBar:
        if self._is_shown:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                DownloadColumn,
                Progress,
                TextColumn,
                TimeRemainingColumn,
                TransferSpeedColumn,
            )

            self._drawn = Progress(
                TextColumn("{task.description:<9}"),
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._drawn.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._drawn is not None:
            self._drawn.stop()

    def show(self, phase: str, done: int, total: int | None) -> None:
        """Draw how far a phase is; a total of None is not known."""
        if self._drawn is None:
            return
        if phase not in self._tasks:
            self._tasks[phase] = self._drawn.add_task(phase, total=total)
        self._drawn.update(self._tasks[phase], completed=done, total=total)
