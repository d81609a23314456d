"""The state of a git work tree is told truly, and without secrets."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from trackyard.client import source
from trackyard.client.source import capture, without_credentials


def git(folder: Path, *words: str) -> str:
    settings = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    answer = subprocess.run(
        ["git", "-C", str(folder), *settings, *words], capture_output=True, check=True, text=True
    )
    return answer.stdout.strip()


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "train.py").write_text("lr = 1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


def test_a_clean_tree_tells_commit_and_branch(tree: Path) -> None:
    found = capture(tree)
    assert found is not None
    assert found.commit == git(tree, "rev-parse", "HEAD")
    assert (found.branch, found.dirty, found.diff) == ("main", False, "")
    assert found.tags()["mlflow.source.git.dirty"] == "false"
    assert found.tags()["mlflow.source.git.branch"] == "main"


def test_changes_are_captured_staged_or_not(tree: Path) -> None:
    (tree / "train.py").write_text("lr = 2\n")
    git(tree, "add", "train.py")
    (tree / "train.py").write_text("lr = 3\n")
    (tree / "new.py").write_text("x")
    found = capture(tree)
    assert found is not None
    assert found.dirty
    assert "-lr = 1\n+lr = 3\n" in found.diff
    assert found.untracked == ("new.py",)


def test_the_users_diff_settings_change_nothing(tree: Path) -> None:
    git(tree, "config", "color.ui", "always")
    git(tree, "config", "diff.external", "false")
    (tree / "train.py").write_text("lr = 2\n")
    found = capture(tree)
    assert found is not None
    assert "+lr = 2\n" in found.diff
    assert "\x1b" not in found.diff


def test_a_huge_diff_is_cut_and_says_so(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "DIFF_LIMIT_BYTES", 100)
    (tree / "train.py").write_text("x\n" * 1000)
    found = capture(tree)
    assert found is not None
    assert found.diff_is_cut
    assert len(found.diff) <= 100


def test_a_detached_head_has_no_branch(tree: Path) -> None:
    git(tree, "checkout", "-q", "--detach")
    found = capture(tree)
    assert found is not None
    assert found.branch is None


def test_a_folder_without_git_has_nothing_to_tell(tmp_path: Path) -> None:
    assert capture(tmp_path) is None
    assert capture(tmp_path / "missing") is None


def test_a_machine_without_git_has_nothing_to_tell(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert capture(tree) is None


def test_a_remote_is_told_without_its_credentials(tree: Path) -> None:
    git(tree, "remote", "add", "origin", "https://user:t0ken@example.com/team/repo.git")
    found = capture(tree)
    assert found is not None
    assert found.remote == "https://example.com/team/repo.git"


@pytest.mark.parametrize(
    ("address", "clean"),
    [
        ("https://tok@host/r", "https://host/r"),
        ("ssh://git@host/r", "ssh://host/r"),
        ("git@host:team/r.git", "git@host:team/r.git"),
        ("https://host/a@b", "https://host/a@b"),
    ],
)
def test_credentials_are_told_from_the_rest(address: str, clean: str) -> None:
    assert without_credentials(address) == clean
