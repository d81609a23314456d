"""What a running attempt asks for after it has started: a claim, which waits like any job.

Owns `claims`. A claim is a row of the queue that no engine ever launches: it is ordered, placed,
explained and charged like its parent's other work, and ends when the attempt gives it back or is
over. Whoever asks again under the same key replaces what was asked before.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from trackyard.access.principal import Principal
from trackyard.core.errors import Conflict, Denied, InvalidInput
from trackyard.core.ids import new_job_id
from trackyard.core.job import JobState
from trackyard.core.node import NodeState
from trackyard.core.resources import Placement, ResourceRequest
from trackyard.queue.records import (
    AttemptRow,
    JobRow,
    attempt_of,
    job_by_inner,
    latest_attempt,
    load_spec,
)
from trackyard.queue.specification import JobSpec, check_labels, check_spec
from trackyard.queue.submit.gang_shapes import GangChoice, WorkerRequest, check_ask, words
from trackyard.queue.transitions import job_event, release_claim
from trackyard.store.bounds import Figures, Int64, Labels, Word
from trackyard.store.database import ReadConnection, Tx

MAX_KEY = 200
#: Claims that one attempt may hold or wait for at once.
MAX_CLAIMS = 1000
GATE, WATCH = "gate", "watch"
_NAME_CHARACTERS = 100


class DemandRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What an attempt asks for: so many workers, each alike, all or nothing."""

    #: what the attempt calls this demand
    key: Word
    workers: Int64
    #: what one worker needs, in Ray's words: GPU, CPU, memory, accelerator_type:NAME
    resources: Figures = {}
    #: grows with each asking under one key; the same number asks for the same again
    generation: Int64 = 0
    #: the least that will do, for training that can grow and shrink; 0: all of them
    least: Int64 = 0
    strategy: Word = "PACK"
    #: labels that each node must carry
    labels: Labels = {}
    #: ask only whether more than it has would be given now; changes nothing
    probe: bool = False
    #: seconds to wait for an answer before saying that it still waits
    wait_seconds: float = 0.0


class ClaimRow(NamedTuple):
    """A claim's row."""

    job: int
    attempt: int
    key: str
    generation: int
    source: str
    workers: int
    least: int
    granted: int | None
    ask: str
    released_ms: int | None

    @property
    def wants(self) -> WorkerRequest:
        """What one worker needs."""
        return _decode_ask(self.ask)


CLAIM_COLUMNS = ", ".join(ClaimRow._fields)
_decode_ask = msgspec.json.Decoder(WorkerRequest).decode


class ClaimStatus(NamedTuple):
    """How a claim stands."""

    claim: ClaimRow
    job: JobRow
    #: where it is, once granted
    placement: Placement | None

    @property
    def is_granted(self) -> bool:
        """Whether its nodes may be used."""
        return self.placement is not None


def speaker(
    reader: ReadConnection | Tx, principal: Principal, *, lock: bool = False
) -> AttemptRow:
    """Return the attempt that a caller speaks for, if it still runs."""
    if principal.scope is None:
        raise Denied("this call is for running jobs: it takes the token of an attempt")
    attempt = attempt_of(reader, principal.scope.attempt_id, lock=lock)
    if attempt is None or attempt.is_over:
        raise Conflict("this attempt is over: end what still runs under it")
    return attempt


def check_demand(demand: DemandRequest) -> None:
    """Refuse a demand that makes no sense."""
    if not 1 <= len(demand.key) <= MAX_KEY or not demand.key.isprintable():
        raise InvalidInput(f"key must be 1 to {MAX_KEY} printable characters")
    if not 0 <= demand.generation <= 2**53:
        raise InvalidInput("generation must be a whole number from 0")
    if not 0 <= demand.least <= demand.workers:
        raise InvalidInput("least must lie between 0 and workers")
    check_labels(demand.labels)
    check_ask(demand.workers, WorkerRequest(strategy=demand.strategy))


