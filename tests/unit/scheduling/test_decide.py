"""Decisions on small yards, one rule at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.scheduling.yards import GIB, NOW, PLAIN, job, node, start, waiting
from trackyard.core.job import Dependency, DependsOn, JobState, PriorityClass
from trackyard.core.lease import Lease
from trackyard.core.node import NodeState
from trackyard.core.reasons import Code, Tier
from trackyard.core.resources import Style
from trackyard.scheduling import (
    ActiveJob,
    Backfill,
    Cause,
    DurationModel,
    Policy,
    PreemptionRules,
    Queue,
    QueueOrder,
    Snapshot,
    Team,
    decide,
)

EAGER = Policy(preemption=PreemptionRules(grace_seconds=0.0, min_run_seconds=0.0))


def yard(*line, nodes=None, **more):
    return Snapshot(
        now=NOW, nodes=nodes or (node("n0"), node("n1")), waiting=line, **{"policy": PLAIN, **more}
    )


def admitted(snapshot):
    return [one.job for one in decide(snapshot).admissions]


def code(snapshot, name):
    return decide(snapshot).reason(name).code


class TestGate:
    @pytest.mark.parametrize(
        ("one", "expected"),
        [
            (waiting("w", queue="nowhere"), Code.UNKNOWN_QUEUE),
            (waiting("w", gpu_types=("z",)), Code.UNKNOWN_GPU_TYPE),
            (waiting("w", labels=(("disk", "fast"),)), Code.UNKNOWN_LABEL),
            (waiting("w", 2, gpu_milli=500), Code.BAD_REQUEST),
            (waiting("w", 5), Code.TOO_LARGE),
            (waiting("w", 4, nodes=3), Code.TOO_LARGE),
            (waiting("w", lease="none"), Code.UNKNOWN_LEASE),
            (waiting("w", held=True), Code.HELD),
            (waiting("w", not_before=NOW + 5), Code.NOT_BEFORE),
            (waiting("w", dependencies=(Dependency(job="x"),)), Code.UNKNOWN_DEPENDENCY),
            (waiting("w", avoid=("n0", "n1")), Code.AVOIDS_NODES),
        ],
    )
    def test_a_fault_is_told_and_never_looks_like_a_wait(self, one, expected):
        assert code(yard(one), "w") is expected

    def test_only_nodes_out_of_service_would_fit(self):
        nodes = (node("n0", 2), node("n1", 8, state=NodeState.QUARANTINED))
        assert code(yard(waiting("w", 8), nodes=nodes), "w") is Code.NODES_UNHEALTHY

    def test_a_drained_node_takes_nothing_new(self):
        nodes = (node("n0", state=NodeState.DRAINED), node("n1"))
        (admission,) = decide(yard(waiting("w"), nodes=nodes)).admissions
        assert admission.placement.nodes == ("n1",)

    def test_a_job_avoids_the_node_where_it_failed(self):
        (admission,) = decide(yard(waiting("w", avoid=("n0",)))).admissions
        assert admission.placement.nodes == ("n1",)

    @pytest.mark.parametrize(
        ("state", "expected"),
        [
            (JobState.RUNNING, Code.WAITS_FOR_JOB),
            (JobState.FAILED, Code.DEPENDENCY_NEVER),
            (JobState.SUCCEEDED, None),
        ],
    )
    def test_dependencies_follow_the_other_job(self, state, expected):
        one = waiting("w", dependencies=(Dependency(job="x", when=DependsOn.SUCCESS),))
        answer = decide(yard(one, outcomes={"x": state}))
        assert (answer.reason("w").code if answer.reasons else None) is expected

    @pytest.mark.parametrize(
        ("queue", "expected"),
        [
            (Queue(max_nodes_per_job=1), Code.NODES_OVER_LIMIT),
            (Queue(max_gpus_per_job=1), Code.GPUS_OVER_LIMIT),
            (Queue(max_wall_seconds=60), Code.WALL_TIME_OVER_LIMIT),
            (Queue(teams=("u",)), Code.QUEUE_CLOSED),
        ],
    )
    def test_a_queue_refuses_what_its_table_does_not_allow(self, queue, expected):
        assert code(yard(waiting("w", 1, nodes=2, limit=100.0), queues=(queue,)), "w") is expected


class TestOrder:
    def test_fifo_goes_by_submission(self):
        line = (waiting("b", 4, at=NOW - 1), waiting("a", 4, at=NOW - 2))
        assert admitted(yard(*line)) == ["a", "b"]

    def test_a_higher_class_goes_first(self):
        line = (waiting("a", 4, at=1), waiting("b", 4, priority=PriorityClass.HIGH))
        assert admitted(yard(*line)) == ["b", "a"]

    def test_fair_share_prefers_the_team_that_used_less(self):
        teams = (Team(id="t", usage_gpu_seconds=1e6), Team(id="u"))
        line = (waiting("a", 4, at=1), waiting("b", 4, team="u"))
        policy = replace(PLAIN, order=QueueOrder.FAIR)
        assert admitted(yard(*line, teams=teams, policy=policy)) == ["b", "a"]

    def test_fair_share_alternates_within_one_pass(self):
        line = tuple(waiting(f"t{i}", 2, at=i) for i in range(4))
        line += tuple(waiting(f"u{i}", 2, team="u", at=10 + i) for i in range(2))
        policy = replace(PLAIN, order=QueueOrder.FAIR)
        assert set(admitted(yard(*line, policy=policy))) == {"t0", "t1", "u0", "u1"}

    def test_dominant_share_counts_the_scarcest_resource(self):
        line = (
            waiting("cpu", 0, cpu_milli=12_000, at=1),
            waiting("cpu2", 1, at=2),
            waiting("gpu", 1, team="u", at=3),
        )
        policy = replace(PLAIN, order=QueueOrder.DOMINANT)
        assert admitted(yard(*line, policy=policy, nodes=(node("n0"),))) == ["cpu", "gpu", "cpu2"]

    def test_the_shortest_goes_first(self):
        line = (
            waiting("long", 4, estimate_seconds=900.0, at=1),
            waiting("short", 4, estimate_seconds=60.0),
        )
        policy = replace(PLAIN, order=QueueOrder.SHORTEST)
        assert admitted(yard(*line, policy=policy)) == ["short", "long"]

    def test_the_default_prefers_short_jobs_until_others_waited_too_long(self):
        line = (
            waiting("long", 4, estimate_seconds=90_000.0, at=NOW - 1000),
            waiting("short", 4, estimate_seconds=60.0),
        )
        one = (node("n0"),)
        assert admitted(yard(*line, nodes=one, policy=Policy())) == ["short"]
        # Their lengths differ by less than eleven halvings, each of two days.
        since = NOW - 22 * 86_400
        old = (replace(line[0], job=replace(line[0].job, submitted_at=since)), line[1])
        assert admitted(yard(*old, nodes=one, policy=Policy())) == ["long"]

    def test_learned_lengths_order_jobs_that_state_none(self):
        model = DurationModel()
        for _ in range(20):
            model.observe(job("x", team="t"), 50.0)
            model.observe(job("x", team="u"), 50_000.0)
        line = (waiting("slow", 4, team="u", at=NOW - 20), waiting("quick", 4, team="t"))
        policy = replace(PLAIN, order=QueueOrder.DEFAULT)
        assert admitted(yard(*line, durations=model, policy=policy)) == ["quick", "slow"]

    def test_a_queue_may_keep_its_own_order_and_rank(self):
        queues = (Queue(), Queue(name="first", rank=-1))
        line = (waiting("a", 4, at=1), waiting("b", 4, queue="first"))
        assert admitted(yard(*line, queues=queues)) == ["b", "a"]

    @pytest.mark.parametrize("seconds", [1.0, 90.0, 1500.0])
    def test_brief_jobs_share_time_and_not_places(self, seconds):
        """Of like jobs on two GPUs a team with twice the share soon runs twice as many."""
        used = {"t": 0.0, "u": 0.0}
        policy = replace(PLAIN, order=QueueOrder.FAIR)
        for second in range(90):
            line = [
                waiting(f"{team}{second}-{number}", team=team, limit=seconds)
                for team in used
                for number in range(2)
            ]
            teams = tuple(
                Team(id=team, weight=weight, usage_gpu_seconds=used[team])
                for team, weight in (("t", 2.0), ("u", 1.0))
            )
            snapshot = replace(yard(*line, nodes=(node("n0", 2),), teams=teams), policy=policy)
            for name in admitted(snapshot):
                used[name[0]] += seconds
        assert used == {"t": 120 * seconds, "u": 60 * seconds}


class TestShares:
    """What teams with different shares get under the default order, decided event by event."""

    @pytest.mark.parametrize(
        ("lengths", "starts"),
        [
            ({"large": 3.0, "small": 3.0}, 12),
            ({"large": 30.0, "small": 3.0}, 90),
            ({"large": 3.0, "small": 30.0}, 90),
        ],
    )
    def test_time_follows_the_shares_whatever_is_known_of_lengths(self, lengths, starts):
        """Neither a third team's long past nor what one team's jobs are known to take counts."""
        got = _serve(lengths, starts, kinds=dict.fromkeys(lengths, "train"))
        assert 1.5 <= got["large"] / got["small"] <= 2.7, got

    def test_jobs_unlike_any_before_share_as_well(self):
        got = _serve({"large": 3.0, "small": 3.0}, 60, kinds={"large": "a", "small": "b"})
        assert 1.5 <= got["large"] / got["small"] <= 2.7, got


def _serve(lengths, starts, kinds):
    """Start so many jobs of two teams on two GPUs; return the GPU-seconds that each team got."""
    weights = {"default": 1.0, "large": 2.0, "small": 1.0}
    used = {"default": 50_000.0, "large": 0.0, "small": 0.0}
    model = DurationModel()
    for seconds in (2.0, 600.0, 900.0, 40.0):
        model.observe(job("old", team="default", command="other"), seconds)
    line = [
        waiting(f"{team}-{number}", team=team, user=team, command=kinds[team], at=NOW - 9)
        for team in ("small", "large")
        for number in range(starts)
    ]
    busy, now, count = [], NOW, 0
    while count < starts:
        teams = tuple(
            Team(id=team, weight=weights[team], usage_gpu_seconds=used[team]) for team in used
        )
        snapshot = yard(
            *line,
            nodes=(node("n0", 2),),
            teams=teams,
            running=tuple(busy),
            policy=Policy(),
            durations=model,
        )
        snapshot = replace(snapshot, now=now)
        by_id = {one.job.id: one for one in line}
        for one in decide(snapshot).admissions:
            line.remove(by_id[one.job])
            busy.append(ActiveJob(job=by_id[one.job].job, placement=one.placement, started_at=now))
            count += 1
        ends = {
            one.job.id: one.started_at + lengths[one.job.team] * (1 + len(one.job.id) % 2 / 10)
            for one in busy
        }
        then = min(ends.values())
        for one in busy:
            used[one.job.team] += then - now
        now = then
        for one in [one for one in busy if ends[one.job.id] <= now]:
            model.observe(one.job, now - one.started_at)
            busy.remove(one)
    return used


class TestQuota:
    def test_a_team_stays_within_its_limit(self):
        snapshot = yard(
            *(waiting(f"w{i}", 2) for i in range(3)), teams=(Team(id="t", limit_gpus=4),)
        )
        assert len(admitted(snapshot)) == 2
        (reasons,) = decide(snapshot).reasons.values()
        assert reasons[0].code is Code.TEAM_QUOTA
        assert (reasons[0].needed, reasons[0].free, reasons[0].limit) == (2, 0, 4)

    def test_a_team_borrows_what_others_leave(self):
        teams = (Team(id="t", quota_gpus=4), Team(id="u", quota_gpus=4))
        snapshot = yard(*(waiting(f"w{i}", 2) for i in range(4)), teams=teams)
        assert len(admitted(snapshot)) == 4

    def test_what_may_not_be_preempted_borrows_no_more_than_is_lent(self):
        line = [waiting(f"w{i}", 2, preemptible=False) for i in range(3)]
        teams = (Team(id="t", quota_gpus=4), Team(id="u", quota_gpus=4))
        snapshot = yard(*line, teams=teams)
        assert len(admitted(snapshot)) == 2
        (reasons,) = decide(snapshot).reasons.values()
        assert reasons[0].code is Code.BORROW_LIMIT
        assert (reasons[0].needed, reasons[0].free, reasons[0].limit) == (2, 0, 4)
        lends = (teams[0], replace(teams[1], lendable_gpus=2))
        assert len(admitted(replace(snapshot, teams=lends))) == 3

    def test_what_no_quota_promises_is_free_for_all(self):
        line = [waiting(f"w{i}", 2, preemptible=False, team="v") for i in range(4)]
        teams = (Team(id="t", quota_gpus=4), Team(id="v"))
        assert len(admitted(yard(*line, teams=teams))) == 2

    def test_an_owner_is_told_who_borrowed(self):
        teams = (Team(id="t", quota_gpus=8), Team(id="u"))
        busy = start(replace(yard(waiting("b", 4, team="u"), waiting("c", 4, team="u")), now=NOW))
        snapshot = yard(waiting("mine", 4, at=NOW), teams=teams, running=busy, policy=Policy())
        decisions = decide(snapshot)
        assert not decisions.stops
        reason = decisions.reason("mine")
        assert reason.code is Code.QUOTA_LENT
        assert reason.holders == ("b", "c")
        assert reason.until == NOW + 1800 + 60
        later = replace(snapshot, now=NOW + 1800)
        assert [stop.cause for stop in decide(later).stops] == [Cause.RECLAIMED]

    def test_every_owner_is_told_of_its_own_quota(self):
        """Jobs that ask for the same find room alike, but what is lent is their team's own."""
        teams = (Team(id="t", quota_gpus=4), Team(id="u"), Team(id="v", quota_gpus=4))
        busy = start(replace(yard(waiting("b", 4, team="u"), waiting("c", 4, team="u")), now=NOW))
        line = (
            waiting("mine", 4, at=NOW),
            waiting("theirs", 4, at=NOW, team="v"),
            waiting("guest", 4, at=NOW, team="u"),
        )
        decisions = decide(yard(*line, teams=teams, running=busy, policy=Policy()))
        told = {name: decisions.reason(name) for name in ("mine", "theirs", "guest")}
        assert (told["mine"].code, told["mine"].what) == (Code.QUOTA_LENT, "t")
        assert (told["theirs"].code, told["theirs"].what) == (Code.QUOTA_LENT, "v")
        assert told["guest"].code is not Code.QUOTA_LENT

    def test_a_higher_class_takes_its_quota_back_at_once(self):
        teams = (Team(id="t", quota_gpus=8), Team(id="u"))
        busy = start(
            replace(yard(waiting("b", 4, team="u"), waiting("c", 4, team="u")), now=NOW - 1)
        )
        line = waiting("mine", 4, at=NOW, priority=PriorityClass.HIGH)
        snapshot = yard(line, teams=teams, running=busy, policy=Policy())
        assert len(decide(snapshot).stops) == 1

    def test_what_was_borrowed_is_taken_back(self):
        teams = (Team(id="t", quota_gpus=4), Team(id="u", quota_gpus=4))
        busy = start(replace(yard(waiting("a", 4), waiting("b", 4), teams=teams), now=NOW - 900))
        snapshot = yard(
            waiting("mine", 4, team="u", at=NOW - 3600), teams=teams, running=busy, policy=EAGER
        )
        decisions = decide(snapshot)
        assert [one.job for one in decisions.admissions] == ["mine"]
        assert [stop.cause for stop in decisions.stops] == [Cause.RECLAIMED]

    @pytest.mark.parametrize(
        ("queue", "expected"),
        [
            (Queue(max_running=1), Code.QUEUE_JOBS),
            (Queue(quota_gpus=1), Code.QUEUE_QUOTA),
            (Queue(max_running_per_user=1), Code.USER_JOBS),
            (Queue(max_gpus_per_user=1), Code.USER_GPUS),
        ],
    )
    def test_limits_of_a_queue_hold(self, queue, expected):
        snapshot = yard(waiting("a", at=1), waiting("b", at=2), queues=(queue,))
        assert admitted(snapshot) == ["a"]
        assert code(snapshot, "b") is expected

    def test_what_no_node_could_hold_is_not_blamed_on_a_quota(self):
        teams = (Team(id="t", quota_gpus=2), Team(id="u", quota_gpus=2))
        snapshot = yard(waiting("w", 64, nodes=2), teams=teams)
        assert code(snapshot, "w") is Code.TOO_LARGE

    def test_a_job_beyond_every_quota_is_told_so_at_once(self):
        snapshot = yard(waiting("w", 4), teams=(Team(id="t", limit_gpus=2),))
        assert code(snapshot, "w") is Code.LARGER_THAN_QUOTA

    def test_an_array_runs_no_more_than_its_cap(self):
        line = [waiting(f"w{i}", array="a", array_cap=2) for i in range(3)]
        snapshot = yard(*line)
        assert len(admitted(snapshot)) == 2
        assert code(snapshot, "w2") is Code.ARRAY_CAP


