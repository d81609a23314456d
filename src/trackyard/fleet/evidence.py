"""What attempts say of their nodes: their runners' reports, and ends as on broken hardware.

Owns which ends look like hardware, and when the word of attempts is confirmed: never by one job,
and where there are several teams never by one team, since a quarantine keeps all of them off.
Knows nothing of jobs: callers pass in what they report.
"""

from __future__ import annotations

import re
import signal
from typing import NamedTuple

from trackyard.core.health import MAX_SENTENCE, CheckName, CheckReport, CheckVerdict
from trackyard.core.node import NodeState
from trackyard.core.ports import ExitCause
from trackyard.fleet.nodes import NodeRow
from trackyard.fleet.policy import HealthPolicy
from trackyard.store.database import ReadConnection, Tx

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


class EvidenceReporter(NamedTuple):
    """The attempt whose word a report is."""

    attempt_id: str
    job_id: str
    team_id: int


def hardware_like(cause: ExitCause, number: int | None, error_line: str | None) -> str | None:
    """Describe what in an attempt's end looks like broken hardware; None if nothing does."""
    if cause is ExitCause.NODE_UNFIT:
        return "a check before the start that failed"
    if cause is ExitCause.SIGNAL and number == signal.SIGBUS:
        return "a bus error"
    if cause not in (ExitCause.EXIT_CODE, ExitCause.SIGNAL) or not error_line:
        return None
    return next((words for line, words in _LINES if line.search(error_line)), None)


def note_end(tx: Tx, node_id: str, reporter: EvidenceReporter, words: str) -> None:
    """Keep that an attempt ended on a node as on broken hardware; once per attempt."""
    sentence = f"Attempt {reporter.attempt_id} ended with {words}."
    _keep(
        tx,
        node_id,
        reporter,
        name=CheckName.JOBS,
        verdict=CheckVerdict.WARN,
        sentence=sentence,
        source="job",
    )


def note_failure(tx: Tx, node_id: str, reporter: EvidenceReporter, check: CheckReport) -> None:
    """Keep what a runner found to fail, in its own words; once per attempt and check."""
    _keep(
        tx,
        node_id,
        reporter,
        name=check.name,
        verdict=CheckVerdict.FAIL,
        sentence=check.sentence,
        source="runner",
    )


def since(policy: HealthPolicy, node: NodeRow, now_ms: int) -> int:
    """Return from when on the word of attempts counts.

    What happened before a node was last given back was accepted then.
    """
    begin = now_ms - policy.jobs_ms
    return begin if node.state == NodeState.QUARANTINED else max(node.state_ms, begin)


def is_confirmed(
    reader: ReadConnection | Tx, node_id: str, name: CheckName, since_ms: int
) -> bool:
    """Tell whether attempts that know nothing of each other say the same of a node."""
    rows = reader.all(
        "SELECT DISTINCT job_id, team_id FROM node_verdicts WHERE node_id = ? AND name = ?"
        " AND at_ms > ? AND source IN ('runner', 'job') AND (source = 'job' OR verdict = 'fail')",
        (node_id, name.value, since_ms),
    )
    if len({row[0] for row in rows}) < 2:
        return False
    if len({row[1] for row in rows}) > 1:
        return True
    teams = reader.one("SELECT count(*) FROM teams")
    return teams is not None and int(teams[0]) == 1


def _keep(
    tx: Tx,
    node_id: str,
    reporter: EvidenceReporter,
    *,
    name: CheckName,
    verdict: CheckVerdict,
    sentence: str,
    source: str,
) -> None:
    known = tx.one(
        "SELECT 1 FROM node_verdicts WHERE node_id = ? AND name = ? AND attempt_id = ?"
        " AND source = ? LIMIT 1",
        (node_id, name.value, reporter.attempt_id, source),
    )
    if known is not None:
        return
    tx.run(
        "INSERT INTO node_verdicts (node_id, name, verdict, sentence, number, unit, source,"
        " attempt_id, job_id, team_id, at_ms) VALUES (?, ?, ?, ?, NULL, '', ?, ?, ?, ?, ?)",
        (
            node_id,
            name.value,
            verdict.value,
            sentence[:MAX_SENTENCE],
            source,
            *reporter,
            tx.now_ms,
        ),
    )


def count(reader: ReadConnection | Tx, since_ms: int) -> dict[str, int]:
    """Return how many such ends each node has had since a moment."""
    rows = reader.all(
        "SELECT node_id, count(*) FROM node_verdicts WHERE name = ? AND source = 'job'"
        " AND at_ms > ? GROUP BY node_id",
        (CheckName.JOBS.value, since_ms),
    )
    return {str(row[0]): int(row[1]) for row in rows}


def count_one(reader: ReadConnection | Tx, node_id: str, since_ms: int) -> int:
    """Return how many such ends one node has had since a moment."""
    row = reader.one(
        "SELECT count(*) FROM node_verdicts WHERE node_id = ? AND name = ? AND source = 'job'"
        " AND at_ms > ?",
        (node_id, CheckName.JOBS.value, since_ms),
    )
    return int(row[0]) if row else 0
