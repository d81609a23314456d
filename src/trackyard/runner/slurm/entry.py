"""The runner as the batch script of a Slurm job: facts of the node, and the meaning of signals.

The batch process starts one runner per member, by srun if there are several, and waits. Slurm
ends a job by a signal to all its processes and gives no reason, so the runners ignore signals: the
batch process asks the controller and passes the reason on in stop files. Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

from trackyard.runner import records
from trackyard.runner.spec import BadSpecError, RunnerSpec, parse

PLAN = "slurm.json"
BAD_SPEC_CODE = 64
ALREADY_RAN_CODE = 73
ASK_SECONDS = 5.0
#: how long to wait for the reason after a signal has killed the command
NEWS_SECONDS = 2 * ASK_SECONDS
#: Slurm's state -> why a job is being ended
REASONS = {
    "TIMEOUT": "time_limit",
    "DEADLINE": "time_limit",
    "PREEMPTED": "preempted",
    "CANCELLED": "stopped",
    "NODE_FAIL": "node_lost",
    "OUT_OF_MEMORY": "memory",
}
_OWN_VARIABLES = ("YARD_", "TRACKYARD_")
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")

Guard = Callable[[RunnerSpec], int]


def run_batch(folder: Path, guard: Guard) -> int:
    """Run the attempt in `folder` in this batch job."""
    plan = records.read_json(folder / PLAN)
    if plan is None:
        sys.stderr.write(f"{folder / PLAN} is not there: is the folder shared with this node?\n")
        return BAD_SPEC_CODE
    if (folder / "m0" / "started.json").exists():
        sys.stderr.write("this attempt ran before; Slurm put its job back, Trackyard goes on\n")
        return ALREADY_RAN_CODE
    members = int(plan["members"])
    _take_signals(folder, plan)
    if members == 1:
        return _wait(_fork(lambda: run_member(folder, guard)))
    environment = {**os.environ, **gang_variables(plan)}
    line = srun_line(plan, folder, environment)
    try:
        step = subprocess.Popen(line, env=environment, stdin=subprocess.DEVNULL)
    except OSError as fault:
        sys.stderr.write(f"srun could not be started on the first node: {fault}\n")
        return BAD_SPEC_CODE
    return _wait(step.pid)


def run_member(folder: Path, guard: Guard) -> int:
    """Run one member; this process's place in the job says which."""
    plan = records.read_json(folder / PLAN) or {}
    number = member_number(plan, os.environ)
    try:
        data = json.loads((folder / f"m{number}.spec.json").read_bytes())
        complete(data, plan, dict(os.environ))
        spec = parse(data)
    except (OSError, ValueError, KeyError, BadSpecError) as fault:
        sys.stderr.write(f"the runner cannot use the spec of member {number}: {fault}\n")
        return BAD_SPEC_CODE
    return guard(spec)


def srun_line(plan: Dict[str, Any], folder: Path, environ: Dict[str, str]) -> List[str]:
    """Return the command line that starts one runner on each node of the job."""
    members = str(plan["members"])
    line = ["srun", f"--nodes={members}", f"--ntasks={members}", "--ntasks-per-node=1"]
    line += [
        "--kill-on-bad-exit=0",
        "--wait=0",
        "--overlap",
        "--mpi=none",
        "--input=none",
        "--export=ALL",
    ]
    if environ.get("SLURM_CPUS_PER_TASK"):
        line.append(f"--cpus-per-task={environ['SLURM_CPUS_PER_TASK']}")
    program = [sys.executable, "-I", "-S", str(Path(sys.argv[0]).absolute())]
    return [*line, *program, "--slurm-member", str(folder)]


def gang_variables(plan: Dict[str, Any]) -> Dict[str, str]:
    """Choose where the members meet: addresses in the members' order, and a free port."""
    listed = _lines(["scontrol", "show", "hostnames", os.environ.get("SLURM_JOB_NODELIST", "")])
    addresses = _addresses(listed)
    nodes = [str(name) for name in plan.get("nodes") or ()]
    if sorted(nodes) != sorted(listed):
        nodes = listed
    here = os.environ.get("SLURMD_NODENAME", "")
    first_is_here = not nodes or nodes[0] == here
    port = _free_port() if first_is_here else random.randint(20000, 29999)  # noqa: S311
    return {
        "TRACKYARD_GANG_NODES": ",".join(nodes),
        "TRACKYARD_GANG_ADDRESSES": ",".join(addresses.get(name, name) for name in nodes),
        "TRACKYARD_GANG_PORT": str(port),
    }


def member_number(plan: Dict[str, Any], environ: Any) -> int:
    """Return which member runs in this process: by its node, as placed, else by its rank."""
    if int(plan.get("members") or 1) == 1:
        return 0
    nodes = environ.get("TRACKYARD_GANG_NODES", "").split(",")
    name = environ.get("SLURMD_NODENAME", "")
    return nodes.index(name) if name in nodes else int(environ.get("SLURM_PROCID", "0"))


def complete(data: Dict[str, Any], plan: Dict[str, Any], environ: Dict[str, str]) -> None:
    """Fill in what only this node knows: devices, addresses, the base environment."""
    data["base_env"] = {
        name: value for name, value in environ.items() if not name.startswith(_OWN_VARIABLES)
    }
    data["python"] = sys.executable
    data["gpus"] = given_gpus(data.get("gpus") or [], environ, whole=bool(plan.get("whole_nodes")))
    data["signals_explained"] = True
    data["loss_news_seconds"] = NEWS_SECONDS
    gang = data.get("gang") or {}
    if int(gang.get("members", 1)) > 1:
        gang["addresses"] = environ.get("TRACKYARD_GANG_ADDRESSES", "").split(",")
        gang["port"] = int(environ.get("TRACKYARD_GANG_PORT") or 29500)
        gang["nodes"] = environ.get("TRACKYARD_GANG_NODES", "").split(",")
    else:
        gang["addresses"] = [environ.get("SLURMD_NODENAME") or "127.0.0.1"]
    data["gang"] = gang


