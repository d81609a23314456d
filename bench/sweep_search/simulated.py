"""The same search for many seeds in virtual time: our sweeps beside Ray Tune's own ASHA scheduler.

    python -m bench.sweep_search.simulated                # 20 seeds, a few minutes on one core

Every searcher has the same slots and the same number of epochs to spend, and what counts is the
best trial that was trained in full. Ours are decided by the code of the server (`decide`,
`propose`), Ray's by `ASHAScheduler` in the environment `raytrain`, with the values that our
`random` rows get too. Nothing is timed, so the figures are the same on any machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from bench.sweep_search.race import Config, Race
from bench.sweep_search.train import EPOCHS, configuration
from trackyard.queue.specification import JobRequest
from trackyard.sweeps import records
from trackyard.sweeps.decisions import LiveTrial, SweepSnapshot, ahead, decide, history
from trackyard.sweeps.records import TrialRow
from trackyard.sweeps.samplers import propose
from trackyard.sweeps.stopping import bracket_for
from trackyard.sweeps.wishes import SweepBudget, SweepRequest, SweepSpec, check_sweep

ROOT = Path(__file__).resolve().parents[2]
ENVS = Path(os.environ.get("YARD_TEST_ENVS") or ROOT / ".cache" / "envs")
SPACE = {
    "lr": {"log": [1e-4, 10.0]},
    "width": {"int": [2, 64]},
    "decay": {"log": [1e-6, 0.1]},
    "momentum": {"range": [0.0, 0.99]},
}


class Sweep:
    """One sweep of ours, kept in memory."""

    def __init__(self, sampler: str, seed: int, slots: int, stop: dict[str, Any]) -> None:
        wish = SweepRequest(
            metric="loss",
            space=SPACE,
            job=JobRequest(command=["train"]),
            sampler=sampler,
            seed=seed,
            stop=stop,
            slots=slots,
            budget=SweepBudget(trials=10_000),
        )
        self.spec: SweepSpec = check_sweep(wish, has_optuna=True)
        self.rows: dict[int, TrialRow] = {}
        self.curves: dict[int, list[tuple[int, float]]] = {}
        self.seed = seed

    def ask(self, number: int) -> Config:
        """Choose the values of a trial as the controller does."""
        if self.spec.sampler == "random":
            point, attributes = configuration(self.seed, number), {}
        else:
            past = history(self.spec, list(self.rows.values()))
            found = propose(
                self.spec.sampler, self.spec.parsed(), past, seed=self.seed, number=number
            )
            assert found is not None
            point, attributes = found.point, found.attributes
        self.curves[number] = []
        self.rows[number] = TrialRow(
            sweep=1,
            number=number,
            job=number,
            state=records.LIVE,
            params=records.encode(point),
            attributes=records.encode(attributes),
            value=None,
            step=None,
            bracket=bracket_for(self.spec.stop, number),
            rungs="{}",
            curve="[]",
            parent=None,
            sentence="",
            gpu_seconds=0.0,
            created_ms=number,
            ended_ms=None,
        )
        return point

    def report(self, number: int, epoch: int, loss: float) -> bool:
        """Take a point, look at the sweep, and tell whether this trial is to be stopped."""
        self.curves[number].append((epoch, loss))
        live = [row for row in self.rows.values() if row.state == records.LIVE]
        look = SweepSnapshot(
            spec=self.spec,
            ended=[row for row in self.rows.values() if row.state != records.LIVE],
            live=[self._live(row, number if epoch == EPOCHS else -1) for row in live],
            elapsed_seconds=0.0,
        )
        for change in decide(look).changes:
            row = self.rows[change.number]
            if change.rungs is not None:
                told = {str(at): value for at, value in change.rungs.items()}
                row = row._replace(rungs=records.encode(told))
            if change.state is not None:
                curve = records.encode(change.curve)
                row = row._replace(state=change.state, value=change.value, curve=curve)
            self.rows[change.number] = row
        return self.rows[number].state != records.LIVE

    def _live(self, row: TrialRow, ended: int) -> LiveTrial:
        state = "succeeded" if row.number == ended else "running"
        return LiveTrial(row=row, job_state=state, curve=self.curves[row.number])


def ours(sampler: str, stop: dict[str, Any]) -> Callable[[int, int, int], dict[str, Any]]:
    """Return a searcher of ours."""

    def search(seed: int, slots: int, epochs: int) -> dict[str, Any]:
        sweep = Sweep(sampler, seed, slots, stop)
        return Race(sweep.ask, sweep.report, slots, epochs, ahead(sweep.spec)).run()

    return search


def rays(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Search with Ray's scheduler, in its own interpreter."""
    command = [
        str(ENVS / "raytrain" / "bin" / "python"), str(Path(__file__).with_name("race.py")),
        "--seeds", str(args.seeds), "--slots", str(args.slots), "--epochs", str(args.epochs),
    ]  # fmt: skip
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def main() -> None:
    """Search with everyone and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=400, help="budget of each search")
    args = parser.parse_args()
    asha = {"method": "asha", "min": 1, "max": EPOCHS, "eta": 3}
    found = {"Ray Tune's ASHA, random": rays(args)}
    for name, search in (
        ("asha, random", ours("random", asha)),
        ("asha, tpe", ours("tpe", asha)),
    ):
        found[name] = [search(seed, args.slots, args.epochs) for seed in range(args.seeds)]
    ray = [one["best"] for one in found["Ray Tune's ASHA, random"]]
    print(f"{'search':<24} {'mean':>7} {'worst':>7} {'trials':>7} {'<= Ray':>7}  difference")
    for name, rows in found.items():
        best = [one["best"] for one in rows]
        more = [mine - theirs for mine, theirs in zip(best, ray, strict=True)]
        error = stdev(more) / len(more) ** 0.5 if len(more) > 1 else 0.0
        print(
            f"{name:<24} {mean(best):>7.4f} {max(best):>7.4f}"
            f" {mean(one['trials'] for one in rows):>7.1f}"
            f" {sum(one <= 1e-9 for one in more):>4}/{len(ray)}"
            f"  {mean(more):+.4f} ± {error:.4f}"
        )


if __name__ == "__main__":
    main()
