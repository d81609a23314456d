"""Packages hold what git would keep, under a name their content alone decides."""

from __future__ import annotations

import os
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from trackyard.client.package import FolderPackage, PackageError, build
from trackyard.runner.workspace.archive import unpack


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    write(root / "train.py", "print(1)\n")
    write(root / "lib/model.py", "x = 1\n")
    return root


def write(path: Path, text: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def names(package: FolderPackage) -> list[str]:
    return zipfile.ZipFile(BytesIO(package.content)).namelist()


class TestContent:
    def test_files_come_in_order_with_their_paths(self, folder: Path) -> None:
        package = build(folder)
        assert names(package) == ["lib/model.py", "train.py"]
        assert (package.files, package.size_bytes) == (2, 15)

    def test_the_same_files_give_the_same_bytes_whenever_and_wherever(
        self, folder: Path, tmp_path: Path
    ) -> None:
        first = build(folder)
        copy = tmp_path / "elsewhere"
        write(copy / "lib/model.py", "x = 1\n")
        write(copy / "train.py", "print(1)\n")
        os.utime(copy / "train.py", (1, 1))
        (copy / "train.py").chmod(0o600)
        second = build(copy)
        assert (first.digest, first.content) == (second.digest, second.content)

    @pytest.mark.parametrize("change", ["text", "name", "mode"])
    def test_another_text_name_or_mode_gives_another_digest(
        self, folder: Path, change: str
    ) -> None:
        before = build(folder).digest
        if change == "text":
            write(folder / "train.py", "print(2)\n")
        elif change == "name":
            (folder / "train.py").rename(folder / "main.py")
        else:
            (folder / "train.py").chmod(0o755)
        assert build(folder).digest != before

    def test_an_empty_folder_is_a_package_too(self, tmp_path: Path) -> None:
        assert build(tmp_path).files == 0

    def test_what_is_no_folder_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(PackageError, match="not a folder"):
            build(tmp_path / "missing")

    def test_the_runner_takes_what_is_built_here(self, folder: Path, tmp_path: Path) -> None:
        """Also files that compress so well that they would look like a bomb."""
        write(folder / "zeros.bin", "\0" * 3_000_000)
        (folder / "train.py").chmod(0o755)
        archive = tmp_path / "p.zip"
        archive.write_bytes(build(folder).content)
        assert unpack(archive, tmp_path / "out", kind="zip") == 3
        assert (tmp_path / "out/zeros.bin").stat().st_size == 3_000_000
        assert (tmp_path / "out/train.py").stat().st_mode & 0o111


class TestIgnoring:
    def test_gitignore_is_honoured(self, folder: Path) -> None:
        write(folder / ".gitignore", "*.ckpt\n/data/\n!keep.ckpt\n")
        for name in ("a.ckpt", "keep.ckpt", "data/big.bin", "lib/data/small.bin", "lib/b.ckpt"):
            write(folder / name)
        assert names(build(folder)) == [
            ".gitignore",
            "keep.ckpt",
            "lib/data/small.bin",
            "lib/model.py",
            "train.py",
        ]

    def test_deeper_files_have_the_last_word(self, folder: Path) -> None:
        write(folder / ".gitignore", "*.txt\n")
        write(folder / "lib/.gitignore", "!notes.txt\n/model.py\n")
        write(folder / "notes.txt")
        write(folder / "lib/notes.txt")
        assert names(build(folder)) == [
            ".gitignore",
            "lib/.gitignore",
            "lib/notes.txt",
            "train.py",
        ]

    def test_rules_above_a_subfolder_of_a_work_tree_count(self, folder: Path) -> None:
        (folder / ".git/info").mkdir(parents=True)
        write(folder / ".git/info/exclude", "private.py\n")
        write(folder / ".gitignore", "*.log\n/lib/out/\n")
        for name in ("run.log", "out/x.py", "private.py"):
            write(folder / "lib" / name)
        assert names(build(folder / "lib")) == ["model.py"]

    def test_rules_above_count_only_inside_a_work_tree(self, folder: Path) -> None:
        write(folder / ".gitignore", "model.py\n")
        assert names(build(folder / "lib")) == ["model.py"]

    def test_yardignore_leaves_out_what_git_tracks(self, folder: Path) -> None:
        write(folder / ".yardignore", "lib/\n")
        assert names(build(folder)) == [".yardignore", "train.py"]

    def test_git_and_caches_never_go_in(self, folder: Path) -> None:
        write(folder / ".gitignore", "!.git/\n!*.pyc\n")
        for name in (".git/config", "lib/__pycache__/m.pyc", "old.pyc"):
            write(folder / name)
        assert names(build(folder)) == [".gitignore", "lib/model.py", "train.py"]

    def test_further_patterns_may_be_given(self, folder: Path) -> None:
        assert names(build(folder, exclude=["lib"])) == ["train.py"]


class TestLinks:
    def test_a_link_inside_brings_its_content(self, folder: Path) -> None:
        (folder / "alias.py").symlink_to("train.py")
        package = build(folder)
        bundle = zipfile.ZipFile(BytesIO(package.content))
        assert bundle.read("alias.py") == b"print(1)\n"

    def test_links_that_lead_outside_or_nowhere_are_left_out_and_named(
        self, folder: Path, tmp_path: Path
    ) -> None:
        write(tmp_path / "secret.txt", "secret")
        (folder / "outside.txt").symlink_to(tmp_path / "secret.txt")
        (folder / "broken").symlink_to("nowhere")
        (folder / "data").symlink_to(tmp_path)
        os.mkfifo(folder / "pipe")
        package = build(folder)
        assert names(package) == ["lib/model.py", "train.py"]
        assert package.left_out == ("broken", "data", "outside.txt", "pipe")


class TestLimit:
    def test_over_the_limit_the_largest_files_are_named(self, folder: Path) -> None:
        write(folder / "weights.bin", "x" * 2_000_000)
        write(folder / "data.csv", "x" * 1_000_000)
        with pytest.raises(PackageError) as refused:
            build(folder, limit_bytes=1_000_000)
        message = str(refused.value)
        assert "weights.bin (1.9 MiB), data.csv (1.0 MiB)" in message
        assert "limit of 1.0 MiB" in message
        assert ".yardignore" in message

    def test_ignored_files_do_not_count(self, folder: Path) -> None:
        write(folder / "weights.bin", "x" * 2_000_000)
        write(folder / ".yardignore", "*.bin\n")
        assert build(folder, limit_bytes=1_000_000).files == 3

    def test_odd_names_are_refused_by_name(self, folder: Path) -> None:
        write(folder / "a\nb.py")
        with pytest.raises(PackageError, match="rename or ignore"):
            build(folder)
