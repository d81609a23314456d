"""Philly, 82,247 jobs on one pool of 640 GPUs: every policy beside the reference figures.

python bench/scheduling/philly.py TRACES [--policies fifo,sjf,default] [--quotas]
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from trackyard.simulate.cluster import read_cluster
from trackyard.simulate.readers import read_trace
from trackyard.simulate.runs import even_quotas, replay, setting_for

#: Average completion time and p99 wait of an independent event loop, and of Alibaba's simulator.
REFERENCE = {
    "fifo": (46302.66, 129932),
    "easy": (39359.21, 119487),
    "fifo-skip": (28654.99, 109585),
    "sjf-learned": (18533.63, 45942),
    "sjf": (17377.94, 44263),
    "srtf": (13866.28, 642),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", type=Path)
    parser.add_argument(
        "--policies", default="fifo,fifo-skip,easy,sjf-learned,sjf,srtf,fair,default"
    )
    parser.add_argument("--quotas", action="store_true", help="a quota for each virtual cluster")
    args = parser.parse_args()
    trace = read_trace(args.traces / "philly-pollux" / "philly_pai_format.csv.gz")
    nodes = read_cluster("640")
    teams = even_quotas(trace, nodes) if args.quotas else ()
    print(
        "| policy | average JCT s | reference | average wait s | p50 JCT | p90 JCT | p99 wait s |"
        " reference | preemptions | GPU-hours wasted | CPU s |"
    )
    print("|---|" + "---:|" * 10)
    exact = True
    for name in args.policies.split(","):
        setting = replace(setting_for(name), teams=teams)
        found, _ = replay(trace, nodes, setting)
        known = REFERENCE.get(name)
        told = f"{known[0]:,.0f}" if known else ""
        told_wait = f"{known[1]:,}" if known else ""
        print(
            f"| {name} | {found.average_completion_seconds:,.2f} | {told} |"
            f" {found.average_wait_seconds:,.0f} | {found.p50_completion_seconds:,.0f} |"
            f" {found.p90_completion_seconds:,.0f} | {found.p99_wait_seconds:,.0f} | {told_wait} |"
            f" {found.preemptions:,} | {found.wasted_gpu_hours:,.0f} |"
            f" {found.replay_seconds:.1f} |",
            flush=True,
        )
        if known and name in ("fifo", "fifo-skip", "sjf") and not teams:
            exact &= round(found.average_completion_seconds) == round(known[0])
    return 0 if exact else 1


if __name__ == "__main__":
    sys.exit(main())
