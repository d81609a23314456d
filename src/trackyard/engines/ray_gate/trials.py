"""Tells the server how the trials of a Ray Tune search stand, so that the job's page shows them.

Runs inside a job beside the gate, shipped as `trackyard_trials`; the standard library alone, and
never an error of the search's: what cannot be told is left out.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from typing import Any

#: Reports come at most this often, with at most so many trials.
PAUSE_SECONDS, MOST = 2.0, 200
MAX_TEXT, MAX_ENTRIES = 200, 50
#: What Ray adds to every result; the rest is the script's own.
AUTOMATIC = frozenset(
    "timestamp time_this_iter_s time_total_s time_since_restore iterations_since_restore"
    " training_iteration timesteps_total episodes_total timesteps_since_restore warmup_time"
    " trial_id date pid hostname node_ip config done should_checkpoint experiment_tag"
    " experiment_id checkpoint_dir_name episodes_since_restore trial_log_path".split()
)

#: sends a body to the server; False once it is not to be asked again
Send = Callable[[dict[str, Any]], bool]


class Teller:
    """Gathers trials that changed, and tells them from a thread of its own."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._changed: dict[str, dict[str, Any]] = {}
        self._numbers: dict[str, int] = {}
        self._has_news = threading.Event()
        self._is_done = False
        self._metric = ""
        self._thread: threading.Thread | None = None

    def note(self, trials: list[Any], metric: str = "") -> None:
        """Note how these trials stand now."""
        with self._lock:
            self._metric = metric or self._metric
            for trial in trials:
                number = self._numbers.setdefault(str(trial.trial_id), len(self._numbers) + 1)
                self._changed[str(trial.trial_id)] = described(trial, number)
            if self._thread is None and not self._is_done:
                self._thread = threading.Thread(target=self._tell_on, daemon=True)
                self._thread.start()
        self._has_news.set()

    def finish(self, trials: list[Any]) -> None:
        """Tell the last of it before the search returns."""
        self.note(trials)
        with self._lock:
            self._is_done = True
            thread = self._thread
        self._has_news.set()
        if thread is not None:
            thread.join(30)

    def _tell_on(self) -> None:
        pause = threading.Event()
        while True:
            self._has_news.wait()
            self._has_news.clear()
            with self._lock:
                is_done = self._is_done
            if not is_done:
                pause.wait(PAUSE_SECONDS)
            if not self._tell() or is_done:
                return

    def _tell(self) -> bool:
        while True:
            with self._lock:
                names = list(self._changed)[:MOST]
                told = [self._changed.pop(name) for name in names]
                metric = self._metric
            if not told:
                return True
            if not self._send({"trials": told, "metric": metric}):
                with self._lock:
                    self._is_done = True
                return False


def described(trial: Any, number: int) -> dict[str, Any]:
    """Say of a trial what its row shows."""
    result = getattr(trial, "last_result", None) or {}
    chosen = getattr(trial, "evaluated_params", None) or getattr(trial, "config", None) or {}
    error = getattr(trial, "get_error", lambda: None)() if trial.status == "ERROR" else None
    return {
        "trial": str(trial.trial_id),
        "number": number,
        "state": str(trial.status).lower(),
        "params": {name: _plain(value) for name, value in _flat(chosen)},
        "metrics": {
            name: float(value)
            for name, value in _flat(result)
            if name.partition("/")[0] not in AUTOMATIC and _is_number(value)
        },
        "iterations": int(result.get("training_iteration") or 0),
        "seconds": float(result.get("time_total_s") or 0.0),
        "error": "" if error is None else str(error)[:1000],
    }


def _flat(values: dict[Any, Any], before: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in values.items():
        whole = f"{before}{name}"
        if isinstance(value, dict):
            found += _flat(value, f"{whole}/")
        else:
            found.append((whole[:MAX_TEXT], value))
    return found[:MAX_ENTRIES]


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value[:MAX_TEXT] if isinstance(value, str) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        text = str(value)
    return text[:MAX_TEXT]


def _is_number(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    try:
        return math.isfinite(float(value)) and not isinstance(value, str)
    except (TypeError, ValueError):
        return False
