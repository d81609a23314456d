"""Grouping, prices, CSV and the fleet's picture: plain sums of plain entries."""

import csv
import io

import numpy as np
import pytest

from trackyard.core.errors import InvalidInput
from trackyard.insight.fleet_map import edges_of, fleet_map, queue_curves
from trackyard.insight.goodput import (
    AttemptSpan,
    LeaseSpan,
    NodeSpan,
    Share,
    UsageHistory,
    account,
)
from trackyard.insight.rates import Rate, RateCard
from trackyard.insight.usage import (
    LedgerNames,
    NodeHardware,
    UsageHolder,
    as_csv,
    entries,
    group,
    is_charged,
    losses,
    parse_by,
)
from trackyard.queue.shares.past import PastWait

HOUR = 3_600_000
HISTORY = UsageHistory(
    attempts=[
        AttemptSpan(
            key=1, shares=(Share("a", (0,)),), admitted_ms=0, started_ms=0, ended_ms=2 * HOUR
        ),
        AttemptSpan(
            key=2,
            shares=(Share("a", (1,), 500),),
            admitted_ms=0,
            started_ms=0,
            ended_ms=4 * HOUR,
            cut_short=True,
        ),
    ],
    nodes={"a": [NodeSpan(0, 10 * HOUR, 2)], "b": [NodeSpan(0, 10 * HOUR, 1)]},
    leases=[LeaseSpan("b", 0, 5 * HOUR, 9)],
)
FACTS = LedgerNames(
    attempts={
        1: UsageHolder("red", "ann", "vision", "default", "j1", "one", "succeeded"),
        2: UsageHolder("blue", "=bob", "speech", "default", "j2", "two", "node_lost"),
    },
    leases={9: UsageHolder("blue", "cid", lease="l9")},
    machines={"a": NodeHardware("NVIDIA H100 80GB"), "b": NodeHardware("A100", is_spot=True)},
)
CARD = RateCard(
    rates={
        "H100": Rate(per_gpu_hour=3.0),
        "A100": Rate(purchase=35040.0, years=4, watts=500, spot_per_gpu_hour=0.5),
    },
    per_kwh=0.2,
    pue=1.0,
)
FOUND = entries(account(HISTORY, 0, 10 * HOUR, 10 * HOUR), FACTS)


def test_teams_pay_for_what_they_hold_and_what_their_leases_leave_idle() -> None:
    charged = [one for one in FOUND if is_charged(one)]
    blue, red = group(charged, ("team",), CARD)
    assert (red.key, red.gpu_hours, red.cost, red.goodput) == ({"team": "red"}, 2.0, 6.0, 1.0)
    assert (blue.gpu_hours, blue.cost, blue.goodput) == (7.0, 2 * 3.0 + 5 * 0.5, 0.0)
    assert blue.classes == {"idle_leased": 5.0, "lost": 2.0}


def test_own_metal_costs_its_years_and_its_power() -> None:
    assert CARD.price("A100", is_spot=False, is_held=True) == pytest.approx(1.0 + 0.5 * 0.2)
    assert CARD.price("A100", is_spot=True, is_held=True) == 0.5
    assert CARD.price("T4", is_spot=False, is_held=True) == 0.0
    assert CARD.carbon_kg("A100", is_held=True) == pytest.approx(0.5 * 0.4)
    both = RateCard(default=Rate(per_gpu_hour=1, purchase=1))
    with pytest.raises(InvalidInput, match="rented or owned"):
        both.check()


def test_the_most_expensive_loss_comes_first_with_the_job_it_hit() -> None:
    first, second = losses(FOUND, CARD)
    assert (first.kind, first.cause, first.job, first.cost) == ("lost", "node_lost", "j2", 6.0)
    assert (second.kind, second.job) == ("idle_leased", "")


def test_csv_has_every_class_and_runs_no_formula() -> None:
    text = as_csv(group(FOUND, ("user",), CARD), ("user",), "EUR")
    rows = {row["user"]: row for row in csv.DictReader(io.StringIO(text))}
    assert rows["'=bob"]["lost_hours"] == "2.000000"
    assert rows["ann"]["cost_eur"] == "6.0000"
    assert rows[""]["free_hours"] == "21.000000"


def test_what_cannot_be_grouped_by_is_said() -> None:
    assert parse_by("team, user,team") == ("team", "user")
    with pytest.raises(InvalidInput, match="choose among team"):
        parse_by("colour")


def test_the_picture_of_the_fleet_shows_what_took_most_of_each_stretch() -> None:
    edges = edges_of(0, 10 * HOUR, 10)
    rows = fleet_map(HISTORY, {"a": "H100"}, edges, 10 * HOUR)
    assert [(row.node, row.gpu, row.cells) for row in rows] == [
        ("a", 0, "uuffffffff"),
        ("a", 1, "uuuuffffff"),
        ("b", 0, "lllllfffff"),
    ]
    assert (rows[1].levels[0], rows[1].used_percent) == ("5", 20.0)


def test_depth_and_waits_are_counted_by_class() -> None:
    waits = [PastWait(0, 2000, 2), PastWait(500, None, 2), PastWait(0, 1000, 4)]
    edges = np.array([0, 1500, 3000])
    urgent, normal = queue_curves(waits, edges, 0, 3000)
    assert (urgent.priority, urgent.depth, urgent.p50_wait_seconds) == ("urgent", [0, 0], 1.0)
    assert (normal.depth, normal.started, normal.p90_wait_seconds) == ([2, 1], 1, 2.0)
