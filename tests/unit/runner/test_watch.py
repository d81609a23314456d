"""Requests to stop and signs of progress are read from files as they are written."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from trackyard.runner.spec import RunnerSpec, parse
from trackyard.runner.watch import ProgressFiles, Siblings, StopFile, StopRequest, StopRequests


def spec(folder: Path, **changes: Any) -> RunnerSpec:
    data: dict[str, Any] = {
        "version": 1,
        "attempt_id": "a1",
        "epoch": 1,
        "job_id": "j1",
        "argv": ["true"],
        "state_dir": str(folder),
        "cache_dir": str(folder),
        "grace_seconds": 7,
    }
    return parse({**data, **changes})


def test_a_stop_file_is_passed_on_once_and_again_when_it_changes(tmp_path: Path) -> None:
    requests, watcher = StopRequests(), StopFile(spec(tmp_path))
    watcher.check(requests)
    assert requests.take() == []
    path = tmp_path / "stop.json"
    path.write_text(json.dumps({"reason": "preempted", "grace_seconds": 30}))
    watcher.check(requests)
    watcher.check(requests)
    assert requests.take() == [StopRequest("preempted", 30)]
    path.write_text(json.dumps({"reason": "stopped"}))
    os.utime(path, ns=(1, 1))
    watcher.check(requests)
    assert requests.take() == [StopRequest("stopped", 7)]


def test_unknown_reasons_are_plain_stops_and_fencing_leaves_no_grace() -> None:
    requests = StopRequests()
    requests.put("whim", 5)
    requests.put("fenced", 5)
    requests.put("stopped", -1)
    assert requests.take() == [
        StopRequest("stopped", 5),
        StopRequest("fenced", 0),
        StopRequest("stopped", 0),
    ]


def test_a_siblings_failure_ends_the_gang_once(tmp_path: Path) -> None:
    gang = {"member": 0, "members": 2, "addresses": ["a", "b"], "folder": str(tmp_path)}
    requests, siblings = StopRequests(), Siblings(spec(tmp_path, gang=gang))
    (tmp_path / "m1").mkdir()
    siblings.check(requests)
    assert requests.take() == []
    (tmp_path / "m1/exit.json").write_text('{"cause": "exit_code"}')
    siblings._next = 0
    siblings.check(requests)
    siblings._next = 0
    siblings.check(requests)
    assert requests.take() == [StopRequest("gang", 7)]


def test_a_siblings_success_ends_nothing(tmp_path: Path) -> None:
    gang = {"member": 1, "members": 2, "addresses": ["a", "b"], "folder": str(tmp_path)}
    requests, siblings = StopRequests(), Siblings(spec(tmp_path, gang=gang))
    (tmp_path / "m0").mkdir()
    (tmp_path / "m0/exit.json").write_text('{"cause": "succeeded"}')
    siblings.check(requests)
    assert requests.take() == []
    assert siblings.first_is_done()


def test_progress_has_an_age_a_step_and_a_promise(tmp_path: Path) -> None:
    signs = ProgressFiles(spec(tmp_path, progress_seconds=60))
    signs.progress_file.write_text('{"step": 5}')
    found = signs.progress()
    assert (found["step"], found["stalled"]) == (5, False)
    signs._started = 0
    os.utime(signs.progress_file, (time.time() - 100, time.time() - 100))
    found = signs.progress()
    assert found["stalled"]
    assert 99 < found["age_seconds"] < 110


def test_no_promise_means_no_stall(tmp_path: Path) -> None:
    assert "stalled" not in ProgressFiles(spec(tmp_path)).progress()
