"""Compare what the runner says of this machine's NVIDIA GPUs with nvidia-smi, and make it find a
stray: `PYTHONPATH=src python3 tools/check_gpus.py`. Needs a GPU; the stray needs torch as well.

Prints JSON and ends with 1 if a fact differs, a check is missing or the stray is not found.
Standard library only, as the runner is.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

FACTS = ("name", "uuid", "memory.total", "driver_version", "temperature.gpu")
#: checks that a GPU of a data centre lets us make; `xid` only where the kernel's log may be read
EXPECTED = ("disk", "ecc", "remap", "temperature", "throttle", "processes")
STRAY_MB = 2048
_STRAY = f"""
import sys, torch
held = torch.zeros({STRAY_MB} * 2**18, dtype=torch.float32, device="cuda")
torch.cuda.synchronize()
print("held", flush=True)
sys.stdin.read()
"""


def main() -> int:
    """Look, compare, and say what differs."""
    with tempfile.TemporaryDirectory() as folder:
        idle = survey(folder)
        found: dict[str, Any] = {"inventory": idle, "nvidia_smi": nvidia_smi()}
        faults = differences(idle, found["nvidia_smi"])
        if importlib.util.find_spec("torch") is None:
            found["stray"] = "torch is not installed, so no stray was made"
        else:
            found["stray"] = stray(folder)
            faults += stray_faults(found["stray"])
    found["faults"] = faults
    print(json.dumps(found, indent=1))
    return 1 if faults else 0


def survey(folder: str, **options: Any) -> dict[str, Any]:
    """Ask the runner, as an engine does."""
    told = json.dumps({"folder": folder, **options})
    done = subprocess.run(
        [sys.executable, "-m", "trackyard.runner", "--inventory", told],
        check=True,
        capture_output=True,
        text=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def nvidia_smi() -> list[dict[str, str]]:
    """Return nvidia-smi's word on each GPU."""
    done = subprocess.run(
        ["nvidia-smi", f"--query-gpu={','.join(FACTS)}", "--format=csv,noheader,nounits"],
        check=True,
        capture_output=True,
        text=True,
    )
    lines = done.stdout.strip().splitlines()
    return [
        dict(zip(FACTS, (part.strip() for part in line.split(",")), strict=True)) for line in lines
    ]


def differences(ours: dict[str, Any], theirs: list[dict[str, str]]) -> list[str]:
    """Say where the two disagree, and which checks are missing."""
    faults = []
    if len(ours["gpus"]) != len(theirs):
        faults.append(f"{len(ours['gpus'])} GPUs here, {len(theirs)} by nvidia-smi")
    for gpu, said in zip(ours["gpus"], theirs, strict=False):
        if gpu["model"] != said["name"] or gpu["uuid"] != said["uuid"]:
            faults.append(f"GPU {gpu['index']} is {gpu}, nvidia-smi says {said}")
        if abs(gpu["memory_bytes"] / 2**20 - float(said["memory.total"])) > 1024:
            faults.append(f"GPU {gpu['index']}: memory differs")
    if theirs and ours["labels"].get("nvidia_driver") != theirs[0]["driver_version"]:
        faults.append("the driver's version differs")
    if theirs and not ours["labels"].get("cuda"):
        faults.append("CUDA's version is missing")
    checks = {check["name"]: check for check in ours["checks"]}
    faults += [f"the check {name} was not made" for name in EXPECTED if name not in checks]
    degrees = checks.get("temperature", {}).get("number")
    hottest = max((float(said["temperature.gpu"]) for said in theirs), default=0.0)
    if degrees is not None and abs(degrees - hottest) > 10:
        faults.append(f"{degrees} degrees here, {hottest} by nvidia-smi")
    return faults


def stray(folder: str) -> dict[str, Any]:
    """Hold GPU memory outside any attempt, and as one; return what the check says of each."""
    found: dict[str, Any] = {}
    for name, variables in (("nobody's", {}), ("an attempt's", {"YARD_ATTEMPT_ID": "trk-j1-a1"})):
        with subprocess.Popen(
            [sys.executable, "-c", _STRAY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **variables},
        ) as holder:
            assert holder.stdout is not None
            holder.stdout.readline()
            checks = survey(folder, live=["trk-j1-a1"], memory=str(Path(folder) / "stuck"))
            found[name] = next(one for one in checks["checks"] if one["name"] == "processes")
            found[name]["pid"] = holder.pid
            holder.communicate("")
    return found


def stray_faults(found: dict[str, Any]) -> list[str]:
    """Say which of the two was judged wrongly."""
    faults = []
    if found["nobody's"]["verdict"] == "ok":
        faults.append("memory that no attempt holds was not noticed")
    if found["an attempt's"]["verdict"] != "ok":
        faults.append("memory of a live attempt counts as a stray")
    return faults


if __name__ == "__main__":
    sys.exit(main())