class TestLongLines:
    """What a limit holds back is answered together, in the numbers that the pass ended with."""

    TEAMS = (Team(id="t", quota_gpus=2, limit_gpus=3), Team(id="u", quota_gpus=6))

    def test_limits_are_told_as_they_stand_after_the_pass(self):
        line = [waiting(f"w{number}", 2, at=NOW - 50 + number) for number in range(5)]
        decisions = decide(yard(*line, teams=self.TEAMS))
        assert [one.job for one in decisions.admissions] == ["w0"]
        reasons = {decisions.reason(f"w{number}") for number in range(1, 5)}
        (reason,) = reasons
        assert (reason.code, reason.needed, reason.free) == (Code.TEAM_QUOTA, 2.0, 1.0)

    def test_users_are_told_apart_where_the_queue_limits_them(self):
        line = [waiting(f"w{n}", at=NOW - 50 + n, user=f"u{n % 2}") for n in range(6)]
        queues = (Queue(max_running_per_user=1),)
        decisions = decide(yard(*line, queues=queues))
        assert [one.job for one in decisions.admissions] == ["w0", "w1"]
        assert {decisions.reason(f"w{n}").what for n in range(2, 6)} == {"u0", "u1"}

    def test_who_may_be_preempted_is_told_apart_under_a_lease(self):
        lease = Lease(id="l", nodes=("n0", "n1"), starts_at=NOW + 600, ends_at=NOW + 900, team="x")
        line = [waiting(f"w{n}", at=NOW - 9 + n, preemptible=bool(n % 2)) for n in range(4)]
        assert admitted(yard(*line, leases=(lease,))) == ["w1", "w3"]


