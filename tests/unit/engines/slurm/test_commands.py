"""What Slurm's commands print: an answer, or a controller that is silent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trackyard.core.ports import EngineUnavailable
from trackyard.engines.slurm.commands import Commands

#: what squeue of Slurm 22.05 printed, with exit code 0, while its controller was down
DOWN = {
    "meta": {"Slurm": {"release": "22.05.8"}},
    "errors": [
        {
            "description": "Failed while looking for jobs",
            "error_number": -1,
            "error": "Unspecified error",
            "source": "slurm_load_jobs",
        }
    ],
    "jobs": [],
}


def site(folder: Path, printed: str) -> Commands:
    """A site whose squeue prints that and ends well."""
    (folder / "answer").write_text(printed)
    program = folder / "squeue"
    program.write_text(f"#!/bin/sh\ncat {folder / 'answer'}\n")
    program.chmod(0o755)
    return Commands(folder=str(folder))


def test_an_empty_list_with_an_error_is_no_answer(tmp_path: Path) -> None:
    commands = site(tmp_path, json.dumps(DOWN))
    with pytest.raises(EngineUnavailable, match="Failed while looking for jobs"):
        commands.json("squeue", "--all")


@pytest.mark.parametrize("printed", ["", "[]", '{"jobs": ['])
def test_what_is_no_object_is_no_answer(tmp_path: Path, printed: str) -> None:
    with pytest.raises(EngineUnavailable, match="squeue --json printed no"):
        site(tmp_path, printed).json("squeue", "--all")


def test_a_list_without_errors_is_an_answer(tmp_path: Path) -> None:
    printed = json.dumps({**DOWN, "errors": []})
    assert site(tmp_path, printed).json("squeue", "--all")["jobs"] == []