def given_gpus(
    planned: List[Dict[str, Any]], environ: Dict[str, str], *, whole: bool
) -> Optional[List[Dict[str, Any]]]:
    """Return the GPUs that Slurm gave; on whole-node sites, as many of them as were asked for.

    None leaves the devices as Slurm named them, where the names are not numbers.
    """
    if not planned:
        return []
    chosen = next((environ[name] for name in _VISIBLE if environ.get(name)), "")
    names = [part.strip() for part in chosen.split(",") if part.strip()]
    if not names:
        return planned if whole or not environ.get("SLURM_JOB_GPUS") else None
    if not all(name.isdigit() for name in names):
        return None
    if whole:
        # Slurm gives all of the node; a launcher starts one process for each GPU of the job.
        names = names[: len(planned)]
    vendor = "nvidia" if environ.get("CUDA_VISIBLE_DEVICES") else "amd"
    fraction = float(planned[0].get("fraction", 1.0))
    return [{"index": int(name), "fraction": fraction, "vendor": vendor} for name in names]


# Signals


def _take_signals(folder: Path, plan: Dict[str, Any]) -> None:
    """Turn signals into stop files: SIGUSR2 is Slurm's notice of the time limit."""
    members, grace_seconds = int(plan["members"]), float(plan.get("grace_seconds") or 0)
    notice = str(plan.get("notice") or "time_limit")
    began = threading.Event()

    def stop(reason: str) -> None:
        request = {
            "reason": reason,
            "grace_seconds": grace_seconds,
            "at_ms": time.time_ns() // 1_000_000,
        }
        for number in range(members):
            place = folder / f"m{number}"
            # A stop that the queue asked for stands; Slurm's signal is then its consequence.
            if place.is_dir() and not (place / "stop.json").exists():
                with contextlib.suppress(OSError):
                    records.write_json(place / "stop.json", request)

    def explain() -> None:
        stop(_ask_reason())

    def on_end(_number: int, _frame: Any) -> None:
        if not began.is_set():
            began.set()
            threading.Thread(target=explain, daemon=True).start()

    def on_notice(_number: int, _frame: Any) -> None:
        threading.Thread(target=stop, args=(notice,), daemon=True).start()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, on_end)
    signal.signal(signal.SIGUSR2, on_notice)


def ending_reason(job: str, nodes: List[str], restarts: int = 0) -> str:
    """Return why Slurm ends a job, from what `scontrol show` says of it and its nodes at the time.

    Slurm calls every such job COMPLETING and gives its real state only when it is over. If the
    controller does not answer, assume preemption, so that the job is queued again.
    """
    values = _values(job)
    state = values.get("JobState", "")
    if state in REASONS:
        return REASONS[state]
    if values.get("PreemptTime", "None") != "None" or state != "COMPLETING":
        return "preempted"
    if int(values.get("Restarts", "0")) > restarts:
        return "preempted"
    if any("DOWN" in _values(node).get("State", "") for node in nodes):
        return "node_lost"
    limit, ran = (_seconds(values.get(key, "")) for key in ("TimeLimit", "RunTime"))
    if limit is not None and ran is not None and ran >= limit:
        return "time_limit"
    return "stopped"


def _ask_reason() -> str:
    job = _lines(["scontrol", "-o", "show", "job", os.environ.get("SLURM_JOB_ID", "")])
    nodes = _lines(["scontrol", "-o", "show", "node", os.environ.get("SLURM_JOB_NODELIST", "")])
    restarts = int(os.environ.get("SLURM_RESTART_COUNT") or 0)
    return ending_reason(" ".join(job), nodes, restarts)


def _values(text: str) -> Dict[str, str]:
    return dict(word.split("=", 1) for word in text.split() if "=" in word)


def _seconds(text: str) -> Optional[int]:
    days, _, clock = text.rpartition("-")
    parts = clock.split(":")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        return None
    hours, minutes, seconds = (int(part) for part in parts)
    return int(days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds


# Processes


def _fork(work: Callable[[], int]) -> int:
    child = os.fork()
    if child == 0:
        code = 70
        try:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2):
                signal.signal(number, signal.SIG_IGN)
            code = work()
        finally:
            sys.stderr.flush()
            os._exit(code & 0xFF)
    return child


def _wait(child: int) -> int:
    while True:
        pid, status = os.waitpid(child, 0)
        if pid == child:
            return status >> 8 & 0xFF if not status & 0x7F else 128 + (status & 0x7F)


def _lines(line: List[str]) -> List[str]:
    try:
        answer = subprocess.run(
            line, capture_output=True, timeout=ASK_SECONDS, check=False, encoding="utf-8"
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return answer.stdout.splitlines() if answer.returncode == 0 else []


def _addresses(names: List[str]) -> Dict[str, str]:
    """Return the addresses of nodes as Slurm has them."""
    found: Dict[str, str] = {}
    for row in _lines(["scontrol", "-o", "show", "node", ",".join(names)]):
        values = _values(row)
        if "NodeName" in values and values.get("NodeAddr"):
            found[values["NodeName"]] = values["NodeAddr"]
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
