"""Users' snippets against the types we ship: what should check does, what should not does not."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SNIPPETS = Path(__file__).parent / "api.py"


def found_errors() -> set[tuple[int, str]]:
    """Return line and code of each error a strict checker finds."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-pretty", "--show-error-codes"]
    answer = subprocess.run(
        [*command, "--config-file=", str(SNIPPETS)],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert answer.returncode in (0, 1), answer.stderr
    lines = [line for line in answer.stdout.splitlines() if ": error:" in line]
    ours = [line for line in lines if line.startswith(str(SNIPPETS.relative_to(ROOT)))]
    foreign = [line for line in lines if line not in ours and line.startswith("src/")]
    assert foreign == [], "the package itself does not type-check"
    matches = [re.match(r"[^:]+:(\d+): error: .*\[([a-z-]+)\]$", line) for line in ours]
    return {(int(match[1]), match[2]) for match in matches if match is not None}


def expected_errors() -> set[tuple[int, str]]:
    """Return line and code of each error the snippets announce."""
    marks = [
        (number, re.search(r"# error: ([a-z-]+)$", line))
        for number, line in enumerate(SNIPPETS.read_text().splitlines(), start=1)
    ]
    return {(number, mark[1]) for number, mark in marks if mark is not None}


def test_snippets_type_check_as_users_would_expect() -> None:
    """Every announced mistake is found, and nothing else is."""
    assert expected_errors()
    assert found_errors() == expected_errors()
