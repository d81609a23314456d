"""`python -m bench.tracking`: measure the servers side by side in one run and print a table."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.tracking import footprint, reads, report, writes
from bench.tracking.servers import PEERS, ROOT, BenchError, Server, discard, start

Measure = Callable[[Server, float], writes.Figures]
MEASURES: dict[str, Measure] = {
    "ingest": writes.ingest,
    "ingest_wide": writes.ingest_wide,
    "single": writes.single,
    "runs": writes.runs,
    "search": reads.search,
    "fetch": reads.fetch,
    "history": reads.history,
    "history_fresh": reads.history_fresh,
    "chart": reads.chart,
    "crowd": writes.crowd,
    "thousand": writes.thousand,
    "search_large": reads.search_large,
}
REPEATED = {"ingest", "ingest_wide", "single", "runs"}
OURS_ALONE = {"chart", "thousand", "search_large"}
NAMES = ["startup", *MEASURES, "disk", "artifact"]
MARKS = ("<!-- tracking table -->", "<!-- end of tracking table -->")
DURABILITY = {
    "mlflow": "SQLite rollback journal, synchronous FULL: a commit is on disk when answered",
    "fasttrackml": "SQLite WAL, synchronous NORMAL: no sync before the answer",
    "trackyard": "SQLite WAL, synchronous FULL, group commit: on disk when answered",
}


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.tracking", description=__doc__)
    parser.add_argument("--only", default=",".join(NAMES), help="measures, comma separated")
    parser.add_argument("--peers", default=",".join(PEERS), help="servers, comma separated")
    parser.add_argument("--seconds", type=float, default=5.0, help="time for each measure")
    parser.add_argument("--warm", type=float, default=4.0, help="of each of four warm-ups")
    parser.add_argument("--rounds", type=int, default=3, help="of each write measure; the middle")
    parser.add_argument("--artifact-gb", type=float, default=2.0, help="size of the artifact")
    parser.add_argument("--disk-points", type=int, default=0, help="points for the disk measure")
    parser.add_argument("--folder", type=Path, help="where the servers keep their files")
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results/tracking.json")
    parser.add_argument("--docs", type=Path, help="write the table between the marks of this file")
    return parser.parse_args(arguments)


def measure_all(options: argparse.Namespace, folder: Path) -> report.Results:
    """Take each measure of every server in turn; who is not measured is frozen meanwhile.

    Whatever else the machine does then falls on all of them alike.
    """
    wanted = options.only.split(",")
    servers: dict[str, Server] = {}
    results: report.Results = {}
    try:
        for peer in options.peers.split(","):
            server = servers[peer] = start(peer, folder)
            figures = results[peer] = {
                "server": {"version": server.version, "durability": DURABILITY[peer]}
            }
            if "startup" in wanted:
                figures["startup"] = _take(peer, "startup", partial(footprint.startup, server, 2))
            # Servers load code and open pools on first requests; that is not what is measured.
            for warmer in (writes.single, writes.ingest, writes.runs, writes.single):
                _take(peer, "warm-up", partial(warmer, server, options.warm))
            server.freeze()
        for name in (n for n in wanted if n in MEASURES or n == "artifact"):
            _measure(name, servers, results, options)
    finally:
        for server in servers.values():
            server.thaw()
            server.stop()
    if "disk" in wanted:
        for peer, figures in results.items():
            points = options.disk_points or (1_000_000 if peer == "trackyard" else 50_000)
            figures["disk"] = _take(peer, "disk", partial(footprint.disk, peer, folder, points))
    return results


def _measure(
    name: str, servers: dict[str, Server], results: report.Results, options: argparse.Namespace
) -> None:
    taken: dict[str, list[writes.Figures]] = {peer: [] for peer in servers}
    size = int(options.artifact_gb * 1024) << 20
    for _ in range(options.rounds if name in REPEATED else 1):
        for peer, server in servers.items():
            if name in OURS_ALONE and peer != "trackyard":
                continue
            server.thaw()
            work = (
                partial(footprint.artifact, server, size)
                if name == "artifact"
                else partial(MEASURES[name], server, options.seconds)
            )
            taken[peer].append(_take(peer, name, work))
            server.freeze()
    for peer, rounds in taken.items():
        if rounds:
            results[peer][name] = report.middle(name, rounds)


def _take(peer: str, name: str, work: Callable[[], writes.Figures]) -> writes.Figures:
    began = time.perf_counter()
    try:
        figures = work()
    except BenchError as error:
        figures = {"error": str(error)}
    short = {k: round(v, 3) if isinstance(v, float) else v for k, v in figures.items()}
    print(f"{peer:12} {name:13} {time.perf_counter() - began:6.1f} s  {short}", file=sys.stderr)
    return figures


def main() -> int:
    """Measure, print, write."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no server is left behind
    options = parse()
    unknown = set(options.only.split(",")) - set(NAMES)
    if unknown:
        print(f"no such measure: {', '.join(unknown)}; there are {', '.join(NAMES)}")
        return 2
    folder = options.folder or Path(tempfile.mkdtemp(prefix="bench-", dir=_base()))
    try:
        results = measure_all(options, folder)
    finally:
        if options.folder is None:
            discard(folder)
    versions = {peer: str(found["server"]["version"]) for peer, found in results.items()}
    text = report.table(results, versions)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    about = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": os.getloadavg(),
        "seconds": options.seconds,
        "when": time.strftime("%Y-%m-%d"),
    }
    options.out.write_text(json.dumps({"about": about, "results": results}, indent=1) + "\n")
    options.out.with_suffix(".md").write_text(text + "\n")
    if options.docs:
        _into_docs(options.docs, text)
    print(text)
    failed = [
        f"{p} {n}: {f['error']}"
        for p, fs in results.items()
        for n, f in fs.items()
        if "error" in f
    ]
    for line in failed:
        print(f"not measured: {line}")
    return 1 if failed else 0


def _base() -> Path:
    base = ROOT / ".cache" / "bench"
    base.mkdir(parents=True, exist_ok=True)
    return base


def _into_docs(path: Path, text: str) -> None:
    whole = path.read_text()
    before, _, rest = whole.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    path.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{after}")


if __name__ == "__main__":
    sys.exit(main())
