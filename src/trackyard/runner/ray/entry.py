"""The runner as the entrypoint of a Ray job: what only the node can tell, and who outlives whom.

Ray stops a job by a signal to every process below it, which would kill data loaders before their
trainer has saved. So the process that Ray knows does nothing but wait; the guard stands apart
from it and learns by a pipe when it is gone, and with it the job, the worker or the whole node's
daemon. Standard library only.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from trackyard.runner import processes, records
from trackyard.runner.ray import tasks as ray_tasks
from trackyard.runner.ray import ticket
from trackyard.runner.spec import BadSpecError, RunnerSpec, parse

SPEC_VARIABLE = "YARD_SPEC"
STOP_WAIT = "RAY_JOB_STOP_WAIT_TIME_S"
JOB_CONFIG = "RAY_JOB_CONFIG_JSON_ENV_VAR"
RUNNER_FOLDER = "yard_runner_files"
EXIT_LINE = "[yard-exit] "
LOG_LINE = "[yard-log]"
#: Ray repeats a job's last lines only if it failed; this code stands for an end that is none
ENDED_CODE = 76
BAD_SPEC_CODE = 64
WATCH_SECONDS = 0.5
#: how long what an ended attempt left in its folder can be looked at
KEEP_SECONDS = 24 * 3600.0
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")

Guard = Callable[[RunnerSpec, int], int]


def run(guard: Guard) -> int:
    """Run the attempt that the environment describes; say at the end how it went."""
    # The spec in our starting environment holds the runner's credential.
    processes.hide_memory()
    try:
        data = read_spec(os.environ)
        complete(data, dict(os.environ), ray_folder(os.environ))
        spec = parse(data)
    except (BadSpecError, KeyError, ValueError) as fault:
        sys.stderr.write(f"the runner cannot use its spec: {fault}\n")
        return BAD_SPEC_CODE
    spec.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    records.write_json(spec.state_dir / "spec.json", without_credential(data))
    prepare_tasks(spec.state_dir)
    remove_old(spec.state_dir.parent.parent, time.time())
    sys.stdout.write(f"{LOG_LINE}\n")
    sys.stdout.flush()
    code = _run_apart(lambda lifeline: guard(spec, lifeline))
    record = records.read_json(spec.state_dir / "exit.json")
    if record is not None:
        sys.stdout.write(f"{EXIT_LINE}{json.dumps([brief(record)])}\n")
        sys.stdout.flush()
        if code == 0 and record.get("cause") != "succeeded":
            return ENDED_CODE
    return code


def read_spec(environ: Any) -> Dict[str, Any]:
    """Unpack the spec from the environment; one that comes sealed is opened at the server."""
    text = environ[SPEC_VARIABLE]
    if ticket.is_sealed(text):
        data = ticket.read(text)
    else:
        data = json.loads(zlib.decompress(base64.b64decode(text)))
    if not isinstance(data, dict):
        raise ValueError("it is no JSON object")
    return data


def without_credential(data: Dict[str, Any]) -> Dict[str, Any]:
    """Return a spec that may lie where the command can read it."""
    report = data.get("report")
    return data if report is None else {**data, "report": {**report, "token": ""}}


def pack_spec(data: Dict[str, Any]) -> str:
    """Pack a spec into one variable, as `read_spec` reads it."""
    return base64.b64encode(zlib.compress(json.dumps(data).encode())).decode()


def brief(record: Dict[str, Any]) -> Dict[str, Any]:
    """Return a record short enough for Ray's message."""
    short = {key: value for key, value in record.items() if key not in ("notes", "health")}
    short["sentence"] = str(record.get("sentence", ""))[:500]
    short["error_line"] = (record.get("error_line") or "")[:300] or None
    return short


def complete(data: Dict[str, Any], environ: Dict[str, str], here: Path) -> None:
    """Fill in what only this node knows: folders, devices, the environment to start from."""
    facts = data.pop("ray", {})
    member = int((data.get("gang") or {}).get("member", 0))
    base = node_folder(str(facts.get("folder") or ""))
    for key in ("state_dir", "cache_dir", "checkpoint_dir", "work_dir"):
        if data.get(key):
            data[key] = str(base / data[key])
    share = (facts.get("members") or [{}])[member]
    if facts.get("copies"):
        data["source_dir"] = str(here)
    values = base_environment(environ)
    data["gpus"] = share.get("given")
    if data["gpus"] is None:
        data["gpus"] = visible_gpus(environ, float(share.get("gpus") or 0))
    if data["gpus"] is None:
        values["YARD_GPUS"] = next((environ[name] for name in _VISIBLE if name in environ), "")
    platform = {**dict(data.get("env") or {}), **dict(data.get("platform_env") or {})}
    if JOB_CONFIG in environ:
        tasks = Path(data["state_dir"]) / "tasks" if facts.get("has_folder") else None
        values[JOB_CONFIG] = job_config(environ[JOB_CONFIG], platform, tasks, here.name)
    data["base_env"] = values
    data["witness"] = environ.get("RAY_ADDRESS", "")


def node_folder(named: str) -> Path:
    """Return the folder for attempts, caches and checkpoints on this node."""
    if named:
        return Path(named)
    return Path(tempfile.gettempdir()) / f"trackyard-{os.getuid()}"


