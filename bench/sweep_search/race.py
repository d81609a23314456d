"""A search in virtual time: slots, epochs and a budget, with the curves of `train.py`.

Owns the clock and the rules of the race, the same for every searcher. Runs in any interpreter that
has numpy, so that Ray Tune's own scheduler can be asked in its environment (`python -m` is not
needed: `python race.py --seeds 5`). Knows nothing of Trackyard.
"""

from __future__ import annotations

import argparse
import heapq
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from train import EPOCHS, configuration, losses

Config = dict[str, Any]


@dataclass
class Race:
    """One search: `ask` gives the values of a trial, `report` says whether it is to be stopped."""

    ask: Callable[[int], Config]
    report: Callable[[int, int, float], bool]
    slots: int
    epochs: int
    #: trials whose values are chosen before there is a slot for them
    ahead: int = 0
    curves: dict[int, list[float]] = field(default_factory=dict)
    _running: dict[int, tuple[float, Iterator[float]]] = field(default_factory=dict)
    _line: list[tuple[float, int]] = field(default_factory=list)
    _waiting: list[tuple[int, Config]] = field(default_factory=list)
    _asked: int = 0

    def run(self) -> dict[str, Any]:
        """Spend the budget and return the best of the trials that were trained in full."""
        for _ in range(self.slots):
            self._begin(0.0)
        for _ in range(self.epochs):
            now, number = heapq.heappop(self._line)
            pace, curve = self._running[number]
            loss = next(curve)
            points = self.curves.setdefault(number, [])
            points.append(loss)
            if self.report(number, len(points), loss) or len(points) == EPOCHS:
                del self._running[number]
                self._begin(now)
            else:
                heapq.heappush(self._line, (now + pace, number))
        whole = [points[-1] for points in self.curves.values() if len(points) == EPOCHS]
        return {"best": min(whole), "trials": len(self.curves), "whole": len(whole)}

    def _begin(self, now: float) -> None:
        while len(self._waiting) <= self.ahead:
            self._waiting.append((self._asked, self.ask(self._asked)))
            self._asked += 1
        number, config = self._waiting.pop(0)
        # Wider networks take longer, so that trials do not move in step.
        pace = 1.0 + int(config["width"]) / 64
        self._running[number] = (pace, losses(config, 0.0))
        heapq.heappush(self._line, (now + pace, number))


@dataclass(frozen=True)
class _Trial:
    """What Ray's scheduler knows a trial by."""

    trial_id: str


def by_ray(seed: int, slots: int, epochs: int) -> dict[str, Any]:
    """Search at random under Ray Tune's own ASHA scheduler."""
    from ray.tune.schedulers import ASHAScheduler

    scheduler = ASHAScheduler(
        metric="loss",
        mode="min",
        time_attr="training_iteration",
        max_t=EPOCHS,
        grace_period=1,
        reduction_factor=3,
    )
    trials: dict[int, _Trial] = {}

    def ask(number: int) -> Config:
        trials[number] = _Trial(str(number))
        scheduler.on_trial_add(None, trials[number])
        return configuration(seed, number)

    def report(number: int, epoch: int, loss: float) -> bool:
        result = {"training_iteration": epoch, "loss": loss}
        if epoch == EPOCHS:
            scheduler.on_trial_complete(None, trials[number], result)
            return True
        verdict = scheduler.on_trial_result(None, trials[number], result)
        return bool(verdict == scheduler.STOP)

    return Race(ask, report, slots, epochs).run()


def main() -> None:
    """Print one line of JSON a seed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=400)
    args = parser.parse_args()
    for seed in range(args.seeds):
        print(json.dumps(by_ray(seed, args.slots, args.epochs)), flush=True)


if __name__ == "__main__":
    main()
