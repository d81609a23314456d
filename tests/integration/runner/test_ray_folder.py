"""The folder of a driver on Ray, and of its tasks, while Ray's nodes replace their own copies."""

import hashlib
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from trackyard.engines import wrapper
from trackyard.runner.ray.entry import JOB_CONFIG, SPEC_VARIABLE, pack_spec

#: does to Ray's folder what a node's agent does, and starts a task there as Ray does
DRIVER = """
import json, os, shutil, subprocess, sys
ray, began = sys.argv[1], os.getcwd()
names = json.loads(os.environ["RAY_JOB_CONFIG_JSON_ENV_VAR"])["runtime_env"]["env_vars"]

def replace():
    shutil.copytree(ray, ray + ".new")
    shutil.rmtree(ray)
    os.rename(ray + ".new", ray)

replace()
task = subprocess.Popen(
    [sys.executable, os.path.join(ray, "..", "default_worker.py")], cwd=ray,
    env={**os.environ, **names}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
print("task began in", task.stdout.readline().strip() == began)
replace()
print("task", task.communicate("go")[0].strip())
open("result.json", "w").write("{}")
print("driver", sorted(os.listdir(began)))
"""
TASK = """
import os
print(os.getcwd(), flush=True)
input()
open("part.txt", "w").write("done")
import helper
print("wrote", helper.WORD)
"""
FILES = {"main.py": DRIVER, "helper.py": "WORD = 'beside'"}


def packed() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as found:
        for name, text in FILES.items():
            found.writestr(name, text)
    return target.getvalue()


@pytest.mark.parametrize("is_ours", [True, False], ids=["sent to the server", "on the web"])
def test_driver_and_tasks_keep_their_folder_while_ray_replaces_its_own(
    tmp_path: Path, is_ours: bool
) -> None:
    """With a package of the server's, and with one that only Ray has fetched."""
    ray = tmp_path / "working_dir_files" / "_ray_pkg_1"
    ray.mkdir(parents=True)
    for name, text in FILES.items():
        (ray / name).write_text(text)
    (ray.parent / "default_worker.py").write_text(TASK)
    content = packed()
    (tmp_path / "package.zip").write_bytes(content)
    package = {
        "digest": hashlib.sha256(content).hexdigest(),
        "location": str(tmp_path / "package.zip"),
        "format": "zip",
    }
    data: dict[str, Any] = {
        "version": 1,
        "attempt_id": "j1-a1",
        "job_id": "j1",
        "epoch": 1,
        "argv": [sys.executable, "main.py", str(ray)],
        "state_dir": "attempts/j1-a1/m0",
        "cache_dir": "cache",
        "ray_rules": True,
        "echo": True,
        "package": package if is_ours else None,
        "ray": {
            "folder": str(tmp_path / "node"),
            "members": [{"gpus": 0}],
            "has_folder": True,
            "copies": not is_ours,
        },
    }
    config = {"runtime_env": {"working_dir": "gcs://x.zip", "py_modules": ["gcs://runner.zip"]}}
    env = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        SPEC_VARIABLE: pack_spec(data),
        JOB_CONFIG: json.dumps(config),
    }
    line = wrapper.command("--ray")
    done = subprocess.run(
        line, cwd=ray, env=env, text=True, capture_output=True, timeout=120, check=False
    )
    said = done.stdout + done.stderr
    assert "task began in True" in said, said
    assert "task wrote beside" in said, said
    assert "'part.txt', 'result.json'" in said, said
    assert done.returncode == 0, said
