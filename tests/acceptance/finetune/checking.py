"""Runs a script of checks in the environment that has torch, and gives what each came to."""

import itertools
import json
import subprocess
from pathlib import Path
from typing import Any

from tests.acceptance.serving import ROOT, python_of

SCRIPTS = Path(__file__).parent / "scripts"
SECONDS = 1500


def checks_of(name: str) -> list[str]:
    """The checks of a script, by its text: it is run in another environment."""
    lines = (SCRIPTS / name).read_text().splitlines()
    return [
        after.removeprefix("def ").partition("(")[0]
        for line, after in itertools.pairwise(lines)
        if line == "@check"
    ]


def run_checks(name: str, home: Path) -> dict[str, dict[str, Any]]:
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "PYTHONPATH": str(ROOT / "src"),
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "PYTHONWARNINGS": "ignore",
    }
    done = subprocess.run(
        [python_of("train"), name],
        cwd=SCRIPTS,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"check"')]
    assert lines, done.stderr[-4000:]
    return {line["check"]: line for line in lines}
