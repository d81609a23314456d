"""How a Ray worker comes to its driver's folder: by an interpreter that starts as Ray's does."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from trackyard.runner.ray import tasks as ray_tasks

SHOW = "import json, os, sys; print(os.getcwd(), os.environ['PYTHONPATH'] or '-')"


def worker(
    tmp_path: Path,
    *,
    program: str = "default_worker.py",
    package: str = "_ray_pkg_1",
    host: str = "",
) -> list[str]:
    """Start a program below a folder of Ray's, and return what it says of itself."""
    tasks, work, theirs = (tmp_path / name for name in ("tasks", "work", package))
    for folder in (tasks, work, theirs):
        folder.mkdir()
    shutil.copyfile(ray_tasks.__file__, tasks / "sitecustomize.py")
    (tmp_path / program).write_text(SHOW)
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(tasks),
        ray_tasks.FOLDER: str(work),
        ray_tasks.PACKAGE: "_ray_pkg_1",
        ray_tasks.HOST: host or ray_tasks.host(),
    }
    line = [sys.executable, str(tmp_path / program)]
    done = subprocess.run(line, cwd=theirs, env=env, text=True, capture_output=True, check=True)
    # Whatever goes wrong in it, Python says on the task's own log.
    assert done.stderr == ""
    return done.stdout.split()


def test_a_worker_of_the_jobs_package_goes_to_the_drivers_folder(tmp_path: Path) -> None:
    assert worker(tmp_path) == [str(tmp_path / "work"), "-"]


@pytest.mark.parametrize(
    "other", [{"program": "tool.py"}, {"package": "_ray_pkg_2"}, {"host": "another"}]
)
def test_whatever_else_stays_where_it_is(tmp_path: Path, other: dict[str, str]) -> None:
    """Programs that tasks start, tasks with a package of their own, and other machines."""
    where, paths = worker(tmp_path, **other)
    assert where == str(tmp_path / other.get("package", "_ray_pkg_1"))
    assert paths == "-"
