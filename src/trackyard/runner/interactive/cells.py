"""Cells of a notebook as versions of code: what IPython is given at its start.

Owns the IPython startup file, which runs in the user's kernel. MLflow reads tags for each new run
from the variable MLFLOW_RUN_CONTEXT; the hook sets it before each cell. Nothing of MLflow is
patched.
"""

from __future__ import annotations

from pathlib import Path
from typing import Dict

FOLDER = ".yard"
#: a tag may not be longer
MOST_CHARACTERS = 5000

STARTUP = '''"""Set by Trackyard: runs that a cell starts bear its source as their version."""


def _yard_hook():
    import hashlib
    import json
    import os

    from IPython import get_ipython

    shell = get_ipython()
    if shell is None:
        return
    parent = os.environ.get("YARD_RUN_ID", "")
    before = os.environ.get("MLFLOW_RUN_CONTEXT", "")

    def notebook():
        path = os.environ.get("JPY_SESSION_NAME", "")
        root = os.getcwd()
        return os.path.relpath(path, root) if path.startswith(root) else path

    def pre_run_cell(info):
        source = info.raw_cell or ""
        digest = hashlib.sha256(source.encode()).hexdigest()
        tags = json.loads(before) if before else {}
        tags.update({
            "mlflow.source.type": "NOTEBOOK",
            "mlflow.source.name": notebook() or "notebook",
            "mlflow.source.git.commit": "cell:" + digest[:40],
            "yard.cell.digest": digest,
            "yard.cell.source": source[:MOST],
            "yard.cell.number": str(shell.execution_count),
        })
        if parent:
            tags.setdefault("mlflow.parentRunId", parent)
        os.environ["MLFLOW_RUN_CONTEXT"] = json.dumps(tags)

    shell.events.register("pre_run_cell", pre_run_cell)


_yard_hook()
del _yard_hook
'''


def install(folder: Path) -> Dict[str, str]:
    """Leave the hook in a notebook's folder; return the variables by which kernels find it."""
    home = folder / FOLDER / "ipython"
    startup = home / "profile_default" / "startup"
    startup.mkdir(parents=True, exist_ok=True)
    text = STARTUP.replace("MOST]", f"{MOST_CHARACTERS}]")
    (startup / "00-yard.py").write_text(text, encoding="utf-8")
    return {"IPYTHONDIR": str(home)}
