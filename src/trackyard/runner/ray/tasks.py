"""The `sitecustomize` of a Ray job's tasks: they run in their driver's own folder.

Ray unpacks a job's package once for each node, and throws an older copy away as it does so: where
nodes of one machine share a temporary folder, the ground goes from under tasks that run. So the
driver has a folder of its own, and its tasks on that machine are sent there; on other machines
they stay where Ray put them. Standard library alone, and never an error: Ray's workers run this.
"""

import contextlib
import importlib
import os
import sys

FOLDER = "YARD_TASK_FOLDER"
PACKAGE = "YARD_TASK_PACKAGE"
HOST = "YARD_TASK_HOST"
#: the program that Ray runs tasks and actors in
WORKER = b"default_worker.py"


def host() -> str:
    """Return what tells this machine, since its start, from every other."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
            return file.read().strip()
    except OSError:
        return ""


def enter() -> None:
    """Go to the driver's folder if this is a task of its package on its machine."""
    folder = os.environ.get(FOLDER, "")
    if not _is_worker() or os.environ.get(HOST) != host() or not os.path.isdir(folder):  # noqa: PTH112
        return
    try:
        here = os.getcwd()  # noqa: PTH109
    except OSError:
        here = os.environ.get("PWD", "")
    if os.path.basename(here) != os.environ.get(PACKAGE):  # noqa: PTH119
        return
    os.chdir(folder)
    os.environ["PWD"] = folder
    sys.path.insert(0, folder)


def _is_worker() -> bool:
    try:
        with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123
            return any(word.endswith(WORKER) for word in file.read().split(b"\0"))
    except OSError:
        return False


def leave_the_path() -> None:
    """Let the `sitecustomize` that this one stands before have its turn, here and in children."""
    home = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    sys.path[:] = [path for path in sys.path if path != home]
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path and path != home)
    own = sys.modules.pop("sitecustomize")
    with contextlib.suppress(ImportError):
        importlib.import_module("sitecustomize")
    # The import of this very module is still under way, and fails unless it finds one there.
    sys.modules.setdefault("sitecustomize", own)


if __name__ == "sitecustomize":
    with contextlib.suppress(OSError):
        enter()
    leave_the_path()
