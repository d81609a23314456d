"""Shockwave's and ElasticFlow's traces under our default policy, beside their published tables.

python bench/scheduling/published.py TRACES
"""

from __future__ import annotations

import argparse
from pathlib import Path

from trackyard.simulate.cluster import read_cluster
from trackyard.simulate.readers import read_trace
from trackyard.simulate.runs import replay, setting_for

#: makespan s, average JCT s, worst finish-time fairness, unfair %, GPU use %: 120 jobs, 32 GPUs.
SHOCKWAVE = {
    "Shockwave": (24197, 9958, 1.78, 5.0, 81.7),
    "OSSP": (24205, 19807, 7.74, 74.2, 81.6),
    "Themis": (31929, 11302, 3.44, 22.5, 61.9),
    "Gavel, max-min": (33208, 11274, 2.95, 25.0, 59.5),
    "AlloX": (32489, 9926, 4.96, 27.5, 60.8),
    "max sum throughput": (31909, 9655, 4.98, 25.0, 61.9),
    "Gandiva-Fair": (32367, 12574, 1.85, 51.7, 61.0),
}
#: Part of the deadlines met, 100 jobs on 128 GPUs.
ELASTICFLOW = {"ElasticFlow": "1.00", "EDF": "0.92-0.98", "Themis": "0.99", "Gandiva": "0.76"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", type=Path)
    args = parser.parse_args()
    shockwave(args.traces / "shockwave-dynamic")
    elasticflow(args.traces / "elasticflow-deadline")


def shockwave(folder: Path) -> None:
    print("| policy | makespan s | average JCT s | worst fairness | unfair % | GPUs in use % |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, row in SHOCKWAVE.items():
        print(f"| {name} (published) | {row[0]:,} | {row[1]:,} | {row[2]} | {row[3]} | {row[4]} |")
    trace = read_trace(next(folder.glob("120_*.trace.gz")))
    nodes = read_cluster("8x4")
    for name in ("fifo", "sjf-oracle", "default"):
        found, _ = replay(trace, nodes, setting_for(name))
        print(
            f"| {name} (ours) | {found.makespan_seconds:,.0f} |"
            f" {found.average_completion_seconds:,.0f} |"
            f" {found.worst_finish_time_fairness:.2f} | {found.unfair_percent:.1f} |"
            f" {found.utilisation_percent:.1f} |"
        )


def elasticflow(folder: Path) -> None:
    print()
    print("| policy | trace | jobs | GPUs | deadlines met | within reach | average JCT s |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for name, part in ELASTICFLOW.items():
        print(f"| {name} (published) | 100 jobs | 100 | 128 | {part} | | |")
    for file, limit in (
        ("elasticVpollux_e", None),
        ("philly_103959", 100),
        ("philly_103959", None),
    ):
        trace = read_trace(folder / f"{file}.csv.gz", limit=limit)
        # Many deadlines are shorter than the run time on the GPUs asked for: only a job that grows
        # can meet those, and ours keep their size.
        reach = sum(
            job.submitted_at + job.duration <= (job.deadline or 0.0) for job in trace.jobs
        ) / len(trace.jobs)
        for policy in ("fifo", "default"):
            found, _ = replay(trace, read_cluster("16x8"), setting_for(policy))
            met = (found.deadlines_met_percent or 0.0) / 100
            print(
                f"| {policy} (ours) | {file} | {found.jobs} | 128 | {met:.2f} | {reach:.2f} |"
                f" {found.average_completion_seconds:,.0f} |"
            )


if __name__ == "__main__":
    main()
