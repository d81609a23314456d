"""Interactive work of an attempt: its terminal or app, and the tunnel to it.

Owns what it needs besides the command: variables, JupyterLab's flags, warning about and stopping
idle sessions. Knows the supervisor only by the functions it is given.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import socket
import threading
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from trackyard.runner.interactive import cells
from trackyard.runner.interactive.terminal import Terminal
from trackyard.runner.interactive.tunnel import RunnerTunnel
from trackyard.runner.spec import InteractiveSpec, RunnerSpec

NO_WAY = (
    "this node cannot reach the server, so nobody can attach to this job: interactive work needs"
    " nodes that reach the server's address"
)
LOOK_SECONDS = 15.0
ANSWER_SECONDS = 5.0
#: The warning comes when this fraction of the idle limit is left.
WARN_PART = 0.2


class InteractiveSession:
    """The interactive session of an attempt; inert for a job that is not interactive."""

    def __init__(self, spec: RunnerSpec, *, say: Callable[[str], None]) -> None:
        self._spec = spec
        self._say = say
        self.facts: Optional[InteractiveSpec] = spec.interactive if spec.gang.member == 0 else None
        self._tunnel: Optional[RunnerTunnel] = None
        self.terminal: Optional[Terminal] = None
        self._port = 0
        self._secret = ""
        self._has_answered = False
        self._idle: Optional[IdleWatch] = None
        self._stop: Callable[[str], None] = lambda _: None
        if self.facts is not None and self.facts.kind == "terminal":
            self.terminal = Terminal(self._wake)

    def _wake(self) -> None:
        if self._tunnel is not None:
            self._tunnel.wake()

    # Before the command starts

    def environment(self, env: Dict[str, str]) -> Dict[str, str]:
        """Return the command's environment with the variables of its terminal or app."""
        facts = self.facts
        if facts is None:
            return env
        if facts.kind == "terminal":
            return {"TERM": "xterm-256color", "COLORTERM": "truecolor", **env}
        self._port = free_port()
        path = facts.path.rstrip("/")
        env = {
            "PORT": str(self._port),
            "YARD_APP_PORT": str(self._port),
            "YARD_APP_PATH": path,
            "STREAMLIT_SERVER_PORT": str(self._port),
            "STREAMLIT_SERVER_ADDRESS": "127.0.0.1",
            "STREAMLIT_SERVER_BASE_URL_PATH": path.strip("/"),
            "STREAMLIT_SERVER_HEADLESS": "true",
            "GRADIO_SERVER_NAME": "127.0.0.1",
            "GRADIO_SERVER_PORT": str(self._port),
            "GRADIO_ROOT_PATH": path,
            **env,
        }
        if facts.is_notebook:
            env = self._notebook_environment(env)
        return env

    def _notebook_environment(self, env: Dict[str, str]) -> Dict[str, str]:
        self._secret = secrets.token_hex(24)
        folder = self._spec.work_dir or self._spec.state_dir / "work"
        # Each run of a cell is a run of its own; the job's is their parent (YARD_RUN_ID).
        kept = {name: value for name, value in env.items() if name != "MLFLOW_RUN_ID"}
        return {**kept, "JUPYTER_TOKEN": self._secret, **cells.install(folder)}

    def line(self, argv: List[str], folder: Path) -> List[str]:
        """Return the command with its address filled in."""
        facts = self.facts
        if facts is None or facts.kind != "app":
            return argv
        path = facts.path.rstrip("/")
        words = [word.replace("{port}", str(self._port)).replace("{path}", path) for word in argv]
        return words + self._jupyter_flags(folder) if facts.is_notebook else words

    def _jupyter_flags(self, folder: Path) -> List[str]:
        assert self.facts is not None
        flags = [
            "--no-browser",
            "--ip=127.0.0.1",
            f"--port={self._port}",
            "--ServerApp.port_retries=0",
            f"--ServerApp.base_url={self.facts.path}",
            f"--ServerApp.root_dir={folder}",
            # The Host header is the server's; every request carries the secret known only to it.
            "--ServerApp.allow_remote_access=True",
            "--ServerApp.quit_button=False",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
            "--LabApp.news_url=None",
        ]
        return [*flags, "--allow-root"] if os.getuid() == 0 else flags

    def take_terminal(self) -> Optional[Tuple[int, int]]:
        """Hand over both ends of the terminal, ours and the command's; the caller closes them."""
        return None if self.terminal is None else self.terminal.take()

    # While it runs

    def started(self, stop: Callable[[str], None]) -> None:
        """Open the tunnel: the command has started."""
        facts, report = self.facts, self._spec.report
        self._stop = stop
        if facts is None:
            return
        if self.terminal is not None and self._spec.time_limit_seconds is not None:
            self.terminal.ends_in(self._spec.time_limit_seconds)
        if report is None or report.by_folder:
            self._say(NO_WAY)
            return
        self._tunnel = RunnerTunnel(
            self._spec,
            terminal=self.terminal,
            app_port=self._port,
            # An open JupyterLab page polls all the time, used or not.
            counts_bytes=not facts.is_notebook,
        )
        info: Dict[str, Any] = {"kind": facts.kind}
        if self._secret:
            info["authorization"] = f"token {self._secret}"
        self._tunnel.tell(**info)
        self._tunnel.start()
        if facts.idle_seconds is not None:
            self._idle = IdleWatch(self, facts.idle_seconds)
            self._idle.start()

    def warn(self, sentence: str) -> None:
        """Show a sentence in the terminal."""
        if self.terminal is not None:
            self.terminal.say(sentence)

    def close(self) -> None:
        """Close tunnel and terminal when the command has ended."""
        if self._idle is not None:
            self._idle.ended.set()
        if self._tunnel is not None:
            self._tunnel.finish()
        if self.terminal is not None:
            self.terminal.close()

    # Idleness

    def last_used(self) -> float:
        """Return the monotonic time of last use."""
        tunnel = self._tunnel
        assert tunnel is not None
        if not self._secret:
            return tunnel.last_used
        found = notebook_activity(self._port, self._facts_path(), self._secret)
        if found is None and not self._has_answered:
            return time.monotonic()  # it is still starting
        self._has_answered = True
        return max(found or 0.0, tunnel.last_used)

    def _facts_path(self) -> str:
        return self.facts.path if self.facts is not None else "/"

    def idle_until(self, seconds: Optional[float]) -> None:
        """Announce the stop in so many seconds; None takes the announcement back."""
        at = None if seconds is None else time.time_ns() // 1_000_000 + int(seconds * 1000)
        if self._tunnel is not None:
            self._tunnel.tell(idle_stop_ms=at)
        if seconds is not None:
            sentence = f"idle: it will be stopped in {_span(seconds)} unless it is used"
            self.warn(sentence)
            self._say(f"{sentence}; its folder is kept")

    def stop_idle(self, seconds: float) -> None:
        """Stop the command after the idle limit."""
        sentence = f"stopped after {_span(seconds)} without use; its folder is kept"
        self.warn(sentence)
        self._stop(sentence)


