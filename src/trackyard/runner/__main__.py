"""`python -m trackyard.runner SPEC.json`: the guard process, and the supervisor below it.

The guard adopts the supervisor's processes should that one be killed, and ends them all; the
supervisor does the same for the command. Both hold the attempt's lock, so that an engine sees
the attempt as gone only when nobody is left who could end its processes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, List, Optional

from trackyard.runner import fork_server, processes, records
from trackyard.runner.machine.survey import survey
from trackyard.runner.spec import BadSpecError, RunnerSpec, load, mark, with_credential
from trackyard.runner.supervise import Supervisor
from trackyard.runner.workspace import sandbox

BAD_SPEC_CODE = 64
ALREADY_RAN_CODE = 73
USAGE = (
    "usage: python -m trackyard.runner SPEC.json | --inventory [JSON] | --sweep SPEC.json"
    " | --data SPEC.json | --nursery | --ray | --ray-gang | --ray-keep | --slurm FOLDER"
    " | --slurm-member FOLDER\n"
)


def main(argv: Optional[List[str]] = None) -> int:
    """Run one attempt's member, or print the node's inventory."""
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["--inventory"] and len(words) <= 2:
        sys.stdout.write(json.dumps(survey(*words[1:]), sort_keys=True) + "\n")
        return 0
    if words == ["--nursery"]:
        return fork_server.tend(run)
    if words == ["--ray"]:
        from trackyard.runner.ray import entry

        return entry.run(guard)
    if words == ["--ray-gang"]:
        from trackyard.runner.ray import gang

        return gang.run()
    if words == ["--ray-keep"]:
        from trackyard.runner.ray import keep

        return keep.run()
    if words[:1] in (["--slurm"], ["--slurm-member"]) and len(words) == 2:
        from trackyard.runner.slurm import entry as slurm_entry

        start = slurm_entry.run_batch if words[0] == "--slurm" else slurm_entry.run_member
        return start(Path(words[1]), guard)
    if words[:1] == ["--data"] and len(words) == 2:
        return run(Path(words[1]), act=lambda spec: _fetch_data(Path(words[1]), spec))
    sweeping = words[:1] == ["--sweep"]
    if sweeping:
        words = words[1:]
    if len(words) != 1 or words[0].startswith("-"):
        sys.stderr.write(USAGE)
        return BAD_SPEC_CODE
    return run(Path(words[0]), act=sweep if sweeping else guard)


def run(path: Path, act: Optional[Callable[[RunnerSpec], int]] = None) -> int:
    """Read a spec and act on it: guard its attempt, unless told otherwise."""
    try:
        spec = load(path)
    except BadSpecError as fault:
        sys.stderr.write(f"the runner cannot use {path}: {fault}\n")
        return BAD_SPEC_CODE
    return (act or guard)(spec)


def guard(spec: RunnerSpec, lifeline: Optional[int] = None) -> int:
    """Claim the attempt, start the supervisor, and clean up behind it should it be killed.

    When the other end of the `lifeline` is closed, the cluster has lost this node.
    """
    spec.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = claim(spec.state_dir)
    if lock is None:
        sys.stderr.write(f"attempt {spec.attempt_id} already runs or ran here; left alone\n")
        return ALREADY_RAN_CODE
    # The command runs as the same user: it must not find the credential in our memory.
    processes.hide_memory()
    try:
        spec = with_credential(spec)
        sandbox.become(spec)
    except (BadSpecError, OSError) as fault:
        sys.stderr.write(f"{fault}\n")
        return BAD_SPEC_CODE
    processes.become_subreaper()
    child = os.fork()
    if child == 0:
        os._exit(_supervise(spec))
    # The supervisor decides what a signal means; the guard only passes it on.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if spec.signals_explained:
            signal.signal(number, signal.SIG_IGN)
        else:
            signal.signal(number, lambda signum, _frame: _pass_on(child, signum))
    if lifeline is not None:
        threading.Thread(target=_hold, args=(lifeline, child), daemon=True).start()
    status = _wait(child)
    if not (spec.state_dir / "exit.json").exists():
        processes.end_tree(lambda: processes.belonging(mark(spec)), polite_seconds=0)
        records.write_json(
            spec.state_dir / "lost.json",
            {"status": status, "swept_ms": time.time_ns() // 1_000_000},
        )
    return status >> 8 & 0xFF if not status & 0x7F else 128 + (status & 0x7F)


def sweep(spec: RunnerSpec) -> int:
    """End whatever still carries an attempt's mark, after its runner is gone."""

    def find() -> set[int]:
        seen = processes.table()
        found = processes.marked(mark(spec), seen)
        return processes.live(found - processes.ancestors(os.getpid(), seen), seen)

    ended = processes.end_tree(find, polite_seconds=0, give_up_seconds=10)
    sys.stdout.write(json.dumps({"ended": sorted(ended)}) + "\n")
    return 0 if not find() else 1


def _fetch_data(path: Path, spec: RunnerSpec) -> int:
    """Fetch data sets for nodes that cannot; the file holds a credential and is removed first."""
    from trackyard.runner.data.inputs import fetch_for_nodes

    path.unlink()
    processes.hide_memory()
    return fetch_for_nodes(spec)


def claim(state_dir: Path) -> Optional[int]:
    """Take the attempt's lock for life; None if another has it or the attempt ran before."""
    descriptor = os.open(state_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError as fault:
        # Some shared file systems have no locks; the engine then starts an attempt once.
        if fault.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
    if (state_dir / "started.json").exists():
        os.close(descriptor)
        return None
    return descriptor


def _supervise(spec: RunnerSpec) -> int:
    processes.become_subreaper()
    try:
        records.reserve(spec.state_dir / "exit.reserved")
    except OSError as fault:
        sys.stderr.write(f"no room for an exit record: {fault}\n")
    records.write_json(
        spec.state_dir / "started.json",
        {
            "attempt_id": spec.attempt_id,
            "epoch": spec.epoch,
            "member": spec.gang.member,
            "guard_pid": os.getppid(),
            "runner_pid": os.getpid(),
            "started_ms": time.time_ns() // 1_000_000,
        },
    )
    code: Any = 1
    try:
        code = Supervisor(spec).run()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return int(code)


def _hold(lifeline: int, child: int) -> None:
    with contextlib.suppress(OSError):
        os.read(lifeline, 1)
    _pass_on(child, signal.SIGUSR1)


def _pass_on(child: int, number: int) -> None:
    processes.send({child}, number)


def _wait(child: int) -> int:
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            return status


if __name__ == "__main__":
    sys.exit(main())
