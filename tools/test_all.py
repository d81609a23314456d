"""Runs every check of the repository, one step after the other, and counts what passed.

Owns the order, the time of each step and the closing line. It must not know what a test checks.
Name steps to run those alone: `python tools/test_all.py ruff mypy unit`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / ".cache" / "reports"
BIN = Path(sys.executable).parent
PYTHON = sys.executable
#: Temporary folders of the tests: this run's own, so that no other run clears them away, and
#: outside the checkout, whose .gitignore would reach into them.
TEMPORARY = Path(tempfile.gettempdir()) / f"trackyard-tests-{os.getuid()}"

#: pytest's exit status when it found no test.
NO_TESTS = 5


@dataclass(frozen=True, kw_only=True)
class Step:
    """One check: a command, and the JUnit report it leaves if it counts tests itself."""

    name: str
    command: list[str]
    report: Path | None = None
    may_be_empty: bool = False
    in_full_run: bool = True


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one step came to."""

    step: Step
    seconds: float
    passed: int
    failed: int


def pytest_step(name: str, *arguments: str, **options: bool) -> Step:
    """A run of pytest with its report and coverage."""
    report = REPORTS / f"{name}.xml"
    folder = TEMPORARY / str(os.getpid()) / name
    flags = [f"--junitxml={report}", f"--basetemp={folder}", "--durations=15"]
    command = [PYTHON, "-m", "pytest", *flags, *arguments]
    return Step(name=name, command=command, report=report, **options)


def npm_step(name: str, script: str) -> Step:
    """One of the front end's scripts."""
    return Step(name=name, command=[PYTHON, "tools/web.py", "run", script])


def vitest_step(name: str, script: str) -> Step:
    """One of the front end's suites, with its report."""
    report = REPORTS / f"{name}.xml"
    flags = ["--reporter=default", "--reporter=junit", f"--outputFile.junit={report}"]
    command = [PYTHON, "tools/web.py", "run", script, "--", *flags]
    return Step(name=name, command=command, report=report)


def steps() -> list[Step]:
    """Every step, in order: what is quick to fail first, pytest last."""
    cover = ["--cov", "--cov-report="]
    e2e = [vitest_step("e2e", "e2e")] if any((ROOT / "tests" / "e2e").glob("*.e2e.ts")) else []
    return [
        Step(name="ruff", command=[str(BIN / "ruff"), "check", "--quiet", "."]),
        Step(name="format", command=[str(BIN / "ruff"), "format", "--check", "--quiet", "."]),
        Step(name="mypy", command=[str(BIN / "mypy")]),
        npm_step("tsc", "typecheck"),
        npm_step("oxlint", "lint"),
        pytest_step("imports", "tests/unit/test_imports.py", in_full_run=False),
        pytest_step("unit", "tests/unit", "-n", "2", in_full_run=False),
        Step(name="needs", command=["sh", "tools/test_needs.sh"]),
        Step(name="envs", command=[PYTHON, "tools/client_envs.py"]),
        vitest_step("vitest", "test"),
        *e2e,
        pytest_step("pytest", "-n", "2", "--dist", "loadscope", "-m", "not alone", *cover),
        pytest_step("alone", "-m", "alone", *cover, "--cov-append", may_be_empty=True),
    ]


def counts(report: Path) -> tuple[int, int]:
    """Read how many tests passed and failed from a JUnit report; a skipped test is no pass."""
    passed = failed = 0
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is None:
            passed += 1
    return passed, failed


def run(step: Step) -> Outcome:
    """Run one step and judge it by its exit status and, where there is one, its report."""
    print(f"== {step.name}", flush=True)
    if step.report is not None:
        step.report.unlink(missing_ok=True)
    started = time.monotonic()
    status = subprocess.run(step.command, cwd=ROOT, check=False).returncode
    seconds = time.monotonic() - started
    if status == NO_TESTS and step.may_be_empty:
        status = 0
    passed, failed = (0, 0)
    if step.report is not None and step.report.is_file():
        passed, failed = counts(step.report)
    elif status == 0:
        passed = 1
    if status != 0 and failed == 0:
        failed = 1
    print(f"-- {step.name}: {'ok' if status == 0 else 'FAILED'} in {seconds:.1f} s", flush=True)
    return Outcome(step=step, seconds=seconds, passed=passed, failed=failed)


def is_alive(pid: str) -> bool:
    """Say whether the run that a temporary folder is named after still goes on."""
    try:
        os.kill(int(pid), 0)
    except PermissionError:
        return True
    except (ValueError, ProcessLookupError):
        return False
    return True


def clear_temporary() -> None:
    """Remove the temporary folders of runs that are over, and of this one."""
    TEMPORARY.mkdir(parents=True, exist_ok=True)
    for folder in TEMPORARY.iterdir():
        if folder.name == str(os.getpid()) or not is_alive(folder.name):
            shutil.rmtree(folder, ignore_errors=True)


def report_coverage() -> None:
    """Print the share of lines and branches that the tests ran in their own process."""
    command = [PYTHON, "-m", "coverage", "report", "--format=total"]
    answer = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if answer.returncode == 0:
        print(f"coverage: {answer.stdout.strip()} %")


def main(names: list[str]) -> int:
    """Run the named steps, or all; the last line says how many tests passed and failed."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    (ROOT / ".cache" / "coverage").mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("NO_COLOR", "1")
    # Hundreds of processes are started; each would compile what it imports anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    known = steps()
    unknown = set(names) - {step.name for step in known}
    if unknown:
        print(f"test_all: no step is named {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    chosen = [step for step in known if step.name in names or (not names and step.in_full_run)]
    started = time.monotonic()
    clear_temporary()
    (TEMPORARY / str(os.getpid())).mkdir()
    outcomes = [run(step) for step in chosen]
    clear_temporary()
    if not names:
        report_coverage()
    for outcome in outcomes:
        mark = "FAILED" if outcome.failed else "ok"
        print(f"{outcome.step.name:10} {outcome.seconds:7.1f} s  {mark}")
    passed = sum(outcome.passed for outcome in outcomes)
    failed = sum(outcome.failed for outcome in outcomes)
    print(f"{passed} passed, {failed} failed in {time.monotonic() - started:.1f} s")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
