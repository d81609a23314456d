"""Jobs and attempts as rows: their columns, how to find them, and the words users see for them.

Owns loading. Changes nothing; `life` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from trackyard.access.principal import Principal
from trackyard.core.errors import NotFound
from trackyard.core.ids import ATTEMPT_ID, JOB_ID, JOB_NAME
from trackyard.core.job import AttemptState, JobState
from trackyard.core.resources import NodeShare, Placement
from trackyard.queue.specification import JobSpec
from trackyard.store.database import ReadConnection, Tx

#: Jobs that one word may name: the members of the largest array.
MAX_FOUND = 10_000
#: Jobs that can be changed together within a few milliseconds.
FEW_JOBS = 20
#: The six words of the API; a job that is told to stop still runs.
SHOWN = {
    JobState.QUEUED: "queued",
    JobState.STARTING: "starting",
    JobState.RUNNING: "running",
    JobState.STOPPING: "running",
    JobState.SUCCEEDED: "succeeded",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "stopped",
}
_SHOWN_BY_WORD = {state.value: word for state, word in SHOWN.items()}
STATES = tuple(dict.fromkeys(SHOWN.values()))
WAITING = (JobState.QUEUED.value,)
HOLDING = tuple(state.value for state in JobState if state.holds_resources)
OPEN_ATTEMPTS = tuple(state.value for state in AttemptState if not state.is_final)


class JobRow(NamedTuple):
    """A job's row."""

    id: int
    job_id: str
    team_id: int
    user_id: int | None
    user_name: str
    spec_id: int
    name: str
    state: str
    queue: str
    priority: int
    held: int
    not_before_ms: int
    submitted_ms: int
    started_ms: int | None
    ended_ms: int | None
    run_uuid: str
    array_id: str
    array_index: int | None
    array_cap: int
    attempt: int
    epoch: int
    failures: int
    interruptions: int
    attained_ms: int
    avoid: str
    engine_note: str
    cause: str | None
    sentence: str | None
    version: int

    @property
    def shown(self) -> str:
        """The state in the words of the API."""
        return _SHOWN_BY_WORD[self.state]

    @property
    def avoided(self) -> list[str]:
        """Nodes it failed on."""
        return _decode_list(self.avoid)


class AttemptRow(NamedTuple):
    """An attempt's row."""

    id: int
    attempt_id: str
    job: int
    number: int
    epoch: int
    state: str
    placement: str
    members: int
    admitted_ms: int
    launched_ms: int | None
    started_ms: int | None
    ended_ms: int | None
    seen_ms: int | None
    cause: str | None
    exit_code: int | None
    signal: int | None
    sentence: str | None
    error_line: str | None
    saved: int
    peak_memory_bytes: int | None
    stop_reason: str | None
    stop_ms: int | None
    grace_ms: int | None
    stops_for: str | None
    resume_step: int | None
    step: int | None
    environment: str
    token_id: str
    notes: str
    stalled: int
    nan_seen: int
    settled: int
    log_pruned_ms: int | None
    unpacked_ms: int | None = None
    first_step_ms: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether this execution has ended."""
        return AttemptState(self.state).is_final

    @property
    def where(self) -> Placement:
        """Where it runs."""
        return decode_placement(self.placement)


JOB_COLUMNS = ", ".join(JobRow._fields)
ATTEMPT_COLUMNS = ", ".join(AttemptRow._fields)
_decode_list = msgspec.json.Decoder(list[str]).decode
decode_spec = msgspec.json.Decoder(JobSpec).decode


class _Share(msgspec.Struct, frozen=True):
    node: str
    gpus: list[int] = []
    gpu_milli: int = 1000
    cpu_milli: int = 0
    memory_bytes: int = 0


class _Placed(msgspec.Struct, frozen=True):
    shares: list[_Share]
    exclusive: bool = False


_decode_placed = msgspec.json.Decoder(_Placed).decode


def encode_placement(placement: Placement) -> str:
    """Write a placement as it is kept."""
    return msgspec.json.encode(placement).decode()


@lru_cache(maxsize=8192)
def decode_placement(text: str) -> Placement:
    """Read a placement as it is kept; each pass asks for those of everything that runs."""
    placed = _decode_placed(text)
    return Placement(
        shares=tuple(
            NodeShare(
                node=share.node,
                gpus=tuple(share.gpus),
                gpu_milli=share.gpu_milli,
                cpu_milli=share.cpu_milli,
                memory_bytes=share.memory_bytes,
            )
            for share in placed.shares
        ),
        exclusive=placed.exclusive,
    )


def load_jobs(reader: ReadConnection | Tx, where: str, params: Sequence[Any] = ()) -> list[JobRow]:
    """Return jobs by a condition."""
    rows = reader.all(f"SELECT {JOB_COLUMNS} FROM jobs WHERE {where}", params)
    return [JobRow(*row) for row in rows]


def load_attempts(
    reader: ReadConnection | Tx, where: str, params: Sequence[Any] = ()
) -> list[AttemptRow]:
    """Return attempts by a condition."""
    rows = reader.all(f"SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE {where}", params)
    return [AttemptRow(*row) for row in rows]


def load_spec(reader: ReadConnection | Tx, spec_id: int) -> JobSpec:
    """Return a job's spec."""
    row = reader.one("SELECT spec FROM job_specs WHERE id = ?", (spec_id,))
    assert row is not None
    return decode_spec(row[0])


