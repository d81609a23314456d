"""The queue's promises over the real loop: restarts, rivals, and an engine that is not heard.

`YARD_MODEL_SEED=N` runs one history alone; `YARD_MODEL_LIVE_HISTORIES=N` sets how many each part
runs. A failure prints the seed, the smallest history that shows it and what happened.
"""

import itertools
import os
from pathlib import Path

import pytest

from tests.integration.jobs.live import Live, check_live
from trackyard.simulate.check.generate import generate
from trackyard.simulate.check.history import CheckHistory
from trackyard.simulate.check.run import INVARIANTS, explain
from trackyard.simulate.check.scenarios import SCENARIOS

ONLY = os.environ.get("YARD_MODEL_SEED", "")
HISTORIES = int(os.environ.get("YARD_MODEL_LIVE_HISTORIES", "10"))
PARTS = 8
#: Larger histories say no more here and take long.
MOST_JOBS = 8
FIRST_SEEDS = [int(ONLY)] if ONLY else [part * HISTORIES for part in range(PARTS)]


def small_histories(first: int, count: int) -> list[CheckHistory]:
    """Return the histories of these seeds that are small enough, or of the one asked for."""
    found = [generate(seed, engine_faults=True) for seed in range(first, first + count)]
    return [one for one in found if ONLY or len(one.planned) <= MOST_JOBS]


def assert_kept(history: CheckHistory, template: Path, home: Path) -> None:
    """Run a history; on a failure show the smallest one that fails so."""
    numbers = itertools.count()

    def run(one, invariants):
        return check_live(one, invariants, template, home / f"run{next(numbers)}")

    outcome = run(history, INVARIANTS)
    if outcome.violations:
        seed = history.name.removeprefix("seed ")
        again = f"YARD_MODEL_SEED={seed} pytest tests/integration/jobs/{Path(__file__).name}"
        pytest.fail(explain(outcome, run=run, again=again, most_runs=40), pytrace=False)


@pytest.mark.parametrize("first", FIRST_SEEDS)
def test_promises_hold_over_the_real_loop(
    first: int, sqlite_template: Path, tmp_path: Path
) -> None:
    """Whatever comes, and however server and engine fail, no promise of the queue is broken."""
    for history in small_histories(first, 1 if ONLY else HISTORIES):
        assert_kept(history, sqlite_template, tmp_path / history.name)


@pytest.mark.parametrize("name", ["twins", "eight and one", "lent for hours", "lent to a sibling"])
def test_promises_hold_live_where_they_were_broken_once(
    name: str, sqlite_template: Path, tmp_path: Path
) -> None:
    """What is right in memory is right over the real loop."""
    assert_kept(SCENARIOS[name](), sqlite_template, tmp_path)


@pytest.mark.parametrize("seed", [1, 8])
async def test_promises_hold_on_each_database(
    seed: int, database_url: str, tmp_path: Path
) -> None:
    """The same on PostgreSQL, where the lead of a dead server has to run out first."""
    outcome = await Live(
        generate(seed, engine_faults=True), INVARIANTS, database_url, tmp_path
    ).run()
    assert outcome.violations == (), "\n".join(outcome.log)
