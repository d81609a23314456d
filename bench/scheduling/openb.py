"""Alibaba openb (1,213 nodes, 6,212 GPUs): GPU allocation beside the published placements.

python bench/scheduling/openb.py TRACES [--lists FOLDER] [--seeds 10] [--workloads default]

Placement runs with the settings of a live pass; there are no others to choose. Lists that have a
published figure and are not in the folder are named at the end; `--lists` is a second folder to
look for them, for example `data/csv` of the published simulator.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import sys
import time
from pathlib import Path
from statistics import mean

from trackyard.simulate.cluster import read_cluster
from trackyard.simulate.packing import pack
from trackyard.simulate.readers import read_trace

_PREFIX = "openb_pod_list_"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", type=Path)
    parser.add_argument("--lists", type=Path, help="another folder with pod lists")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--workloads", help="default: all that have a published figure")
    parser.add_argument("--placements", default="default")
    args = parser.parse_args()
    folder = args.traces / "alibaba-openb-2023"
    published = _published(folder / "fgd-expected-results" / "analysis_allo_discrete.csv.gz")
    folders = [args.lists, folder] if args.lists else [folder]
    paths = [path for one in folders for path in one.glob(_PREFIX + "*.csv*")]
    files = {path.name[len(_PREFIX) :].split(".")[0]: path for path in paths}
    names = args.workloads.split(",") if args.workloads else sorted(set(files) & set(published))
    nodes = read_cluster(str(folder / "openb_node_list_gpu_node.csv.gz"))
    print(
        "| workload | placement | allocated %, mean | lowest | highest | best fit, published |"
        " FGD, published | CPU s a run |"
    )
    print("|---|---|" + "---:|" * 6)
    ahead = True
    for name in names:
        trace = read_trace(files[name])
        for placement in args.placements.split(","):
            begun = time.process_time()
            found = [
                pack(trace, nodes, placement=placement, seed=42 + i, arrive_percent=100)
                for i in range(args.seeds)
            ]
            took = (time.process_time() - begun) / args.seeds
            got = [one.allocated_percent for one in found]
            known = published[name]
            if placement == "default":
                ahead &= mean(got) >= known["06-FGD"]
            print(
                f"| {name} | {placement} | {mean(got):.2f} | {min(got):.2f} | {max(got):.2f} |"
                f" {known['05-BestFit']:.2f} | {known['06-FGD']:.2f} | {took:.1f} |",
                flush=True,
            )
    missing = sorted(set(published) - set(files))
    if missing and not args.workloads:
        print(f"Published, but not in {folder}: {', '.join(missing)}")
    return 0 if ahead else 1


def _published(path: Path) -> dict[str, dict[str, float]]:
    """Mean over the seeds of the allocation at 100 % arrived, by workload and policy."""
    values: dict[str, dict[str, list[float]]] = {}
    with gzip.open(path, "rt") as text:
        for row in csv.DictReader(text):
            name = row["workload"].removeprefix(_PREFIX)
            values.setdefault(name, {}).setdefault(row["sc_policy"], []).append(float(row["100"]))
    return {
        name: {policy: mean(found) for policy, found in policies.items()}
        for name, policies in values.items()
    }


if __name__ == "__main__":
    sys.exit(main())
