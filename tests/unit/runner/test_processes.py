"""Who belongs to an attempt and who is asked to stop first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trackyard.runner import processes
from trackyard.runner.processes import Process


def tree(*edges: tuple[int, int]) -> dict[int, Process]:
    return {pid: Process(pid, parent, "S", 0, 0, 0) for pid, parent in edges}


TREE = tree((10, 1), (11, 10), (12, 11), (13, 12), (20, 1), (21, 20))


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> dict[int, str]:
    names: dict[int, str] = {}
    monkeypatch.setattr(processes, "_program", lambda pid: names.get(pid, "python3.11"))
    return names


def test_descendants_are_all_below_and_none_beside() -> None:
    assert processes.descendants(10, TREE) == {11, 12, 13}
    assert processes.descendants(99, TREE) == set()


def test_ancestors_include_oneself() -> None:
    assert processes.ancestors(13, TREE) == {13, 12, 11, 10}


def test_a_program_is_asked_itself_and_not_its_children(programs: dict[int, str]) -> None:
    assert processes.stop_leaders(11, TREE, deep=False) == {11}


def test_a_shell_is_seen_through(programs: dict[int, str]) -> None:
    programs[11] = "dash"
    assert processes.stop_leaders(11, TREE, deep=False) == {12}
    programs[12] = "bash"
    assert processes.stop_leaders(11, TREE, deep=False) == {13}


def test_a_shell_without_children_is_asked_itself(programs: dict[int, str]) -> None:
    programs[13] = "sh"
    assert processes.stop_leaders(13, TREE, deep=False) == {13}


def test_the_command_is_found_inside_bubblewrap(programs: dict[int, str]) -> None:
    assert processes.inside(11, TREE) == (11, set())
    programs[10] = programs[11] = "bwrap"
    assert processes.inside(10, TREE) == (12, {10, 11})
    adopted = {**TREE, 5: Process(5, 11, "S", 9, 0, 0)}
    assert processes.inside(10, adopted) == (12, {10, 11})
    programs[13] = "bwrap"
    assert processes.inside(13, TREE) == (13, set())


def test_a_launcher_that_forwards_nothing_is_asked_with_its_children(
    programs: dict[int, str],
) -> None:
    assert processes.stop_leaders(11, TREE, deep=True) == {11, 12}


def test_without_proc_the_table_comes_from_ps(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(processes, "PROC", tmp_path / "missing")
    seen = processes.table()
    assert seen[os.getpid()].parent == os.getppid()
    assert seen[os.getpid()].memory_bytes > 1_000_000
    assert processes.look(os.getpid()) is not None


def test_zombies_do_not_count_as_live() -> None:
    seen = {1: Process(1, 0, "Z", 0, 0, 0), 2: Process(2, 0, "S", 0, 0, 0)}
    assert processes.live({1, 2, 3}, seen) == {2}
