"""Two runners that see each other over a network alone and share no folder.

python -m tests.acceptance.launchers.two_networks FOLDER, inside namespaces of its own (unshare
--map-root-user --net --mount): each member is in a namespace of its own behind a bridge. Ends
with status 0 if the programs ran: on one node, and over both by torchrun, accelerate and mpirun.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.acceptance.launchers.programs import SCRIPTS
from tests.acceptance.ray.far_nodes import join_bridge, make_bridge
from tests.acceptance.serving import python_of
from trackyard.engines import wrapper

PLACES = {"far-1": "10.78.0.2", "far-2": "10.78.0.3"}
PATIENCE = 400


def start(folder: Path, holder: int, number: int, spec: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Start a member's runner in its namespace, with folders that the other has not got."""
    own = folder / f"disk-{number}"
    own.mkdir(parents=True, exist_ok=True)
    data = {**spec, "state_dir": str(own / f"m{number}"), "cache_dir": str(own / "cache")}
    data["gang"] = {**spec["gang"], "member": number}
    path = own / f"{spec['attempt_id']}.json"
    path.write_text(json.dumps(data))
    inside = ["nsenter", f"--net=/proc/{holder}/ns/net"]
    return subprocess.Popen([*inside, *wrapper.command(str(path))])


def gang(folder: Path, holders: list[int], name: str, launcher: str, *argv: str) -> str:
    """Run a gang to its end; return what its members printed."""
    spec = {
        "version": 1,
        "attempt_id": name,
        "job_id": name,
        "epoch": 1,
        "argv": list(argv),
        "source_dir": str(SCRIPTS),
        "base_env": {
            "PATH": f"{python_of('train').parent}:/usr/bin:/bin",
            "HOME": str(folder),
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
        },
        "python": sys.executable,
        "gang": {
            "members": len(holders),
            "launcher": launcher,
            "addresses": list(PLACES.values())[: len(holders)],
            "nodes": list(PLACES)[: len(holders)],
            "port": 29400,
            "secret": secrets.token_hex(8),
            "preflight": True,
        },
    }
    place = folder / name
    runners = [start(place, holder, number, spec) for number, holder in enumerate(holders)]
    for runner in runners:
        runner.wait(PATIENCE)
    logs = [place / f"disk-{number}" / f"m{number}" / "log" for number in range(len(runners))]
    printed = "".join(log.read_text() for log in logs)
    assert not any(runner.returncode for runner in runners), printed
    return printed


def main(folder: Path) -> None:
    make_bridge()
    nodes = [join_bridge(name, address) for name, address in PLACES.items()]
    holders = [node.pid for node in nodes]
    try:
        printed = gang(folder, holders, "torch", "torchrun", "python", "multinode.py", "3", "1")
        assert '"megabytes_per_second"' in printed, printed
        for rank in (0, 1):
            line = f"[rank {rank}] [GPU{rank}] Epoch 2 | Batchsize: 32 | Steps: 32"
            assert line in printed, printed
        printed = gang(folder, holders, "trainer", "accelerate", "python", "finetune.py")
        for rank in (0, 1):
            assert f"world 2 rank {rank} steps 4" in printed, printed
        printed = gang(folder, holders[:1], "single", "plain", "python", "single_gpu.py", "3", "1")
        assert "[GPU0] Epoch 2 | Batchsize: 32 | Steps: 64" in printed, printed
        words = "echo rank $OMPI_COMM_WORLD_RANK on member $YARD_MEMBER of $(ls single_gpu.py)"
        printed = gang(folder, holders, "mpi", "mpirun", "sh", "-c", words)
        for rank in (0, 1):
            line = f"[rank {rank}] rank {rank} on member {rank} of single_gpu.py"
            assert line in printed, printed
    finally:
        for node in nodes:
            node.terminate()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    print("both ran")
