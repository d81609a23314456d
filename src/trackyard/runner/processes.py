"""Processes through /proc and prctl: subreaper, parent-death signal, finding and ending a tree.

Owns who belongs to an attempt: descendants of the runner, and anything that carries the
attempt's marker in its environment, whatever session it hid in. Knows nothing of reports.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Set, Tuple

from trackyard.runner.interactive.terminal import take_as_controlling

MARKER = "YARD_MARK"
PROC = Path("/proc")
#: Programs that only wait for the one they started; bubblewrap is one, too.
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "busybox", "fish", "bwrap"})

PIPE_BYTES = 1024 * 1024

_F_SETPIPE_SZ = 1031
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36


class Process(NamedTuple):
    """One line of the process table."""

    pid: int
    parent: int
    state: str
    start_ticks: int
    cpu_ticks: int
    memory_bytes: int


def _load_prctl() -> Optional[Callable[..., int]]:
    try:
        function = ctypes.CDLL(None, use_errno=True).prctl
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_int
    return function


# Bound at import: between fork and exec nothing may be looked up or loaded.
_prctl = _load_prctl()


def become_subreaper() -> bool:
    """Adopt every orphan below this process; tell whether the system allows it."""
    return _prctl is not None and _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def hide_memory() -> bool:
    """Keep other processes of this user from reading our memory and starting environment.

    Both hold the runner's credential. What is executed from here is readable again.
    """
    return _prctl is not None and _prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0


def die_with_parent(parent: int, number: int = signal.SIGKILL) -> None:
    """Have the kernel end this process when its parent's thread ends. Safe after fork."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def table() -> Dict[int, Process]:
    """Return every process that can be seen."""
    if not PROC.is_dir():
        return _table_by_ps()
    found: Dict[int, Process] = {}
    for entry in os.listdir(PROC):  # noqa: PTH208  # a scan of /proc wants no Path objects
        if entry.isdigit():
            process = look(int(entry))
            if process is not None:
                found[process.pid] = process
    return found


def _table_by_ps() -> Dict[int, Process]:
    """Ask ps where there is no /proc, as on macOS; marks cannot be seen there."""
    line = ["ps", "-axo", "pid=,ppid=,state=,rss="]
    answer = subprocess.run(line, capture_output=True, text=True, check=False)
    found: Dict[int, Process] = {}
    for row in answer.stdout.splitlines():
        fields = row.split()
        if len(fields) == 4 and fields[0].isdigit():
            pid, parent, state, kilobytes = int(fields[0]), int(fields[1]), fields[2], fields[3]
            found[pid] = Process(pid, parent, state[0], 0, 0, int(kilobytes) * 1024)
    return found


def look(pid: int) -> Optional[Process]:
    """Return one process, or None if it is gone."""
    if not PROC.is_dir():
        return _table_by_ps().get(pid)
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            text = file.read()
    except OSError:
        return None
    # The name may hold spaces and brackets; fields are counted from its closing bracket.
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < 22:
        return None
    return Process(
        pid=pid,
        parent=int(fields[1]),
        state=fields[0].decode(),
        start_ticks=int(fields[19]),
        cpu_ticks=int(fields[11]) + int(fields[12]),
        memory_bytes=int(fields[21]) * _PAGE_BYTES,
    )


_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def proportional_memory(pids: Set[int]) -> int:
    """Return memory with shared pages counted once; resident sizes count them per process."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", "rb") as file:  # noqa: PTH123
                lines = file.read().splitlines()
        except OSError:
            process = look(pid)
            total += process.memory_bytes if process is not None else 0
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(b"Pss:"))
    return total


def descendants(root: int, processes: Dict[int, Process]) -> Set[int]:
    """Return the processes below `root`, without it."""
    children: Dict[int, List[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: Set[int] = set()
    waiting = list(children.get(root, ()))
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting.extend(children.get(pid, ()))
    return found


def marked(mark: str, processes: Dict[int, Process]) -> Set[int]:
    """Return the processes whose environment carries the mark."""
    wanted = f"{MARKER}={mark}".encode()
    return {pid for pid in processes if _environment_holds(pid, wanted)}


def _environment_holds(pid: int, wanted: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
            return wanted in file.read().split(b"\0")
    except OSError:
        return False


def live(pids: Set[int], processes: Dict[int, Process]) -> Set[int]:
    """Return those that are not mere zombies."""
    return {pid for pid in pids if pid in processes and processes[pid].state not in ("Z", "X")}


def send(pids: Set[int], number: int) -> None:
    """Send a signal to each; those already gone are fine."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def reap() -> Iterator[tuple[int, int, int]]:
    """Yield pid, wait status and peak memory of every child that ended, orphans included."""
    while True:
        try:
            pid, status, use = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status, use.ru_maxrss * 1024


