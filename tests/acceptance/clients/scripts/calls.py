"""Everything light a client can ask, in one process: python calls.py PREFIX SECTION..."""

import importlib
import json
import sys
import time
from functools import partial

from checks import Checks
from mlflow import MlflowClient

SECTIONS = sys.argv[2:]


def main() -> None:
    """Run the named sections and print a report for each."""
    prefix = sys.argv[1]
    reports = {}
    for name in SECTIONS:
        checks = Checks()
        began = time.monotonic()
        part = importlib.import_module(f"calls_{name}")
        for work in part.PARTS:
            checks.section(work.__name__, partial(work, checks, MlflowClient(), prefix))
        checks.fact("seconds", round(time.monotonic() - began, 2))
        reports[name] = {
            "passed": checks.passed,
            "failed": checks.failed,
            "facts": checks.facts,
        }
    print("\nREPORT " + json.dumps(reports, default=str))


if __name__ == "__main__":
    main()
