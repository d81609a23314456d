"""SPEC.json is checked whole before anything is done with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trackyard.core.ports import GpuShare, Launcher, LaunchSpec, NodeGrant, PackageRef, ReportTo
from trackyard.engines import wrapper
from trackyard.runner.spec import BadSpecError, load, mark, parse

GOOD: dict[str, Any] = {
    "version": 1,
    "attempt_id": "trk-j1-a1",
    "epoch": 2,
    "job_id": "j1",
    "argv": ["python", "train.py"],
    "state_dir": "/state",
    "cache_dir": "/cache",
}


def test_a_small_spec_gets_its_defaults() -> None:
    spec = parse(GOOD)
    assert (spec.attempt_id, spec.epoch, spec.argv) == ("trk-j1-a1", 2, ("python", "train.py"))
    assert (spec.gang.members, spec.gpus, spec.report) == (1, None, None)
    assert spec.saved_exit_code == 85


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"version": 2}, "version"),
        ({"attempt_id": "../x"}, "attempt_id"),
        ({"attempt_id": "a\nb"}, "attempt_id"),
        ({"job_id": ""}, "job_id"),
        ({"argv": []}, "argv"),
        ({"argv": "rm -rf"}, "argv"),
        ({"argv": ["a\0b"]}, "NUL"),
        ({"env": {"A B": "1"}}, "A B"),
        ({"env": {"A=B": "1"}}, "A=B"),
        ({"env": {"A\n": "1"}}, "env"),
        ({"env": {"A": "x\0y"}}, "NUL"),
        ({"package": {"digest": "zz", "location": "/p"}}, "digest"),
        ({"gang": {"launcher": "sh"}}, "launcher"),
        ({"gang": {"member": 2, "members": 2, "addresses": ["a", "b"]}}, "gang"),
        ({"gang": {"member": 0, "members": 2, "addresses": ["a"]}}, "gang"),
        ({"report": {"url": "file:///etc/passwd"}}, "url"),
        ({"epoch": "soon"}, "wrong value"),
        ({"stop_scope": "everyone"}, "stop_scope"),
    ],
)
def test_a_wrong_value_is_named(change: dict[str, Any], named: str) -> None:
    with pytest.raises(BadSpecError, match=named.replace("(", "")):
        parse({**GOOD, **change})


@pytest.mark.parametrize("text", ["", "[]", "{", "null"])
def test_what_is_no_object_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "spec.json"
    path.write_text(text)
    with pytest.raises(BadSpecError):
        load(path)


def test_every_member_of_every_attempt_has_its_own_mark() -> None:
    gang = {"members": 2, "addresses": ["a", "b"]}
    marks = {
        mark(parse({**GOOD, **change}))
        for change in (
            {},
            {"attempt_id": "other"},
            {"state_dir": "/elsewhere"},
            {"gang": {**gang, "member": 1}},
        )
    }
    assert len(marks) == 4


def test_the_token_is_not_shown() -> None:
    spec = parse({**GOOD, "report": {"url": "http://h", "token": "s3cret"}})
    assert "s3cret" not in repr(spec)


def test_what_engines_write_is_what_the_runner_reads() -> None:
    launch = LaunchSpec(
        attempt_id="trk-j1-a1",
        epoch=3,
        job_id="j1",
        argv=("train.py",),
        placement=(
            NodeGrant(node_id="n0", gpus=(GpuShare(index=1, fraction=0.5),), cpus=2),
            NodeGrant(node_id="n1", gpus=(GpuShare(index=0),), memory_bytes=10),
        ),
        report=ReportTo(url="http://server/", token="t", renew_within_seconds=45),
        env={"A": "1"},
        platform_env={"MLFLOW_RUN_ID": "r"},
        package=PackageRef(digest="a" * 64, location="/p.zip", size_bytes=1),
        pip=("numpy",),
        launcher=Launcher.TORCHRUN,
        time_limit_seconds=60,
    )
    place = wrapper.MemberPlace(
        member=1,
        state_dir=Path("/s/m1"),
        cache_dir=Path("/c"),
        addresses=["a", "b"],
        port=5000,
        gang_dir=Path("/s"),
        gpu_vendor="amd",
        checkpoint_dir=Path("/k"),
        base_env={"PATH": "/bin"},
        python="/py",
    )
    spec = parse(json.loads(json.dumps(wrapper.runner_spec(launch, place))))
    assert (spec.gang.member, spec.gang.members, spec.gang.launcher) == (1, 2, "torchrun")
    assert spec.memory_bytes == 10
    assert spec.gpus is not None
    assert (spec.gpus[0].index, spec.gpus[0].vendor) == (0, "amd")
    assert spec.report is not None
    assert (spec.report.url, spec.report.renew_within_seconds) == ("http://server", 45)
    assert spec.package is not None
    assert spec.checkpoint_dir == Path("/k")
    assert spec.time_limit_seconds == 60
