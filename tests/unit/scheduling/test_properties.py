"""What must hold of every decision, whatever the yard looks like."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import HealthCheck, given, settings

from tests.unit.scheduling.yards import NOW, PLAIN, after, snapshots
from trackyard.core.reasons import Code, Tier
from trackyard.core.resources import WHOLE
from trackyard.scheduling import Backfill, PassScheduler, Policy, QueueOrder, decide
from trackyard.scheduling.windows import WORTH_STARTING_SECONDS

often = settings(
    max_examples=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def holdings(running):
    gpu, cpu, memory, tenants = Counter(), Counter(), Counter(), {}
    for one in running:
        for share in one.placement.shares:
            for index in share.gpus:
                gpu[share.node, index] += share.gpu_milli
            cpu[share.node] += share.cpu_milli
            memory[share.node] += share.memory_bytes
            tenants.setdefault(share.node, []).append(one)
    return gpu, cpu, memory, tenants


@often
@given(snapshots())
def test_no_resource_is_given_twice(snapshot):
    """GPUs, CPUs, memory and exclusive nodes are never over-committed."""
    gpu, cpu, memory, tenants = holdings(after(snapshot, decide(snapshot)).running)
    assert all(milli <= WHOLE for milli in gpu.values())
    for node in snapshot.nodes:
        assert cpu[node.id] <= node.cpu_milli
        assert memory[node.id] <= node.memory_bytes
        jobs = tenants.get(node.id, [])
        if any(one.job.request.exclusive for one in jobs):
            assert len(jobs) == 1


@often
@given(snapshots())
def test_gangs_start_whole_and_where_they_asked(snapshot):
    """Every admission has all its nodes, each with all its GPUs, of the right type and label."""
    by_id = {one.job.id: one.job for one in snapshot.waiting}
    nodes = {node.id: node for node in snapshot.nodes}
    for admission in decide(snapshot).admissions:
        request = by_id[admission.job].request
        shares = admission.placement.shares
        assert len({share.node for share in shares}) == request.nodes == len(shares)
        for share in shares:
            assert len(set(share.gpus)) == request.gpus
            assert nodes[share.node].state.takes_work
            if request.gpus and request.gpu_types:
                assert nodes[share.node].gpu_type in request.gpu_types
        if request.same:
            assert len({nodes[share.node].label(request.same) for share in shares}) == 1


@often
@given(snapshots())
def test_leases_are_kept(snapshot):
    """Nothing starts on a leased node that others' time would run into."""
    by_id = {one.job.id: one.job for one in snapshot.waiting}
    for admission in decide(snapshot).admissions:
        job = by_id[admission.job]
        seconds = admission.predicted_seconds or 0.0
        # What may be preempted is drained in time, if it is worth starting at all.
        end = snapshot.now + (min(seconds, WORTH_STARTING_SECONDS) if job.preemptible else seconds)
        for lease in snapshot.leases:
            if lease.admits(team=job.team, user=job.user, lease=job.lease):
                continue
            if set(lease.nodes) & set(admission.placement.nodes):
                assert not lease.overlaps(start=snapshot.now, end=end)


@often
@given(snapshots(leases=False))
def test_limits_are_kept(snapshot):
    """Limits of teams, queues and users, and of borrowing, hold after a pass that adds to them."""
    decisions = decide(snapshot)
    by_id = {one.job.id: one.job for one in snapshot.waiting}
    then = after(snapshot, decisions)
    new = [by_id[one.job] for one in decisions.admissions]
    used, users, running, total = Counter(), Counter(), Counter(), 0
    for one in then.running:
        milli = one.job.request.gpu_milli_total
        used[one.job.team] += milli
        users[one.job.user] += milli
        running[one.job.user] += 1
        total += milli
    queue = snapshot.queues[0]
    quotas = [team.quota_gpus for team in snapshot.teams if team.quota_gpus is not None]
    for team in snapshot.teams:
        mine = [job for job in new if job.team == team.id and job.request.gpus]
        if not mine:
            continue
        if team.limit_gpus is not None:
            assert used[team.id] <= team.limit_gpus * WHOLE
        if team.quota_gpus is not None and used[team.id] > team.quota_gpus * WHOLE:
            owners = [team.id for team in snapshot.teams if team.quota_gpus is not None]
            assert sum(used[owner] for owner in owners) <= sum(quotas) * WHOLE
    for job in new:
        if queue.max_running_per_user is not None:
            assert running[job.user] <= queue.max_running_per_user
        if queue.max_gpus_per_user is not None and job.request.gpus:
            assert users[job.user] <= queue.max_gpus_per_user * WHOLE
        if queue.quota_gpus is not None and job.request.gpus:
            assert total <= queue.quota_gpus * WHOLE


def reserved_is_free(snapshot, decisions):
    """Say whether each reservation finds its GPUs, CPUs and memory free at its time."""
    then = after(snapshot, decisions)
    predicted = {one.job: one.predicted_seconds for one in decisions.admissions}
    nodes = {node.id: node for node in snapshot.nodes}
    for reservation in decisions.reservations:
        still = []
        for one in then.running:
            seconds = predicted.get(one.job.id, one.job.time_limit_seconds)
            end = one.started_at + (86400.0 * 400 if seconds is None else seconds)
            if end > reservation.at and one.job.time_limit_seconds is not None:
                still.append(one)
        gpu, cpu, memory, _ = holdings(still)
        for share in reservation.placement.shares:
            for index in share.gpus:
                if gpu[share.node, index] + share.gpu_milli > WHOLE:
                    return False
            if cpu[share.node] + share.cpu_milli > nodes[share.node].cpu_milli:
                return False
            if memory[share.node] + share.memory_bytes > nodes[share.node].memory_bytes:
                return False
    return True


