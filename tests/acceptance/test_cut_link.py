"""A link between two machines that goes down and comes back."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.serving import ROOT

#: It starts many processes at once, or a cluster: with others beside it time alone would decide.
pytestmark = pytest.mark.alone

CUT_SECONDS = 30


def test_a_link_that_is_down_for_half_a_minute_goes_unnoticed(tmp_path: Path) -> None:
    """Packets vanish, no connection is closed: the stock client waits, goes on, and nothing is
    lost or there twice. (`test_crash_loop` pulls the cable so that connections break.)
    """
    done = subprocess.run(
        [
            *("unshare", "--map-root-user", "--net", "--kill-child"),
            *(sys.executable, "-m", "tests.acceptance.cut_link", str(tmp_path), str(CUT_SECONDS)),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=290,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "unnoticed" in done.stdout
