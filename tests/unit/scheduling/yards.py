"""Small yards for tests of the scheduler: builders, random snapshots, what must always hold."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from trackyard.core.job import Job, PriorityClass
from trackyard.core.lease import Lease
from trackyard.core.node import Node, NodeGpu, NodeState
from trackyard.core.resources import WHOLE, ResourceRequest
from trackyard.scheduling import (
    ActiveJob,
    Backfill,
    Decisions,
    Policy,
    PreemptionRules,
    Queue,
    QueueOrder,
    Snapshot,
    Team,
    WaitingJob,
    decide,
)

NOW = 100_000.0
GIB = 2**30


def node(name, gpus=4, kind="a", cpu=16, memory=64, labels=(), state=NodeState.READY):
    return Node(
        id=name,
        gpus=tuple(NodeGpu(index=index, type=kind) for index in range(gpus)),
        cpu_milli=cpu * WHOLE,
        memory_bytes=memory * GIB,
        labels=labels,
        state=state,
    )


def job(ident, gpus=1, *, at=NOW - 10, team="t", limit=None, nodes=1, **more):
    request = {
        key: more.pop(key)
        for key in (
            "gpu_milli",
            "gpu_types",
            "cpu_milli",
            "memory_bytes",
            "labels",
            "same",
            "exclusive",
            "style",
        )
        if key in more
    }
    return Job(
        id=ident,
        team=team,
        submitted_at=at,
        time_limit_seconds=limit,
        request=ResourceRequest(nodes=nodes, gpus=gpus, **request),
        **more,
    )


def waiting(ident, gpus=1, *, avoid=(), attained=0.0, **more):
    return WaitingJob(job=job(ident, gpus, **more), avoid=avoid, attained_seconds=attained)


def start(snapshot, *, at=None):
    """Let a snapshot's jobs start, and return them as running."""
    by_id = {one.job.id: one.job for one in snapshot.waiting}
    return tuple(
        ActiveJob(
            job=by_id[admission.job],
            placement=admission.placement,
            started_at=snapshot.now if at is None else at,
        )
        for admission in decide(snapshot).admissions
    )


PLAIN = Policy(
    order=QueueOrder.FIFO,
    backfill=Backfill.EASY,
    preemption=PreemptionRules(lower_classes=False, reclaim=False, yield_to_shorter=False),
)

_shapes = st.one_of(
    st.builds(
        ResourceRequest,
        gpus=st.integers(1, 4),
        cpu_milli=st.sampled_from([0, 1000, 4000, 8000]),
        memory_bytes=st.sampled_from([0, 8 * GIB, 40 * GIB]),
        gpu_types=st.sampled_from([(), (), ("a",), ("b", "a"), ("b",)]),
    ),
    st.builds(ResourceRequest, gpus=st.just(1), gpu_milli=st.sampled_from([250, 300, 500, 700])),
    st.builds(
        ResourceRequest,
        nodes=st.integers(2, 3),
        gpus=st.integers(1, 4),
        same=st.sampled_from(["", "", "rack"]),
    ),
    st.builds(
        ResourceRequest, gpus=st.integers(0, 2), exclusive=st.booleans(), cpu_milli=st.just(2000)
    ),
)


@st.composite
def _jobs(draw, prefix, count):
    found = []
    for number in range(draw(st.integers(0, count))):
        limit = draw(st.sampled_from([None, 100.0, 1000.0, 5000.0]))
        found.append(
            Job(
                id=f"{prefix}{number}",
                team=draw(st.sampled_from(["t", "u"])),
                user=draw(st.sampled_from(["ann", "bob"])),
                priority=draw(st.sampled_from(list(PriorityClass)[1:4])),
                request=draw(_shapes),
                submitted_at=NOW - draw(st.sampled_from([1.0, 50.0, 3000.0, 90_000.0])),
                time_limit_seconds=limit,
                preemptible=draw(st.booleans()),
            )
        )
    return found


@st.composite
def snapshots(draw, *, policy=None, leases=True, quotas=True):
    """A yard with something running, something waiting, quotas and leases."""
    nodes = tuple(
        node(
            f"n{number}",
            gpus=draw(st.integers(1, 4)),
            kind=draw(st.sampled_from(["a", "a", "b"])),
            labels=(("rack", draw(st.sampled_from(["r1", "r2"]))),),
            state=draw(st.sampled_from([NodeState.READY] * 5 + [NodeState.DRAINED])),
        )
        for number in range(draw(st.integers(1, 4)))
    )
    teams = (Team(id="t"), Team(id="u"))
    queues = (Queue(),)
    if quotas and draw(st.booleans()):
        quota, limit = draw(st.sampled_from([(2, 4), (4, None), (None, 3)]))
        teams = (Team(id="t", quota_gpus=quota, limit_gpus=limit), Team(id="u", quota_gpus=4))
        queues = (
            Queue(
                max_running_per_user=draw(st.sampled_from([None, 2])),
                max_gpus_per_user=draw(st.sampled_from([None, 4])),
                quota_gpus=draw(st.sampled_from([None, 6])),
            ),
        )
    calendar = ()
    if leases and draw(st.booleans()):
        begin = NOW + draw(st.sampled_from([-500.0, 500.0, 2000.0]))
        calendar = (
            Lease(id="l1", nodes=("n0",), starts_at=begin, ends_at=begin + 3000.0, team="u"),
        )
    rules = policy or draw(
        st.sampled_from(
            [
                PLAIN,
                Policy(),
                Policy(preemption=PreemptionRules(grace_seconds=0.0, min_run_seconds=0.0)),
                Policy(order=QueueOrder.FAIR, backfill=Backfill.CONSERVATIVE),
                Policy(order=QueueOrder.DOMINANT, backfill=Backfill.SKIP),
                Policy(order=QueueOrder.SHORTEST, backfill=Backfill.STRICT),
            ]
        )
    )
    before = Snapshot(
        now=NOW - 2000.0,
        nodes=nodes,
        waiting=tuple(WaitingJob(job=one) for one in draw(_jobs("r", 5))),
        teams=teams,
        queues=queues,
        leases=calendar,
        policy=PLAIN,
    )
    return Snapshot(
        now=NOW,
        nodes=nodes,
        waiting=tuple(WaitingJob(job=one) for one in draw(_jobs("w", 7))),
        running=start(before),
        teams=teams,
        queues=queues,
        leases=calendar,
        policy=rules,
    )


def after(snapshot: Snapshot, decisions: Decisions) -> Snapshot:
    """The yard once the decisions were carried out and every stopped job has gone."""
    by_id = {one.job.id: one.job for one in snapshot.waiting}
    gone = {stop.job for stop in decisions.stops}
    kept = tuple(one for one in snapshot.running if one.job.id not in gone)
    new = tuple(
        ActiveJob(job=by_id[one.job], placement=one.placement, started_at=snapshot.now)
        for one in decisions.admissions
    )
    left = tuple(one for one in snapshot.waiting if one.job.id in decisions.reasons)
    return replace(snapshot, running=(*kept, *new), waiting=left)
