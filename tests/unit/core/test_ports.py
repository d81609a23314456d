"""What crosses the engine port is checked when it is made."""

from __future__ import annotations

from typing import Any

import pytest

from trackyard.core.ports import (
    ExitCause,
    ExitRecord,
    GpuShare,
    LaunchSpec,
    NodeGrant,
    PackageRef,
    ReportTo,
    deciding_exit,
)


def spec(**changes: Any) -> LaunchSpec:
    values: dict[str, Any] = {
        "attempt_id": "trk-j1-a1",
        "epoch": 1,
        "job_id": "j1",
        "argv": ("true",),
        "placement": (NodeGrant(node_id="n0"),),
    }
    return LaunchSpec(**{**values, **changes})


BAD_IDS = ["", "..", "../x", "a/b", "a b", "a\nb", "a\n", "-a", "a\0", "a" * 129, "a;rm", "ä"]


class TestLaunchSpec:
    @pytest.mark.parametrize("value", BAD_IDS)
    def test_ids_outside_their_pattern_are_refused(self, value: str) -> None:
        with pytest.raises(ValueError, match="attempt id"):
            spec(attempt_id=value)
        with pytest.raises(ValueError, match="job id"):
            spec(job_id=value)

    @pytest.mark.parametrize("name", ["", "A B", "A=B", "A\n", "1A", "A-B", "A\0", "Ä"])
    def test_names_that_are_no_variables_are_refused(self, name: str) -> None:
        with pytest.raises(ValueError, match="environment variable"):
            spec(env={name: "x"})

    def test_values_with_nul_are_refused(self) -> None:
        with pytest.raises(ValueError, match="environment variable"):
            spec(env={"A": "x\0y"})
        with pytest.raises(ValueError, match="NUL"):
            spec(argv=("a\0b",))

    def test_a_command_and_a_place_are_needed(self) -> None:
        with pytest.raises(ValueError, match="empty"):
            spec(argv=())
        with pytest.raises(ValueError, match="node"):
            spec(placement=())

    def test_secrets_are_not_shown(self) -> None:
        shown = repr(
            spec(
                platform_env={"MLFLOW_TRACKING_TOKEN": "s3cret"},
                report=ReportTo(url="http://h", token="s3cret"),
            )
        )
        assert "s3cret" not in shown


@pytest.mark.parametrize(("index", "fraction"), [(-1, 1.0), (0, 0.0), (0, 1.5)])
def test_an_impossible_gpu_share_is_refused(index: int, fraction: float) -> None:
    with pytest.raises(ValueError, match="GPU share"):
        GpuShare(index=index, fraction=fraction)


def test_an_impossible_node_share_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        NodeGrant(node_id="n0", cpus=-1)
    with pytest.raises(ValueError, match="node id"):
        NodeGrant(node_id="a/../b")


def test_a_package_is_named_by_a_digest_and_a_known_format() -> None:
    with pytest.raises(ValueError, match="digest"):
        PackageRef(digest="../x", location="/p", size_bytes=1)
    with pytest.raises(ValueError, match="zip"):
        PackageRef(digest="a" * 64, location="/p", size_bytes=1, format="7z")


RECORD: dict[str, Any] = {
    "attempt_id": "a1",
    "epoch": 1,
    "cause": "exit_code",
    "sentence": "It ended.",
    "exit_code": 3,
    "signal": None,
    "started_ms": 1,
    "ended_ms": 2,
    "duration_seconds": 0.001,
    "from_the_future": True,
}


def record(**changes: Any) -> ExitRecord:
    return ExitRecord.from_json({**RECORD, **changes})


class TestExitRecord:
    def test_it_is_read_with_unknown_keys_ignored(self) -> None:
        read = record(notes=["x"])
        assert (read.cause, read.exit_code, read.notes) == (ExitCause.EXIT_CODE, 3, ("x",))
        assert not read.succeeded

    @pytest.mark.parametrize(
        "change", [{"cause": "magic"}, {"epoch": "x"}, {"ended_ms": None}, {"cause": None}]
    )
    def test_a_damaged_one_is_no_record(self, change: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="not an exit record"):
            record(**change)

    def test_the_first_own_failure_decides_a_gang(self) -> None:
        exits = [
            record(member=0, cause="gang", ended_ms=1),
            record(member=1, cause="exit_code", ended_ms=5),
            record(member=2, cause="succeeded", ended_ms=2),
        ]
        decided = deciding_exit(exits)
        assert decided is not None
        assert decided.member == 1

    def test_a_gang_of_successes_ends_with_its_last(self) -> None:
        exits = [record(member=m, cause="succeeded", ended_ms=m) for m in (0, 1)]
        decided = deciding_exit(exits)
        assert decided is not None
        assert (decided.member, decided.succeeded) == (1, True)

    def test_nothing_decides_while_nothing_ended(self) -> None:
        assert deciding_exit([]) is None
