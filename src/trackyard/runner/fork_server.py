"""A warm parent of runners: forks one for each spec it is told of, in milliseconds.

Starting an interpreter takes longer than all else between two short jobs. Owns the way from a
line on standard input to a runner in a session of its own, and telling on standard output how
each ended. Runs no thread, so that forking is safe; runners outlive it.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import traceback
from pathlib import Path
from typing import Callable, Dict, List, Tuple

from trackyard.runner.records import write_all

#: Wakes the loop when a runner ended: read end, write end.
Alarm = Tuple[int, int]


def tend(run: Callable[[Path], int]) -> int:
    """Start a runner for each line, a JSON string with its spec's path, until there are no more.

    Answers `[path, wait status]` for each that ended.
    """
    alarm = os.pipe()
    for end in alarm:
        os.set_blocking(end, False)
    signal.set_wakeup_fd(alarm[1], warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    _warm_up()
    runners: Dict[int, str] = {}
    unread = b""
    while True:
        ready, _, _ = select.select([0, alarm[0]], [], [])
        if 0 in ready:
            data = os.read(0, 65536)
            if not data:
                return 0
            *lines, unread = (unread + data).split(b"\n")
            for line in lines:
                path = str(json.loads(line))
                runners[_fork(path, run, alarm)] = path
        if alarm[0] in ready:
            os.read(alarm[0], 4096)
        for path, status in _ended(runners):
            try:
                write_all(1, json.dumps([path, status]).encode() + b"\n")
            except BrokenPipeError:
                return 0


def _warm_up() -> None:
    # The codec of host names is loaded at the first connection.
    "localhost".encode("idna")
    gc.collect()
    # What is there now is shared by all runners: the collector need not touch it, ever.
    gc.freeze()


def _fork(path: str, run: Callable[[Path], int], alarm: Alarm) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for end in alarm:
            os.close(end)
        os.setsid()
        _redirect(Path(path).parent / "runner.log")
        code = run(Path(path))
    except BaseException:  # noqa: BLE001  # a fork must not go on as its parent
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _redirect(log: Path) -> None:
    """Read nothing, and write what the runner itself says beside the command's log."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for number, source in enumerate((nothing, output, output)):
        os.dup2(source, number)
    os.close(output)
    os.close(nothing)


def _ended(runners: Dict[int, str]) -> List[Tuple[str, int]]:
    found = []
    while runners:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            break
        path = runners.pop(pid, None)
        if path is not None:
            found.append((path, status))
    return found