def open_claims(reader: ReadConnection | Tx, attempt: AttemptRow) -> list[ClaimRow]:
    """Return what an attempt holds or waits for."""
    rows = reader.all(
        f"SELECT {CLAIM_COLUMNS} FROM claims WHERE attempt = ? AND released_ms IS NULL"
        " ORDER BY job",
        (attempt.id,),
    )
    return [ClaimRow(*row) for row in rows]


def standing(reader: ReadConnection | Tx, claim: ClaimRow) -> ClaimStatus:
    """Tell how a claim stands."""
    job = job_by_inner(reader, claim.job)
    placement = None
    if JobState(job.state).holds_resources:
        attempt = latest_attempt(reader, job)
        placement = attempt.where if attempt is not None else None
    return ClaimStatus(claim, job, placement)


def find(reader: ReadConnection | Tx, attempt: AttemptRow, key: str) -> ClaimStatus | None:
    """Return the claim of a key, or None."""
    for claim in open_claims(reader, attempt):
        if claim.key == key:
            return standing(reader, claim)
    return None


def ask(
    tx: Tx,
    attempt: AttemptRow,
    demand: DemandRequest,
    wants: WorkerRequest,
    chosen: GangChoice,
    *,
    source: str = GATE,
) -> ClaimStatus:
    """Queue a claim, or return the one that this demand made before; an older one is replaced.

    A granted claim that still serves the new demand is kept, so that a worker group that starts
    again goes on where it was without standing in line.
    """
    known = find(tx, attempt, demand.key)
    if known is not None:
        if known.claim.generation > demand.generation:
            raise Conflict("a newer demand was made under this key: this one counts no more")
        if known.claim.generation == demand.generation:
            return known
        if _still_serves(tx, known, demand, wants):
            tx.run(
                "UPDATE claims SET generation = ?, workers = ?, granted = ? WHERE job = ?",
                (demand.generation, demand.workers, demand.workers, known.job.id),
            )
            return standing(tx, known.claim._replace(generation=demand.generation))
        release_claim(tx, known.job, "A new demand took its place.")
    if attempt.stop_reason is not None:
        raise Conflict("this attempt is told to stop: it is given nothing more")
    if len(open_claims(tx, attempt)) >= MAX_CLAIMS:
        raise InvalidInput(f"this attempt has {MAX_CLAIMS} claims already: release some first")
    return _make(tx, attempt, demand, wants, chosen, source=source)


def _still_serves(tx: Tx, known: ClaimStatus, demand: DemandRequest, wants: WorkerRequest) -> bool:
    if known.placement is None or known.claim.granted != demand.workers:
        return False
    if known.claim.wants != wants or known.job.state == JobState.STOPPING:
        return False
    marks = ",".join("?" * len(known.placement.nodes))
    rows = tx.all(f"SELECT engine_state FROM nodes WHERE id IN ({marks})", known.placement.nodes)
    return len(rows) == len(known.placement.nodes) and all(
        row[0] == NodeState.READY for row in rows
    )


