"""`yard cluster` where there is no Ray, no cluster, or no sense in what was asked."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from trackyard.cli.fleet import cluster_local
from trackyard.cli.fleet.cluster_local import (
    LocalCluster,
    NodeProcess,
    end,
    lives,
    node_environment,
)
from trackyard.cli.main import main


def test_without_ray_the_install_line_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["cluster", "start", "--home", str(tmp_path)]) != 0
    assert "pip install 'trackyard[ray]'" in capsys.readouterr().err


@pytest.mark.parametrize("head", ["http://head:8265", "ray://head:10001", "head:port", ""])
def test_joining_wants_the_address_of_a_head(
    head: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cluster", "join", head]) != 0
    assert "head:6379" in capsys.readouterr().err


def test_where_no_cluster_was_started_there_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cluster", "status", "--home", str(tmp_path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["nodes"] == []
    assert main(["cluster", "stop", "--home", str(tmp_path)]) == 0


def test_a_process_that_only_has_the_same_number_is_left_alone(tmp_path: Path) -> None:
    """After a restart of the machine, the pids in the file are somebody else's."""
    stranger = NodeProcess(name="head", pid=os.getpid(), started=1, cpus=0, gpus=0)
    assert not lives(stranger)
    assert not end(stranger)
    (tmp_path / "cluster.json").write_text(
        json.dumps({"address": "http://127.0.0.1:1", "nodes": [vars_of(stranger)]})
    )
    assert not LocalCluster(tmp_path).is_up()
    assert LocalCluster(tmp_path).stop() == 0


def test_nodes_get_rays_programs_first_and_none_of_our_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("YARD_TOKEN", "secret")
    monkeypatch.setenv("RAY_ADDRESS", "elsewhere")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "the-clusters-own")
    values = node_environment("/envs/ray/bin/ray")
    assert values["PATH"].startswith("/envs/ray/bin:")
    assert values["RAY_USAGE_STATS_ENABLED"] == "0"
    assert not {"YARD_TOKEN", "RAY_ADDRESS"} & set(values)
    assert values["RAY_AUTH_TOKEN"] == "the-clusters-own"


def vars_of(node: NodeProcess) -> dict[str, object]:
    return {name: getattr(node, name) for name in cluster_local.NodeProcess.__slots__}
