"""Checkpoints are complete or absent, keep the last few, and come back as they were saved."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import numpy
import pytest

from trackyard import checkpoint
from trackyard.checkpoint import state as states
from trackyard.checkpoint import stopping
from trackyard.checkpoint.saver import Saver
from trackyard.checkpoint.store import CheckpointError, CheckpointFolder
from trackyard.checkpoint.upload import FolderTarget


@pytest.fixture
def saver(tmp_path: Path) -> Saver:
    return Saver(tmp_path / "checkpoints", keep=3)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("YARD_", "MLFLOW_")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(checkpoint, "_saver", None)
    monkeypatch.setattr(stopping, "_asked", threading.Event())


class TestSaving:
    def test_a_dict_of_arrays_comes_back(self, saver: Saver) -> None:
        weights = numpy.arange(6.0).reshape(2, 3)
        saver.save({"weights": weights, "step": numpy.int64(4)}, step=4)
        found = saver.latest()
        assert found is not None
        assert found.step == 4
        loaded = states.load(found)
        assert (loaded["weights"] == weights).all()
        assert int(loaded["step"]) == 4

    def test_a_plain_dict_comes_back(self, saver: Saver) -> None:
        saver.save({"epoch": 3, "best": [1.5, None]}, step=3)
        found = saver.latest()
        assert found is not None
        assert states.load(found) == {"epoch": 3, "best": [1.5, None]}

    def test_a_folder_is_copied_whole(self, saver: Saver, tmp_path: Path) -> None:
        source = tmp_path / "model"
        (source / "shards").mkdir(parents=True)
        (source / "config.json").write_text("{}")
        (source / "shards" / ".hidden").write_bytes(b"\0\1")
        found = saver.save(source, step=1)
        assert found is not None
        assert (found.path / "shards/.hidden").read_bytes() == b"\0\1"
        assert {part.name for part in found.parts} == {"config.json", "shards/.hidden"}
        with pytest.raises(CheckpointError, match="holds files"):
            states.load(found)

    def test_a_file_keeps_its_name(self, saver: Saver, tmp_path: Path) -> None:
        source = tmp_path / "last.ckpt"
        source.write_bytes(b"weights")
        found = saver.save(source, step=1)
        assert found is not None
        assert (found.path / "last.ckpt").read_bytes() == b"weights"

    def test_metadata_is_kept(self, saver: Saver) -> None:
        saver.save({"a": 1}, step=1, metadata={"loss": 0.5})
        found = saver.latest()
        assert found is not None
        assert found.metadata == {"loss": 0.5}

    @pytest.mark.parametrize("state", [{"a": object()}, "/no/such/place", {"f": print}])
    def test_what_cannot_be_saved_is_refused_and_leaves_nothing(
        self, saver: Saver, state: Any
    ) -> None:
        with pytest.raises(CheckpointError):
            saver.save(state, step=1)
        assert [path.name for path in saver.folder.iterdir()] == []

    def test_links_are_refused(self, saver: Saver, tmp_path: Path) -> None:
        source = tmp_path / "model"
        source.mkdir()
        (source / "link").symlink_to("/etc/passwd")
        with pytest.raises(CheckpointError, match="link"):
            saver.save(source, step=1)
        assert saver.latest() is None

    def test_an_empty_folder_is_no_checkpoint(self, saver: Saver, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        with pytest.raises(CheckpointError, match="holds no file"):
            saver.save(tmp_path / "empty", step=1)


class TestLatest:
    def test_there_is_none_at_first(self, saver: Saver) -> None:
        assert saver.latest() is None

    def test_the_pointer_names_the_newest(self, saver: Saver) -> None:
        for step in (1, 2):
            saver.save({"s": step}, step=step)
        pointer = json.loads((saver.folder / "latest.json").read_text())
        found = saver.latest()
        assert found is not None
        assert (pointer["name"], pointer["step"]) == (found.name, 2)
        assert pointer["size_bytes"] == found.size_bytes

    def test_going_back_to_an_earlier_step_is_the_newest_again(self, saver: Saver) -> None:
        saver.save({"s": 100}, step=100)
        saver.save({"s": 50}, step=50)
        found = saver.latest()
        assert found is not None
        assert found.step == 50

    def test_a_complete_checkpoint_counts_even_if_the_pointer_did_not_move(
        self, saver: Saver
    ) -> None:
        saver.save({"s": 1}, step=1)
        old = (saver.folder / "latest.json").read_bytes()
        saver.save({"s": 2}, step=2)
        (saver.folder / "latest.json").write_bytes(old)
        found = saver.latest()
        assert found is not None
        assert found.step == 2

    @pytest.mark.parametrize(
        "damage", ["truncate", "flip", "remove", "no manifest", "bad manifest"]
    )
    def test_a_damaged_checkpoint_is_passed_over(self, saver: Saver, damage: str) -> None:
        saver.save({"s": 1}, step=1)
        newest = saver.save({"s": 2}, step=2)
        assert newest is not None
        part = newest.path / "state.json"
        if damage == "truncate":
            part.write_bytes(part.read_bytes()[:-1])
        elif damage == "flip":
            part.write_bytes(b"X" + part.read_bytes()[1:])
        elif damage == "remove":
            part.unlink()
        elif damage == "no manifest":
            (newest.path / "manifest.json").unlink()
        else:
            (newest.path / "manifest.json").write_text('{"parts": [{"name": "../../x"}]}')
        found = saver.latest()
        assert found is not None
        assert found.step == 1


class TestKeeping:
    def test_the_last_few_are_kept(self, saver: Saver) -> None:
        for step in range(6):
            saver.save({"s": step}, step=step)
        assert [found.step for found in CheckpointFolder(saver.folder).complete()] == [3, 4, 5]

    def test_at_least_one_is_kept(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="at least 1"):
            Saver(tmp_path, keep=0)

    def test_what_a_dead_writer_left_is_removed_and_a_live_ones_is_not(self, saver: Saver) -> None:
        from trackyard.checkpoint import store

        dead = saver.folder / f".step-00000001-00000000.{store._host()}-999999999.part"
        live = saver.folder / f".step-00000002-00000000.{store._host()}-{os.getpid()}.part"
        other = saver.folder / ".step-00000003-00000000.elsewhere-1.part"
        for path in (dead, live, other):
            path.mkdir()
        CheckpointFolder(saver.folder)
        assert [path.exists() for path in (dead, live, other)] == [False, True, True]


class TestInTheBackground:
    def test_a_save_that_is_not_waited_for_holds_the_state_of_its_moment(
        self, saver: Saver
    ) -> None:
        weights = numpy.zeros(3)
        assert saver.save({"weights": weights}, step=1, wait=False) is None
        weights += 1
        saver.wait()
        found = saver.latest()
        assert found is not None
        assert states.load(found)["weights"].tolist() == [0, 0, 0]

    def test_saves_are_kept_in_order(self, saver: Saver) -> None:
        for step in range(5):
            saver.save({"s": numpy.array(step)}, step=step, wait=False)
        found = saver.latest()
        assert found is not None
        assert found.step == 4

    def test_an_error_behind_is_raised_by_the_next_call(
        self, saver: Saver, tmp_path: Path
    ) -> None:
        source = tmp_path / "model"
        source.mkdir()
        (source / "a").write_text("x")
        (source / "link").symlink_to("a")
        saver.save(source, step=1, wait=False)
        with pytest.raises(CheckpointError, match="could not be saved"):
            saver.wait()


class TestSecondPlace:
    def test_a_folder_gets_every_checkpoint_and_gives_the_newest_back(
        self, tmp_path: Path
    ) -> None:
        first = Saver(tmp_path / "node1", upload=str(tmp_path / "shared"))
        for step in (1, 2):
            first.save({"s": step}, step=step, wait=False)
        first.wait()
        second = Saver(tmp_path / "node2", upload=FolderTarget(tmp_path / "shared"))
        found = second.latest()
        assert found is not None
        assert found.path.parent == tmp_path / "node2"
        assert states.load(found) == {"s": 2}

    def test_an_upload_that_fails_costs_no_checkpoint(self, tmp_path: Path) -> None:
        class Broken:
            def put(self, _checkpoint: object) -> None:
                raise CheckpointError("the wire is cut")

            def fetch(self, _into: object) -> None:
                return None

        saver = Saver(tmp_path / "here", upload=Broken())
        saver.save({"s": 1}, step=1)
        assert saver.upload_failures == ["the wire is cut"]
        assert saver.latest() is not None

    def test_a_run_to_upload_to_must_be_named(self, tmp_path: Path) -> None:
        with pytest.raises(CheckpointError, match="MLFLOW_RUN_ID"):
            Saver(tmp_path, upload="run")


class TestModule:
    def test_the_jobs_folder_is_used(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("YARD_CHECKPOINT_DIR", str(tmp_path / "job"))
        monkeypatch.setenv("YARD_PROGRESS_FILE", str(tmp_path / "progress.json"))
        assert checkpoint.load() is None
        checkpoint.save({"step": 7}, step=7)
        checkpoint.wait()
        assert checkpoint.load() == {"step": 7}
        assert (tmp_path / "job" / "latest.json").exists()
        assert json.loads((tmp_path / "progress.json").read_text()) == {"step": 7}

    def test_a_notice_is_seen_with_its_reason_and_time(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "notice.json"
        monkeypatch.setenv("YARD_NOTICE_FILE", str(path))
        assert not checkpoint.stop_asked()
        assert checkpoint.notice() is None
        path.write_text(json.dumps({"reason": "preempted", "deadline_ms": 9e15}))
        seen = checkpoint.notice()
        assert seen is not None
        assert seen.reason == "preempted"
        assert seen.seconds_left > 1000

    def test_leaving_saved_has_its_own_exit_code(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(SystemExit) as leaving:
            checkpoint.exit_saved()
        assert leaving.value.code == 85
        monkeypatch.setenv("YARD_SAVED_EXIT_CODE", "99")
        with pytest.raises(SystemExit) as leaving:
            checkpoint.exit_saved()
        assert leaving.value.code == 99

    @pytest.mark.parametrize(
        ("modules", "call", "line"),
        [
            (["lightning", "pytorch_lightning"], "lightning_callback", "pip install lightning"),
            (["transformers"], "huggingface_callback", "pip install transformers"),
        ],
    )
    def test_a_missing_framework_is_told_with_its_install_line(
        self,
        modules: list[str],
        call: str,
        line: str,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        checkpoint.configure(tmp_path)
        for name in list(sys.modules):
            if name.split(".")[0] in modules:
                monkeypatch.delitem(sys.modules, name)
        for name in modules:
            monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(CheckpointError, match=line):
            getattr(checkpoint, call)()

    def test_a_missing_torch_is_told_with_its_install_line(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        checkpoint.configure(tmp_path)
        monkeypatch.setitem(sys.modules, "torch", None)
        with pytest.raises(CheckpointError, match="pip install torch"):
            checkpoint.save_distributed({}, step=1)