@often
@given(snapshots(policy=PLAIN))
def test_easy_backfill_never_delays_the_reservation(snapshot):
    """At the reserved time nobody who started in this pass is in the way."""
    assert reserved_is_free(snapshot, decide(snapshot))


@often
@given(snapshots(policy=replace(PLAIN, backfill=Backfill.CONSERVATIVE)))
def test_conservative_backfill_never_delays_any_reservation(snapshot):
    """The same for every reservation of conservative backfill."""
    assert reserved_is_free(snapshot, decide(snapshot))


@often
@given(snapshots())
def test_every_job_starts_or_has_a_reason(snapshot):
    """Admissions and reasons divide the line between them, and the line lists who waits."""
    decisions = decide(snapshot)
    admitted = [one.job for one in decisions.admissions]
    everyone = {one.job.id for one in snapshot.waiting}
    assert len(set(admitted)) == len(admitted)
    assert set(admitted) | set(decisions.reasons) == everyone
    assert not set(admitted) & set(decisions.reasons)
    assert sorted(decisions.line) == sorted(decisions.reasons)
    for reasons in decisions.reasons.values():
        assert reasons
        assert all(reason.sentence and reason.remedy for reason in reasons)
        assert "{" not in "".join(reason.sentence for reason in reasons)


@often
@given(snapshots())
def test_the_same_snapshot_gives_the_same_answer(snapshot):
    """Deciding is a function."""
    assert decide(snapshot) == decide(snapshot)


@often
@given(snapshots())
def test_one_pass_and_a_lasting_scheduler_agree(snapshot):
    """The line taken in columns for one pass gives the answers of the line kept for a replay."""
    assert PassScheduler(snapshot).decide(snapshot.now) == decide(snapshot)


def assert_blockers_are_true(snapshot):
    """Without the jobs and the leases that its reasons name, each job starts."""
    decisions = decide(snapshot)
    names = {one.job.id: one for one in snapshot.waiting}
    for name, reasons in decisions.reasons.items():
        reason = reasons[0]
        if reason.tier not in (Tier.PRIORITY, Tier.CAPACITY) or reason.code is Code.PREEMPTING:
            continue
        assert reason.holders
        assert reason.holder_count <= len(reason.holders) or reason.code is Code.BEHIND_RESERVATION
        leases = {one.what for one in reasons if one.tier is Tier.LEASE_CONFLICT}
        alone = replace(
            snapshot,
            waiting=(names[name],),
            leases=tuple(lease for lease in snapshot.leases if lease.label not in leases),
            running=tuple(
                one for one in snapshot.running if one.job.id not in set(reason.holders)
            ),
        )
        assert [one.job for one in decide(alone).admissions] == [name]


@often
@given(snapshots(policy=PLAIN, leases=False))
def test_removing_the_named_blockers_admits_the_job(snapshot):
    """A reason of priority or capacity is true: without those it names the job starts."""
    assert_blockers_are_true(snapshot)


@settings(often, max_examples=30)
@given(snapshots(policy=Policy(), leases=False))
def test_removing_the_named_blockers_admits_the_job_under_the_default(snapshot):
    """The same where others are stopped for claimants, who keep what these leave."""
    assert_blockers_are_true(snapshot)


@settings(often, max_examples=30)
@given(snapshots(policy=replace(PLAIN, order=QueueOrder.DEFAULT)))
def test_removing_the_named_blockers_and_leases_admits_the_job(snapshot):
    """The same where a lease is in the way beside those who hold the room."""
    assert_blockers_are_true(snapshot)


@often
@given(snapshots(policy=PLAIN))
def test_removing_the_lease_or_limit_lifts_that_reason(snapshot):
    """A reason of lease or quota is true: without the lease or the limits it is gone."""
    for name, reasons in decide(snapshot).reasons.items():
        tier = reasons[0].tier
        only = tuple(one for one in snapshot.waiting if one.job.id == name)
        if tier is Tier.LEASE_CONFLICT:
            freed = replace(snapshot, leases=(), waiting=only)
            assert [one.job for one in decide(freed).admissions] == [name]
        elif tier is Tier.OVER_QUOTA:
            lifted = replace(
                snapshot,
                teams=(),
                queues=type(snapshot).__dataclass_fields__["queues"].default,
                waiting=only,
            )
            answer = decide(lifted)
            assert not answer.reasons or answer.reason(name).tier is not Tier.OVER_QUOTA


@often
@given(snapshots())
def test_nobody_is_stopped_who_must_not_be(snapshot):
    """Victims are preemptible, have run their minimum, and are never of a higher class."""
    running = {one.job.id: one for one in snapshot.running}
    by_id = {one.job.id: one.job for one in snapshot.waiting}
    settings_ = snapshot.policy.preemption
    stops = decide(snapshot).stops
    assert len({stop.job for stop in stops}) == len(stops)
    for stop in stops:
        victim = running[stop.job]
        assert victim.job.preemptible
        assert NOW - victim.started_at >= settings_.min_run_seconds
        assert victim.job.priority <= by_id[stop.for_job].priority
