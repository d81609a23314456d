"""Replays: golden figures on a sample, the cost of preemption, fairness, and the verb."""

from __future__ import annotations

import argparse
import heapq
import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackyard.cli.queue import simulate as verb
from trackyard.core.errors import InvalidInput
from trackyard.scheduling.policy import Policy, PreemptionRules
from trackyard.simulate.cluster import read_cluster
from trackyard.simulate.measures import measure
from trackyard.simulate.packing import pack
from trackyard.simulate.plot import waits
from trackyard.simulate.readers import read_trace
from trackyard.simulate.replay import Habits, Replay, Setting
from trackyard.simulate.runs import POLICIES, even_quotas, replay, setting_for
from trackyard.simulate.trace import JobTrace, TraceJob

DATA = Path(__file__).parents[2] / "data" / "traces"


@pytest.fixture(scope="module")
def philly():
    return read_trace(DATA / "philly-500.csv")


def plain_loop(trace, gpus, *, strict, shortest):
    """An independent event loop for one pool: strict FIFO, or greedy by order."""
    waiting, ends, free, now, at, total = [], [], gpus, 0.0, 0, 0.0
    jobs = trace.jobs
    while at < len(jobs) or ends:
        now = min(jobs[at].submitted_at if at < len(jobs) else 1e18, ends[0][0] if ends else 1e18)
        while ends and ends[0][0] <= now:
            _, number = heapq.heappop(ends)
            free += jobs[number].gpus
            total += now - jobs[number].submitted_at
        while at < len(jobs) and jobs[at].submitted_at <= now:
            key = jobs[at].duration if shortest else 0.0
            waiting.append((key, jobs[at].submitted_at, at))
            at += 1
        waiting.sort()
        left = []
        for position, one in enumerate(waiting):
            job = jobs[one[2]]
            if job.gpus <= free:
                free -= job.gpus
                heapq.heappush(ends, (now + job.duration, one[2]))
            elif strict:
                left.extend(waiting[position:])
                break
            else:
                left.append(one)
        waiting = left
    return total / len(jobs)


@pytest.mark.parametrize(
    ("policy", "strict", "shortest"),
    [("fifo", True, False), ("fifo-skip", False, False), ("sjf-oracle", False, True)],
)
def test_averages_are_those_of_an_independent_loop(philly, policy, strict, shortest):
    """Strict FIFO, FIFO with skipping and oracle SJF agree to the second with a plain loop."""
    found, _ = replay(philly, read_cluster("24"), setting_for(policy))
    expected = plain_loop(philly, 24, strict=strict, shortest=shortest)
    assert found.average_completion_seconds == pytest.approx(expected, abs=0.5)


def test_every_policy_finishes_every_job(philly):
    short = replace(philly, jobs=philly.jobs[:150])
    for name in POLICIES:
        habits = Habits(preemptible_share=0.5)
        found, outcome = replay(short, read_cluster("4x8"), setting_for(name, habits=habits))
        assert found.jobs + found.impossible_jobs == 150
        assert not outcome.impossible
        assert all(
            lived.ended_at - lived.source.submitted_at >= lived.source.duration - 1e-6
            for lived in outcome.jobs
        )


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_default_that_learns_comes_near_sjf_that_knows(philly, share):
    """With nothing stated, whatever part of the jobs may be stopped and pays for it."""
    sjf, _ = replay(philly, read_cluster("192"), setting_for("sjf-oracle"))
    habits = Habits(preemptible_share=share)
    ours, _ = replay(philly, read_cluster("192"), setting_for("default", habits=habits))
    assert ours.average_completion_seconds < 1.05 * sjf.average_completion_seconds


def test_a_preempted_job_pays_for_it():
    """Work is kept, the price of saving and loading is added, and lost work is run again."""
    jobs = (
        TraceJob(id="long", submitted_at=0.0, duration=10_000.0),
        TraceJob(id="short", submitted_at=5000.0, duration=10.0),
    )
    trace = JobTrace(name="t", format="made", jobs=jobs)
    policy = Policy(preemption=PreemptionRules(min_run_seconds=0.0))
    for every, lost in ((0.0, 0.0), (300.0, 200.0)):
        habits = Habits(preemptible_share=1.0, checkpoint_seconds=every)
        setting = Setting(policy=policy, oracle=True, habits=habits)
        outcome = Replay(trace, read_cluster("1"), setting).run()
        long, short = outcome.jobs
        # The other has a minute to save before the GPU is its own.
        assert short.ended_at == 5010.0 + 60.0
        assert long.preemptions == 1
        assert long.ended_at == 10_010.0 + 60.0 + 7.0 + lost
        wasted = measure(outcome, replay_seconds=0.0).wasted_gpu_hours * 3600
        assert wasted == pytest.approx(60.0 + 7.0 + lost)


