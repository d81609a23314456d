"""Known troubles by the lines they leave in a job's log. Pure; knows no job and no table.

Owns the patterns that ship, by name, what each means in one sentence, and how many characters a
user's own pattern may have. Alerts and log policies share them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from trackyard.core.errors import InvalidInput

MAX_PATTERN = 300
#: Characters of one line that are searched, and that are shown.
MAX_LINE, SHOWN = 2000, 300
#: What lets a search take time out of all proportion: a repeated group that repeats inside.
_NESTED = re.compile(r"\([^()]*[*+}][^()]*\)[*+{]")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPattern:
    """A shipped pattern."""

    name: str
    title: str
    regex: str
    #: what it means, and what to do
    sentence: str
    #: whether the node is at fault, so that the next attempt should go elsewhere
    blames_node: bool = False


SHIPPED: tuple[LogPattern, ...] = (
    LogPattern(
        name="ecc",
        title="GPU memory error (ECC)",
        regex=r"(?i)uncorrectable ECC error|double.bit ECC|ECC error (?:encountered|detected)",
        sentence="A GPU reported a memory error (ECC). Drain the node and have the GPU looked at.",
        blames_node=True,
    ),
    LogPattern(
        name="xid",
        title="NVIDIA driver error (Xid)",
        regex=r"NVRM: Xid|\bXid\s*(?:\([^)]{1,60}\)\s*)?[:=]?\s*\d{1,3}\b",
        sentence="The NVIDIA driver reported an Xid error. Look its number up; drain the node.",
        blames_node=True,
    ),
    LogPattern(
        name="nccl",
        title="NCCL failure",
        regex=(
            r"(?i)NCCL WARN|ncclSystemError|ncclInternalError|ncclRemoteError"
            r"|ncclUnhandledCudaError|Watchdog caught collective operation timeout"
            r"|NCCL (?:communicator was aborted|error)"
        ),
        sentence="NCCL failed or timed out: a rank, a link or a node is slow or gone.",
    ),
    LogPattern(
        name="cuda-oom",
        title="CUDA out of memory",
        regex=r"CUDA out of memory|torch\.(?:cuda\.)?OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY",
        sentence="A GPU ran out of memory. Use a smaller batch, or a GPU with more memory.",
    ),
    LogPattern(
        name="disk-full",
        title="Disk full",
        regex=r"No space left on device|Disk quota exceeded|\bENOSPC\b",
        sentence="A disk is full. Make room, or write elsewhere.",
        blames_node=True,
    ),
)
BY_NAME = {one.name: one for one in SHIPPED}


def check_regex(text: str) -> None:
    """Refuse what is no regular expression, or one that could take very long."""
    if not text or len(text) > MAX_PATTERN:
        raise InvalidInput(f"a log pattern has between 1 and {MAX_PATTERN} characters")
    try:
        re.compile(text)
    except re.error as fault:
        raise InvalidInput(
            f"the log pattern {text[:80]!r} is no regular expression: {fault}"
        ) from None
    if _NESTED.search(text) or re.search(r"\\[1-9]|\(\?P=", text):
        raise InvalidInput(
            f"the log pattern {text[:80]!r} repeats a group that repeats inside, or refers back"
            " to a group: both can take very long on a long line; write it without"
        )


@lru_cache(maxsize=2000)
def compiled(text: str) -> re.Pattern[str]:
    """Return a pattern, shipped by name or written out, ready to search with."""
    found = BY_NAME.get(text)
    return re.compile(found.regex if found else text)


def first_match(pattern: str, text: str) -> str | None:
    """Return the first line that matches, shortened, or None."""
    regex = compiled(pattern)
    for line in text.splitlines():
        if regex.search(line[:MAX_LINE]):
            return line.strip()[:SHOWN]
    return None
