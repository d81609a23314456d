"""Who is stopped for whom, on small yards, one rule at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.scheduling.yards import NOW, PLAIN, node, start, waiting
from trackyard.core.job import PriorityClass
from trackyard.core.lease import Lease
from trackyard.core.reasons import Code, Tier
from trackyard.scheduling import (
    ActiveJob,
    Cause,
    Policy,
    PreemptionRules,
    Queue,
    QueueOrder,
    Snapshot,
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


class TestPreemption:
    def busy(self, **more):
        before = replace(yard(waiting("a", 4, **more), waiting("b", 4, **more)), now=NOW - 900)
        return start(before)

    def saved(self, **more):
        return tuple(replace(one, checkpoint_at=NOW - 1) for one in self.busy(**more))

    def test_a_higher_class_stops_a_lower_one(self):
        snapshot = yard(
            waiting("w", 4, priority=PriorityClass.HIGH), running=self.busy(), policy=EAGER
        )
        decisions = decide(snapshot)
        assert [one.job for one in decisions.admissions] == ["w"]
        assert [stop.cause for stop in decisions.stops] == [Cause.HIGHER_CLASS]
        assert "higher priority class" in decisions.stops[0].sentence

    def test_the_one_that_loses_least_work_is_stopped(self):
        a, b = self.busy()
        saved = ActiveJob(
            job=b.job, placement=b.placement, started_at=b.started_at, checkpoint_at=NOW - 5
        )
        snapshot = yard(
            waiting("w", 4, priority=PriorityClass.HIGH), running=(a, saved), policy=EAGER
        )
        (stop,) = decide(snapshot).stops
        assert (stop.job, stop.lost_seconds) == ("b", 5.0)

    @pytest.mark.parametrize(("first", "stops"), [("urgent", 0), ("low", 1)])
    def test_nobody_is_stopped_on_nodes_that_a_higher_class_waits_for(self, first, stops):
        """An urgent gang is foreseen to start after all are gone: a stop would not be for w."""
        fixed = waiting("fixed", 4, preemptible=False, limit=9000.0)
        loose = waiting("loose", 4, limit=9500.0)
        running = start(replace(yard(fixed, loose), now=NOW - 900))
        level = PriorityClass[first.upper()]
        gang = waiting("gang", 4, nodes=2, priority=level, preemptible=False)
        claimant = waiting("w", 4, priority=PriorityClass.HIGH, limit=600.0)
        snapshot = yard(gang, claimant, running=running, policy=Policy())
        assert len(decide(snapshot).stops) == stops

    @pytest.mark.parametrize(("limit", "stops"), [(None, 1), (90_000.0, 1), (1000.0, 0)])
    def test_a_job_that_its_time_limit_ends_soon_does_not_yield(self, limit, stops):
        """It has 100 s left at most, whatever jobs like it took: a stop would gain nothing."""
        claimant = waiting("w", 4, estimate_seconds=5.0, team="u")
        snapshot = yard(claimant, running=self.saved(limit=limit), policy=Policy())
        assert len(decide(snapshot).stops) == stops

    def test_nobody_is_stopped_before_the_minimum_run_time(self):
        policy = Policy(preemption=PreemptionRules(min_run_seconds=1000.0))
        running = self.saved(estimate_seconds=90_000.0)
        line = waiting("w", 4, estimate_seconds=60.0)
        assert not decide(yard(line, running=running, policy=policy)).stops
        # For a higher class it is stopped at once.
        urgent = waiting("w", 4, priority=PriorityClass.HIGH)
        assert decide(yard(urgent, running=running, policy=policy)).stops

    def test_after_each_stop_it_runs_twice_as_long_undisturbed(self):
        policy = Policy(preemption=PreemptionRules(min_run_seconds=600.0))
        line = waiting("w", 4, estimate_seconds=60.0)
        running = self.saved(estimate_seconds=90_000.0)
        assert decide(yard(line, running=running, policy=policy)).stops
        before = tuple(replace(one, stops=(NOW - 50_000,)) for one in running)
        assert not decide(yard(line, running=before, policy=policy)).stops

    def test_nobody_is_stopped_too_often_within_an_hour(self):
        often = tuple(NOW - 60.0 * minutes for minutes in (50, 40, 30, 20))
        running = tuple(replace(one, stops=often) for one in self.busy())
        line = waiting("w", 4, priority=PriorityClass.URGENT)
        assert not decide(yard(line, running=running, policy=Policy())).stops
        less = tuple(replace(one, stops=often[1:]) for one in running)
        assert decide(yard(line, running=less, policy=Policy())).stops

    def test_nobody_is_stopped_again_before_the_one_it_was_stopped_for_has_ended(self):
        running = self.saved(estimate_seconds=90_000.0)
        waits = tuple(replace(one, stopped_for="other") for one in running)
        line = waiting("w", 4, estimate_seconds=60.0)
        assert not decide(yard(line, running=waits, policy=EAGER)).stops

    def test_who_never_saved_yields_to_nobody_of_its_class(self):
        running = self.busy(estimate_seconds=90_000.0)
        line = waiting("w", 4, estimate_seconds=60.0)
        assert not decide(yard(line, running=running, policy=EAGER)).stops

    def test_a_stop_that_loses_much_work_is_not_worth_it(self):
        old = tuple(
            replace(one, checkpoint_at=NOW - 890) for one in self.busy(estimate_seconds=9000.0)
        )
        line = waiting("w", 4, estimate_seconds=60.0)
        assert not decide(yard(line, running=old, policy=EAGER)).stops
        fresh = tuple(replace(one, checkpoint_at=NOW - 10) for one in old)
        assert decide(yard(line, running=fresh, policy=EAGER)).stops

    @pytest.mark.parametrize("alike", [{"array": "x"}, {"name": "x"}, {"command": "python x"}])
    def test_those_who_are_alike_do_not_stop_each_other(self, alike):
        running = self.saved(estimate_seconds=90_000.0, **alike)
        line = waiting("w", 4, estimate_seconds=60.0, **alike)
        assert not decide(yard(line, running=running, policy=EAGER)).stops

    def test_nobody_is_stopped_for_a_mere_guess(self):
        running = self.saved(estimate_seconds=9_000_000.0)
        assert not decide(yard(waiting("w", 4), running=running, policy=EAGER)).stops

    def test_jobs_that_may_not_be_stopped_are_left_alone(self):
        line = waiting("w", 4, priority=PriorityClass.URGENT)
        running = self.busy(preemptible=False)
        snapshot = yard(line, running=running, policy=EAGER)
        assert not decide(snapshot).stops
        assert code(snapshot, "w") is Code.NO_FREE_GPUS

    def test_with_grace_the_room_is_kept_until_the_victims_are_gone(self):
        policy = Policy(preemption=PreemptionRules(grace_seconds=60.0))
        line = (
            waiting("w", 4, priority=PriorityClass.HIGH),
            waiting("x", 1, priority=PriorityClass.LOW),
        )
        first = yard(*line, running=self.busy(), policy=policy)
        decisions = decide(first)
        (stop,) = decisions.stops
        assert not decisions.admissions
        assert decisions.reason("w").code is Code.PREEMPTING
        running = tuple(
            replace(one, stops_at=NOW + 60, stops_for="w") if one.job.id == stop.job else one
            for one in first.running
        )
        again = decide(replace(first, running=running))
        assert again.reason("w").code is Code.PREEMPTING
        assert not again.stops
        gone = tuple(one for one in running if one.job.id != stop.job)
        assert admitted(replace(first, running=gone)) == ["w"]

    @pytest.mark.parametrize(("nodes", "gpus"), [(2, 1), (1, 2)])
    def test_room_made_for_one_job_is_not_kept_for_another(self, nodes, gpus):
        """Who still waits for its own victim leaves alone what another's has freed already."""
        lines = tuple(node(f"n{at}", gpus) for at in range(nodes))
        low = [waiting(f"r{at}", preemptible=True, priority=PriorityClass.LOW) for at in range(2)]
        _, leaving = start(yard(*low, nodes=lines, policy=Policy()), at=NOW - 5000)
        snapshot = yard(
            replace(waiting("first", priority=PriorityClass.HIGH), is_owed=True),
            waiting("second", priority=PriorityClass.HIGH, at=NOW - 5),
            nodes=lines,
            running=(replace(leaving, stops_at=NOW + 30, stops_for="second"),),
            policy=Policy(),
        )
        decisions = decide(snapshot)
        assert [one.job for one in decisions.admissions] == ["first"]
        assert decisions.reason("second").code is Code.PREEMPTING
        assert decisions.claims[0].placement == leaving.placement

    def test_a_long_job_yields_to_a_much_shorter_one(self):
        running = self.saved(estimate_seconds=90_000.0)
        snapshot = yard(waiting("w", 4, estimate_seconds=60.0), running=running, policy=EAGER)
        assert [stop.cause for stop in decide(snapshot).stops] == [Cause.YIELDS_TO_SHORTER]

    def test_it_does_not_yield_to_one_of_like_length(self):
        running = self.saved(estimate_seconds=90_000.0)
        snapshot = yard(waiting("w", 4, estimate_seconds=60_000.0), running=running, policy=EAGER)
        assert not decide(snapshot).stops

    @pytest.mark.parametrize("order", [QueueOrder.FIFO, QueueOrder.FAIR, QueueOrder.DOMINANT])
    def test_nobody_yields_where_the_queue_does_not_go_by_length(self, order):
        """A job in a line by submission or share says nothing of being the shorter one."""
        running = self.saved(estimate_seconds=90_000.0)
        line = waiting("w", 4, estimate_seconds=60.0)
        queues = (Queue(order=order),)
        assert not decide(yard(line, running=running, policy=EAGER, queues=queues)).stops

    def test_the_engine_word_is_passed_on_after_ours(self):
        one = replace(waiting("w", 4), engine_note="no such image")
        reasons = decide(yard(one, running=self.busy())).reasons["w"]
        assert [reason.tier for reason in reasons] == [Tier.CAPACITY, Tier.ENGINE]

    def test_who_must_leave_is_named_also_where_a_claimant_keeps_the_room(self):
        """A whole node is claimed by a job that another stops for: the next names that other."""
        snapshot = yard(
            waiting("claims", 0, cpu_milli=2000, exclusive=True, priority=PriorityClass.HIGH),
            waiting("next", 4, priority=PriorityClass.HIGH),
            nodes=(node("n0"),),
            running=start(yard(waiting("r"), nodes=(node("n0"),)), at=NOW - 5000),
            policy=Policy(),
        )
        decisions = decide(snapshot)
        assert [stop.job for stop in decisions.stops] == ["r"]
        assert decisions.reason("claims").code is Code.PREEMPTING
        assert decisions.reason("next").holders == ("r",)

    def test_a_lease_is_named_beside_those_who_hold_its_nodes(self):
        """Where room is free first a lease is in the way as well as a job."""
        busy = start(yard(waiting("r", 4, limit=3000.0), nodes=(node("n0"),)))
        lease = Lease(id="l", nodes=("n0",), starts_at=NOW, ends_at=NOW + 900, team="x")
        one = waiting("w", 4, limit=100.0)
        snapshot = yard(one, nodes=(node("n0"),), running=busy, leases=(lease,))
        codes = [reason.code for reason in decide(snapshot).reasons["w"]]
        assert codes == [Code.NO_FREE_GPUS, Code.LEASED_TO_OTHERS]
