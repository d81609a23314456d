"""How long `yard import mlflow` takes for a million points, from each kind of store.

    python bench/moving.py [--points 1000000] [--database postgresql://…]

The stores are those that MLflow itself made for the tests (tests/data/moving), with points added
to them the way MLflow keeps them: rows of `metrics`, or lines of a metric's file. Prints seconds
of the whole command, the start of the interpreter included.
"""

import argparse
import json
import math
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.acceptance.moving.stores import Store, new_team, unpack, yard
from tests.acceptance.serving import TrackingServer

RUNS, KEYS = 20, 10
NOW = 1_700_000_000_000


def values(count: int) -> list[tuple[int, int, float]]:
    return [
        (step, NOW + 100 * step, math.exp(-step / count) + 1e-3 * (step % 7))
        for step in range(count)
    ]


def fill_sql(store: Store, points: int) -> None:
    conn = sqlite3.connect(store.folder / "mlflow.db")
    each = points // (RUNS * KEYS)
    run = conn.execute("SELECT * FROM runs WHERE lifecycle_stage = 'active'").fetchone()
    marks = ",".join("?" * len(run))
    for number in range(RUNS):
        run_id = f"f{number:031x}"
        conn.execute(f"INSERT INTO runs VALUES ({marks})", (run_id, *run[1:]))
        for key in range(KEYS):
            rows = [(f"k{key}", value, at, run_id, step) for step, at, value in values(each)]
            conn.executemany(
                "INSERT INTO metrics (key, value, timestamp, run_uuid, step, is_nan)"
                " VALUES (?, ?, ?, ?, ?, 0)",
                rows,
            )
            conn.execute(
                "INSERT INTO latest_metrics (key, value, timestamp, run_uuid, step, is_nan)"
                " VALUES (?, ?, ?, ?, ?, 0)",
                rows[-1],
            )
    conn.commit()
    conn.close()


def fill_folder(store: Store, points: int) -> None:
    base = next((store.folder / "mlruns").glob("*/*/metrics")).parent
    each = points // (RUNS * KEYS)
    lines = "".join(f"{at} {value!r} {step}\n" for step, at, value in values(each))
    meta = (base / "meta.yaml").read_text()
    for number in range(RUNS):
        run_id = f"f{number:031x}"
        folder = base.parent / run_id
        (folder / "metrics").mkdir(parents=True)
        (folder / "meta.yaml").write_text(meta.replace(base.name, run_id))
        for key in range(KEYS):
            (folder / "metrics" / f"k{key}").write_text(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--database", default="", help="a PostgreSQL in place of SQLite")
    args = parser.parse_args()
    for name, fill in (("sql3", fill_sql), ("folder3", fill_folder)):
        with tempfile.TemporaryDirectory(prefix="yard-bench-") as folder:
            store = unpack(name, Path(folder))
            fill(store, args.points)
            server = TrackingServer(Path(folder) / "home", database=args.database)
            server.start()
            try:
                token = new_team(server, f"bench-{name}")
                for turn in ("first", "second"):
                    began = time.monotonic()
                    report = yard(server, "import", "mlflow", "--from", store.where, token=token)
                    took = time.monotonic() - began
                    told = {"store": name, "pass": turn, "seconds": round(took, 1)}
                    print(json.dumps({**told, "points": report["counts"]["points"]}))
            finally:
                server.stop()


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as fault:
        sys.exit(str(fault))
