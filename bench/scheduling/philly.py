"""Philly, 82,247 jobs on one pool: every policy beside the reference figures, and the default
with the habits of its users.

python bench/scheduling/philly.py TRACES [--policies fifo,sjf-oracle,default] [--gpus 640]
    [--preemptible 0,0.5,1] [--checkpoint-every 1800] [--stated 0,1] [--halving-days 1,2,4]
    [--quotas]

--stated and --halving-days vary the default alone: which part of the jobs states its true run
time, and how long a wait halves a job's length in the order.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from trackyard.simulate.cluster import read_cluster
from trackyard.simulate.measures import Measures
from trackyard.simulate.readers import read_trace
from trackyard.simulate.replay import Habits, Replayed
from trackyard.simulate.runs import BASELINES, even_quotas, replay, setting_for

#: Average completion time and p99 wait of an independent event loop, and of Alibaba's simulator,
#: on 640 GPUs.
REFERENCE = {
    "fifo": (46302.66, 129932),
    "easy": (39359.21, 119487),
    "fifo-skip": (28654.99, 109585),
    "sjf-learned": (18533.63, 45942),
    "sjf-oracle": (17377.94, 44263),
    "srtf": (13866.28, 642),
}
#: These agree with the reference to the second.
EXACT = ("fifo", "fifo-skip", "sjf-oracle")
DAY, HOUR = 86_400.0, 3600.0
HEAD = (
    "policy",
    "preemptible",
    "stated",
    "halving d",
    "average JCT s",
    "reference",
    "p50 wait s",
    "p99 wait s",
    "reference",
    "longest wait d",
    "jobs under an hour that wait over a day",
    "stops",
    "GPU-hours lost %",
    "CPU s",
)


def row(
    name: str,
    habits: Habits,
    found: Measures,
    outcome: Replayed,
    *,
    halving: float,
    is_known: bool,
) -> str:
    """Format one replay."""
    known = REFERENCE.get(name) if is_known else None
    jobs = [lived for lived in outcome.jobs if lived.ended_at >= 0]
    length = np.array([lived.source.duration for lived in jobs])
    gpus = np.array([lived.source.gpu_share for lived in jobs])
    wait = np.array([lived.ended_at - lived.source.submitted_at for lived in jobs]) - length
    used = float((length * gpus).sum()) / HOUR
    share = "" if name in BASELINES else f"{habits.preemptible_share:.0%}"
    stated = "" if name in BASELINES else f"{habits.stated_share:.0%}"
    cells = (
        name,
        share,
        stated,
        f"{halving / DAY:g}" if halving else "",
        f"{found.average_completion_seconds:,.2f}",
        f"{known[0]:,.0f}" if known else "",
        f"{found.p50_wait_seconds:,.0f}",
        f"{found.p99_wait_seconds:,.0f}",
        f"{known[1]:,}" if known else "",
        f"{found.longest_wait_seconds / DAY:.1f}",
        f"{int(((length < HOUR) & (wait > DAY)).sum()):,}",
        f"{found.preemptions:,}",
        f"{100 * found.wasted_gpu_hours / used:.2f}",
        f"{found.replay_seconds:.0f}",
    )
    return f"| {' | '.join(cells)} |"


def _numbers(listed: str) -> list[float]:
    return [float(one) for one in listed.split(",")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", type=Path)
    parser.add_argument(
        "--policies", default="fifo,fifo-skip,easy,sjf-learned,sjf-oracle,srtf,sjf,fair,default"
    )
    parser.add_argument("--gpus", default="640")
    parser.add_argument("--preemptible", default="0", help="parts of the jobs, by commas")
    parser.add_argument("--checkpoint-every", type=float, default=1800.0)
    parser.add_argument("--stated", default="0", help="parts of the jobs, by commas")
    parser.add_argument("--halving-days", default="2", help="days, by commas")
    parser.add_argument("--quotas", action="store_true", help="a quota for each virtual cluster")
    args = parser.parse_args()
    trace = read_trace(args.traces / "philly-pollux" / "philly_pai_format.csv.gz")
    nodes = read_cluster(args.gpus)
    teams = even_quotas(trace, nodes) if args.quotas else ()
    is_known = args.gpus == "640" and not teams
    print(f"| {' | '.join(HEAD)} |")
    print("|---|" + "---:|" * (len(HEAD) - 1))
    exact = True
    for name in args.policies.split(","):
        varied = (args.preemptible, args.stated, args.halving_days)
        chosen = list(product(*(_numbers(one) for one in varied)))
        for share, stated, days in chosen if name == "default" else [(0.0, 0.0, 0.0)]:
            habits = Habits(
                preemptible_share=share,
                stated_share=stated,
                checkpoint_seconds=args.checkpoint_every,
            )
            setting = setting_for(name, habits=habits, teams=teams)
            if days:
                policy = replace(setting.policy, halving_seconds=days * DAY)
                setting = replace(setting, policy=policy)
            found, outcome = replay(trace, nodes, setting)
            line = row(name, habits, found, outcome, halving=days * DAY, is_known=is_known)
            print(line, flush=True)
            if is_known and name in EXACT:
                exact &= round(found.average_completion_seconds) == round(REFERENCE[name][0])
    return 0 if exact else 1


if __name__ == "__main__":
    sys.exit(main())