class TestPlacement:
    def test_pack_fills_one_node_and_spread_does_not(self):
        line = (waiting("a", style=Style.PACK, at=1), waiting("b", style=Style.PACK, at=2))
        assert {one.placement.nodes for one in decide(yard(*line)).admissions} == {("n0",)}
        line = (waiting("a", style=Style.SPREAD, at=1), waiting("b", style=Style.SPREAD, at=2))
        assert len({one.placement.nodes for one in decide(yard(*line)).admissions}) == 2

    def test_balanced_fills_a_node_to_half_then_takes_the_next(self):
        line = [waiting(f"w{i}", style=Style.BALANCED, at=i) for i in range(4)]
        where = [one.placement.nodes[0] for one in decide(yard(*line)).admissions]
        assert where == ["n0", "n0", "n1", "n1"]

    def test_fractions_share_a_gpu_until_it_is_full(self):
        line = [waiting(f"w{i}", gpu_milli=400, style=Style.PACK, at=i) for i in range(3)]
        shares = [one.placement.shares[0] for one in decide(yard(*line)).admissions]
        assert shares[0] == shares[1]
        assert shares[2] != shares[0]

    def test_the_preferred_type_is_tried_first(self):
        nodes = (node("n0", kind="a"), node("n1", kind="b"))
        snapshot = yard(
            waiting("x", 4, gpu_types=("b", "a"), at=1),
            waiting("y", 4, gpu_types=("b", "a"), at=2),
            nodes=nodes,
        )
        where = [one.placement.nodes for one in decide(snapshot).admissions]
        assert where == [("n1",), ("n0",)]

    def test_a_gang_shares_its_rack(self):
        nodes = tuple(node(f"n{i}", labels=(("rack", f"r{i % 2}"),)) for i in range(4))
        snapshot = yard(waiting("w", 4, nodes=2, same="rack"), nodes=nodes)
        (admission,) = decide(snapshot).admissions
        assert admission.placement.nodes in (("n0", "n2"), ("n1", "n3"))

    def test_an_exclusive_job_is_alone(self):
        line = (waiting("a", exclusive=True, at=1), waiting("b", 1, at=2), waiting("c", 4, at=3))
        snapshot = yard(*line)
        assert admitted(snapshot) == ["a", "b"]
        assert code(snapshot, "c") is Code.BEHIND_JOBS

    def test_cpus_and_memory_count(self):
        line = (
            waiting("a", cpu_milli=16_000, at=1),
            waiting("b", memory_bytes=64 * GIB, at=2),
            waiting("c", cpu_milli=1000, at=3),
            waiting("d", memory_bytes=GIB, at=4),
            waiting("e", at=5),
        )
        assert admitted(yard(*line, nodes=(node("n0"),))) == ["a", "b", "e"]