def test_by_default_jobs_are_as_users_submit_them():
    """`yard submit` makes no job preemptible, and neither does a replay."""
    jobs = (
        TraceJob(id="long", submitted_at=0.0, duration=100_000.0),
        TraceJob(id="short", submitted_at=5000.0, duration=10.0),
    )
    trace = JobTrace(name="t", format="made", jobs=jobs)
    found, _ = replay(trace, read_cluster("1"), setting_for("default"))
    assert found.preemptions == 0


def test_the_curve_of_waits_is_the_mean_of_those_submitted_then():
    jobs = tuple(
        TraceJob(id=f"j{i}", submitted_at=at, duration=3600.0)
        for i, at in enumerate((0.0, 0.0, 864_000.0))
    )
    trace = JobTrace(name="t", format="made", jobs=jobs)
    outcome = Replay(trace, read_cluster("1"), setting_for("fifo")).run()
    (first, wait), (last, none) = waits(outcome)
    assert (wait, none) == (0.5, 0.0)
    assert first < 0.1
    assert 9.9 < last < 10.0


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    gap=st.integers(60, 120),
    lengths=st.lists(st.integers(100, 900), min_size=5, max_size=12),
    sizes=st.lists(st.integers(1, 3), min_size=3, max_size=7),
)
def test_whatever_comes_nobody_waits_beyond_the_bound(gap, lengths, sizes):
    """Endless streams of short jobs of many sizes let a job as wide as the yard run."""
    policy, long = Policy(halving_seconds=1000.0), 4000.0
    bound = policy.passing_seconds(4 * 3600.0)
    wide = TraceJob(id="wide", submitted_at=1.0, duration=long, gpus=4)
    small = [
        TraceJob(
            id=f"s{i}",
            submitted_at=float(gap * i),
            duration=float(lengths[i % len(lengths)]),
            gpus=sizes[i % len(sizes)],
        )
        for i in range(300)
    ]
    jobs = tuple(sorted([wide, *small], key=lambda job: job.submitted_at))
    trace = JobTrace(name="t", format="made", jobs=jobs)
    outcome = Replay(trace, read_cluster("4"), Setting(policy=policy)).run()
    lived = next(lived for lived in outcome.jobs if lived.source.id == "wide")
    # Only those submitted within the bound go before it, and all of these may have to.
    ahead = sum(one.duration * one.gpus for one in small if one.submitted_at <= bound)
    # Room is kept by learned lengths, which one job in ten exceeds.
    assert lived.first_start <= max(bound, ahead / 4) + 3 * max(lengths)
    assert lived.ended_at == lived.first_start + long


def test_quotas_do_not_chase_each_other():
    """Two teams that both want everything stop few jobs, and none again and again."""
    jobs = tuple(
        TraceJob(id=f"{team}{i}", submitted_at=60.0 * i, duration=7200.0, gpus=2, team=team)
        for i in range(40)
        for team in ("t", "u")
    )
    trace, nodes = JobTrace(name="t", format="made", jobs=jobs), read_cluster("8")
    habits = Habits(preemptible_share=1.0)
    setting = setting_for("default", habits=habits, teams=even_quotas(trace, nodes))
    outcome = Replay(trace, nodes, setting).run()
    assert max(lived.preemptions for lived in outcome.jobs) <= 2
    assert sum(lived.preemptions for lived in outcome.jobs) <= len(jobs) / 4


def test_teams_are_charged_for_their_jobs_to_the_very_end():
    """A job that nothing happens beside counts as much under fair share as any other."""
    jobs = (
        TraceJob(id="u1", submitted_at=0.0, duration=500.0, team="u"),
        TraceJob(id="t1", submitted_at=1.0, duration=9500.0, team="t"),
        TraceJob(id="t2", submitted_at=400.0, duration=100.0, team="t"),
        TraceJob(id="u2", submitted_at=401.0, duration=100.0, team="u"),
    )
    trace = JobTrace(name="t", format="made", jobs=jobs)
    outcome = Replay(trace, read_cluster("1"), setting_for("fair")).run()
    first = {lived.source.id: lived.first_start for lived in outcome.jobs}
    assert first == {"u1": 0.0, "t1": 500.0, "u2": 10_000.0, "t2": 10_100.0}


def test_nobody_starves_under_a_stream_of_short_jobs():
    """A wide job that short ones could push aside for ever starts within the bound."""
    wide = TraceJob(id="wide", submitted_at=0.0, duration=5000.0, gpus=4)
    small = [
        TraceJob(id=f"s{i}", submitted_at=100.0 * i, duration=350.0 + i % 3) for i in range(1500)
    ]
    jobs = tuple(sorted([wide, *small], key=lambda job: job.submitted_at))
    policy = Policy(halving_seconds=2000.0)
    bound = policy.passing_seconds(4 * 3600.0)
    trace = JobTrace(name="t", format="made", jobs=jobs)
    outcome = Replay(trace, read_cluster("4"), Setting(policy=policy)).run()
    lived = next(lived for lived in outcome.jobs if lived.source.id == "wide")
    assert lived.ended_at - lived.source.duration <= bound + 2000.0


