"""Counts what the checks of `make test` left in .cache/reports; the last line sums them up.

Owns how outcomes become counts: a check with a JUnit report counts its tests, any other is one. It
must not know what a check does, and needs nothing but the standard library.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

REPORTS = Path(__file__).resolve().parent.parent / ".cache" / "reports"


def counts(report: Path) -> tuple[int, int]:
    """Read how many tests passed and failed from a JUnit report; a skipped test is no pass."""
    passed = failed = 0
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is None:
            passed += 1
    return passed, failed


def outcome(status_file: Path) -> tuple[int, int, int]:
    """Tell how many tests of a check passed and failed, and its seconds."""
    status, seconds = (int(word) for word in status_file.read_text().split())
    report = status_file.with_suffix(".xml")
    if report.is_file():
        passed, failed = counts(report)
    else:
        passed, failed = int(status == 0), 0
    if status and not failed:
        # It failed without a failed test: it could not start, or broke off.
        failed = 1
    return passed, failed, seconds


def main() -> int:
    """Print a line for each check, and the counts of all in the last."""
    total = [0, 0]
    for status_file in sorted(REPORTS.glob("*.status"), key=lambda path: path.stat().st_mtime_ns):
        passed, failed, seconds = outcome(status_file)
        total[0] += passed
        total[1] += failed
        print(f"{status_file.stem:14} {passed:5} passed {failed:5} failed {seconds:6} s")
    passed, failed = total
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
