"""A machine is offered as detected, or as declared, less what is held."""

from __future__ import annotations

from typing import Any

import pytest

from trackyard.core.ports import GpuShare, LaunchRefused, NodeGrant
from trackyard.engines.machine import Declared, LocalMachine, describe

FOUND: dict[str, Any] = {
    "hostname": "gpu box_1",
    "cpus": 16,
    "memory_bytes": 1000,
    "gpus": [
        {"index": n, "vendor": "amd", "model": "MI300X", "memory_bytes": 10, "uuid": f"u{n}"}
        for n in (0, 1)
    ],
    "labels": {"rocm": "6.2"},
    "limits": {"kind": "watch", "note": "limits are watched"},
}


def machine(**declared: Any) -> LocalMachine:
    return describe(FOUND, Declared(**declared))


def test_what_is_detected_is_offered() -> None:
    found = machine()
    assert found.node_ids == ("gpu-box_1",)
    assert (found.cpus, found.memory_bytes, len(found.gpus)) == (16, 1000, 2)
    assert found.gpu_vendor == "amd"
    assert (found.labels["rocm"], found.notes) == ("6.2", ("limits are watched",))


def test_fewer_gpus_may_be_declared_but_not_more() -> None:
    assert len(machine(gpus=1).gpus) == 1
    assert machine(gpus=0).gpus == ()
    assert len(machine(gpus=8).gpus) == 2


def test_gpus_may_be_declared_where_there_are_none() -> None:
    found = describe({**FOUND, "gpus": []}, Declared(gpus=2, gpu_model="A100"))
    assert [(gpu.index, gpu.vendor, gpu.model) for gpu in found.gpus] == [
        (0, "declared", "A100"),
        (1, "declared", "A100"),
    ]


def test_what_attempts_hold_is_not_free() -> None:
    held = [
        NodeGrant(node_id="a", gpus=(GpuShare(index=0, fraction=0.25),), cpus=4, memory_bytes=10),
        NodeGrant(node_id="a", gpus=(GpuShare(index=0, fraction=0.5),), cpus=20),
        NodeGrant(node_id="b", gpus=(GpuShare(index=1),)),
    ]
    first, second = machine(node_ids=("a", "b")).reports(held)
    assert [gpu.free for gpu in first.gpus] == [0.25, 1.0]
    assert (first.free_cpus, first.free_memory_bytes) == (0, 990)
    assert [gpu.free for gpu in second.gpus] == [1.0, 0.0]


@pytest.mark.parametrize(
    "share",
    [NodeGrant(node_id="other"), NodeGrant(node_id="a", gpus=(GpuShare(index=7),))],
)
def test_what_is_not_there_is_refused(share: NodeGrant) -> None:
    with pytest.raises(LaunchRefused):
        machine(node_ids=("a",)).check(share)
