"""Options of sbatch as a submission, and what is named because it is not honoured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trackyard.cli.submit import sbatch, sbatch_script
from trackyard.core.errors import SetupError

SCRIPT = """#!/bin/bash -l
# a comment
#SBATCH -J my job
#SBATCH --nodes=2 --ntasks-per-node 4   # per node
#SBATCH --gres=gpu:h100:4
#SBATCH -t 1-00:00:00 --mem=64G

#SBATCH --array=1-8%2
module load cuda
#SBATCH --exclusive
"""


def fields(*words: str) -> dict[str, Any]:
    options, _ = sbatch_script.split(words)
    return sbatch_script.read(options).fields


def test_lines_are_read_up_to_the_first_command() -> None:
    options, rest = sbatch_script.split(
        sbatch_script.directives(SCRIPT.replace("my job", "'my job'"))
    )
    found = sbatch_script.read(options)
    assert rest == []
    assert found.fields == {
        "name": "my-job",
        "nodes": 2,
        "launcher": "batch",
        "gpus": 4,
        "gpu_types": ["h100"],
        "cpus": 4,
        "memory_bytes": 64 * 1024**3,
        "time_limit_seconds": 86400,
        "array": "1-8%2",
    }
    assert found.variables["SLURM_NTASKS"] == "8"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-N2", "-n", "4", "-c", "3"], {"nodes": 2, "cpus": 6}),
        (["-G", "a100:4", "-N", "2"], {"gpus": 2, "gpu_types": ["a100"]}),
        (["--gpus-per-task=1", "--ntasks-per-node=2"], {"gpus": 2}),
        (["--mem-per-cpu=2G", "-c4"], {"memory_bytes": 8 * 1024**3}),
        (["--mem=500"], {"memory_bytes": 500 * 1024**2}),
        (["-t", "30"], {"time_limit_seconds": 1800}),
        (["--array=5"], {"array": "5-5"}),
        (["-H"], {"hold": True}),
        (["--signal=B:USR1@120"], {"grace_seconds": 120.0}),
        (["--export=NONE,A=1"], {"env": {"A": "1"}}),
        (
            ["-d", "afterok:j1:j2,afterany:j3"],
            {
                "after": [
                    {"job": "j1", "when": "success"},
                    {"job": "j2", "when": "success"},
                    {"job": "j3", "when": "any-end"},
                ]
            },
        ),
    ],
)
def test_options_become_what_they_mean_here(words: list[str], expected: dict[str, Any]) -> None:
    found = fields(*words)
    assert {name: found.get(name) for name in expected} == expected


def test_what_is_not_honoured_is_named_and_the_unknown_refused() -> None:
    options, _ = sbatch_script.split(["-o", "x", "--mail-type=END", "-A", "proj", "-w", "n1"])
    named = sbatch_script.read(options).ignored
    assert [one.partition(":")[0] for one in named] == [
        "--output",
        "--mail-type",
        "--account",
        "--nodelist",
    ]
    for wrong in (["--frobnicate=1"], ["-y"], ["--array=1,3"], ["-d", "singleton"], ["-t", "x"]):
        with pytest.raises(SetupError):
            fields(*wrong)


def test_the_script_starts_by_its_own_interpreter_with_the_variables_set(tmp_path: Path) -> None:
    script = tmp_path / "sub" / "train.sh"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    batch = sbatch_script.read([("job-name", "x"), ("array", "0-3")])
    shell, flag, text = sbatch.command(batch, SCRIPT, [str(script), "a b"], tmp_path)
    assert (shell, flag) == ("sh", "-c")
    assert text.endswith("exec /bin/bash -l sub/train.sh 'a b'")
    assert 'export SLURM_ARRAY_TASK_ID="${SLURM_ARRAY_TASK_ID:-$YARD_ARRAY_INDEX}"' in text
    with pytest.raises(SetupError, match="does not lie in"):
        sbatch.command(batch, SCRIPT, [str(script)], tmp_path / "elsewhere")
