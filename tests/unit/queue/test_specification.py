"""Every field of a submission, refused when it makes no sense or hides something."""

from typing import Any

import msgspec
import pytest

from trackyard.core.errors import InvalidInput
from trackyard.queue.specification import (
    After,
    JobRequest,
    SourceCode,
    check,
    parse_array,
    split_gpus,
)


def wish(**fields: Any) -> JobRequest:
    return JobRequest(**{"command": ["python", "train.py"], **fields})


@pytest.mark.parametrize(
    "fields",
    [
        {"command": []},
        {"command": ["  "]},
        {"command": ["a\0b"]},
        {"command": ["x" * 200_000]},
        {"name": "two words"},
        {"name": "a\nb"},
        {"name": "../../etc"},
        {"name": "$(reboot)"},
        {"name": "#SBATCH"},
        {"name": "-rf"},
        {"queue": ""},
        {"queue": "Default"},
        {"queue": "a;b"},
        {"team": "../x"},
        {"lease": "l\n1"},
        {"experiment": "a\nb"},
        {"key": "a b"},
        {"priority": "now"},
        {"gpus": -1},
        {"gpus": 1.5},
        {"gpus": 0.0001},
        {"gpus": 0.5, "nodes": 2},
        {"gpus": 5000},
        {"nodes": 0},
        {"cpus": -1},
        {"memory_bytes": -1},
        {"retries": -1},
        {"retries": 1000},
        {"time_limit_seconds": 0},
        {"estimate_seconds": -5},
        {"progress_seconds": 0.1},
        {"grace_seconds": -1},
        {"not_before_ms": -1},
        {"array": "5-1"},
        {"array": "0-99999"},
        {"array": "0-9%0"},
        {"array": "a-b"},
        {"launcher": "sh"},
        {"style": "tight"},
        {"processes_per_node": 0},
        {"package": "A" * 64},
        {"package": "../" + "a" * 61},
        {"package_format": "rar"},
        {"pip": ["torch\nrm"]},
        {"pip": ["x"] * 501},
        {"gpu_types": ["A100;ls"]},
        {"labels": {"a b": "c"}},
        {"after": [After(job="../x")]},
        {"after": [After(job="jabc", when="maybe")]},
        {"tags": {"mlflow.user": "root"}},
        {"tags": {"yard.job": "x"}},
        {"source": SourceCode(commit="a\nb")},
        {"source": SourceCode(diff="x" * 600_000)},
    ],
    ids=lambda fields: "-".join(f"{key}" for key in fields),
)
def test_what_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        check(wish(**fields))


@pytest.mark.parametrize(
    "name",
    ["YARD_TOKEN", "YARD_ANYTHING", "MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID", "LD_PRELOAD",
     "LD_AUDIT", "BASH_ENV", "PYTHONSTARTUP", "NODE_OPTIONS", "1A", "A-B", "A B", "A=B", "", "é"],
)  # fmt: skip
def test_reserved_names_and_loader_hooks_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="env"):
        check(wish(env={name: "x"}))


def test_plain_variables_pass_with_any_text() -> None:
    env = {"LR": "0.1", "PYTHONPATH": "src", "TEXT": "two\nlines", "LD_LIBRARY_PATH": "/lib"}
    assert check(wish(env=env)).env == env


def test_a_nul_byte_in_a_value_is_refused() -> None:
    with pytest.raises(InvalidInput, match="NUL"):
        check(wish(env={"A": "x\0y"}))


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [(0, (0, 1000)), (1, (1, 1000)), (8, (8, 1000)), (0.5, (1, 500)), (0.25, (1, 250))],
)
def test_gpus_are_whole_or_a_part_of_one(gpus: float, expected: tuple[int, int]) -> None:
    assert split_gpus(gpus) == expected


def test_arrays_are_read_with_their_cap() -> None:
    array = parse_array("3-7%2")
    assert (list(array.indices), array.cap) == ([3, 4, 5, 6, 7], 2)
    assert parse_array("0-0").cap == 0


def test_an_unknown_field_is_refused_on_the_wire() -> None:
    with pytest.raises(msgspec.ValidationError, match="gpu_count"):
        msgspec.json.decode(b'{"command": ["a"], "gpu_count": 1}', type=JobRequest)


def test_a_checked_wish_keeps_what_its_attempts_need() -> None:
    spec = check(wish(gpus=2, cpus=1.5, nodes=2, labels={"rack": "r1"}, gpu_types=["A100"]))
    assert spec.request.total_gpus == 4
    assert spec.request.cpu_milli == 1500
    assert spec.request.labels == (("rack", "r1"),)
    kept = msgspec.json.decode(msgspec.json.encode(spec), type=type(spec))
    assert kept == spec