def base_environment(environ: Dict[str, str]) -> Dict[str, str]:
    """Return what the command inherits: the node's own environment, as with Ray, less ours."""
    values = {
        name: value
        for name, value in environ.items()
        if not name.startswith("YARD_") and name != STOP_WAIT
    }
    paths = [
        part
        for part in environ.get("PYTHONPATH", "").split(os.pathsep)
        if part and not (Path(part) / RUNNER_FOLDER).is_dir()
    ]
    values["PYTHONPATH"] = os.pathsep.join(paths)
    if not paths:
        del values["PYTHONPATH"]
    return values


def visible_gpus(environ: Dict[str, str], amount: float) -> Optional[List[Dict[str, Any]]]:
    """Return the GPUs that Ray chose; none hides all, None leaves names that are no numbers."""
    if amount <= 0:
        return []
    vendor = "nvidia" if environ.get("CUDA_VISIBLE_DEVICES") else "amd"
    chosen = next((environ[name] for name in _VISIBLE if environ.get(name)), "")
    names = [part.strip() for part in chosen.split(",") if part.strip()]
    if not names or not all(name.isdigit() for name in names):
        return None
    fraction = amount if amount < 1 else 1.0
    return [{"index": int(name), "fraction": fraction, "vendor": vendor} for name in names]


def job_config(
    text: str, variables: Dict[str, str], tasks: Optional[Path] = None, package: str = ""
) -> str:
    """Return the job's configuration for a driver: without our runner, with its variables.

    Its tasks on this machine find in `tasks` what brings them to the driver's own folder, if
    they were started in Ray's folder of the same `package`.
    """
    try:
        config = json.loads(text)
        environment = dict(config.get("runtime_env") or {})
    except (ValueError, AttributeError, TypeError):
        return text
    own = {
        name: value
        for name, value in (environment.get("env_vars") or {}).items()
        if name not in (SPEC_VARIABLE, STOP_WAIT)
    }
    environment["env_vars"] = {**own, **variables}
    if tasks is not None:
        paths = [str(tasks), *filter(None, [environment["env_vars"].get("PYTHONPATH")])]
        environment["env_vars"].update(
            {
                "PYTHONPATH": os.pathsep.join(paths),
                ray_tasks.FOLDER: str(tasks.with_name("work")),
                ray_tasks.PACKAGE: package,
                ray_tasks.HOST: ray_tasks.host(),
            }
        )
    modules = list(environment.get("py_modules") or ())[:-1]
    environment["py_modules"] = modules
    if not modules:
        del environment["py_modules"]
    config["runtime_env"] = environment
    return json.dumps(config)


# Folders


def ray_folder(environ: Any) -> Path:
    """Return the folder that Ray started this process in, even if it was replaced meanwhile."""
    try:
        return Path.cwd()
    except OSError:
        return Path(environ.get("PWD") or "/")


def prepare_tasks(state_dir: Path) -> None:
    """Leave what the driver's tasks on this machine load first."""
    folder = state_dir / "tasks"
    folder.mkdir(exist_ok=True)
    shutil.copyfile(ray_tasks.__file__, folder / "sitecustomize.py")


def remove_old(attempts: Path, now: float) -> None:
    """Remove the folders of attempts that ended a day ago and were told to the server."""
    for mark in attempts.glob("*/m*/delivered"):
        with contextlib.suppress(OSError):
            if now - mark.stat().st_mtime > KEEP_SECONDS:
                shutil.rmtree(mark.parent, ignore_errors=True)
                mark.parent.parent.rmdir()


# Processes


def _run_apart(guard: Callable[[int], int]) -> int:
    """Run `guard` in a process that Ray does not find below this one; return its code."""
    lifeline_read, lifeline_write = os.pipe()
    answer_read, answer_write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(lifeline_write)
        os.close(answer_read)
        _become_guard(guard, lifeline_read, answer_write)
    os.close(lifeline_read)
    os.close(answer_write)
    os.waitpid(child, 0)
    return _wait(answer_read, os.getppid())


def _become_guard(guard: Callable[[int], int], lifeline: int, answer: int) -> None:
    os.setsid()
    if os.fork() > 0:
        os._exit(0)
    code = 70
    try:
        os.write(answer, f"{os.getpid()}\n".encode())
        code = guard(lifeline)
    finally:
        with contextlib.suppress(OSError):
            os.write(answer, f"{code}\n".encode())
        os._exit(code & 0xFF)


def _wait(answer: int, parent: int) -> int:
    """Wait for the guard's pid, then for its code; end with our parent."""
    pid, code = 0, 70
    text = b""

    def pass_on(number: int, _frame: Any) -> None:
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, pass_on)
    while True:
        ready, _, _ = select.select([answer], [], [], WATCH_SECONDS)
        if not ready:
            if os.getppid() != parent:
                # Ray's own process is gone: leaving closes the lifeline.
                return 70
            continue
        data = os.read(answer, 4096)
        if not data:
            return code
        text += data
        pid, code = _read_answer(text, pid, code)


def _read_answer(text: bytes, pid: int, code: int) -> Tuple[int, int]:
    lines = text.split(b"\n")[:-1]
    if lines:
        pid = int(lines[0])
    if len(lines) > 1:
        code = int(lines[1])
    return pid, code
