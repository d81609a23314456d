"""Launchers inside a gang: turns the user's command into what this member runs.

Owns argv and rendezvous variables of each launcher, and how it is told to mark the lines of its
processes with their ranks. Starts nothing.
"""

from __future__ import annotations

import os.path
import re
from typing import Dict, List, Optional, Tuple

from trackyard.runner.spec import GangMember

_PYTHON = re.compile(r"python(\d+(\.\d+)*)?\Z")


def environment(gang: GangMember, gpu_count: int) -> Dict[str, str]:
    """Return the variables that tell the command its place in the gang."""
    values = {
        "YARD_MEMBER": str(gang.member),
        "YARD_MEMBERS": str(gang.members),
        "YARD_NODE_LIST": ",".join(gang.addresses),
    }
    if gang.members == 1 and gang.launcher in ("plain", "torchrun"):
        # RANK and its kin make several trainers expect a process group; one process has none.
        return values
    values["MASTER_ADDR"] = gang.addresses[0]
    values["MASTER_PORT"] = str(gang.port)
    values["NODE_RANK"] = str(gang.member)
    if gang.launcher == "plain":
        values["RANK"] = str(gang.member)
        values["WORLD_SIZE"] = str(gang.members)
        values["LOCAL_RANK"] = "0"
        values["LOCAL_WORLD_SIZE"] = "1"
    elif gang.launcher in ("mpirun", "batch"):
        values["WORLD_SIZE"] = str(gang.members * process_count(gang, gpu_count))
    return values


def launcher_environment(gang: GangMember, gpu_count: int) -> Dict[str, str]:
    """Return the variables that a launcher itself reads."""
    values: Dict[str, str] = {}
    if has_workers(gang, gpu_count):
        # Which torch before 2.3 does not know: it marks lines with role and local rank.
        values["TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"] = "[rank ${rank}] "
    if gang.launcher == "accelerate" and gpu_count == 0:
        values["ACCELERATE_USE_CPU"] = "true"
    return values


def has_workers(gang: GangMember, gpu_count: int) -> bool:
    """Tell whether a launcher of torch's starts several processes, whose lines want a mark."""
    total = process_count(gang, gpu_count) * gang.members
    return gang.launcher in ("torchrun", "accelerate") and total > 1


def process_count(gang: GangMember, gpu_count: int) -> int:
    """Return how many processes each member runs: as asked, else one per GPU, at least one."""
    return gang.processes or max(gpu_count, 1)


def command(
    gang: GangMember, argv: Tuple[str, ...], gpu_count: int, python: str, ranks: str = ""
) -> Optional[List[str]]:
    """Return what this member runs, or None if it only holds its node for the others.

    `ranks` is a folder for the files through which launchers mark the lines of their processes.
    """
    processes = process_count(gang, gpu_count)
    marks = ["--tee=3"] if ranks and has_workers(gang, gpu_count) else []
    if gang.launcher == "torchrun":
        marks += [f"--log-dir={ranks}"] if marks else []
        return _torchrun(gang, argv, processes, python, marks)
    if gang.launcher == "accelerate":
        marks += [f"--log_dir={ranks}"] if marks else []
        return _accelerate(gang, argv, gpu_count, python, marks)
    if gang.launcher == "mpirun":
        return _mpirun(gang, argv, processes)
    if gang.launcher == "batch" and gang.member != 0:
        return None
    return list(argv)


def _torchrun(
    gang: GangMember, argv: Tuple[str, ...], processes: int, python: str, marks: List[str]
) -> List[str]:
    interpreter, script = split_python(argv, python)
    line = [interpreter or python, "-m", "torch.distributed.run"]
    line += [f"--nnodes={gang.members}", f"--nproc-per-node={processes}"]
    if gang.members == 1:
        line.append("--standalone")
    else:
        line += [
            f"--node-rank={gang.member}",
            f"--master-addr={gang.addresses[0]}",
            f"--master-port={gang.port}",
        ]
    return [*line, *marks, *(script if interpreter else ["--no-python", *argv])]


def _accelerate(
    gang: GangMember, argv: Tuple[str, ...], gpu_count: int, python: str, marks: List[str]
) -> List[str]:
    interpreter, script = split_python(argv, python)
    total = process_count(gang, gpu_count) * gang.members
    line = [interpreter or python, "-m", "accelerate.commands.launch"]
    line += [f"--num_processes={total}", f"--num_machines={gang.members}"]
    line.append(f"--machine_rank={gang.member}")
    if total > 1:
        # Without GPUs too: --cpu would start one process. A variable says that there are none.
        line.append("--multi_gpu")
    elif gpu_count == 0:
        line.append("--cpu")
    if gang.members == 1 and total > 1:
        line.append("--main_process_port=0")
    if gang.members > 1:
        line += [
            f"--main_process_ip={gang.addresses[0]}",
            f"--main_process_port={gang.port}",
        ]
    return [*line, *marks, *(script if interpreter else ["--no_python", *argv])]


def _mpirun(gang: GangMember, argv: Tuple[str, ...], processes: int) -> Optional[List[str]]:
    if gang.member != 0:
        return None
    line = ["mpirun", "-np", str(processes * gang.members)]
    if processes * gang.members > 1:
        line.append("--tag-output")
    if gang.members > 1:
        # As many processes on each node as slots: a hostfile names both (remote_shell).
        line += ["--map-by", f"ppr:{processes}:node"]
    return [*line, *argv]


def split_python(argv: Tuple[str, ...], python: str) -> Tuple[Optional[str], List[str]]:
    """Return interpreter and script part of a Python command; no interpreter for others."""
    if argv[0].endswith(".py"):
        return python, list(argv)
    if not _PYTHON.match(os.path.basename(argv[0])) or len(argv) == 1:  # noqa: PTH119
        return None, list(argv)
    rest = list(argv[1:])
    while rest and rest[0] in ("-u", "-O", "-OO", "-B"):
        rest.pop(0)
    if not rest or (rest[0].startswith("-") and rest[0] != "-m"):
        return None, list(argv)
    return argv[0], rest
