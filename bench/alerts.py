"""What watching costs: a pass over many running runs, with a rule each and rules of the team.

python -m bench.alerts --runs 10000 [--postgresql URL]

Prints the milliseconds of processor time of a first look, of looks where nothing is new, of looks
where a tenth of the runs has new points, and of one where a hundred rules fire.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from trackyard.core.clock import SystemClock
from trackyard.notify.alerts import loop as loops
from trackyard.notify.alerts.loop import AlertLoop
from trackyard.store.database import Database, Tx
from trackyard.store.migrate import prepare


def seed(tx: Tx, runs: int) -> None:
    """Write a team with running runs, a metric and a rule of its own for each."""
    tx.run(
        "INSERT INTO teams (id, name, created_ms, default_experiment_id, settings)"
        " VALUES (1, 'bench', 1, 1, '{}')"
    )
    tx.run(
        "INSERT INTO experiments (id, team_id, name, artifact_location, lifecycle, created_ms,"
        " updated_ms) VALUES (1, 1, 'bench', '', 'active', 1, 1)"
    )
    tx.run("INSERT INTO names (id, name) VALUES (1, 'loss')")
    tx.many(
        "INSERT INTO runs (id, uuid, experiment_id, team_id, name, user_name, status, start_ms,"
        " lifecycle, artifact_uri) VALUES (?, ?, 1, 1, ?, 'ada', 'RUNNING', 1, 'active', '')",
        [(n, f"{n:032x}", f"run-{n}") for n in range(1, runs + 1)],
    )
    tx.many(
        "INSERT INTO metric_latest (run_id, name_id, step, time_ms, value, least, most)"
        " VALUES (?, 1, 1, 1, 2.0, 2.0, 2.0)",
        [(n,) for n in range(1, runs + 1)],
    )
    rules = [(f"al-{n}", f"{n:032x}", "loss > 10 for 1s") for n in range(1, runs + 1)]
    rules += [
        (f"team-{n}", "", text) for n, text in enumerate(("loss > 50", "nan", "no loss for 1h"))
    ]
    tx.many(
        "INSERT INTO alert_rules (id, team_id, scope, text, via, severity, cooldown_ms, group_ms,"
        " escalate_via, enabled, actor, created_ms)"
        " VALUES (?, 1, ?, ?, '[]', 'warning', 600000, 0, '[]', 1, 'ada', 1)",
        rules,
    )


async def measure(url: str, runs: int) -> None:
    """Seed a database and time passes."""
    database = Database(url, clock=SystemClock())
    database.start()
    await database.write(lambda tx: seed(tx, runs), is_long=True)
    loops.FULL_SECONDS = 0.0
    loop = AlertLoop(database, is_leader=lambda: True, prove=lambda _: None, told=lambda: None)

    async def look() -> float:
        # The processor's time, so that other programs on the machine change nothing.
        began = time.process_time()
        await loop.step()
        return (time.process_time() - began) * 1000

    def log(tx: Tx, share: int, value: float) -> None:
        tx.run(
            "UPDATE metric_latest SET step = step + 1, time_ms = time_ms + 1, value = ?,"
            " most = CASE WHEN most < ? THEN ? ELSE most END WHERE run_id % ? = 0",
            (value, value, value, share),
        )

    print(f"{runs} running runs, a rule each and 3 of the team")
    print(f"first look           {await look():8.0f} ms")
    quiet = [await look() for _ in range(5)]
    print(f"nothing is new       {statistics.median(quiet):8.0f} ms")
    busy = []
    for _ in range(5):
        await database.write(lambda tx: log(tx, 10, 3.0), is_long=True)
        busy.append(await look())
    print(f"a tenth has points   {statistics.median(busy):8.0f} ms")
    await database.write(lambda tx: log(tx, 100, 20.0), is_long=True)
    await look()
    await asyncio.sleep(1.1)
    print(f"one in 100 fires     {await look():8.0f} ms")
    rows = await database.read(lambda reader: reader.one("SELECT count(*) FROM alert_incidents"))
    print(f"incidents            {rows[0] if rows else 0:8}")
    await database.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--postgresql", metavar="URL", default="")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="yard-bench-alerts-"))
    try:
        url = args.postgresql or f"sqlite:///{folder / 'bench.db'}"
        prepare(url)
        asyncio.run(measure(url, args.runs))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
