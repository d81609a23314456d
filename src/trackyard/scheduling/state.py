"""The yard at one moment: nodes, what is free, who holds what and until when.

Owns State and Held. Every start and end of a job passes through `hold` and `release`, so
capacity, quota and foreseen ends can never drift apart. Decides nothing.
"""

from __future__ import annotations

from math import inf

import numpy as np

from trackyard.core.job import Job
from trackyard.core.resources import NodeShare, Placement
from trackyard.scheduling.durations import DurationModel
from trackyard.scheduling.place.capacity import Capacity, Part
from trackyard.scheduling.place.fragmentation import Fragmentation
from trackyard.scheduling.place.table import Floats, Ints, NodeTable, Shape
from trackyard.scheduling.quota import Ledger
from trackyard.scheduling.snapshot import Running, Snapshot
from trackyard.scheduling.victims import Victims
from trackyard.scheduling.windows import Windows

#: A job that outlives its foreseen end is given this long more, and a tenth of what it ran.
_OVERTIME_SECONDS = 60.0


class Held:
    """A job that holds resources."""

    __slots__ = (
        "attained",
        "checkpoint_at",
        "ends_at",
        "job",
        "parts",
        "protected_until",
        "shape",
        "slot",
        "started_at",
        "stops_at",
        "stops_for",
    )

    def __init__(
        self,
        job: Job,
        *,
        shape: Shape,
        parts: list[Part],
        started_at: float,
        ends_at: float,
        attained: float = 0.0,
        checkpoint_at: float | None = None,
        protected_until: float = 0.0,
    ) -> None:
        self.job = job
        self.shape = shape
        self.parts = parts
        self.started_at = started_at
        self.ends_at = ends_at
        self.attained = attained
        self.checkpoint_at = checkpoint_at
        #: it had waited too long and yields to no shorter job before this moment
        self.protected_until = protected_until
        self.slot = -1
        self.stops_at: float | None = None
        self.stops_for = ""

    def ends_by(self, now: float) -> float:
        """Foreseen end, seen from now."""
        if self.stops_at is not None:
            return max(self.stops_at, now)
        if self.ends_at > now:
            return self.ends_at
        return now + _OVERTIME_SECONDS + 0.1 * (now - self.started_at)

    def lost_seconds(self, now: float) -> float:
        """Run time that stopping it now would lose."""
        return now - max(self.started_at, self.checkpoint_at or 0.0)


