"""The last line of `make test` is true: one failed check or test makes the whole run fail."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
REPORT = """<testsuites><testsuite><testcase name="a"/><testcase name="b"/>{failure}
<testcase name="skipped"><skipped/></testcase></testsuite></testsuites>"""
FAILURE = '<testcase name="c"><failure/></testcase>'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    shutil.copytree(TOOLS, tmp_path / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def check(checkout: Path, name: str, *command: str) -> subprocess.CompletedProcess[str]:
    words = ["sh", "tools/check.sh", name, *command]
    return subprocess.run(words, cwd=checkout, capture_output=True, text=True, check=False)


def report(checkout: Path) -> tuple[int, str]:
    words = [sys.executable, "tools/report.py"]
    done = subprocess.run(words, cwd=checkout, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()[-1]


def test_checks_that_pass_are_counted(checkout: Path) -> None:
    assert check(checkout, "ruff", "echo", "fine").stdout.startswith("fine\n-- ruff: ok in ")
    assert report(checkout) == (0, "1 passed, 0 failed")


def test_a_check_that_fails_or_cannot_start_fails_the_run(checkout: Path) -> None:
    check(checkout, "ruff", "true")
    assert check(checkout, "mypy", "false").returncode == 1
    assert check(checkout, "tsc", "./absent").returncode == 127
    assert report(checkout) == (1, "1 passed, 2 failed")


@pytest.mark.parametrize(
    ("failure", "command", "told"),
    [
        ("", "true", (0, "2 passed, 0 failed")),
        (FAILURE, "false", (1, "2 passed, 1 failed")),
        ("", "false", (1, "2 passed, 1 failed")),
    ],
    ids=["all pass", "one fails", "it breaks off"],
)
def test_a_suite_counts_its_tests(
    checkout: Path, failure: str, command: str, told: tuple[int, str]
) -> None:
    check(checkout, "vitest", command)
    (checkout / ".cache/reports/vitest.xml").write_text(REPORT.format(failure=failure))
    assert report(checkout) == told


def test_a_run_without_any_check_is_no_success(checkout: Path) -> None:
    assert report(checkout) == (1, "0 passed, 0 failed")
