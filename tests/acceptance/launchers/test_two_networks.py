"""Gangs whose nodes share neither address nor disk: meeting, torchrun and mpirun over a bridge."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.serving import ROOT

pytestmark = pytest.mark.timeout(900)


def test_gangs_run_over_a_network_alone(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *("unshare", "--map-root-user", "--net", "--mount", "--pid", "--fork"),
            *("--mount-proc", "--kill-child"),
            *(sys.executable, "-m", "tests.acceptance.launchers.two_networks", str(tmp_path)),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=880,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    assert "both ran" in done.stdout
