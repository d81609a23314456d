"""What is shipped into a Ray cluster so that Train and Tune ask the queue before they start.

Owns which files go there and which variables make Ray load them. Must not import Ray: the module
`gate` runs on the cluster, under the cluster's own Ray, as `trackyard_gate`.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

MODULE = "trackyard_gate"
#: Ray's variable -> our class
_CALLBACKS = {"RAY_TRAIN_CALLBACKS": "Gate", "RAY_TUNE_CALLBACKS": "Trials"}


@cache
def files() -> Mapping[str, bytes]:
    """Return the modules by the names under which jobs import them."""
    return {
        f"trackyard_{name}.py": (Path(__file__).parent / f"{name}.py").read_bytes()
        for name in ("gate", "trials")
    }


@cache
def archive() -> bytes:
    """Return the modules as one zip, the same bytes each time, for a `py_modules` package."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as found:
        for name, data in files().items():
            found.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)
    return target.getvalue()


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which Ray calls the gate, beside what a job asks for itself."""
    found = {}
    for name, class_ in _CALLBACKS.items():
        ours = f"{MODULE}.{class_}"
        theirs = [part.strip() for part in own.get(name, "").split(",")]
        found[name] = ",".join([ours, *(part for part in theirs if part not in ("", ours))])
    return found
