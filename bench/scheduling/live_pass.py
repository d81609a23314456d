"""A pass of live size: many waiting jobs, 1,000 nodes, quotas, priorities, leases and backfill
on.

python bench/scheduling/live_pass.py [TRACES] [--rounds 40] [--growth]

A cluster is brought to its steady state first. Then each round lets ten seconds pass, ends what
has run its time, carries out the decisions of the round before and adds as many jobs as left
the line, so that a pass decides what a live one would. The traces' folder is accepted, as by
the other benches, and not needed.

Times are of the CPU. They still depend on what else runs: caches and cores are shared. Before each
pass a plain loop is timed as well, and its median and least are printed, so that runs can be
compared: with nobody else about the two are alike.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from dataclasses import replace
from statistics import median

from trackyard.core.job import Job, PriorityClass
from trackyard.core.lease import Lease
from trackyard.core.node import Node, NodeGpu
from trackyard.core.resources import ResourceRequest
from trackyard.scheduling import ActiveJob, Decisions, Queue, Snapshot, Team, WaitingJob, decide
from trackyard.scheduling.preemption.proof import hold_to_rules
from trackyard.scheduling.snapshot import Snapshot as _Snapshot

NOW = 1_000_000.0


def yard(jobs: int, nodes: int, *, load: float) -> _Snapshot:
    """A busy cluster: two GPU types, ten teams with quotas, two leases, jobs of many shapes."""
    draw = random.Random(7)
    machines = tuple(
        Node(
            id=f"n{i:04d}",
            gpus=tuple(NodeGpu(index=g, type="H100" if i % 4 == 0 else "A100") for g in range(8)),
            cpu_milli=128_000,
            memory_bytes=1024 * 2**30,
            labels=(("rack", f"r{i // 16}"),),
        )
        for i in range(nodes)
    )
    teams = tuple(
        Team(id=f"t{i}", quota_gpus=nodes * 8 // 10, usage_gpu_seconds=draw.random() * 1e7)
        for i in range(10)
    )
    shapes = _shapes(draw)
    running = _fill(draw, machines, load)
    waiting = tuple(WaitingJob(job=_job(draw, i, shapes)) for i in range(jobs))
    leases = tuple(
        Lease(
            id=f"l{i}",
            nodes=tuple(machine.id for machine in machines[40 * i : 40 * i + 8]),
            starts_at=NOW + 3600.0 * (i + 1),
            ends_at=NOW + 3600.0 * (i + 5),
            team=f"t{i}",
        )
        for i in range(2)
    )
    return Snapshot(
        now=NOW,
        nodes=machines,
        waiting=waiting,
        running=running,
        teams=teams,
        queues=(Queue(), Queue(name="debug", rank=-1, max_running_per_user=4)),
        leases=leases,
    )


def _shapes(draw: random.Random) -> list[ResourceRequest]:
    found = [ResourceRequest(gpus=1, gpu_milli=m, cpu_milli=2000) for m in (250, 500)]
    found += [
        ResourceRequest(
            gpus=gpus,
            cpu_milli=gpus * cpu * 1000,
            memory_bytes=gpus * 64 * 2**30,
            gpu_types=kind,
        )
        for gpus in (1, 2, 4, 8)
        for cpu in (4, 8, 12)
        for kind in ((), ("H100",), ("A100",))
    ]
    found += [ResourceRequest(nodes=n, gpus=8, same="rack") for n in (2, 4, 8)]
    draw.shuffle(found)
    return found


def _job(draw: random.Random, number: int, shapes: list[ResourceRequest]) -> Job:
    return Job(
        id=f"j{number}",
        team=f"t{draw.randrange(10)}",
        user=f"u{draw.randrange(60)}",
        queue="debug" if draw.random() < 0.05 else "default",
        priority=draw.choice(list(PriorityClass)[1:4]),
        request=draw.choice(shapes),
        submitted_at=NOW - draw.random() * 90_000,
        time_limit_seconds=draw.choice([600.0, 3600.0, 4 * 3600.0, 86400.0]),
    )


def _fill(draw: random.Random, machines: tuple[Node, ...], load: float) -> tuple[ActiveJob, ...]:
    """Let jobs of one to eight GPUs take a part of the cluster."""
    # Equal requests are one object, as the live queue has them.
    by_size = {size: ResourceRequest(gpus=size, cpu_milli=4000) for size in (1, 2, 4, 8)}
    sizes = [1, 1, 2, 4, 8]
    jobs = [
        WaitingJob(
            job=Job(
                id=f"r{i}",
                team=f"t{draw.randrange(10)}",
                priority=draw.choice(list(PriorityClass)[1:4]),
                request=by_size[draw.choice(sizes)],
                submitted_at=NOW - 90_000,
                time_limit_seconds=draw.choice([7200.0, 86400.0, 4 * 86400.0]),
            )
        )
        for i in range(int(len(machines) * 8 * load / 3.2))
    ]
    before = Snapshot(now=NOW - 7000.0, nodes=machines, waiting=tuple(jobs))
    by_id = {one.job.id: one.job for one in jobs}
    return tuple(
        ActiveJob(
            job=by_id[one.job],
            placement=one.placement,
            started_at=NOW - 7000.0 * draw.random(),
        )
        for one in decide(before).admissions
    )


def plain_loop() -> float:
    """CPU milliseconds of a loop that never changes, to compare machines and moments by."""
    begun, total = time.process_time(), 0
    for number in range(300_000):
        total += number * number % 7
    return 1000 * (time.process_time() - begun)


def live(
    snapshot: _Snapshot, rounds: int, *, warm_up: int = 6
) -> tuple[list[float], list[float], float]:
    """Time passes of a living cluster, and a plain loop beside each; count admissions a pass."""
    draw = random.Random(11)
    shapes = _shapes(draw)
    times, loops, admitted, number = [], [], 0, len(snapshot.waiting)
    size = len(snapshot.waiting)
    for turn in range(warm_up + rounds):
        gc.collect()
        loop = plain_loop()
        # What a live pass does: decide, and prove it.
        begun = time.process_time()
        decisions, faults = hold_to_rules(snapshot, decide(snapshot))
        assert not faults, faults
        if turn >= warm_up:
            times.append(1000 * (time.process_time() - begun))
            loops.append(loop)
            admitted += len(decisions.admissions)
        assert len(decisions.admissions) + len(decisions.reasons) == len(snapshot.waiting)
        snapshot = _carry_out(snapshot, decisions, 10.0)
        new: list[WaitingJob] = []
        while len(snapshot.waiting) + len(new) < size:
            number += 1
            job = replace(_job(draw, number, shapes), submitted_at=snapshot.now)
            new.append(WaitingJob(job=job))
        snapshot = replace(snapshot, waiting=(*snapshot.waiting, *new))
    return sorted(times), sorted(loops), admitted / rounds


def _carry_out(snapshot: _Snapshot, decisions: Decisions, seconds: float) -> _Snapshot:
    """Start and stop what was decided, let time pass, end what has run its time."""
    now = snapshot.now + seconds
    jobs = {one.job.id: one for one in snapshot.waiting}
    gone = {stop.job for stop in decisions.stops}
    kept, back = [], []
    for one in snapshot.running:
        limit = one.job.time_limit_seconds or 0.0
        if one.job.id in gone:
            attained = one.attained_seconds + snapshot.now - one.started_at
            back.append(WaitingJob(job=one.job, attained_seconds=attained))
        elif one.started_at + limit > now:
            kept.append(one)
    kept += [
        ActiveJob(
            job=jobs[one.job].job,
            placement=one.placement,
            started_at=snapshot.now,
            attained_seconds=jobs[one.job].attained_seconds,
        )
        for one in decisions.admissions
    ]
    left = [one for one in snapshot.waiting if one.job.id in decisions.reasons]
    return replace(snapshot, now=now, running=tuple(kept), waiting=(*left, *back))


def cold(snapshot: _Snapshot) -> tuple[float, int]:
    """Time one pass over an empty cluster."""
    gc.collect()
    begun = time.process_time()
    decisions = decide(snapshot)
    return 1000 * (time.process_time() - begun), len(decisions.admissions)


def _with_shares(jobs: int, nodes: int, *, load: float) -> _Snapshot:
    """The same cluster where teams were promised different shares."""
    snapshot = yard(jobs, nodes, load=load)
    teams = (replace(team, weight=1.0 + at % 3) for at, team in enumerate(snapshot.teams))
    return replace(snapshot, teams=tuple(teams))


def _in_departments(jobs: int, nodes: int, *, load: float) -> _Snapshot:
    """The same cluster whose ten teams are in three departments with quotas of their own."""
    snapshot = yard(jobs, nodes, load=load)
    quota = snapshot.teams[0].quota_gpus or 0.0
    teams = [replace(team, parent=f"d{at % 3}") for at, team in enumerate(snapshot.teams)]
    sizes = [sum(team.parent == f"d{at}" for team in teams) for at in range(3)]
    above = [Team(id=f"d{at}", quota_gpus=quota * size) for at, size in enumerate(sizes)]
    return replace(snapshot, teams=(*teams, *above))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", nargs="?")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--shares", action="store_true", help="teams with different shares")
    parser.add_argument("--departments", action="store_true", help="teams in departments")
    parser.add_argument("--growth", action="store_true", help="1,000 to 100,000 waiting jobs")
    args = parser.parse_args()
    made = _with_shares if args.shares else _in_departments if args.departments else yard
    print(
        "| waiting | nodes | running | admitted a pass | least ms | p50 ms | p95 ms"
        " | loop, least ms | loop, p50 ms |"
    )
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    p95 = 0.0
    for jobs in (1_000, 3_000, 10_000, 30_000, 100_000) if args.growth else (10_000,):
        snapshot = made(jobs, 1000, load=1.0)
        times, loops, admitted = live(snapshot, args.rounds)
        p95 = times[min(int(0.95 * len(times)), len(times) - 1)]
        print(
            f"| {jobs:,} | 1,000 | {len(snapshot.running):,} | {admitted:,.1f} |"
            f" {times[0]:.0f} | {median(times):.0f} | {p95:.0f} |"
            f" {loops[0]:.0f} | {median(loops):.0f} |",
            flush=True,
        )
    took, admitted_cold = cold(replace(made(10_000, 1000, load=0.0), leases=()))
    rate = admitted_cold / (took / 1000)
    print(f"Empty cluster, 10,000 waiting: {admitted_cold:,} admissions in {took:.0f} ms,")
    print(f"{rate:,.0f} a second")
    return 0 if args.growth or (p95 < 100 and rate >= 1000) else 1


if __name__ == "__main__":
    sys.exit(main())
