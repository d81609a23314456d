"""The yard at one moment: nodes, what is free, who holds what and until when.

Owns State and Held. Every start and end of a job passes through `hold` and `release`, so
capacity, quota and foreseen ends can never drift apart. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import inf

import numpy as np

from trackyard.core.job import Job
from trackyard.core.resources import NodeShare, Placement
from trackyard.scheduling.forecast.durations import DurationModel
from trackyard.scheduling.place.capacity import Capacity, Part
from trackyard.scheduling.place.fragmentation import Fragmentation
from trackyard.scheduling.place.table import Floats, Ints, NodeTable, Shape
from trackyard.scheduling.preemption.victims import Victims
from trackyard.scheduling.shares.departments import BRIEF_SECONDS
from trackyard.scheduling.shares.quota import QuotaLedger
from trackyard.scheduling.snapshot import ActiveJob, Snapshot
from trackyard.scheduling.windows import Windows

#: A job that outlives its foreseen end is given as long again as it is late, at least this long.
SOONEST_SECONDS = 1.0


class HeldJob:
    """A job that holds resources."""

    __slots__ = (
        "attained",
        "checkpoint_at",
        "ends_at",
        "job",
        "parts",
        "save_seconds",
        "shape",
        "slot",
        "started_at",
        "stopped_for",
        "stops",
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
        save_seconds: float | None = None,
        stops: tuple[float, ...] = (),
        stopped_for: str = "",
    ) -> None:
        self.job = job
        self.shape = shape
        self.parts = parts
        self.started_at = started_at
        self.ends_at = ends_at
        self.attained = attained
        self.checkpoint_at = checkpoint_at
        #: seconds between its checkpoints; 0: it saves when told to stop; None: not known
        self.save_seconds = save_seconds
        #: when earlier attempts were stopped for others
        self.stops = stops
        #: the job it was last stopped for, while that one has not ended
        self.stopped_for = stopped_for
        self.slot = -1
        self.stops_at: float | None = None
        self.stops_for = ""

    def ends_by(self, now: float) -> float:
        """Foreseen end, seen from now."""
        if self.stops_at is not None:
            return max(self.stops_at, now)
        if self.ends_at > now:
            return self.ends_at
        return now + max(now - self.ends_at, SOONEST_SECONDS)

    @property
    def saved_at(self) -> float:
        """Until when its work is known to be safe."""
        if self.checkpoint_at is None:
            return self.started_at
        return max(self.started_at, self.checkpoint_at)

    def lost_seconds(self, now: float) -> float:
        """Run time that stopping it now would lose."""
        if self.checkpoint_at is None and self.save_seconds is not None:
            return (now - self.started_at) % self.save_seconds if self.save_seconds else 0.0
        return now - self.saved_at


def free_from(free_at: Floats, now: float) -> Floats:
    """Return when GPUs are predicted to be free, in the terms of `HeldJob.ends_by`; 0: now."""
    late = np.where(free_at < now, 2 * now - free_at, free_at)
    found: Floats = np.where(free_at == 0.0, 0.0, np.maximum(late, now + SOONEST_SECONDS))
    return found


class PassState:
    """Everything that a pass changes while it decides."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.now = snapshot.now
        self.policy = snapshot.policy
        self.durations = snapshot.durations
        self.table = NodeTable(snapshot.nodes)
        self.capacity = Capacity(self.table)
        self.ledger = QuotaLedger(
            snapshot.teams,
            snapshot.queues,
            table=self.table,
            now=snapshot.now,
            policy=snapshot.policy,
        )
        self.windows = Windows(snapshot.leases, table=self.table)
        self.victims = Victims(snapshot.policy.preemption)
        #: for jobs that have not ended, who holds GPUs again after being stopped for them
        self._stopped_for: dict[str, set[str]] = {}
        #: jobs that others were stopped for and that have not ended
        self.stoppers = {one.stopped_for for one in snapshot.waiting if one.stopped_for}
        self.held: dict[str, HeldJob] = {}
        #: by row; None: not worked out yet from the slots that `_first_on` lists for each row
        self._on_row: list[dict[str, HeldJob] | None] = [{} for _ in range(self.table.count)]
        self._first_on: tuple[list[int], list[int]] = ([], [])
        #: when each busy GPU is foreseen to be free; 0: free now
        self.free_at: Floats = np.zeros((self.table.count, self.table.width))
        self.free_at[~self.table.present] = inf
        #: row among the victims of the job that has a GPU to itself; -1: nobody, or several
        self.slot_on: Ints = np.full(self.free_at.shape, -1, dtype=np.int64)
        self.fragmentation: Fragmentation | None = None
        self._load(snapshot.running)

    def hold(self, held: HeldJob) -> None:
        """Let a job have its parts."""
        self.held[held.job.id] = held
        self.capacity.take(held.shape, held.parts)
        self.ledger.charge(held.job, held.shape)
        self.ledger.team(held.job.team).expect(held.shape, held.ends_at - held.started_at)
        self.victims.add(held, self.durations)
        if held.stopped_for:
            self._stopped_for.setdefault(held.stopped_for, set()).add(held.job.id)
        for row, gpus in held.parts:
            self.on_row(row)[held.job.id] = held
            line = self.free_at[row]
            if held.shape.is_fraction:
                for gpu in gpus:
                    line[gpu] = max(line[gpu], held.ends_at)
            else:
                at = gpus[0] if len(gpus) == 1 else list(gpus)
                line[at] = held.ends_at
                self.slot_on[row, at] = held.slot

    def _load(self, running: Sequence[ActiveJob]) -> None:
        """Hold many at once."""
        jobs = [one.job for one in running]
        shapes = self.table.shapes([job.request for job in jobs])
        everyone = self._all_held(running, shapes)
        self.ledger.charge_all(jobs, shapes)
        for held in everyone:
            if held.ends_at - held.started_at < BRIEF_SECONDS:
                seconds = held.ends_at - held.started_at
                self.ledger.team(held.job.team).expect(held.shape, seconds)
        self.victims.load(everyone, self.durations)
        self.held = {job.id: held for job, held in zip(jobs, everyone, strict=True)}
        if not everyone:
            return
        parts = [part for held in everyone for part in held.parts]
        counts = [len(held.parts) for held in everyone]
        nodes: Ints = np.array([row for row, _ in parts], dtype=np.int64)
        slots: Ints = np.repeat(np.arange(len(everyone)), counts)
        order = np.argsort(nodes, kind="stable")
        ends = np.searchsorted(nodes[order], np.arange(self.table.count + 1)).tolist()
        self._first_on = (slots[order].tolist(), ends)
        for row in range(self.table.count):
            self._on_row[row] = None
        kind = np.array([shape.index for shape in shapes])
        self._fill(nodes, slots, [gpus for _, gpus in parts], kind)

    def _fill(self, nodes: Ints, slots: Ints, gpus: Sequence[tuple[int, ...]], kind: Ints) -> None:
        """Take parts out of the capacity; `kind` is the shape of each slot."""
        capacity, shapes = self.capacity, self.table.known_shapes()
        numbers: Ints = np.array([(one.cpu, one.memory, one.milli) for one in shapes])
        alone = np.array([one.exclusive for one in shapes])
        shared = np.array([one.is_fraction for one in shapes])
        of_part = kind[slots]
        np.subtract.at(capacity.cpu, nodes, numbers[of_part, 0])
        np.subtract.at(capacity.memory, nodes, numbers[of_part, 1])
        np.add.at(capacity.tenants, nodes, 1)
        capacity.open[nodes[alone[of_part]]] = False
        sizes: Ints = np.fromiter(map(len, gpus), np.int64, len(gpus))
        rows, owners = np.repeat(nodes, sizes), np.repeat(slots, sizes)
        places = np.fromiter(chain.from_iterable(gpus), np.int64, len(rows))
        at = rows * self.table.width + places
        self.slot_on.reshape(-1)[at] = np.where(shared[kind[owners]], -1, owners)
        milli = numbers[kind[owners], 2].astype(np.int32)
        np.subtract.at(capacity.gpu.reshape(-1), at, milli)
        ends = np.array([one.ends_at for one in self.held.values()])
        np.maximum.at(self.free_at.reshape(-1), at, ends[owners])
        capacity.recount_all()

    def on_row(self, row: int) -> dict[str, HeldJob]:
        """Who is on a row; worked out when someone asks."""
        found = self._on_row[row]
        if found is None:
            slots, ends = self._first_on
            there = (self.victims.held[slot] for slot in slots[ends[row] : ends[row + 1]])
            found = self._on_row[row] = {held.job.id: held for held in there if held is not None}
        return found

    def ended(self, job: str) -> None:
        """Let those be stopped again who were stopped for this job."""
        self.stoppers.discard(job)
        for name in self._stopped_for.pop(job, ()):
            if name in self.held:
                self.victims.unspare(self.held[name])

    def release(self, job: str) -> HeldJob:
        """Take a job's parts back."""
        held = self.held.pop(job)
        self.capacity.give(held.shape, held.parts)
        self.ledger.charge(held.job, held.shape, -1)
        self.ledger.team(held.job.team).expect(held.shape, held.ends_at - held.started_at, -1)
        for row, _ in held.parts:
            del self.on_row(row)[job]
        self.victims.remove(held)
        for row, gpus in held.parts:
            at = gpus[0] if len(gpus) == 1 else list(gpus)
            self.free_at[row, at] = 0.0
            if held.shape.is_fraction:
                self._refill(row, gpus[0])
            else:
                self.slot_on[row, at] = -1
        return held

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
            for other in self.on_row(row).values()
            for at, gpus in other.parts
            if at == row and gpu in gpus
        ]
        self.free_at[row, gpu] = max(ends, default=0.0)

    def _all_held(self, running: Sequence[ActiveJob], shapes: Sequence[Shape]) -> list[HeldJob]:
        row_of, now, durations = self.table.row, self.now, self.durations
        everyone = []
        for one, shape in zip(running, shapes, strict=True):
            shares = one.placement.shares
            job, started, attained = one.job, one.started_at, one.attained_seconds
            limit = job.time_limit_seconds
            if limit is not None and job.estimate_seconds is None and one.stops_at is None:
                ends = started + limit
            else:
                ends = _foreseen_end(one, job, now, durations)
            held = HeldJob(
                job,
                shape=shape,
                # Most have one node; a list made in place takes half the time of a loop.
                parts=[(row_of[shares[0].node], shares[0].gpus)]
                if len(shares) == 1
                else [(row_of[share.node], share.gpus) for share in shares],
                started_at=started,
                ends_at=ends,
                attained=attained,
                checkpoint_at=one.checkpoint_at,
                # What it saved in this attempt is known; its pace counts for those still to start.
                save_seconds=0.0 if one.save_seconds == 0 else None,
                stops=one.stops,
                stopped_for=one.stopped_for,
            )
            if one.stops_at is not None or one.stops_for:
                held.stops_at, held.stops_for = one.stops_at, one.stops_for
            everyone.append(held)
        return everyone


def _foreseen_end(running: ActiveJob, job: Job, now: float, durations: DurationModel) -> float:
    """The end of a running job: its stop, its limit, its estimate, else what was learned."""
    if running.stops_at is not None:
        return running.stops_at
    limit, estimate = job.time_limit_seconds, job.estimate_seconds
    if estimate is not None:
        end = running.started_at + estimate - running.attained_seconds
        return end if limit is None else min(running.started_at + limit, end)
    if limit is not None:
        return running.started_at + limit
    ran = running.attained_seconds + now - running.started_at
    return now + durations.bound_seconds(job, ran)
