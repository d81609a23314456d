"""The stated rules over curves, and what else changed around a moment."""

import math
import random
from collections.abc import Sequence

import pytest

from trackyard.insight.logbook.curves import (
    PLATEAU_POINTS,
    CurvePoint,
    chosen_metrics,
    goal_of,
    notable_points,
)
from trackyard.insight.logbook.facts import AttemptFact, Curve, EventFact
from trackyard.insight.logbook.why_worse import Moment, explain, window

SECOND = 1000


def curve(
    values: Sequence[float], metric: str = "loss", times: Sequence[int] | None = None
) -> Curve:
    steps = [10 * at for at in range(len(values))]
    return Curve(
        metric=metric,
        steps=steps,
        times=list(times) if times is not None else [step * SECOND for step in steps],
        values=values,
        least=values,
        most=values,
    )


def falling(length: int) -> list[float]:
    rng = random.Random(3)
    return [2 / (1 + at / 20) + rng.uniform(-0.01, 0.01) for at in range(length)]


def found(points: list[CurvePoint], rule: str) -> list[CurvePoint]:
    return [point for point in points if point.rule == rule]


def test_a_smooth_curve_has_a_best_value_and_nothing_else() -> None:
    assert [point.rule for point in notable_points(curve(falling(120)))] == ["best"]


def test_a_spike_is_told_once_with_its_peak_and_its_return() -> None:
    values = falling(120)
    values[60:63] = [3.0, 5.0, 2.5]
    (spike,) = found(notable_points(curve(values)), "spike")
    assert spike.step == 610
    assert spike.sentence.startswith("loss spiked to 5 at step 610 from about 0.")
    assert spike.sentence.endswith("it was back by step 630.")


def test_a_spike_that_stays_is_bad() -> None:
    values = falling(60) + [9.0] * 10
    (spike,) = found(notable_points(curve(values)), "spike")
    assert (spike.step, spike.tone) == (600, "bad")


def test_what_was_found_stays_found_as_the_curve_grows() -> None:
    values = falling(120)
    values[60] = 4.0
    early = found(notable_points(curve(values[:70])), "spike")
    late = found(notable_points(curve(values)), "spike")
    assert early == late != []


def test_nan_is_told_where_it_begins() -> None:
    values = [*falling(30), math.nan, math.nan, *falling(5), math.nan]
    told = found(notable_points(curve(values)), "nan")
    assert [point.step for point in told] == [300, 370]


def test_a_plateau_is_told_when_a_quarter_of_the_run_brought_nothing() -> None:
    values = [1 / (1 + at) for at in range(40)] + [0.0255] * 200
    (plateau,) = found(notable_points(curve(values)), "plateau")
    assert plateau.step == 10 * (39 + PLATEAU_POINTS)


def test_scores_are_better_when_higher() -> None:
    values = [0.1, 0.5, 0.8, 0.7]
    (best,) = notable_points(curve(values, "val_accuracy"))
    assert best.sentence == "val_accuracy reached its best value so far, 0.8, by step 20."


def test_a_slow_down_is_told_but_not_the_gap_between_attempts() -> None:
    times, now = [], 0
    for at in range(120):
        now += 60_000 if at == 30 else 5000 if 80 <= at < 100 else 1000
        times.append(now)
    start = times[29] + 50_000
    told = found(notable_points(curve(falling(120), times=times), [start]), "slow_down")
    assert [point.step for point in told] == [800]
    assert "20% of its usual steps per second" in told[0].sentence


@pytest.mark.parametrize(
    ("name", "goal"),
    [
        ("train/loss", "lower"),
        ("val_accuracy", "higher"),
        ("tokens_per_second", "rate"),
        ("grad_norm", "norm"),
        ("system/gpu_0_power", ""),
        ("epoch", ""),
    ],
)
def test_names_tell_what_is_better(name: str, goal: str) -> None:
    assert goal_of(name) == goal


def test_losses_are_looked_at_first() -> None:
    names = ["epoch", "val_accuracy", "tokens_per_second", "train/loss", "loss"]
    assert chosen_metrics(names) == ["loss", "train/loss", "val_accuracy", "tokens_per_second"]


# -- why it got worse -------------------------------------------------------------------------


def event(kind: str, at: int, subject: str, subject_id: str, **data: object) -> EventFact:
    return EventFact(at, at, "system", kind, subject, subject_id, dict(data))


def moment(**more: object) -> Moment:
    since, until = window(1_000_000, 0, 2_000_000)
    values = {
        "run_id": "a" * 32,
        "job_id": "jown",
        "metric": "loss",
        "step": 500,
        "time_ms": 1_000_000,
        "since_ms": since,
        "until_ms": until,
        "attempts": [
            AttemptFact(number=1, nodes=("g1",), admitted_ms=0, started_ms=1, ended_ms=900_000),
            AttemptFact(
                number=2, nodes=("g2",), admitted_ms=0, started_ms=950_000, resume_step=480
            ),
        ],
    }
    return Moment(**(values | more))  # type: ignore[arg-type]


def test_a_move_a_neighbour_and_heat_are_listed_by_weight() -> None:
    times = list(range(880_000, 1_120_000, 10_000))
    heat = [60.0 if at < 1_000_000 else 84.0 for at in times]
    flat = [50.0] * len(times)
    why = explain(
        moment(
            neighbours=[
                event("job.admitted", 990_000, "job", "jother", name="greedy", nodes=["g2"]),
                event("job.admitted", 990_000, "job", "", nodes=["g2"]),
                event("job.admitted", 990_000, "job", "jfar", name="far", nodes=["g9"]),
            ],
            node_events=[
                event("node.check_failed", 995_000, "node", "g2", sentence="ECC errors.")
            ],
            series={
                "system/gpu_0_temperature_celsius": (times, heat),
                "system/gpu_0_power_usage_watts": (times, flat),
            },
        )
    )
    told = [suspect.sentence for suspect in why.suspects]
    assert told == [
        "gpu 0 temperature celsius went from 60 to 84 °C.",
        "g2: ECC errors.",
        "Attempt 2 began, resumed from the checkpoint of step 480, and moved from g1 to g2.",
        "A job of another team started on the same node, g2.",
        "Job greedy started on the same node, g2.",
    ]
    assert why.sentence == "Around step 500, 5 things changed."


def test_a_rank_that_lags_is_named() -> None:
    times = [1_000_000, 1_010_000]
    series = {f"step_time/rank_{rank}": (times, [0.5, 0.5]) for rank in range(4)}
    series["step_time/rank_2"] = (times, [0.9, 0.9])
    why = explain(moment(attempts=[], series=series))
    assert [one.sentence for one in why.suspects] == [
        "Rank 2 lags: step time is 0.9 against a median of 0.5."
    ]
    assert "no job" in why.missing[1]


def test_an_epoch_that_turns_is_a_suspect_and_a_counter_is_not() -> None:
    times = list(range(900_000, 1_100_000, 10_000))
    epoch = [2.0 if at < 990_000 else 3.0 for at in times]
    seen = [float(at) for at in times]
    why = explain(
        moment(attempts=[], series={"epoch": (times, epoch), "tokens_seen": (times, seen)})
    )
    assert [one.sentence for one in why.suspects] == ["epoch went from 2 to 3 10 s before."]


def test_nothing_known_is_said_so() -> None:
    why = explain(moment(attempts=[]))
    assert why.sentence == "Around step 500, nothing else is known to have changed."
    assert why.suspects == []
