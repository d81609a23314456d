"""Each promise can be broken: a queue that breaks it is caught, and told of in a sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trackyard.core.job import JobState, PriorityClass
from trackyard.core.lease import Lease
from trackyard.core.reasons import Code, Reason
from trackyard.core.resources import WHOLE, NodeShare, Placement
from trackyard.scheduling import (
    ActiveJob,
    Admission,
    Cause,
    Decisions,
    DurationModel,
    Policy,
    Reservation,
    RoomClaim,
    Snapshot,
    Stop,
    Team,
    WaitingJob,
    decide,
)
from trackyard.simulate.check.fairness import BoundedWait, NoInversion, NoLivelock, QuotaBack
from trackyard.simulate.check.generate import generate
from trackyard.simulate.check.history import CheckHistory, EventKind, HistoryEvent
from trackyard.simulate.check.machine import HistoryRun
from trackyard.simulate.check.run import INVARIANTS, check, explain, main
from trackyard.simulate.check.safety import (
    LeasesKept,
    LimitsKept,
    NothingTwice,
    OneAttempt,
    WholeGangs,
)
from trackyard.simulate.check.scenarios import live_policy, node, submit
from trackyard.simulate.check.shrink import shrink
from trackyard.simulate.check.stops import (
    FewStops,
    NoCascade,
    RightfulStops,
    StopsGain,
    StopsServe,
)
from trackyard.simulate.check.truth import TrueReasons
from trackyard.simulate.check.watch import Fact, FinalState, Occurrence, PassRecord, Promises

HISTORY = CheckHistory(
    name="by hand", nodes=(node("n0", 4),), events=(submit("a", at=0.0, work=60.0),)
)


def job(name, *, gpus=1, at=0.0, **more):
    planned = submit(name, at=at, work=60.0, gpus=gpus, **more).planned
    return replace(planned.job, submitted_at=at)


def on(*gpus, node="n0"):
    return Placement(shares=(NodeShare(node=node, gpus=gpus),))


def look(*, now=1000.0, waiting=(), running=(), started=(), stops=(), reasons=None, **more):
    """A pass by hand: `started` are (job id, placement)."""
    snapshot = Snapshot(
        now=now,
        nodes=more.pop("nodes", HISTORY.nodes),
        waiting=tuple(WaitingJob(job=one) for one in waiting),
        running=tuple(running),
        policy=more.pop("policy", live_policy()),
        **more,
    )
    names = {name for name, _ in started}
    left = [one.id for one in waiting if one.id not in names]
    full = Reason(code=Code.NO_FREE_GPUS, holders=("r",), needed=1, free=0, until=now + 60)
    told = dict.fromkeys(left, (full,)) if reasons is None else reasons
    return PassRecord(
        snapshot=snapshot,
        decisions=Decisions(
            admissions=tuple(
                Admission(job=name, placement=where, predicted_seconds=3600.0)
                for name, where in started
            ),
            stops=tuple(stops),
            reasons=told,
            line=tuple(told),
        ),
    )


def running(name, *gpus, since=0.0, **more):
    kept = {
        key: more.pop(key) for key in ("checkpoint_at", "stops_at", "stops_for") if key in more
    }
    return ActiveJob(
        job=job(name, gpus=len(gpus), **more), placement=on(*gpus), started_at=since, **kept
    )


def stop(victim, claimant, cause=Cause.YIELDS_TO_SHORTER):
    return Stop(job=victim, for_job=claimant, cause=cause, grace_seconds=60.0, lost_seconds=0.0)


def said(invariant, *looks, history=HISTORY):
    """What an invariant says of these passes."""
    one = invariant(history, Promises())
    return [sentence for seen in looks for sentence in one.on_look(seen)]


def test_a_gpu_given_twice_is_seen():
    seen = look(waiting=[job("w")], running=[running("r", 0)], started=[("w", on(0))])
    assert said(NothingTwice, seen) == ["GPU 0 of node n0 is given to more than it holds"]


def test_a_gang_with_too_little_is_seen():
    assert said(WholeGangs, look(waiting=[job("w", gpus=2)], started=[("w", on(0))]))


def test_a_job_without_answer_and_a_second_attempt_are_seen():
    assert said(OneAttempt, look(waiting=[job("w")], reasons={})) == [
        "w neither starts nor has a reason"
    ]
    one = OneAttempt(HISTORY, Promises())
    started = Fact(at=0.0, came=Occurrence.STARTED, subject="w")
    assert [*one.on_fact(started), *one.on_fact(started)] == [
        "w was started while an attempt of it was live"
    ]


def test_a_start_on_leased_nodes_is_seen():
    lease = Lease(id="l", nodes=("n0",), starts_at=1500.0, ends_at=9000.0, team="others")
    seen = look(waiting=[job("w")], started=[("w", on(0))], leases=(lease,))
    assert "starts on nodes of lease" in said(LeasesKept, seen)[0]


def test_a_team_past_its_limit_is_seen():
    seen = look(
        waiting=[job("w")],
        running=[running("r", 0)],
        started=[("w", on(1))],
        teams=(Team(id="lab", limit_gpus=1.0),),
    )
    assert said(LimitsKept, seen) == ["w takes team lab past its limit of 1 GPUs"]


@pytest.mark.parametrize(
    ("victim", "claimant", "cause", "words"),
    [
        ({}, {}, Cause.YIELDS_TO_SHORTER, "may not be preempted"),
        ({"preemptible": True}, {}, Cause.YIELDS_TO_SHORTER, "its equal"),
        ({"preemptible": True}, {"limit": 60.0}, Cause.YIELDS_TO_SHORTER, "it never saved"),
        ({"preemptible": True}, {}, Cause.HIGHER_CLASS, "a class that is not higher"),
        ({"preemptible": True}, {}, Cause.RECLAIMED, "its team is within its quota"),
    ],
)
def test_a_stop_without_right_is_seen(victim, claimant, cause, words):
    seen = look(
        waiting=[job("a2", preemptible=victim.get("preemptible", False), **claimant)],
        running=[running("a1", 0, **victim)],
        stops=[stop("a1", "a2", cause)],
    )
    assert any(words in sentence for sentence in said(RightfulStops, seen))


def test_a_stop_in_the_first_minutes_is_seen():
    seen = look(
        waiting=[job("u")],
        running=[running("a", 0, since=990.0, preemptible=True, checkpoint_at=999.0)],
        stops=[stop("a", "u")],
    )
    assert any("before its first minutes" in sentence for sentence in said(RightfulStops, seen))


def test_a_stop_that_loses_more_than_it_spares_is_seen():
    """A thousand seconds of four GPUs are lost so that one GPU is had two minutes earlier."""
    seen = look(
        waiting=[job("s", limit=10.0)],
        running=[running("r", 0, 1, 2, 3, preemptible=True, limit=1120.0)],
        stops=[stop("r", "s")],
    )
    assert "loses 4120 GPU-seconds and spares 60" in said(StopsGain, seen)[0]


def test_a_second_stop_before_the_first_claimant_ended_is_seen():
    seen = look(waiting=[job("s")], running=[running("r", 0)], stops=[stop("r", "s")])
    again = look(waiting=[job("t")], running=[running("r", 0)], stops=[stop("r", "t")])
    assert "while s, for which it was stopped before" in said(FewStops, seen, again)[0]
    one = FewStops(HISTORY, Promises())
    list(one.on_look(seen))
    one.on_fact(Fact(at=0.0, came=Occurrence.ENDED, subject="s", state=JobState.SUCCEEDED))
    assert list(one.on_look(again)) == []


def test_too_many_stops_within_an_hour_are_seen():
    stops = [
        look(
            now=1000.0 + 600 * at,
            waiting=[job("s")],
            running=[running("r", 0)],
            stops=[stop("r", "s", Cause.HIGHER_CLASS)],
        )
        for at in range(5)
    ]
    assert said(FewStops, *stops[:4]) == []
    assert "5th time within an hour" in said(FewStops, *stops)[0]


def test_a_stop_that_serves_nobody_is_seen():
    asked = look(waiting=[job("s")], running=[running("r", 0)], stops=[stop("r", "s")])
    later = look(now=1200.0, waiting=[job("s")])
    assert "r stopped for s at 00:16:40, and it still waits" in said(StopsServe, asked, later)[0]


def test_more_stops_than_needed_and_stops_in_turn_are_seen():
    both = look(
        waiting=[job("s")],
        running=[running("r", 0), running("q", 1)],
        stops=[stop("r", "s"), stop("q", "s")],
    )
    words = said(NoCascade, both)
    assert "2 jobs were stopped for s, which needs 1" in words
    assert "r is stopped for s, which has room without that" in words
    first = look(waiting=[job("s")], running=[running("r", 0)], stops=[stop("r", "s")])
    turn = look(waiting=[job("r")], running=[running("q", 0)], stops=[stop("q", "r")])
    assert "itself stopped for s" in said(NoCascade, first, turn)[0]


def full_house(*names, **more):
    return [running(name, at, **more) for at, name in enumerate(names)]


def test_lower_right_that_delays_a_higher_one_is_seen():
    urgent = job("u", gpus=4, priority=PriorityClass.URGENT)
    low = job("l", priority=PriorityClass.LOW)
    seen = look(
        waiting=[urgent, low],
        running=full_house("a", "b", "c", limit=2000.0),
        started=[("l", on(3))],
    )
    assert "l of lower right started although u" in said(NoInversion, seen)[0]
    short = look(
        waiting=[urgent, low],
        running=full_house("a", "b", "c", limit=9000.0),
        started=[("l", on(3))],
    )
    assert said(NoInversion, short) == []


def test_a_learned_length_below_a_stated_one_is_no_lower_right():
    """Who states no run time is taken for what was learned, however long its time limit is."""
    durations = DurationModel()
    for at in range(3):
        durations.observe(job(f"old{at}"), 77.0)
    stated = replace(job("s", gpus=4), estimate_seconds=200.0)
    limited = job("l", gpus=4, at=10.0, limit=9000.0, preemptible=True)
    for one, is_seen in ((limited, False), (replace(limited, estimate_seconds=9000.0), True)):
        seen = look(
            waiting=[replace(stated, preemptible=True), one],
            started=[("l", on(0, 1, 2, 3))],
            durations=durations,
        )
        assert bool(said(NoInversion, seen)) is is_seen


def test_only_another_teams_earlier_reservation_excuses_lower_right():
    """Teams change places within a pass; who was given room first says whose turn it was."""
    urgent = job("u", gpus=4, priority=PriorityClass.URGENT)
    seen = look(
        waiting=[urgent, job("l", priority=PriorityClass.LOW)],
        running=full_house("a", "b", "c", limit=2000.0),
        started=[("l", on(3))],
    )
    own, theirs = (
        Reservation(job=name, at=2000.0, placement=on(0, 1, 2, 3)) for name in ("u", "v")
    )
    for team, kept, is_seen in (
        ("guests", (theirs, own), False),
        ("guests", (own, theirs), True),
        ("lab", (theirs, own), True),
    ):
        other = job("v", gpus=4, priority=PriorityClass.URGENT, team=team)
        waiting = (*seen.snapshot.waiting, WaitingJob(job=other))
        told = replace(
            seen,
            snapshot=replace(seen.snapshot, waiting=waiting),
            decisions=replace(seen.decisions, reservations=kept),
        )
        assert bool(said(NoInversion, told)) is is_seen


def test_lower_right_is_seen_also_while_room_is_made_for_a_gang():
    """What the gang has been given already is known, so it excuses nobody elsewhere."""
    urgent = job("u", gpus=4, priority=PriorityClass.URGENT)
    low, gang = job("l", priority=PriorityClass.LOW), job("g", gpus=4)
    full = Reason(code=Code.NO_FREE_GPUS, holders=("a",), needed=4, free=1, until=2000.0)
    making = Reason(code=Code.PREEMPTING, holders=("v",), needed=8, until=1060.0)
    shares = tuple(NodeShare(node=name, gpus=(0, 1, 2, 3)) for name in ("n1", "n2"))
    for limit, is_seen in ((2000.0, True), (9000.0, False)):
        seen = look(
            nodes=tuple(node(name, 4) for name in ("n0", "n1", "n2")),
            waiting=[urgent, low, replace(gang, request=replace(gang.request, nodes=2))],
            running=full_house("a", "b", "c", limit=limit),
            started=[("l", on(3))],
            reasons={"g": (making,), "u": (full,)},
        )
        claim = RoomClaim(
            job="g", at=1060.0, placement=Placement(shares=shares), predicted_seconds=20_000.0
        )
        decisions = replace(seen.decisions, claims=(claim,))
        found = said(NoInversion, replace(seen, decisions=decisions))
        assert bool(found) is is_seen
        # Without the claim there would be room for it on the gang's nodes at once.
        assert said(NoInversion, seen) == []


def test_lower_right_that_starts_for_ever_is_seen():
    urgent = job("u", gpus=4, priority=PriorityClass.URGENT)
    looks = [
        look(
            now=now,
            waiting=[urgent, job("l", priority=PriorityClass.LOW)],
            started=[("l", on(0))],
        )
        for now in (1000.0, 5000.0)
    ]
    assert said(BoundedWait, *looks[:1]) == []
    assert "u waits since 00:16:40" in said(BoundedWait, *looks)[0]


def test_a_quota_that_does_not_come_back_is_seen():
    teams = (Team(id="lab", quota_gpus=2.0), Team(id="guests", quota_gpus=2.0))
    looks = [
        look(
            now=now,
            waiting=[job("own")],
            running=[running("g", 0, 1, 2, 3, team="guests")],
            teams=teams,
        )
        for now in (1000.0, 4000.0)
    ]
    assert "own is within its team's quota" in said(QuotaBack, *looks)[0]


def test_what_never_ends_is_seen():
    one = NoLivelock(HISTORY, Promises())
    snapshot = look(waiting=[job("w")]).snapshot
    rest = FinalState(at=9000.0, snapshot=snapshot, serial_seconds=60.0)
    assert "w still waits at 02:30:00" in next(iter(one.on_end(rest)))
    held = replace(snapshot, waiting=(WaitingJob(job=replace(job("w"), held=True)),))
    assert list(one.on_end(replace(rest, snapshot=held))) == []


class EveryReason(TrueReasons):
    every = 1


def test_reasons_that_are_not_true_are_seen():
    """Named holders whose going changes nothing, a past end, and a limit that is none."""
    wrong = Reason(code=Code.NO_FREE_GPUS, holders=("r1",), needed=4, free=0, until=2000.0)
    house = [running("r1", 0), running("r2", 1)]
    seen = look(waiting=[job("w", gpus=4)], running=house, reasons={"w": (wrong,)})
    assert "waits although what its reason names is gone" in said(EveryReason, seen)[0]
    true = replace(wrong, holders=("r1", "r2"))
    seen = look(waiting=[job("w", gpus=4)], running=house, reasons={"w": (true,)})
    assert said(EveryReason, seen) == []
    past = replace(true, until=10.0)
    seen = look(waiting=[job("w", gpus=4)], running=house, reasons={"w": (past,)})
    assert "which is past" in said(EveryReason, seen)[0]
    never = Reason(code=Code.TOO_LARGE, needed=1, free=0)
    seen = look(waiting=[job("w")], reasons={"w": (never,)})
    assert "can never start, and does" in said(EveryReason, seen)[0]


def test_who_cannot_start_stands_behind_those_who_can():
    reasons = {
        "big": (Reason(code=Code.TOO_LARGE, needed=9, free=0),),
        "w": (Reason(code=Code.NO_FREE_GPUS, holders=("r",), until=2000.0),),
    }
    seen = look(waiting=[job("big", gpus=9), job("w")], reasons=reasons)
    assert any("stands in the line before w" in one for one in said(EveryReason, seen))


def test_the_same_seed_is_the_same_history_and_runs_the_same_way():
    first, again = check(generate(5), []), check(generate(5), [])
    assert (first.history, first.digest, first.log) == (again.history, again.digest, again.log)
    assert first.digest != check(generate(6), []).digest


def test_what_comes_while_the_queue_is_down_is_looked_at_once_it_is_back():
    outage = HistoryEvent(at=10.0, kind=EventKind.OUTAGE, value=600.0)
    events = (outage, submit("a", at=60.0, work=60.0))
    outcome = check(replace(HISTORY, events=events), [NoLivelock])
    assert not outcome.violations
    assert outcome.finished == 1


def test_the_end_of_a_lease_is_a_moment_to_decide():
    """Who waits for a lease starts when it ends, not at some later pass."""
    lease = Lease(id="l", nodes=("n0",), starts_at=0.0, ends_at=5000.0, team="others")
    events = (
        HistoryEvent(at=0.0, kind=EventKind.LEASE, subject="l", lease=lease),
        submit("w", at=10.0, work=60.0),
    )
    log = check(replace(HISTORY, events=events)).log
    assert "01:23:20 start w on n0:0 (attempt 1)" in log


def lazy(snapshot):
    """A queue that starts nobody of low class."""
    kept = [one for one in snapshot.waiting if one.job.priority > PriorityClass.LOW]
    decisions = decide(replace(snapshot, waiting=tuple(kept)))
    waits = {
        one.job.id: (Reason(code=Code.EVALUATING),)
        for one in snapshot.waiting
        if one.job.priority <= PriorityClass.LOW
    }
    return replace(
        decisions,
        reasons={**decisions.reasons, **waits},
        line=(*decisions.line, *waits),
    )


def test_a_failing_history_is_made_small():
    """Of many jobs and upsets only what the failure needs is left."""

    def run(history):
        return HistoryRun(history, [NoLivelock], chooser=lazy).run()

    extra = [submit(f"job{number}", at=60.0 * number, work=30.0) for number in range(6)]
    low = submit("low", at=100.0, work=60.0, priority=PriorityClass.LOW)
    events = tuple(sorted((*extra, low), key=lambda one: one.at))
    outcome = run(replace(HISTORY, nodes=(node("n0", 4), node("n1", 4)), events=events))
    assert [one.invariant for one in outcome.violations] == ["no livelock"]
    small = shrink(outcome, run)
    assert [one.planned.job.id for one in small.history.events if one.planned] == ["low"]
    assert len(small.history.nodes) == 1


def test_a_failure_is_told_with_its_seed_and_the_command_that_repeats_it():
    outcome = HistoryRun(replace(HISTORY, name="seed 7"), INVARIANTS).run()
    assert outcome.violations == ()
    broken = HistoryRun(
        replace(
            HISTORY,
            name="seed 7",
            events=(submit("low", at=0.0, work=60.0, priority=PriorityClass.LOW),),
        ),
        [NoLivelock],
        chooser=lazy,
    ).run()
    words = explain(
        broken, run=lambda history, which: HistoryRun(history, which, chooser=lazy).run()
    )
    assert "seed 7 breaks `no livelock`" in words
    assert "python -m trackyard.simulate.check.run --seed 7" in words
    assert "submit low of lab" in words


def test_the_command_counts_what_it_ran(capsys):
    assert main(["--seed", "5", "--count", "2", "--invariant", "nothing twice"]) == 0
    assert "2 histories" in capsys.readouterr().out


def test_random_histories_hold_all_that_may_happen():
    """Over some seeds every kind of event comes up, with every class and team rule."""
    found = [generate(seed, engine_faults=True) for seed in range(400)]
    assert {event.kind for one in found for event in one.events} == set(EventKind)
    jobs = [planned.job for one in found for planned in one.planned.values()]
    assert {one.priority for one in jobs} == set(PriorityClass)
    assert any(one.request.nodes > 1 for one in jobs)
    assert any(one.request.gpu_milli < WHOLE for one in jobs)
    assert any(team.quota_gpus is not None for one in found for team in one.teams)
    assert {one.policy.name for one in found} >= {"default", Policy().name, "easy"}
