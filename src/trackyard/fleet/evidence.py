"""Attempts that ended as they do on broken hardware: kept beside the verdicts, counted as a check.

Owns which ends look like hardware. Knows nothing of jobs: the ends are told to it.
"""

from __future__ import annotations

import re
import signal

from trackyard.core.health import CheckName, Verdict
from trackyard.core.ports import ExitCause
from trackyard.store.database import Reader, Tx

#: What drivers and kernels say of broken hardware, and the words for people. Faults that a
#: program can cause by itself, such as an illegal memory access, are not among them.
_LINES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), words)
    for pattern, words in (
        (r"uncorrectable ECC|ECC_UNCORRECTABLE|double[- ]bit ECC", "an uncorrectable ECC error"),
        (r"fallen off the bus|GPU is lost|GPU_IS_LOST", "a lost GPU"),
        (r"\bXid\b.{0,40}\b(48|64|74|79|95|119|120)\b", "a driver fault (Xid)"),
        (r"no CUDA-capable device|no ROCm-capable device|no HIP GPUs", "no usable GPU"),
        (r"CUDA_ERROR_(SYSTEM_NOT_READY|NVLINK)|NVLink error", "an NVLink or driver fault"),
        (r"HSA_STATUS_ERROR_(OUT_OF_RESOURCES|FATAL)|amdgpu.*ras.*uncorrect", "a GPU fault"),
        (r"Input/output error|Read-only file system", "a disk that cannot be used"),
        (r"No space left on device", "a full disk"),
    )
)


def hardware_like(cause: ExitCause, number: int | None, error_line: str | None) -> str | None:
    """Say what in an attempt's end looks like broken hardware; None if nothing does."""
    if cause is ExitCause.NODE_UNFIT:
        return "a check before the start that failed"
    if cause is ExitCause.SIGNAL and number == signal.SIGBUS:
        return "a bus error"
    if cause not in (ExitCause.EXIT_CODE, ExitCause.SIGNAL) or not error_line:
        return None
    return next((words for line, words in _LINES if line.search(error_line)), None)


def note(tx: Tx, node_id: str, attempt_id: str, words: str) -> None:
    """Keep that an attempt ended on a node as on broken hardware; once per attempt."""
    known = tx.one(
        "SELECT 1 FROM node_verdicts WHERE node_id = ? AND name = ? AND attempt_id = ? LIMIT 1",
        (node_id, CheckName.JOBS.value, attempt_id),
    )
    if known is not None:
        return
    tx.run(
        "INSERT INTO node_verdicts (node_id, name, verdict, sentence, number, unit, source,"
        " attempt_id, at_ms) VALUES (?, ?, ?, ?, NULL, '', 'job', ?, ?)",
        (
            node_id,
            CheckName.JOBS.value,
            Verdict.WARN.value,
            f"Attempt {attempt_id} ended with {words}."[:300],
            attempt_id,
            tx.now_ms,
        ),
    )


def count(reader: Reader | Tx, since_ms: int) -> dict[str, int]:
    """Return how many such ends each node has had since a moment."""
    rows = reader.all(
        "SELECT node_id, count(*) FROM node_verdicts WHERE name = ? AND source = 'job'"
        " AND at_ms > ? GROUP BY node_id",
        (CheckName.JOBS.value, since_ms),
    )
    return {str(row[0]): int(row[1]) for row in rows}


def count_one(reader: Reader | Tx, node_id: str, since_ms: int) -> int:
    """Return how many such ends one node has had since a moment."""
    row = reader.one(
        "SELECT count(*) FROM node_verdicts WHERE node_id = ? AND name = ? AND source = 'job'"
        " AND at_ms > ?",
        (node_id, CheckName.JOBS.value, since_ms),
    )
    return int(row[0]) if row else 0
