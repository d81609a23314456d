"""Learning that the job is to stop, and leaving with the word that its state is saved.

Owns SIGTERM and the notice file the runner writes before it. Knows nothing of checkpoints.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

_asked = threading.Event()


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """The job is to stop."""

    #: `preempted`, `stopped`, `time_limit`, `gang`
    reason: str
    #: seconds left until it is killed
    seconds_left: float


def catch_stop() -> None:
    """Turn SIGTERM into a flag that `stop_asked` reads. Call it from the main thread."""
    signal.signal(signal.SIGTERM, _remember)


def stop_asked() -> bool:
    """Tell whether the job is to stop; cheap enough for every step."""
    if _asked.is_set():
        return True
    path = os.environ.get("YARD_NOTICE_FILE")
    if path and Path(path).exists():
        _asked.set()
    return _asked.is_set()


def notice() -> Notice | None:
    """Return why the job is to stop and how long it has, or None."""
    if not stop_asked():
        return None
    try:
        data = json.loads(Path(os.environ.get("YARD_NOTICE_FILE", "")).read_bytes())
        left = float(data["deadline_ms"]) / 1000 - time.time()
        return Notice(reason=str(data["reason"]), seconds_left=max(0.0, left))
    except (OSError, ValueError, KeyError, TypeError):
        grace = float(os.environ.get("YARD_GRACE_SECONDS", "30"))
        return Notice(reason="stopped", seconds_left=grace)


def exit_saved() -> NoReturn:
    """Leave with the exit code that says: my state is saved, put me back in the queue."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) is _remember:
        # The notice comes before the signal, which would end a Python that is on its way out.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(saved_exit_code())


def saved_exit_code() -> int:
    """Return that exit code."""
    return int(os.environ.get("YARD_SAVED_EXIT_CODE", "85"))


def _remember(_number: int, _frame: FrameType | None) -> None:
    _asked.set()
