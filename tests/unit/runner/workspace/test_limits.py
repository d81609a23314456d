"""Limits are written as the kernel and systemd want them."""

from __future__ import annotations

from pathlib import Path

import pytest

from trackyard.runner.workspace import limits
from trackyard.runner.workspace.limits import Cgroup


@pytest.fixture
def v2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of plain files shaped like cgroup v2."""
    monkeypatch.setattr(limits, "own_cgroups", lambda: {"": "/box"})
    box = tmp_path / "box"
    child = box / "yard-a1"
    child.mkdir(parents=True)
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    (box / "cgroup.controllers").write_text("cpu memory pids\n")
    (box / "cgroup.subtree_control").write_text("")
    for name, text in (
        ("memory.max", "max"),
        ("memory.peak", "1234\n"),
        ("memory.events", "low 0\noom 1\noom_kill 2\n"),
        ("cgroup.procs", "7\n8\n"),
    ):
        (child / name).write_text(text)
    return tmp_path


def test_limits_go_to_the_v2_files(v2: Path) -> None:
    group = Cgroup.make("yard-a1", root=v2)
    assert group is not None
    assert group.limit(memory_bytes=1000, cpus=1.5) == []
    child = v2 / "box/yard-a1"
    assert (child / "memory.max").read_text() == "1000"
    assert (child / "cpu.max").read_text() == "150000 100000"
    assert (v2 / "box/cgroup.subtree_control").read_text() == "+memory +cpu"
    assert (group.oom_kills(), group.peak_bytes(), group.members()) == (2, 1234, {7, 8})


def test_without_the_memory_controller_there_is_no_cgroup(v2: Path) -> None:
    (v2 / "box/cgroup.controllers").write_text("pids\n")
    assert Cgroup.make("yard-a1", root=v2) is None


def test_an_unwritable_tree_gives_no_cgroup(tmp_path: Path) -> None:
    assert Cgroup.make("yard-a1", root=tmp_path / "missing") is None


def test_systemd_is_asked_for_a_scope_with_both_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(limits, "_systemd_works", lambda *, user: True)
    monkeypatch.setattr(limits.os, "geteuid", lambda: 1000)
    assert limits.systemd_prefix("yard-a1", memory_bytes=1000, cpus=0.5) == [
        "/usr/bin/systemd-run", "--user", "--scope", "--quiet", "--collect", "--unit=yard-a1",
        "-p", "MemoryMax=1000", "-p", "MemorySwapMax=0", "-p", "CPUQuota=50%", "--",
    ]  # fmt: skip


def test_without_systemd_nothing_is_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits.shutil, "which", lambda _name: None)
    assert limits.systemd_prefix("yard-a1", memory_bytes=1000, cpus=0.5) is None