class IdleWatch(threading.Thread):
    """Warns about an idle session and stops it."""

    def __init__(self, session: InteractiveSession, seconds: float) -> None:
        super().__init__(name="idle", daemon=True)
        self._session = session
        self._seconds = seconds
        self.ended = threading.Event()
        self._used = time.monotonic()

    def run(self) -> None:
        """Poll until the command ends or is stopped."""
        is_warned = False
        while not self.ended.wait(min(LOOK_SECONDS, self._seconds / 10)):
            self._used = max(self._used, self._session.last_used())
            idle = time.monotonic() - self._used
            if idle >= self._seconds:
                self._session.stop_idle(self._seconds)
                return
            is_late = idle >= self._seconds * (1 - WARN_PART)
            if is_late != is_warned:
                is_warned = is_late
                self._session.idle_until(self._seconds - idle if is_late else None)


def notebook_activity(port: int, path: str, secret: str) -> Optional[float]:
    """Return the monotonic time at which a kernel or terminal of JupyterLab was last used.

    None if it does not answer; 0 if it has neither.
    """
    last: float = 0.0
    for what in ("kernels", "terminals"):
        found = _ask(port, f"{path}api/{what}", secret)
        if found is None:
            return None
        for one in found:
            if one.get("execution_state") == "busy":
                return time.monotonic()
            with contextlib.suppress(ValueError, TypeError):
                then = datetime.fromisoformat(str(one["last_activity"]).replace("Z", "+00:00"))
                age = (datetime.now(timezone.utc) - then).total_seconds()
                last = max(last, time.monotonic() - max(0.0, age))
    return last


def _ask(port: int, path: str, secret: str) -> Optional[List[Dict[str, Any]]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", path, headers={"Authorization": f"token {secret}"})
        found = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def free_port() -> int:
    """Return a loopback port that is free at the moment."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _span(seconds: float) -> str:
    if seconds >= 5400:
        return f"{seconds / 3600:.3g} hours"
    return f"{seconds / 60:.3g} minutes" if seconds >= 90 else f"{max(1, round(seconds))} seconds"
