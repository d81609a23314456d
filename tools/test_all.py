"""Installs what the checks of the repository need, runs every one and counts what passed.

Owns the order, what may run beside what, the time of each step and the closing line. It must not
know what a test checks, and needs nothing but the standard library: it installs the rest.
Name steps to run those alone: `python tools/test_all.py ruff mypy unit`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
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
#: Steps that run at once: installing waits for the network, so a third finds a core idle.
AT_ONCE = 3
#: Processes of the long run of pytest: its tests wait for others half of the time.
WORKERS = "5"
#: At most so many failed tests are run once more, alone, as a diagnosis. They stay failures.
DIAGNOSED = 5
#: The tests that run the product in their own process, which is what coverage sees.
COVERED = ("tests/unit", "tests/integration")
LAST_FAILED = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One check: a command, and the JUnit report it leaves if it counts tests itself."""

    name: str
    command: list[str]
    report: Path | None = None
    may_be_empty: bool = False
    in_full_run: bool = True
    #: Steps that must have passed; where they were not asked for, they are taken as done.
    needs: tuple[str, ...] = ()
    #: It runs with no other step beside it, and its words are shown as they come.
    alone: bool = False
    #: Where few of its tests fail, they are run once more alone, to tell whether it was the crowd.
    is_diagnosed: bool = False


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one step came to."""

    step: Step
    seconds: float
    passed: int
    failed: int


def pytest_step(name: str, *arguments: str) -> Step:
    """A run of pytest with its report."""
    report = REPORTS / f"{name}.xml"
    folder = TEMPORARY / str(os.getpid()) / name
    flags = [f"--junitxml={report}", f"--basetemp={folder}", "--durations=15"]
    command = [PYTHON, "-m", "pytest", *flags, *arguments]
    return Step(name=name, command=command, report=report, needs=("dev", "web"), alone=True)


def npm_step(name: str, script: str) -> Step:
    """One of the front end's scripts."""
    return Step(name=name, command=[PYTHON, "tools/web.py", "run", script], needs=("web",))


def vitest_step(name: str, script: str, *needs: str) -> Step:
    """One of the front end's suites, with its report."""
    report = REPORTS / f"{name}.xml"
    flags = ["--reporter=default", "--reporter=junit", f"--outputFile.junit={report}"]
    command = [PYTHON, "tools/web.py", "run", script, "--", *flags]
    return Step(name=name, command=command, report=report, needs=("web", *needs))


def marked_alone() -> list[str]:
    """Find the modules with tests that run alone, so that no others are collected for them."""
    modules = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(path) for path in modules if "mark.alone" in path.read_text(encoding="utf-8")]


def steps() -> list[Step]:
    """Every step, in the order in which they start: installing first, pytest last."""
    cover = ["--cov", "--cov-report="]
    spread = ["-n", WORKERS, "--dist", "loadscope"]
    # One beside it is no crowd: most of these wait for processes, and Ray's are all in one unit.
    pair = ["-n", "2", "--dist", "loadscope"]
    e2e = [vitest_step("e2e", "e2e", "dev", "needs")]
    ruff = str(BIN / "ruff")
    dev = ("dev",)
    return [
        Step(name="dev", command=["make", "--no-print-directory", "dev"]),
        Step(name="envs", command=[PYTHON, "tools/client_envs.py"]),
        Step(name="needs", command=["sh", "tools/test_needs.sh"]),
        Step(name="web", command=[PYTHON, "tools/web.py", "build"], needs=dev),
        *(e2e if any((ROOT / "tests" / "e2e").glob("*.e2e.ts")) else ()),
        Step(name="ruff", command=[ruff, "check", "--quiet", "."], needs=dev),
        Step(name="format", command=[ruff, "format", "--check", "--quiet", "."], needs=dev),
        Step(name="mypy", command=[str(BIN / "mypy")], needs=dev),
        npm_step("tsc", "typecheck"),
        npm_step("oxlint", "lint"),
        vitest_step("vitest", "test"),
        replace(pytest_step("imports", "tests/unit/test_imports.py"), in_full_run=False),
        replace(pytest_step("unit", "tests/unit", "-n", "2"), in_full_run=False),
        # Tracing lines doubles what the tests cost, so `make coverage` does it apart.
        replace(
            pytest_step("coverage", *pair, "-m", "not alone", *cover, *COVERED), in_full_run=False
        ),
        replace(pytest_step("pytest", *spread, "-m", "not alone"), is_diagnosed=True),
        replace(pytest_step("alone", *pair, "-m", "alone", *marked_alone()), may_be_empty=True),
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
    status, words = execute(step)
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
    verdict = f"-- {step.name}: {'ok' if status == 0 else 'FAILED'} in {seconds:.1f} s"
    print(f"{words}{verdict}", flush=True)
    outcome = Outcome(step=step, seconds=seconds, passed=passed, failed=failed)
    if failed and step.is_diagnosed:
        diagnose()
    return outcome


def diagnose() -> None:
    """Run the few tests that failed beside others alone, and say which pass there.

    They have failed all the same: a test that fails in a crowd is a fault of the test or of the
    product.
    """
    names = sorted(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.is_file() else []
    if not 0 < len(names) <= DIAGNOSED:
        return
    second = run(pytest_step("diagnosis", "-m", "not alone", *names))
    print(f"diagnosis: {second.passed} of {len(names)} pass alone, having failed beside others:")
    print("".join(f"diagnosis:   {name}\n" for name in names), end="", flush=True)


def execute(step: Step) -> tuple[int, str]:
    """Run a step's command; what it says beside others is held back until it is over."""
    if step.alone:
        return subprocess.run(step.command, cwd=ROOT, check=False).returncode, ""
    done = subprocess.run(
        step.command,
        cwd=ROOT,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    return done.returncode, done.stdout


def run_all(chosen: Iterable[Step]) -> list[Outcome]:
    """Run steps as soon as what they need has passed and there is room beside the others."""
    left = list(chosen)
    names = {step.name for step in left}
    outcomes: list[Outcome] = []
    under_way: dict[Future[Outcome], Step] = {}
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        while left or under_way:
            good = {one.step.name for one in outcomes if not one.failed}
            bad = {one.step.name for one in outcomes if one.failed}
            for step in [step for step in left if bad & set(step.needs)]:
                print(f"-- {step.name}: not run, for it needs what failed", flush=True)
                left.remove(step)
                outcomes.append(Outcome(step=step, seconds=0.0, passed=0, failed=1))
            for step in list(left):
                waits = (set(step.needs) & names) - good
                beside = len(under_way)
                if waits or beside >= AT_ONCE or any(one.alone for one in under_way.values()):
                    continue
                if step.alone and (beside or step is not left[0]):
                    continue
                left.remove(step)
                under_way[pool.submit(run, step)] = step
            done, _ = wait(under_way, return_when=FIRST_COMPLETED)
            outcomes += [future.result() for future in done]
            for future in done:
                del under_way[future]
    return outcomes


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
    if not names:
        # Two thousand random histories of the queue; a quick run has a tenth.
        os.environ.setdefault("YARD_MODEL_HISTORIES", "40")
    known = steps()
    unknown = set(names) - {step.name for step in known}
    if unknown:
        print(f"test_all: no step is named {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    chosen = [step for step in known if step.name in names or (not names and step.in_full_run)]
    started = time.monotonic()
    LAST_FAILED.unlink(missing_ok=True)
    clear_temporary()
    (TEMPORARY / str(os.getpid())).mkdir()
    outcomes = run_all(chosen)
    clear_temporary()
    if "coverage" in names:
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
