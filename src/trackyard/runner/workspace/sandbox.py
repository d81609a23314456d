"""Keeps a command from files that are not its own, where the engine asks for it.

Owns becoming another user, and the words that start a command in bubblewrap.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from typing import List

from trackyard.runner.spec import RunAsUser, RunnerSpec

#: What Python itself loads at its first use, from where the other user may not be able to read.
LATER = ("encodings.idna", "linecache", "locale", "resource", "ssl", "stringprep", "traceback")


def become(spec: RunnerSpec) -> None:
    """Hand the state folder to the team's user and become that user, for good."""
    account = spec.account
    if account is None:
        return
    own(spec, account)
    for name in LATER:
        importlib.import_module(name)
    os.setgroups(list(account.groups))
    os.setgid(account.gid)
    os.setuid(account.uid)
    os.environ.clear()
    home = spec.base_env.get("HOME")
    if home:
        with contextlib.suppress(OSError):
            os.mkdir(home, 0o700)  # noqa: PTH102


def own(spec: RunnerSpec, account: RunAsUser) -> None:
    """Give the state folder, whose parent is the engine's, to the user."""
    for path in (spec.state_dir / "lock", spec.state_dir):
        os.chown(path, account.uid, account.gid, follow_symlinks=False)


def prefix(spec: RunnerSpec) -> List[str]:
    """Return the words before a command that hide what is not its own."""
    sandbox = spec.sandbox
    if sandbox is None:
        return []
    temporary = spec.state_dir / "tmp"
    temporary.mkdir(exist_ok=True, mode=0o700)
    words = ["bwrap", "--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc"]
    words += ["--unshare-pid", "--die-with-parent", "--cap-drop", "ALL"]
    words += ["--bind", str(temporary), "/tmp"]  # noqa: S108  # the command's own
    if spec.gang.members == 1:
        # Members of a gang on one machine talk to each other by shared memory.
        words += ["--unshare-ipc", "--tmpfs", "/dev/shm"]  # noqa: S108
    for path in sandbox.hide:
        words += ["--tmpfs", str(path)] if path.is_dir() else ["--ro-bind", "/dev/null", str(path)]
    for path in (*sandbox.show, spec.state_dir):
        words += ["--bind", str(path), str(path)]
    cached = spec.cache_dir / "data"
    if cached.is_dir():
        words += ["--ro-bind", str(cached), str(cached)]
    return [*words, "--chdir", "{folder}", "--"]


def line_in(spec: RunnerSpec, line: List[str], folder: str) -> List[str]:
    """Return a command's line as it is started."""
    words = prefix(spec)
    return [folder if word == "{folder}" else word for word in words] + line
