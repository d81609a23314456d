"""The calls behind `yard edit`: one per change, refused where a change has no meaning."""

import argparse
from typing import Any

import pytest

from trackyard.cli.runs import edit
from trackyard.core.errors import SetupError


def args(**given: Any) -> argparse.Namespace:
    """The arguments of a command line with nothing asked for but the given."""
    blank = {
        "model": None,
        "name": None,
        "note": None,
        "tag": [],
        "untag": [],
        "stage": None,
        "delete": False,
        "restore": False,
    }
    return argparse.Namespace(**{**blank, **given})


def test_run_restored_before_anything_else_and_deleted_last() -> None:
    calls = edit.run_calls(args(restore=True, name="calm-hen", tag=["a=b=c"]), "r1")
    assert [path for _, path, _ in calls] == ["runs/restore", "runs/update", "runs/set-tag"]
    assert calls[2][2] == {"run_id": "r1", "key": "a", "value": "b=c"}
    assert edit.run_calls(args(untag=["a"], delete=True), "r1")[-1][1] == "runs/delete"


def test_empty_note_takes_the_note_away() -> None:
    assert edit.run_calls(args(note=""), "r1") == [
        ("POST", "runs/delete-tag", {"run_id": "r1", "key": edit.NOTE})
    ]


def test_version_of_a_model_is_named_after_a_slash() -> None:
    calls = edit.model_calls(args(model="food11/3", stage="Production"))
    assert calls[0][1:] == (
        "model-versions/transition-stage",
        {"name": "food11", "version": "3", "stage": "Production"},
    )
    assert edit.model_calls(args(model="food11", delete=True))[0][:2] == (
        "DELETE",
        "registered-models/delete",
    )


@pytest.mark.parametrize("wrong", [{"tag": ["no-value"]}, {"stage": "Production"}])
def test_change_that_a_run_cannot_have_is_refused_with_a_hint(wrong: dict[str, Any]) -> None:
    with pytest.raises(SetupError) as caught:
        edit.run_calls(args(**wrong), "r1")
    assert caught.value.hint


def test_experiment_is_described_by_a_tag() -> None:
    calls = edit.experiment_calls(args(note="why"), "7")
    assert calls[0][2] == {"experiment_id": "7", "key": edit.NOTE, "value": "why"}