class State:
    """Everything that a pass changes while it decides."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.now = snapshot.now
        self.policy = snapshot.policy
        self.durations = snapshot.durations
        self.table = NodeTable(snapshot.nodes)
        self.capacity = Capacity(self.table)
        self.ledger = Ledger(snapshot.teams, snapshot.queues, table=self.table, now=snapshot.now)
        self.windows = Windows(snapshot.leases, table=self.table)
        self.victims = Victims()
        self.held: dict[str, Held] = {}
        self.on_row: list[dict[str, Held]] = [{} for _ in range(self.table.count)]
        #: when each busy GPU is foreseen to be free; 0: free now
        self.free_at: Floats = np.zeros((self.table.count, self.table.width))
        for row, gpus in enumerate(self.table.gpus):
            self.free_at[row, gpus:] = inf
        #: row among the victims of the job that has a GPU to itself; -1: nobody, or several
        self.slot_on: Ints = np.full(self.free_at.shape, -1, dtype=np.int64)
        self.fragmentation: Fragmentation | None = None
        self._load([self._held(running) for running in snapshot.running])

    def hold(self, held: Held) -> None:
        """Let a job have its parts."""
        self.held[held.job.id] = held
        self.capacity.take(held.shape, held.parts)
        self.ledger.charge(held.job, held.shape)
        self.victims.add(held, self.durations)
        for row, gpus in held.parts:
            self.on_row[row][held.job.id] = held
            line = self.free_at[row]
            for gpu in gpus:
                line[gpu] = max(line[gpu], held.ends_at)
            if not held.shape.is_fraction:
                self.slot_on[row, list(gpus)] = held.slot

    def _load(self, everyone: list[Held]) -> None:
        """Hold many at once."""
        rows: list[int] = []
        places: list[int] = []
        milli: list[int] = []
        ends: list[float] = []
        nodes: list[int] = []
        cpu: list[int] = []
        memory: list[int] = []
        slots: list[int] = []
        capacity = self.capacity
        self.victims.load(everyone, self.durations)
        for held in everyone:
            shape, name = held.shape, held.job.id
            self.held[name] = held
            self.ledger.charge(held.job, shape)
            for row, gpus in held.parts:
                self.on_row[row][name] = held
                nodes.append(row)
                cpu.append(shape.cpu)
                memory.append(shape.memory)
                if shape.exclusive:
                    capacity.open[row] = False
                size = len(gpus)
                rows += [row] * size
                places += gpus
                milli += [shape.milli] * size
                ends += [held.ends_at] * size
                slots += [-1 if shape.is_fraction else held.slot] * size
        self.slot_on[rows, places] = slots
        np.subtract.at(capacity.gpu, (rows, places), np.array(milli, dtype=np.int32))
        np.maximum.at(self.free_at, (rows, places), np.array(ends, dtype=np.float64))
        np.subtract.at(capacity.cpu, nodes, np.array(cpu, dtype=np.int64))
        np.subtract.at(capacity.memory, nodes, np.array(memory, dtype=np.int64))
        np.add.at(capacity.tenants, nodes, 1)
        capacity.recount_all()

    def release(self, job: str) -> Held:
        """Take a job's parts back."""
        held = self.held.pop(job)
        self.capacity.give(held.shape, held.parts)
        self.ledger.charge(held.job, held.shape, -1)
        self.victims.remove(held)
        for row, gpus in held.parts:
            others = self.on_row[row]
            del others[job]
            line = self.free_at[row]
            for gpu in gpus:
                line[gpu] = 0.0
            if held.shape.is_fraction:
                self._refill(row, gpus[0])
            else:
                self.slot_on[row, list(gpus)] = -1
        return held

    def count_overdue(self) -> None:
        """Tell the ledger how much is held by jobs that had waited too long."""
        victims = self.victims
        milli = int(victims.milli[victims.protected > self.now].sum())
        self.ledger.count_overdue(milli, self.policy.overdue_share)

    def placement(self, shape: Shape, parts: list[Part]) -> Placement:
        """Say parts in the words of the outside."""
        return Placement(
            shares=tuple(
                NodeShare(
                    node=self.table.ids[row],
                    gpus=gpus,
                    gpu_milli=shape.milli,
                    cpu_milli=shape.cpu,
                    memory_bytes=shape.memory,
                )
                for row, gpus in parts
            ),
            exclusive=shape.exclusive,
        )

    def _refill(self, row: int, gpu: int) -> None:
        """Find when a shared GPU is free after one of its jobs left."""
        ends = [
            other.ends_at
            for other in self.on_row[row].values()
            for at, gpus in other.parts
            if at == row and gpu in gpus
        ]
        self.free_at[row, gpu] = max(ends, default=0.0)

    def _held(self, running: Running) -> Held:
        job = running.job
        parts = [(self.table.row[share.node], share.gpus) for share in running.placement.shares]
        held = Held(
            job,
            shape=self.table.shape(job.request),
            parts=parts,
            started_at=running.started_at,
            ends_at=_foreseen_end(running, self.now, self.durations),
            attained=running.attained_seconds,
            checkpoint_at=running.checkpoint_at,
        )
        bound = self.policy.starvation_seconds
        if running.started_at - job.submitted_at >= bound:
            attained = running.attained_seconds
            held.protected_until = protection(job, running.started_at, attained, bound)
        held.stops_at, held.stops_for = running.stops_at, running.stops_for
        return held


def deadline(job: Job, attained_seconds: float, starvation_seconds: float) -> float:
    """Return when a waiting job will have waited too long: a bound, and as long as it has run."""
    return job.submitted_at + 2 * attained_seconds + starvation_seconds


def protection(
    job: Job, started_at: float, attained_seconds: float, starvation_seconds: float
) -> float:
    """Until when a job that started late may run undisturbed: as long as it had waited."""
    if started_at < deadline(job, attained_seconds, starvation_seconds):
        return 0.0
    return started_at + (started_at - job.submitted_at - attained_seconds)


def _foreseen_end(running: Running, now: float, durations: DurationModel) -> float:
    """The end of a running job: its stop, its limit, its estimate, else what was learned."""
    job = running.job
    if running.stops_at is not None:
        return running.stops_at
    stated = []
    if job.time_limit_seconds is not None:
        stated.append(running.started_at + job.time_limit_seconds)
    if job.estimate_seconds is not None:
        stated.append(running.started_at + job.estimate_seconds - running.attained_seconds)
    if stated:
        return min(stated)
    ran = running.attained_seconds + now - running.started_at
    return now + durations.bound_seconds(job, ran)