class TestBackfill:
    def line(self):
        return (
            waiting("head", 4, nodes=2, limit=1000.0, at=1),
            waiting("long", 2, limit=5000.0, at=2),
            waiting("short", 2, limit=300.0, at=3),
        )

    def running(self):
        before = replace(yard(waiting("r", 4, limit=500.0)), now=NOW - 100)
        return start(before)

    def test_only_what_ends_in_time_passes_the_head(self):
        snapshot = yard(*self.line(), running=self.running())
        decisions = decide(snapshot)
        (admission,) = decisions.admissions
        assert admission.job == "short"
        assert admission.backfilled
        (reservation,) = decisions.reservations
        assert (reservation.job, reservation.at) == ("head", NOW + 400)
        assert decisions.reason("long").code is Code.BEHIND_RESERVATION

    def test_strict_order_lets_nobody_pass(self):
        policy = replace(PLAIN, backfill=Backfill.STRICT)
        snapshot = yard(*self.line(), running=self.running(), policy=policy)
        decisions = decide(snapshot)
        assert not decisions.admissions
        assert decisions.reason("short").code is Code.BEHIND_HEAD

    def test_skipping_lets_everybody_pass(self):
        policy = replace(PLAIN, backfill=Backfill.SKIP)
        snapshot = yard(*self.line(), running=self.running(), policy=policy)
        assert admitted(snapshot) == ["long", "short"]

    def test_conservative_backfill_reserves_for_several(self):
        policy = replace(PLAIN, backfill=Backfill.CONSERVATIVE)
        snapshot = yard(*self.line(), running=self.running(), policy=policy)
        assert {one.job for one in decide(snapshot).reservations} >= {"head"}


