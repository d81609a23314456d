"""Runs histories, judges them and tells of failures so that anyone can run them again.

Owns the list of invariants, the report and the command. `python -m trackyard.simulate.check.run
--seed N` runs one seed, `--count N` that many from it on.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence

from trackyard.simulate.check.fairness import FAIRNESS
from trackyard.simulate.check.generate import generate
from trackyard.simulate.check.history import CheckHistory
from trackyard.simulate.check.machine import HistoryOutcome, HistoryRun
from trackyard.simulate.check.safety import SAFETY
from trackyard.simulate.check.scenarios import SCENARIOS
from trackyard.simulate.check.shrink import MOST_RUNS, shrink
from trackyard.simulate.check.stops import STOPS
from trackyard.simulate.check.truth import TrueReasons
from trackyard.simulate.check.watch import Invariant, Promises

INVARIANTS: tuple[type[Invariant], ...] = (*SAFETY, *STOPS, *FAIRNESS, TrueReasons)
COMMAND = "python -m trackyard.simulate.check.run"
_LAST_LINES = 60


def check(
    history: CheckHistory,
    invariants: Sequence[type[Invariant]] = INVARIANTS,
    *,
    promises: Promises | None = None,
    stop_at_first: bool = True,
) -> HistoryOutcome:
    """Run one history against the invariants."""
    return HistoryRun(history, invariants, promises=promises, stop_at_first=stop_at_first).run()


def check_seed(seed: int, invariants: Sequence[type[Invariant]] = INVARIANTS) -> HistoryOutcome:
    """Run the history of a seed."""
    return check(generate(seed), invariants)


def explain(
    outcome: HistoryOutcome,
    *,
    run: Callable[[CheckHistory, Sequence[type[Invariant]]], HistoryOutcome] = check,
    again: str = "",
    most_runs: int = MOST_RUNS,
) -> str:
    """Say what failed, on the smallest history that shows it, and how to run it again."""
    first, name = outcome.violations[0], outcome.history.name
    invariants = [one for one in INVARIANTS if one.name == first.invariant]
    small = shrink(outcome, lambda history: run(history, invariants), most_runs=most_runs)
    promise = invariants[0].promise if invariants else ""
    log = list(small.log)
    if len(log) > _LAST_LINES:
        log = [f"... {len(log) - _LAST_LINES} lines before these", *log[-_LAST_LINES:]]
    return "\n".join(
        [
            f"{name} breaks `{first.invariant}`: {first.sentence}",
            f"promise: {promise}",
            f"run it again: {again or command_for(name)}",
            "",
            "the smallest history found that breaks it:",
            *small.history.lines(),
            "",
            "what happened:",
            *(f"  {line}" for line in log),
        ]
    )


def command_for(name: str) -> str:
    """Return the command that runs a history again by its name."""
    if name.startswith("seed "):
        return f"{COMMAND} --{name}"
    return f"{COMMAND} --scenario '{name}'"


def _seeds(args: argparse.Namespace) -> list[CheckHistory]:
    if args.scenario:
        return [SCENARIOS[args.scenario]()]
    return [generate(seed) for seed in range(args.seed, args.seed + args.count)]


def _say(words: str) -> None:
    sys.stdout.write(words + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out the command."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Check the queue's promises.")
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), help="a fixed history instead")
    parser.add_argument(
        "--invariant", action="append", default=[], help="look at this invariant alone"
    )
    parser.add_argument(
        "--most", type=int, default=3, help="failures told in full; the rest are counted"
    )
    parser.add_argument("--all", action="store_true", help="go on after a history's first failure")
    parser.add_argument("--log", action="store_true", help="print what happened, failure or not")
    args = parser.parse_args(argv)
    chosen = [one for one in INVARIANTS if not args.invariant or one.name in args.invariant]
    failures: dict[str, list[str]] = {}
    told, passes = 0, Counter[str]()
    for history in _seeds(args):
        outcome = check(history, chosen, stop_at_first=not args.all)
        passes["passes"] += outcome.passes
        if args.log:
            _say("\n".join((*history.lines(), "", *outcome.log)))
        for name in dict.fromkeys(one.invariant for one in outcome.violations):
            failures.setdefault(name, []).append(history.name)
        if outcome.violations and told < args.most:
            told += 1
            _say(explain(outcome) + "\n")
    for name, where in sorted(failures.items()):
        _say(f"{name}: {len(where)} histories, first {', '.join(where[:8])}")
    _say(f"{args.count} histories, {passes['passes']} passes, {len(failures)} promises broken")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