def load_specs(reader: ReadConnection | Tx, spec_ids: Iterable[int]) -> dict[int, JobSpec]:
    """Return several specs by id."""
    wanted = sorted(set(spec_ids))
    found: dict[int, JobSpec] = {}
    for at in range(0, len(wanted), 500):
        part = wanted[at : at + 500]
        marks = ",".join("?" * len(part))
        for spec_id, text in reader.all(
            f"SELECT id, spec FROM job_specs WHERE id IN ({marks})", part
        ):
            found[spec_id] = decode_spec(text)
    return found


def job_by_inner(reader: ReadConnection | Tx, inner: int, *, lock: bool = False) -> JobRow:
    """Return a job by its inner id; with `lock`, as a transaction about to change it."""
    more = reader.dialect.for_update if lock else ""
    row = reader.one(f"SELECT {JOB_COLUMNS} FROM jobs WHERE id = ?{more}", (inner,))
    assert row is not None
    return JobRow(*row)


def attempt_of(
    reader: ReadConnection | Tx, attempt_id: str, *, lock: bool = False
) -> AttemptRow | None:
    """Return an attempt by its id."""
    if not ATTEMPT_ID.match(attempt_id):
        return None
    more = reader.dialect.for_update if lock else ""
    row = reader.one(
        f"SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE attempt_id = ?{more}", (attempt_id,)
    )
    return None if row is None else AttemptRow(*row)


def latest_attempt(reader: ReadConnection | Tx, job: JobRow) -> AttemptRow | None:
    """Return a job's latest attempt."""
    found = load_attempts(reader, "job = ? AND number = ?", (job.id, job.attempt))
    return found[0] if found else None


def find_jobs(
    reader: ReadConnection | Tx, principal: Principal, text: str, *, most: int = MAX_FOUND
) -> list[JobRow]:
    """Return what a user means by a word: a job's id, an array's, a name's newest, or Ray's id.

    The name of an array means all of its members, as its id does.
    """
    team = principal.team_id
    if JOB_ID.match(text):
        found = load_jobs(reader, "job_id = ? AND team_id = ?", (text, team))
        if not found:
            found = load_jobs(
                reader,
                "array_id = ? AND team_id = ? ORDER BY array_index LIMIT ?",
                (text, team, most),
            )
        if not found and principal.is_admin:
            found = load_jobs(
                reader,
                "job_id = ? OR array_id = ? ORDER BY array_index LIMIT ?",
                (text, text, most),
            )
        if found:
            return found
    if JOB_NAME.match(text):
        found = load_jobs(
            reader, "team_id = ? AND name = ? ORDER BY id DESC LIMIT 1", (team, text)
        )
        if found and found[0].array_id:
            return load_jobs(
                reader,
                "array_id = ? AND team_id = ? ORDER BY array_index LIMIT ?",
                (found[0].array_id, team, most),
            )
        if found:
            return found
    found = load_jobs(
        reader,
        "job_id IN (SELECT job_id FROM ray_jobs WHERE team_id = ? AND submission_id = ?)",
        (team, text),
    )
    if found:
        return found
    raise NotFound(f"no job {text[:80]!r} in team {principal.team}; `yard ps` lists the jobs")


def find_job(reader: ReadConnection | Tx, principal: Principal, text: str) -> JobRow:
    """Return the one job a user means; of an array, its first."""
    return find_jobs(reader, principal, text, most=1)[0]


def is_large_array(reader: ReadConnection, principal: Principal, text: str) -> bool:
    """Tell whether an id or a name stands for an array that takes long to change as a whole."""
    newest = reader.one(
        "SELECT array_id FROM jobs WHERE team_id = ? AND name = ? ORDER BY id DESC LIMIT 1",
        (principal.team_id, text),
    )
    array = newest[0] if newest is not None and newest[0] else text
    row = reader.one("SELECT 1 FROM jobs WHERE array_id = ? LIMIT 1 OFFSET ?", (array, FEW_JOBS))
    return row is not None


def note_settled(tx: Tx, attempts: Sequence[int]) -> None:
    """Note that the engine keeps nothing of these attempts any more, by inner id."""
    tx.many("UPDATE attempts SET settled = 1 WHERE id = ?", [(inner,) for inner in attempts])