class TestLeases:
    LEASE = Lease(id="l", nodes=("n0",), starts_at=NOW + 600, ends_at=NOW + 3600, team="u")

    def test_nothing_starts_that_would_run_into_a_lease(self):
        snapshot = yard(
            waiting("w", 2, limit=900.0, preemptible=False),
            nodes=(node("n0"),),
            leases=(self.LEASE,),
        )
        reason = decide(snapshot).reason("w")
        assert (reason.code, reason.until) == (Code.RUNS_INTO_LEASE, NOW + 600)
        assert reason.tier is Tier.LEASE_CONFLICT

    def test_what_ends_before_it_starts(self):
        snapshot = yard(waiting("w", limit=600.0), nodes=(node("n0"),), leases=(self.LEASE,))
        assert admitted(snapshot) == ["w"]

    def test_what_may_be_preempted_starts_before_it_and_is_drained_in_time(self):
        line = (waiting("may", preemptible=True), waiting("not", preemptible=False))
        snapshot = yard(*line, nodes=(node("n0"),), leases=(self.LEASE,))
        assert admitted(snapshot) == ["may"]
        late = replace(self.LEASE, starts_at=NOW + 200)
        assert admitted(yard(line[0], nodes=(node("n0"),), leases=(late,))) == []

    def test_lent_nodes_take_what_may_be_preempted_and_nothing_else(self):
        lease = replace(self.LEASE, starts_at=NOW - 1, lent=True)
        line = (waiting("may", preemptible=True), waiting("not", limit=60.0, preemptible=False))
        snapshot = yard(*line, nodes=(node("n0"),), leases=(lease,))
        assert admitted(snapshot) == ["may"]
        assert code(snapshot, "not") is Code.LEASED_TO_OTHERS

    def test_the_holder_uses_it_and_others_do_not(self):
        lease = replace(self.LEASE, starts_at=NOW - 1)
        line = (waiting("mine", team="u", limit=60.0), waiting("other", limit=60.0))
        snapshot = yard(*line, nodes=(node("n0"),), leases=(lease,))
        assert admitted(snapshot) == ["mine"]
        assert code(snapshot, "other") is Code.LEASED_TO_OTHERS

    def test_a_job_of_a_lease_does_not_mind_the_lease_after(self):
        own = replace(self.LEASE, id="own", team="t", starts_at=NOW - 1, ends_at=NOW + 600)
        line = (waiting("named", lease="own", preemptible=False),)
        snapshot = yard(*line, nodes=(node("n0"),), leases=(own, self.LEASE))
        assert admitted(snapshot) == ["named"]

    def test_a_job_of_a_lease_waits_for_it(self):
        snapshot = yard(waiting("w", team="u", lease="l"), leases=(self.LEASE,))
        assert code(snapshot, "w") is Code.LEASE_NOT_STARTED
