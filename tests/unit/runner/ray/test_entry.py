"""The runner as a Ray job's entrypoint: what it makes of the node's environment."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from trackyard.runner.ray import entry, gang


def spec(**ray: Any) -> dict[str, Any]:
    return {
        "state_dir": "attempts/j1-a1/m0",
        "cache_dir": "cache",
        "checkpoint_dir": "checkpoints/j1",
        "env": {"LR": "0.1"},
        "platform_env": {"MLFLOW_RUN_ID": "r1"},
        "gang": {"member": 0, "members": 1},
        "ray": {"folder": "/shared", "members": [{"gpus": 0}], **ray},
    }


def test_folders_lie_below_the_nodes_folder() -> None:
    data = spec()
    entry.complete(data, {}, Path("/here"))
    assert data["state_dir"] == "/shared/attempts/j1-a1/m0"
    assert data["checkpoint_dir"] == "/shared/checkpoints/j1"
    assert "source_dir" not in data


def test_a_folder_that_only_ray_has_is_copied() -> None:
    data = spec(has_folder=True, copies=True)
    entry.complete(data, {}, Path("/here"))
    assert data["source_dir"] == "/here"


def test_tasks_are_brought_to_the_drivers_own_folder() -> None:
    data = spec(has_folder=True)
    config = {
        "runtime_env": {"env_vars": {"PYTHONPATH": "/theirs"}, "py_modules": ["gcs://r.zip"]}
    }
    entry.complete(data, {entry.JOB_CONFIG: json.dumps(config)}, Path("/ray/_ray_pkg_1"))
    made = json.loads(data["base_env"][entry.JOB_CONFIG])["runtime_env"]["env_vars"]
    home = "/shared/attempts/j1-a1/m0"
    assert made["PYTHONPATH"] == f"{home}/tasks:/theirs"
    assert (made["YARD_TASK_FOLDER"], made["YARD_TASK_PACKAGE"]) == (f"{home}/work", "_ray_pkg_1")


def test_folders_of_attempts_go_a_day_after_their_end(tmp_path: Path) -> None:
    for name in ("old", "new", "running"):
        (tmp_path / name / "m0" / "work").mkdir(parents=True)
    for name in ("old", "new"):
        (tmp_path / name / "m0" / "delivered").touch()
    os.utime(tmp_path / "old" / "m0" / "delivered", (1000, 1000))
    os.utime(tmp_path / "new" / "m0" / "delivered", (90_000, 90_000))
    entry.remove_old(tmp_path, 1000 + 24 * 3600 + 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "running"]


def test_a_job_without_gpus_gets_an_empty_list_and_others_what_ray_chose() -> None:
    everything = {"CUDA_VISIBLE_DEVICES": "0,1"}
    assert entry.visible_gpus(everything, 0) == []
    assert entry.visible_gpus({"CUDA_VISIBLE_DEVICES": "3"}, 0.5) == [
        {"index": 3, "fraction": 0.5, "vendor": "nvidia"}
    ]
    assert entry.visible_gpus({"HIP_VISIBLE_DEVICES": "1"}, 1) == [
        {"index": 1, "fraction": 1.0, "vendor": "amd"}
    ]
    assert entry.visible_gpus({"CUDA_VISIBLE_DEVICES": "MIG-1a2b"}, 1) is None


def test_the_command_inherits_the_nodes_environment_less_ours(tmp_path: Path) -> None:
    (tmp_path / entry.RUNNER_FOLDER).mkdir()
    found = entry.base_environment(
        {
            "AWS_ACCESS_KEY_ID": "k",
            "YARD_SPEC": "…",
            "RAY_JOB_STOP_WAIT_TIME_S": "30",
            "RAY_ADDRESS": "10.0.0.1:6379",
            "PYTHONPATH": f"{tmp_path}:/modules/theirs",
        }
    )
    assert found == {
        "AWS_ACCESS_KEY_ID": "k",
        "RAY_ADDRESS": "10.0.0.1:6379",
        "PYTHONPATH": "/modules/theirs",
    }


def test_a_drivers_workers_get_its_variables_and_not_our_runner() -> None:
    config = {
        "runtime_env": {
            "env_vars": {"YARD_SPEC": "secret", "RAY_JOB_STOP_WAIT_TIME_S": "9", "FOO": "bar"},
            "py_modules": ["gcs://theirs.zip", "gcs://runner.zip"],
            "working_dir": "gcs://work.zip",
        },
        "metadata": {"job_submission_id": "j1-a1"},
    }
    made = json.loads(entry.job_config(json.dumps(config), {"MLFLOW_RUN_ID": "r1"}))
    assert made["runtime_env"] == {
        "env_vars": {"FOO": "bar", "MLFLOW_RUN_ID": "r1"},
        "py_modules": ["gcs://theirs.zip"],
        "working_dir": "gcs://work.zip",
    }
    assert made["metadata"] == config["metadata"]


def test_a_configuration_that_cannot_be_read_is_left_alone() -> None:
    assert entry.job_config("no json", {}) == "no json"


def test_a_packed_spec_is_read_back() -> None:
    assert entry.read_spec({"YARD_SPEC": entry.pack_spec({"a": [1]})}) == {"a": [1]}
    with pytest.raises(KeyError):
        entry.read_spec({})


def test_members_of_a_gang_share_a_rendezvous_and_have_a_folder_each() -> None:
    data = spec(members=[{"gpus": 1, "cpus": 2}, {"gpus": 1, "cpus": 3}])
    data["gang"] = {"member": 0, "members": 2, "launcher": "plain"}
    made = gang.member_specs(data, [("10.0.0.1", 4001), ("10.0.0.2", 4002)])
    assert [one["state_dir"] for one in made] == ["attempts/j1-a1/m0", "attempts/j1-a1/m1"]
    assert [one["gang"]["member"] for one in made] == [0, 1]
    assert {one["gang"]["port"] for one in made} == {4001}
    assert made[1]["gang"]["addresses"] == ["10.0.0.1", "10.0.0.2"]
    assert [one["cpus"] for one in made] == [2, 3]
    assert data["gang"]["member"] == 0


def test_a_bundle_holds_the_share_or_a_trace_of_its_node() -> None:
    share = {"gpus": 1, "cpus": 2, "memory_bytes": 5}
    assert gang.bundle_of(share, "10.0.0.1") == {"GPU": 1.0, "CPU": 2.0, "memory": 5.0}
    assert gang.bundle_of({}, "10.0.0.1") == {"node:10.0.0.1": 0.001}


def test_the_spec_that_lies_beside_the_command_has_no_credential() -> None:
    """The command, as the same user, can read that file."""
    data = {"attempt_id": "a", "report": {"url": "http://x", "token": "the-runners"}}
    left = entry.without_credential(data)
    assert "the-runners" not in json.dumps(left)
    assert left["report"]["url"] == "http://x"
    assert data["report"]["token"] == "the-runners"
    assert entry.without_credential({"report": None}) == {"report": None}
