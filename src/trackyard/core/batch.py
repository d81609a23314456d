"""What a queue may ask of a batch system beneath the engine: names and options of sbatch.

Owns which options are an operator's to give. Knows no batch system by itself.
"""

from __future__ import annotations

import re

from trackyard.core.ports import BatchOptions

#: options that Trackyard gives by itself, or that would send a job elsewhere than it believes
_OURS = re.compile(
    r"--(parsable|wrap|array|job-name|comment|output|error|chdir|nodelist|nodes|ntasks[\w-]*"
    r"|export|export-file|signal|test-only|wait|dependency|begin|hold|uid|gid|requeue|no-requeue)"
    r"(=|\Z)"
)
_OPTION = re.compile(r"--[a-z][a-z0-9-]*(=[^\s'\"\\`$]*)?\Z")
_UNSAFE = re.compile(r"[\s'\"\\`$]")


def options_fault(options: BatchOptions) -> str:
    """Say what is wrong with options, and what to do; empty: nothing."""
    for name in ("partition", "account", "qos", "reservation", "constraint"):
        value = getattr(options, name)
        if _UNSAFE.search(value):
            return f"{name} {value[:80]!r} is not one name: write it without blanks and quotes"
    for line in options.directives:
        if not _OPTION.match(line):
            return f"directive {line[:80]!r} is no option of sbatch: write it as --name=value"
        if _OURS.match(line):
            name = line.partition("=")[0]
            return f"directive {name} cannot be given: Trackyard sets it for each job by itself"
    return ""