def stop_leaders(main: int, processes: Dict[int, Process], *, deep: bool) -> Set[int]:
    """Return whom a polite SIGTERM is for: the command itself, seen through shells.

    Data-loader workers must not get it: PyTorch treats their death as the trainer's failure,
    and the checkpoint that the grace is for would be lost. Nor must a shell that waits for the
    trainer: it would die first and take the exit code with it. `deep` adds direct children.
    """
    children: Dict[int, List[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    leaders: Set[int] = set()
    waiting = [main]
    while waiting:
        pid = waiting.pop()
        below = children.get(pid, [])
        if below and _program(pid) in SHELLS:
            waiting.extend(below)
            continue
        leaders.add(pid)
        if deep and pid == main:
            leaders.update(below)
    return leaders


def inside(main: int, processes: Dict[int, Process]) -> Tuple[int, Set[int]]:
    """Return the command itself, and the processes of bubblewrap around it.

    To end one of those ends all inside at once.
    """
    around: Set[int] = set()
    while _program(main) == "bwrap":
        below = [process for process in processes.values() if process.parent == main]
        if not below:
            break
        around.add(main)
        # Orphans are adopted by the innermost; the command was there before them.
        main = min(below, key=lambda process: (process.start_ticks, process.pid)).pid
    return main, around


def _program(pid: int) -> str:
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))  # noqa: PTH119
    except OSError:
        pass
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as file:  # noqa: PTH123
            return file.read().strip()
    except OSError:
        return ""


def spawn(
    line: List[str],
    folder: Path,
    env: Mapping[str, str],
    doors: List[int],
    terminal: Optional[Tuple[int, int]] = None,
) -> Tuple[int, int]:
    """Start a command in its own session and return its pid and the pipe it writes to.

    It joins the cgroups whose `doors` are given and dies with the calling thread. The caller
    collects its end with `reap`. A command with a `terminal` has that in place of the pipe: both
    its ends are given, ours first.
    """
    read, write = os.pipe() if terminal is None else terminal
    with contextlib.suppress(OSError):
        fcntl.fcntl(write, _F_SETPIPE_SZ, PIPE_BYTES)
    parent = os.getpid()

    def before_exec() -> None:
        for door in doors:
            os.write(door, b"0")
        if terminal is not None:
            take_as_controlling()
        die_with_parent(parent)

    try:
        child = subprocess.Popen(
            line,
            cwd=folder,
            env=dict(env),
            stdin=subprocess.DEVNULL if terminal is None else write,
            stdout=write,
            stderr=write,
            start_new_session=True,
            preexec_fn=before_exec,  # noqa: PLW1509  # it makes bound calls alone
        )
    except (OSError, subprocess.SubprocessError) as fault:
        os.close(read)
        raise fault if isinstance(fault, OSError) else OSError(str(fault)) from fault
    finally:
        os.close(write)
    # Ended children are collected for the whole tree at once, never by Popen.
    child.returncode = 0
    return child.pid, read


def ancestors(pid: int, processes: Dict[int, Process]) -> Set[int]:
    """Return `pid` and every process above it."""
    found: Set[int] = set()
    while pid in processes and pid not in found:
        found.add(pid)
        pid = processes[pid].parent
    return found


def belonging(mark: str) -> Set[int]:
    """Return the live processes of a member: ours by birth or by mark, without ourselves."""
    processes = table()
    me = os.getpid()
    found = descendants(me, processes) | marked(mark, processes)
    return live(found - ancestors(me, processes), processes)


def end_tree(
    find: Callable[[], Set[int]], *, polite_seconds: float, give_up_seconds: float = 60.0
) -> Set[int]:
    """End every process `find` reports, politely at first; return all there were.

    `find` is asked until it comes back empty, since a tree may fork while it is being ended.
    Only what hangs in the kernel can outlast this; after `give_up_seconds` it is left.
    """
    seen: Set[int] = set()
    asked: Set[int] = set()
    deadline = time.monotonic() + polite_seconds
    pause = 0.002
    while True:
        for _ in reap():
            pass
        found = find()
        if not found or time.monotonic() > deadline + give_up_seconds:
            return seen
        seen |= found
        if time.monotonic() < deadline:
            send(found - asked, signal.SIGTERM)
            # A stopped process acts on SIGTERM only once it is continued.
            send(found - asked, signal.SIGCONT)
            asked |= found
        else:
            send(found, signal.SIGKILL)
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
