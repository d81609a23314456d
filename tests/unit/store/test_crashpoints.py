"""Crash points: off unless named, and due at the named place, detail and count alone."""

import subprocess
import sys

import pytest

from trackyard.store import crashpoints
from trackyard.store.faults import explain_read, explain_write, is_away


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("", ("", "", 1)),
        ("after-commit", ("after-commit", "", 1)),
        ("after-commit=run.created", ("after-commit", "run.created", 1)),
        ("migration-statement:5", ("migration-statement", "", 5)),
        ("before-commit=job.submitted:2", ("before-commit", "job.submitted", 2)),
    ],
)
def test_the_variable_is_read(text: str, parsed: tuple[str, str, int]) -> None:
    assert crashpoints._parse(text) == parsed


def test_nothing_is_due_without_the_variable() -> None:
    assert not crashpoints.ARMED
    assert not crashpoints.due("after-commit")
    crashpoints.reached("after-commit", ["run.created"])


def test_the_process_dies_at_the_place_and_count() -> None:
    script = (
        "from trackyard.store.crashpoints import reached\n"
        "reached('before-commit', ['a']); reached('after-commit', ['b'])\n"
        "reached('after-commit', ['a']); print('once', flush=True)\n"
        "reached('after-commit', ['a']); print('twice', flush=True)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script],
        env={"YARD_CRASH_POINT": "after-commit=a:2", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.returncode, answer.stdout) == (-9, "once\n")


def test_faults_of_the_server_itself_are_not_the_databases() -> None:
    assert explain_read(KeyError("x"), 1.0) is None
    assert not is_away(KeyError("x"))
    assert explain_write(KeyError("secret-detail")).status == 500
    assert "secret-detail" not in explain_write(KeyError("secret-detail")).message
