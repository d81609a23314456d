"""What is said of jobs that were stopped, held or queued again."""

import argparse
import json
from typing import Any

import pytest

from trackyard.cli.jobs.acting import MANY, tell


def jobs(count: int, state: str) -> list[dict[str, Any]]:
    shown = {"name": "sweep", "array_index": None, "held": False, "stopping": False}
    return [
        {"job_id": f"j{n}", "state": state, "sentence": "Over.", **shown} for n in range(count)
    ]


def test_a_few_are_told_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    tell(argparse.Namespace(json=False), jobs(1, "stopped"))
    assert capsys.readouterr().err == "j0 (sweep) is stopped: Over.\n"


def test_of_many_it_is_told_how_many_are_in_which_state(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = [*jobs(2, "succeeded"), *jobs(MANY, "stopped")]
    tell(argparse.Namespace(json=False), found)
    assert capsys.readouterr().err == "22 jobs: 20 stopped, 2 succeeded\n"
    tell(argparse.Namespace(json=True), found)
    assert len(json.loads(capsys.readouterr().out)) == 22
