"""What stops a job before it is compared with others: faults, the impossible, dependencies,
holds.

Owns `standing` (true of every job alike in request, team, queue and lease) and `moment` (true
of one job at one time). Returns reasons; never looks at what is free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from trackyard.core.job import Dependency, Job, JobState
from trackyard.core.reasons import Code, Reason, Tier
from trackyard.core.resources import WHOLE
from trackyard.scheduling.place.table import Ints, Mask, NodeTable, Shape
from trackyard.scheduling.shares.quota import QuotaLedger
from trackyard.scheduling.snapshot import WaitingJob
from trackyard.scheduling.windows import Windows


def standing(
    waiting: WaitingJob,
    *,
    shape: Shape,
    table: NodeTable,
    ledger: QuotaLedger,
    windows: Windows,
    now: float,
) -> Reason | None:
    """Return why jobs like this one cannot run here at all, or None."""
    job = waiting.job
    fault = shape.request.fault()
    if fault:
        return Reason(code=Code.BAD_REQUEST, what=fault)
    plain = not (job.lease or waiting.avoid)
    if plain and shape.is_known_sound:
        return _queue_fault(job, shape, ledger) or ledger.never(job, shape)
    hardware = _hardware_fault(shape, table)
    room = hardware or _room_fault(waiting, shape, table, windows)
    shape.is_known_sound = plain and room is None
    return (
        _queue_fault(job, shape, ledger)
        or hardware
        or _lease_fault(job, windows, now)
        # What no node could hold is not a matter of limits; what is only out of service may be.
        or (room if room is not None and room.tier is Tier.INFEASIBLE else None)
        or ledger.never(job, shape)
        or room
    )


def moment(
    job: Job,
    *,
    ledger: QuotaLedger,
    windows: Windows,
    state_of: Callable[[str], JobState | None],
    now: float,
) -> Reason | None:
    """Return why this job may not start at this time whatever is free, or None."""
    for reason in _moments(job, ledger, windows, state_of, now):
        if reason is not None:
            return reason
    return None


def _moments(
    job: Job,
    ledger: QuotaLedger,
    windows: Windows,
    state_of: Callable[[str], JobState | None],
    now: float,
) -> Iterator[Reason | None]:
    yield _wall_fault(job, ledger)
    lease = windows.leases.get(job.lease)
    if lease is not None and lease.starts_at > now:
        yield Reason(code=Code.LEASE_NOT_STARTED, what=lease.label, until=lease.starts_at)
    for dependency in job.dependencies:
        yield _dependency(dependency, state_of)
    if job.held:
        yield Reason(code=Code.HELD)
    yield _budget(job, ledger)
    if job.not_before > now:
        yield Reason(code=Code.NOT_BEFORE, until=job.not_before)


def _budget(job: Job, ledger: QuotaLedger) -> Reason | None:
    """Return the budget that holds the job's team; what a running job asked for is no new job."""
    team = ledger.teams.get(job.team)
    hold = None if team is None or job.part_of else team.budget_hold
    if hold is None:
        return None
    facts = (("used", hold.used), ("budget", hold.budget))
    return Reason(code=Code.BUDGET_USED_UP, what=hold.team, until=hold.until, facts=facts)


def _dependency(
    dependency: Dependency, state_of: Callable[[str], JobState | None]
) -> Reason | None:
    state = state_of(dependency.job)
    if state is None:
        return Reason(code=Code.UNKNOWN_DEPENDENCY, what=dependency.job)
    met = dependency.when.met_by(state)
    if met is None:
        return Reason(code=Code.WAITS_FOR_JOB, holders=(dependency.job,), what=dependency.when)
    if not met:
        return Reason(
            code=Code.DEPENDENCY_NEVER, holders=(dependency.job,), what=dependency.when.value
        )
    return None


def _queue_fault(job: Job, shape: Shape, ledger: QuotaLedger) -> Reason | None:
    queue = ledger.queues.get(job.queue)
    if queue is None:
        return Reason(code=Code.UNKNOWN_QUEUE, what=job.queue)
    if not ledger.is_open and job.team not in ledger.declared:
        return Reason(code=Code.UNKNOWN_TEAM, what=job.team)
    if queue.teams and job.team not in queue.teams:
        return Reason(code=Code.QUEUE_CLOSED, what=queue.name, facts=(("team", job.team),))
    nodes, gpus = queue.max_nodes_per_job, queue.max_gpus_per_job
    if nodes is not None and shape.node_count > nodes:
        return Reason(
            code=Code.NODES_OVER_LIMIT, what=queue.name, needed=shape.node_count, free=nodes
        )
    if gpus is not None and shape.total_milli > gpus * WHOLE:
        needed = shape.total_milli / WHOLE
        return Reason(code=Code.GPUS_OVER_LIMIT, what=queue.name, needed=needed, free=gpus)
    return None


