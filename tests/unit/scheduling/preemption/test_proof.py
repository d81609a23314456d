"""Decisions are proved before anyone acts on them: broken ones are found, sound ones pass."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from tests.unit.scheduling.yards import NOW, node, snapshots, waiting
from trackyard.core.job import PriorityClass
from trackyard.core.reasons import Code
from trackyard.core.resources import NodeShare, Placement
from trackyard.scheduling import (
    ActiveJob,
    Admission,
    Cause,
    Decisions,
    Policy,
    PreemptionRules,
    Queue,
    Snapshot,
    Stop,
    Team,
    decide,
)
from trackyard.scheduling.preemption.proof import hold_to_rules, prove


def on(*gpus, where="n0", cpu=0):
    return Placement(shares=(NodeShare(node=where, gpus=gpus, cpu_milli=cpu),))


def runs(ident, *gpus, ran=7200.0, **more):
    """A preemptible job that saved a minute ago and has hours to go."""
    given = {
        key: more.pop(key)
        for key in ("checkpoint_at", "stops", "stopped_for", "stops_at", "save_seconds")
        if key in more
    }
    given = {"checkpoint_at": NOW - 60.0, **given}
    more = {"team": "t", "estimate_seconds": 90_000.0, **more}
    one = waiting(ident, len(gpus), **more)
    return ActiveJob(job=one.job, placement=on(*gpus), started_at=NOW - ran, **given)


def start(ident, *gpus, **more):
    return Admission(job=ident, placement=on(*gpus, **more), predicted_seconds=60.0)


def stop(ident, for_job, cause=Cause.YIELDS_TO_SHORTER, grace=60.0):
    return Stop(job=ident, for_job=for_job, cause=cause, grace_seconds=grace, lost_seconds=60.0)


def yard(running=(), waits=(), **more):
    more = {"nodes": (node("n0", 4),), "teams": (Team(id="t"), Team(id="u")), **more}
    return Snapshot(now=NOW, running=tuple(running), waiting=tuple(waits), **more)


def found(snapshot, *, admissions=(), stops=()):
    decisions = Decisions(admissions=tuple(admissions), stops=tuple(stops), reasons={})
    return {fault.job: fault.sentence for fault in prove(snapshot, decisions)}


class TestStarts:
    def test_sound_start_passes(self):
        assert found(yard(waits=[waiting("w", 2)]), admissions=[start("w", 0, 1)]) == {}

    @pytest.mark.parametrize(
        ("admissions", "words"),
        [
            ([start("w", 0, 1)], "no room"),
            ([start("w", 1, 2), start("x", 2, 3)], "no room"),
            ([start("w", 1)], "would get 1"),
            ([start("w", 1, 1)], "would get 2"),
            ([start("w", 3, 4)], "no room"),
            ([start("w", 1, 2, where="n9")], "no room"),
            ([start("w", 1, 2), start("w", 2, 3)], "twice"),
            ([start("ghost", 1, 2)], "without waiting"),
            ([start("w", 1, 2, cpu=99_000)], "no room"),
        ],
    )
    def test_nothing_is_given_twice_or_in_part(self, admissions, words):
        """GPU 0 is taken; w and x ask for two GPUs each."""
        snapshot = yard([runs("r", 0)], [waiting("w", 2), waiting("x", 2)])
        broken = found(snapshot, admissions=admissions)
        assert any(words in sentence for sentence in broken.values())

    def test_exclusive_nodes_are_shared_by_nobody(self):
        alone = Admission(
            job="w", placement=replace(on(1), exclusive=True), predicted_seconds=None
        )
        snapshot = yard([runs("r", 0)], [waiting("w", 1, exclusive=True)])
        assert "no room" in found(snapshot, admissions=[alone])["w"]

    @pytest.mark.parametrize(
        ("more", "words"),
        [
            ({"teams": (Team(id="t", limit_gpus=1),)}, "limit"),
            ({"teams": (Team(id="d", limit_gpus=1), Team(id="t", parent="d"))}, "team d"),
            ({"teams": (Team(id="t", max_running=0),)}, "more jobs"),
            ({"teams": (Team(id="t", quota_gpus=1), Team(id="u", quota_gpus=3))}, "promised"),
            ({"queues": (Queue(quota_gpus=1),)}, "queue default"),
        ],
    )
    def test_limits_and_quotas_are_kept(self, more, words):
        snapshot = yard(waits=[waiting("w", 2, team="t", preemptible=False)], **more)
        assert words in found(snapshot, admissions=[start("w", 0, 1)])["w"]


class TestStops:
    def test_sound_stop_passes(self):
        snapshot = yard([runs("r", 0, 1, 2, 3)], [waiting("w", 2, estimate_seconds=60.0)])
        assert found(snapshot, stops=[stop("r", "w")]) == {}

    @pytest.mark.parametrize(
        ("victim", "claimant", "words"),
        [
            ({"preemptible": False}, {}, "may not be preempted"),
            ({"stops_at": NOW + 5.0}, {}, "stopping already"),
            ({"stops": tuple(NOW - 60.0 * n for n in (4, 3, 2, 1))}, {}, "4 times"),
            ({"ran": 300.0}, {}, "first minutes"),
            ({"ran": 1000.0, "stops": (NOW - 9000.0,)}, {}, "first minutes"),
            ({"priority": PriorityClass.HIGH}, {}, "lower class"),
            ({}, {"priority": PriorityClass.HIGH}, "another class"),
            ({"name": "same"}, {"name": "same", "team": "t"}, "one array, name or command"),
            ({"command": "x"}, {"command": "x"}, "one array, name or command"),
            ({"array": "x"}, {"array": "x"}, "one array, name or command"),
            ({"stopped_for": "other"}, {}, "has not ended"),
            ({"checkpoint_at": None}, {}, "never saved"),
            ({"checkpoint_at": NOW - 7000.0, "estimate_seconds": 60_000.0}, {}, "would lose"),
        ],
    )
    def test_wrongful_stop_is_found(self, victim, claimant, words):
        held = runs("r", 0, 1, 2, 3, **victim)
        snapshot = yard([held], [waiting("w", 2, **{"team": "u", **claimant})])
        assert words in found(snapshot, stops=[stop("r", "w")])["r"]

    def test_higher_class_must_be_higher(self):
        snapshot = yard([runs("r", 0, 1, 2, 3)], [waiting("w", 2)])
        assert (
            "no higher class" in found(snapshot, stops=[stop("r", "w", Cause.HIGHER_CLASS)])["r"]
        )

    def test_stop_that_leaves_no_room_is_found(self):
        """Whoever it is for needs four GPUs, and three others hold theirs."""
        held = [runs(f"r{number}", number) for number in range(4)]
        snapshot = yard(held, [waiting("w", 4)])
        assert "has no room" in found(snapshot, stops=[stop("r0", "w")])["r0"]

    def test_stop_for_nobody_is_found(self):
        snapshot = yard([runs("r", 0)], [waiting("w", 4)])
        assert "does not wait" in found(snapshot, stops=[stop("r", "ghost")])["r"]
        assert "does not run" in found(snapshot, stops=[stop("ghost", "w")])["ghost"]

    @pytest.mark.parametrize(
        ("quotas", "words"),
        [((2, 2), ""), ((4, 0), "holds nothing"), ((3, 1), "beyond the quota")],
    )
    def test_quota_is_taken_back_only_from_who_borrowed_it(self, quotas, words):
        teams = (Team(id="t", quota_gpus=quotas[0]), Team(id="u", quota_gpus=quotas[1]))
        held = [runs(f"r{number}", number) for number in range(4)]
        need = 2 if quotas != (4, 0) else 0
        snapshot = yard(held, [waiting("w", need, team="u")], teams=teams)
        stops = [stop(f"r{number}", "w", Cause.RECLAIMED) for number in range(2)]
        broken = found(snapshot, stops=stops)
        assert set(broken) == ({"r0", "r1"} if words else set())
        assert all(words in sentence for sentence in broken.values())


class TestHolding:
    def snapshot(self):
        return yard(
            [runs("r", 0, 1)], [waiting("w", 2, team="u"), waiting("x", 2, team="u", at=NOW - 1)]
        )

    def test_sound_decisions_are_left_alone(self):
        snapshot = self.snapshot()
        decisions = decide(snapshot)
        assert hold_to_rules(snapshot, decisions) == (decisions, [])

    def test_broken_stop_is_dropped_and_the_starts_go_on(self):
        snapshot = self.snapshot()
        broken = replace(decide(snapshot), stops=(stop("r", "w", Cause.HIGHER_CLASS),))
        held, faults = hold_to_rules(snapshot, broken)
        assert [fault.job for fault in faults] == ["r"]
        assert held.stops == ()
        assert [one.job for one in held.admissions] == ["w"]
        assert set(held.reasons) == {"x"}

    def test_start_that_stays_broken_is_set_aside(self, monkeypatch):
        """Even without stops a scheduler that overcommits starts only what fits."""
        snapshot = self.snapshot()
        broken = Decisions(admissions=(start("w", 2, 3), start("x", 1, 2)), reasons={}, line=())
        monkeypatch.setattr("trackyard.scheduling.preemption.proof.decide", lambda _: broken)
        held, faults = hold_to_rules(snapshot, broken)
        assert [fault.job for fault in faults] == ["x"]
        assert [one.job for one in held.admissions] == ["w"]
        assert held.reason("x").code is Code.SET_ASIDE
        assert list(held.line) == ["x"]


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(snapshots())
def test_what_is_decided_always_passes(snapshot):
    """The proof asks what is necessary: it never holds back a sound pass."""
    assert prove(snapshot, decide(snapshot)) == []


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    snapshots(policy=Policy(preemption=PreemptionRules(grace_seconds=0.0, min_run_seconds=0.0)))
)
def test_stops_without_grace_pass_too(snapshot):
    assert prove(snapshot, decide(snapshot)) == []
