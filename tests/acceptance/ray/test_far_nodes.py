"""A cluster whose nodes share no address: driver and tasks keep their folders there too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.serving import ROOT

#: It starts a cluster: with others beside it time alone would decide.
pytestmark = [pytest.mark.alone, pytest.mark.timeout(900)]


def test_driver_and_tasks_keep_their_folder_on_nodes_behind_a_bridge(tmp_path: Path) -> None:
    """One node joined by our command, one by Ray's own, and each has the driver once."""
    done = subprocess.run(
        [
            *("unshare", "--map-root-user", "--net", "--mount", "--pid", "--fork"),
            *("--mount-proc", "--kill-child"),
            *(sys.executable, "-m", "tests.acceptance.ray.far_nodes", str(tmp_path)),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=880,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    assert "kept" in done.stdout