def _make(
    tx: Tx,
    attempt: AttemptRow,
    demand: DemandRequest,
    wants: WorkerRequest,
    chosen: GangChoice,
    *,
    source: str,
) -> ClaimStatus:
    parent = job_by_inner(tx, attempt.job)
    count, request = chosen.workers, chosen.request
    text = words(count, wants)
    spec_id = _keep_spec(
        tx, claim_spec(load_spec(tx, parent.spec_id), wants, request, text, parent)
    )
    job_id = new_job_id()
    inner = tx.insert(
        "INSERT INTO jobs (job_id, team_id, user_id, user_name, spec_id, name, state, queue,"
        " priority, held, not_before_ms, submitted_ms, run_uuid, array_id, array_cap, attempt,"
        " epoch, failures, interruptions, attained_ms, avoid, engine_note, version)"
        " VALUES (?, ?, ?, ?, ?, ?, 'queued', ?, ?, 0, ?, ?, '', '', 0, 0, 0, 0, 0, 0, '[]', '',"
        " 1)",
        (
            job_id,
            parent.team_id,
            parent.user_id,
            parent.user_name,
            spec_id,
            f"{parent.name[:_NAME_CHARACTERS]}: {purpose(demand.key, count, source)}",
            parent.queue,
            parent.priority,
            tx.now_ms,
            # Its place in the line is the job's own: it has waited since it was submitted.
            parent.submitted_ms,
        ),
    )
    least = demand.least or demand.workers
    tx.run(
        "INSERT INTO claims (job, attempt, key, generation, source, workers, least, granted, ask)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            inner,
            attempt.id,
            demand.key,
            demand.generation,
            source,
            demand.workers,
            least,
            count,
            msgspec.json.encode(wants).decode(),
        ),
    )
    job_event(
        tx,
        "claim.asked",
        parent,
        attempt=attempt.number,
        claim=job_id,
        demand=text,
        workers=count,
        gpus=request.total_gpus,
        nodes=request.nodes,
        sentence=f"It asks for {text} on {_nodes(request.nodes)}.",
    )
    found = find(tx, attempt, demand.key)
    assert found is not None
    return found


def purpose(key: str, workers: int, source: str) -> str:
    """Say what a claim holds nodes for, in the words of those who read the queue."""
    if source == WATCH:
        return "taken without asking"
    if key.startswith("tune-"):
        return "place for a trial"
    return f"{workers} worker{'s' * (workers != 1)}"


def claim_spec(
    parent: JobSpec, wants: WorkerRequest, request: ResourceRequest, text: str, row: JobRow
) -> JobSpec:
    """Return what a claim asks of the queue: the demand, under its parent's terms."""
    spec = JobSpec(
        command=[text, "for", row.job_id],
        gpus=request.gpus,
        gpu_milli=request.gpu_milli,
        gpu_types=wants.gpu_types,
        cpu_milli=request.cpu_milli,
        memory_bytes=request.memory_bytes,
        nodes=request.nodes,
        labels=wants.labels,
        time_limit_seconds=parent.time_limit_seconds,
        estimate_seconds=parent.estimate_seconds,
        preemptible=parent.preemptible,
        lease=parent.lease,
        grace_seconds=parent.grace_seconds,
    )
    check_spec(spec)
    return spec


def reshape(tx: Tx, found: ClaimStatus, chosen: GangChoice) -> ClaimStatus:
    """Let a waiting claim ask for the same in another way, which could start now."""
    count, request = chosen.workers, chosen.request
    spec = load_spec(tx, found.job.spec_id)
    if found.is_granted or found.job.state != JobState.QUEUED or spec.request == request:
        return found
    parent = job_by_inner(tx, _parent(tx, found.claim.job))
    wants = found.claim.wants
    text = words(count, wants)
    changed = claim_spec(load_spec(tx, parent.spec_id), wants, request, text, parent)
    tx.run(
        "UPDATE jobs SET spec_id = ?, version = version + 1 WHERE id = ?",
        (_keep_spec(tx, changed), found.job.id),
    )
    tx.run("UPDATE claims SET granted = ? WHERE job = ?", (count, found.job.id))
    return standing(tx, found.claim._replace(granted=count))


def release(tx: Tx, attempt: AttemptRow, key: str) -> bool:
    """Give back what was claimed under a key; tell whether there was anything."""
    found = find(tx, attempt, key)
    if found is None:
        return False
    release_claim(tx, found.job, "The job gave it back.")
    return True


def _parent(reader: ReadConnection | Tx, inner: int) -> int:
    row = reader.one(
        "SELECT a.job FROM claims c JOIN attempts a ON a.id = c.attempt WHERE c.job = ?", (inner,)
    )
    assert row is not None
    return int(row[0])


def _keep_spec(tx: Tx, spec: JobSpec) -> int:
    return tx.insert(
        "INSERT INTO job_specs (spec) VALUES (?)", (msgspec.json.encode(spec).decode(),)
    )


def _nodes(count: int) -> str:
    return "one node" if count == 1 else f"{count} nodes"