def _wall_fault(job: Job, ledger: QuotaLedger) -> Reason | None:
    most = ledger.queues[job.queue].max_wall_seconds
    if most is None:
        return None
    if job.time_limit_seconds is None:
        return Reason(code=Code.WALL_TIME_MISSING, what=job.queue, free=most)
    if job.time_limit_seconds > most:
        needed = job.time_limit_seconds
        return Reason(code=Code.WALL_TIME_OVER_LIMIT, what=job.queue, needed=needed, free=most)
    return None


def _hardware_fault(shape: Shape, table: NodeTable) -> Reason | None:
    request = shape.request
    present = [kind for kind in table.of_type if kind]
    if request.gpus and request.gpu_types and not set(request.gpu_types) & set(present):
        return Reason(
            code=Code.UNKNOWN_GPU_TYPE,
            what=" or ".join(request.gpu_types),
            facts=(("present", ", ".join(present) or "none"),),
        )
    for pair in request.labels:
        if not any(pair in node.labels for node in table.nodes):
            return Reason(code=Code.UNKNOWN_LABEL, what=f"{pair[0]}={pair[1]}")
    if shape.same and not table.groups(shape.same):
        return Reason(code=Code.UNKNOWN_LABEL, what=shape.same)
    return None


def _lease_fault(job: Job, windows: Windows, now: float) -> Reason | None:
    if not job.lease:
        return None
    lease = windows.leases.get(job.lease)
    if lease is None or lease.team != job.team or (lease.user and lease.user != job.user):
        return Reason(code=Code.UNKNOWN_LEASE, what=job.lease, facts=(("team", job.team),))
    if lease.last_start <= now:
        return Reason(code=Code.LEASE_OVER, what=lease.label, until=lease.ends_at)
    return None


def _room_fault(
    waiting: WaitingJob, shape: Shape, table: NodeTable, windows: Windows
) -> Reason | None:
    """Say whether idle nodes could hold it: any, those in service, those it does not avoid."""
    able = shape.any_mask()
    lease = windows.leases.get(waiting.job.lease)
    if lease is not None:
        able = able & rows_of(table, lease.nodes)
    most = most_rows(shape, table, able)
    if most < shape.node_count:
        where = (("where", f" under one `{shape.same}`"),) if shape.same else ()
        return Reason(
            code=Code.TOO_LARGE,
            needed=shape.node_count,
            free=most,
            what=amount_words(shape),
            facts=where,
        )
    if most_rows(shape, table, able & table.up) < shape.node_count:
        down = [table.nodes[row] for row in np.flatnonzero(able & ~table.up)]
        names = ", ".join(f"{node.name or node.id} ({node.state_words})" for node in down[:5])
        more = f" and {len(down) - 5} more" if len(down) > 5 else ""
        return Reason(code=Code.NODES_UNHEALTHY, what=names + more, needed=shape.node_count)
    if waiting.avoid:
        able = able & table.up & ~rows_of(table, waiting.avoid)
        if most_rows(shape, table, able) < shape.node_count:
            return Reason(
                code=Code.AVOIDS_NODES, what=", ".join(waiting.avoid), needed=shape.node_count
            )
    return None


def most_rows(shape: Shape, table: NodeTable, able: Mask) -> int:
    """How many of these rows a gang could use together."""
    if not shape.same:
        return int(np.count_nonzero(able))
    return max(
        (int(np.count_nonzero(able[group])) for group in table.groups(shape.same)), default=0
    )


def rows_of(table: NodeTable, nodes: tuple[str, ...]) -> Mask:
    """The rows of these nodes."""
    mask: Mask = np.zeros(table.count, dtype=np.bool_)
    rows: Ints = np.array([table.row[node] for node in nodes if node in table.row], dtype=np.int64)
    mask[rows] = True
    return mask


def amount_words(shape: Shape) -> str:
    """Say what one node must give: 8 GPUs, 32 CPUs, 128 GiB."""
    request = shape.request
    words = []
    if request.gpus:
        kind = f" ({' or '.join(request.gpu_types)})" if request.gpu_types else ""
        if shape.is_fraction:
            words.append(f"{request.gpu_milli / WHOLE:g} of a GPU{kind}")
        else:
            words.append(f"{request.gpus} GPU{'s' if request.gpus > 1 else ''}{kind}")
    if request.cpu_milli:
        words.append(f"{request.cpu_milli / WHOLE:g} CPUs")
    if request.memory_bytes:
        words.append(f"{request.memory_bytes / 2**30:.3g} GiB")
    if request.labels:
        words.append(" and ".join(f"{name}={value}" for name, value in request.labels))
    return ", ".join(words) or "a slot"
