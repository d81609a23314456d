"""Nodes on the command line: labels, ends of drains, health in words and as an exit code."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli import samples
from trackyard.cli.fleet import doctor_node, nodes
from trackyard.cli.fleet.drain import until_ms
from trackyard.core.errors import SetupError

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def check(verdict: str = "ok", **changes: Any) -> dict[str, Any]:
    return {
        "name": "disk",
        "verdict": verdict,
        "sentence": "Only 0.5 GB are free in /x.",
        "number": 0.5,
        "unit": "GB",
        "failed": 0,
        **changes,
    }


def test_labels_are_set_and_removed_by_how_they_are_written() -> None:
    assert nodes.label_wish(["rack=r1", "old-", "note=a=b"]) == {
        "set": {"rack": "r1", "note": "a=b"},
        "remove": ["old"],
    }


@pytest.mark.parametrize("words", [[], ["rack"], ["-"], ["=x"]])
def test_what_is_no_label_is_refused_with_the_form_that_works(words: list[str]) -> None:
    with pytest.raises(SetupError) as refused:
        nodes.label_wish(words)
    assert "NAME=VALUE" in (refused.value.hint or "")


def test_a_drain_ends_after_so_long_or_at_a_moment() -> None:
    start = round(NOW.timestamp() * 1000)
    assert until_ms("2h30m", NOW) == start + 9_000_000
    assert until_ms("2026-03-01T14:00+01:00", NOW) == start + 3_600_000
    for wrong in ("2026-13-01 14:00", "soon"):
        with pytest.raises(SetupError):
            until_ms(wrong, NOW)


def test_a_sick_node_shows_its_checks(capsys: pytest.CaptureFixture[str]) -> None:
    sick = check("fail", failed=3)
    nodes.draw_node(samples.node(health="fail", checks=[check(), sick], gpus=[]))
    out = capsys.readouterr().out
    assert "health      fail\n" in out
    assert "ok   disk         Only 0.5 GB are free in /x.\n" in out
    assert "FAIL disk         Only 0.5 GB are free in /x. (3 looks in a row)\n" in out


def test_the_gravest_check_decides() -> None:
    assert doctor_node.worst([check(), check("fail"), check("warn")]) == "fail"
    assert doctor_node.worst([]) == "unknown"


def test_this_machine_is_checked_without_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that tells of a GPU with memory errors makes the command fail."""
    monkeypatch.setenv("YARD_HOME", str(tmp_path))
    (tmp_path / "engine").mkdir()
    assert doctor_node.check_node("", as_json=False) == 0
    assert capsys.readouterr().out.startswith("this machine: ")
    (tmp_path / "engine" / "gpus.json").write_text('[{"index": 3, "ecc_uncorrected": 2}]')
    assert doctor_node.check_node("", as_json=False) == 1
    assert "FAIL ecc          GPU 3 had 2 memory errors" in capsys.readouterr().out