def test_the_wide_job_would_starve_without_the_bound():
    """The stream above is one that does starve it: the bound is what helps."""
    wide = TraceJob(id="wide", submitted_at=1.0, duration=5000.0, gpus=4)
    small = [TraceJob(id=f"s{i}", submitted_at=100.0 * i, duration=350.0) for i in range(1000)]
    jobs = tuple(sorted([wide, *small], key=lambda job: job.submitted_at))
    trace = JobTrace(name="t", format="made", jobs=jobs)
    found, outcome = replay(trace, read_cluster("4"), setting_for("sjf-oracle"))
    lived = next(lived for lived in outcome.jobs if lived.source.id == "wide")
    assert lived.first_start > 90_000.0
    assert found.longest_wait_seconds > 90_000.0


def test_quotas_divide_the_cluster_by_work(philly):
    nodes = read_cluster("24")
    teams = even_quotas(philly, nodes)
    assert {team.id for team in teams} == {job.team for job in philly.jobs}
    found, _ = replay(philly, nodes, setting_for("default", teams=teams))
    assert found.jobs + found.impossible_jobs == 500


def test_a_job_wider_than_a_node_becomes_a_gang():
    jobs = (TraceJob(id="a", submitted_at=0.0, duration=10.0, gpus=12),)
    trace = JobTrace(name="t", format="made", jobs=jobs)
    _, outcome = replay(trace, read_cluster("2x8"), setting_for("default"))
    assert outcome.jobs[0].ended_at == 10.0


class TestPacking:
    def test_our_placement_wastes_less_than_best_fit_and_random(self):
        trace = read_trace(DATA / "openb-pods-408.csv")
        nodes = read_cluster(str(DATA / "openb-nodes-61.csv"))

        def mean(placement):
            runs = [
                pack(trace, nodes, placement=placement, seed=seed, arrive_percent=100)
                for seed in range(3)
            ]
            assert all(run.allocated_percent <= run.arrived_percent for run in runs)
            return sum(run.allocated_percent for run in runs) / len(runs)

        assert mean("default") > mean("bestfit") > mean("random")

    def test_a_seed_gives_the_same_packing_again(self):
        trace = read_trace(DATA / "openb-pods-408.csv")
        nodes = read_cluster(str(DATA / "openb-nodes-61.csv"))
        first, second = (
            pack(trace, nodes, placement="default", seed=5, arrive_percent=60) for _ in range(2)
        )
        assert first == second


class TestVerb:
    def run(self, *words):
        parser = argparse.ArgumentParser()
        verb.register(parser.add_subparsers())
        args = parser.parse_args(["simulate", *words])
        return args.func(args)

    def test_json_has_every_policy(self, capsys):
        trace = str(DATA / "philly-500.csv")
        words = ("--trace", trace, "--nodes", "64", "--limit", "80", "--policy", "fifo,default")
        assert self.run(*words, "--json") == 0
        answer = json.loads(capsys.readouterr().out)
        assert [row["policy"] for row in answer["policies"]] == ["fifo", "default"]
        assert answer["policies"][0]["average_completion_seconds"] > 0

    def test_the_table_names_the_figures(self, capsys):
        trace = str(DATA / "philly-500.csv")
        assert self.run("--trace", trace, "--nodes", "8x8", "--limit", "50", "--quotas") == 0
        out = capsys.readouterr().out
        for words in ("completion, average s", "wait, p99 s", "preemptions", "GPU-hours wasted"):
            assert words in out
        assert "fragmented while jobs wait, %" in out
        assert "…" not in out

    def test_a_picture_is_drawn_where_matplotlib_is_and_asked_for_elsewhere(self, tmp_path):
        picture = tmp_path / "waits.png"
        words = ("--trace", str(DATA / "philly-500.csv"), "--nodes", "64", "--limit", "30")
        if find_spec("matplotlib"):
            assert self.run(*words, "--policy", "fifo,default", "--plot", str(picture)) == 0
            assert picture.read_bytes()[:4] == b"\x89PNG"
        else:
            with pytest.raises(InvalidInput, match="pip install"):
                self.run(*words, "--plot", str(picture))

    def test_packing_is_a_verb_too(self, capsys):
        words = ("--trace", str(DATA / "openb-pods-408.csv"), "--nodes")
        words += (
            str(DATA / "openb-nodes-61.csv"),
            "--arrive",
            "50%",
            "--policy",
            "random,default",
        )
        assert self.run(*words) == 0
        assert "allocated %" in capsys.readouterr().out

    @pytest.mark.parametrize(
        "words",
        [
            ("--policy", "best"),
            ("--checkpoint-cost", "7"),
            ("--arrive", "half", "--policy", "default"),
            ("--arrive", "50%", "--policy", "fifo"),
        ],
    )
    def test_a_wrong_word_is_told(self, words):
        trace = str(DATA / "philly-500.csv")
        with pytest.raises(InvalidInput):
            self.run("--trace", trace, "--nodes", "64", "--limit", "5", *words)
