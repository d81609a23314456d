"""Times usage reports and the fleet's map over 10,000 jobs and a million events.

python -m bench.usage [--jobs 10000] [--events 1000000] [--keep FILE] [--postgresql URL]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from trackyard.core.clock import SystemClock
from trackyard.fleet import nodes
from trackyard.insight.report import Filter
from trackyard.insight.service import Usage
from trackyard.store.database import Database, Tx
from trackyard.store.migrate import prepare
from trackyard.testing.engine import fake_node

DAY_MS, HOUR_MS = 86_400_000, 3_600_000
NODES, GPUS, TEAMS, USERS = 64, 8, 8, 40
ROUNDS = 7


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        path = options.keep or Path(folder) / "usage.db"
        url = options.postgresql or f"sqlite:///{path}"
        prepare(url)
        asyncio.run(_run(url, options))


async def _run(url: str, options: argparse.Namespace) -> None:
    database = Database(url, clock=SystemClock())
    database.start()
    try:
        if not await database.read(lambda reader: reader.one("SELECT 1 FROM jobs LIMIT 1")):
            await _seed(database, options.jobs, options.events)
        await _measure(database)
    finally:
        await database.close()


async def _measure(database: Database) -> None:
    usage, everybody = Usage(database), Filter()
    now = database.clock.time_ms()
    since = now - 30 * DAY_MS
    one = Filter(team="team-3")
    measures: dict[str, Callable[[], Awaitable[Any]]] = {
        "month by team": lambda: usage.report(since, now, ("team",), everybody),
        "month by job": lambda: usage.report(since, now, ("job",), everybody),
        "one team by user": lambda: usage.report(since, now, ("user",), one),
        "month by node": lambda: usage.report(since, now, ("node",), everybody),
        "month by week": lambda: usage.report(since, now, ("week",), everybody),
        "fleet, a month": lambda: usage.fleet(since, now, 240),
        "budgets counted": usage.count_budgets,
    }
    for name, measure in measures.items():
        times, spent = [], []
        for _ in range(ROUNDS):
            began, used = time.perf_counter(), time.process_time()
            await measure()
            times.append(1000 * (time.perf_counter() - began))
            spent.append(1000 * (time.process_time() - used))
        middle = statistics.median(times)
        print(f"{name:20} {middle:6.0f} ms (least {min(times):.0f}), CPU {min(spent):.0f} ms")


async def _seed(database: Database, jobs: int, events: int) -> None:
    dice = random.Random(7)
    now = database.clock.time_ms()
    begin = now - 30 * DAY_MS
    await database.write(lambda tx: _people(tx, begin))
    reports = [fake_node(f"g{number:02d}", gpus=GPUS) for number in range(NODES)]
    await database.write(lambda tx: nodes.record(tx, "local", reports))
    await database.write(lambda tx: _age(tx, begin))
    rows = list(_jobs(dice, jobs, begin, now))
    for low in range(0, len(rows), 2000):
        await database.write(lambda tx, low=low: _write_jobs(tx, rows[low : low + 2000]))
    for low in range(0, events, 20_000):
        await database.write(lambda tx, low=low: _write_events(tx, dice, low, events, begin))
    print(f"{jobs:,} jobs, {events:,} events, {NODES} nodes of {GPUS} GPUs")


def _people(tx: Tx, begin: int) -> None:
    tx.many(
        "INSERT INTO teams (id, name, created_ms, settings) VALUES (?, ?, ?, '{}')",
        [(team, f"team-{team}", begin) for team in range(1, TEAMS + 1)],
    )
    tx.run('INSERT INTO job_specs (id, spec) VALUES (1, \'{"command": ["train"], "gpus": 1}\')')
    tx.run(
        "INSERT INTO experiments (id, team_id, name, artifact_location, lifecycle, created_ms,"
        " updated_ms) VALUES (1, 1, 'vision', '', 'active', 0, 0)"
    )
    tx.run(
        "INSERT INTO budgets (team_id, gpu_hours, warn_at, hold, month, used_gpu_hours, used_cost,"
        " counted_ms, state, updated_ms) VALUES (1, 100000, 0.8, 1, '', 0, 0, 0, 'ok', 0)"
    )


def _age(tx: Tx, begin: int) -> None:
    tx.run("UPDATE nodes SET joined_ms = ?", (begin,))
    tx.run("UPDATE events SET time_ms = ? WHERE kind = 'node.joined'", (begin,))


def _jobs(dice: random.Random, jobs: int, begin: int, now: int) -> Iterator[tuple[Any, ...]]:
    """Jobs that never hold one GPU at once; some gangs of four whole nodes."""
    busy = [[begin] * GPUS for _ in range(NODES)]
    starts = sorted(begin + dice.randrange(now - begin) for _ in range(jobs))
    for number, start in enumerate(starts, 1):
        width, gang = dice.choice([1, 1, 1, 2, 4, 8]), 1
        if dice.random() < 0.03:
            width, gang = GPUS, 4
        end = min(start + int(dice.expovariate(1 / (2 * HOUR_MS))) + 60_000, now)
        shares = _place(dice, busy, start, width, gang) or _place(dice, busy, start, 1, 1)
        for node, gpus in shares:
            for gpu in gpus:
                busy[node][gpu] = end
        where = {
            "shares": [
                {"node": f"g{node:02d}", "gpus": gpus, "gpu_milli": 1000} for node, gpus in shares
            ]
        }
        state = dice.choices(["succeeded", "failed", "lost", "cancelled"], [80, 12, 4, 4])[0]
        causes = {"failed": "exit_code", "lost": "node_lost", "cancelled": "stopped"}
        cause = causes.get(state, state)
        yield (
            number,
            dice.randint(1, TEAMS),
            dice.randrange(USERS),
            start,
            end,
            state,
            cause,
            where,
        )


def _place(
    dice: random.Random, busy: list[list[int]], start: int, width: int, gang: int
) -> list[tuple[int, list[int]]]:
    first, found = dice.randrange(NODES), []
    for step in range(NODES):
        node = (first + step) % NODES
        free = [gpu for gpu in range(GPUS) if busy[node][gpu] <= start]
        if len(free) >= width:
            found.append((node, free[:width]))
        if len(found) == gang:
            return found
    return []


def _write_jobs(tx: Tx, rows: list[tuple[Any, ...]]) -> None:
    tx.many(
        "INSERT INTO runs (id, uuid, experiment_id, team_id, name, user_name, status, lifecycle,"
        " artifact_uri) VALUES (?, ?, 1, ?, '', '', 'FINISHED', 'active', '')",
        [(row[0], f"run{row[0]}", row[1]) for row in rows],
    )
    tx.many(
        "INSERT INTO jobs (id, job_id, team_id, user_name, spec_id, name, state, queue, priority,"
        " held, not_before_ms, submitted_ms, started_ms, ended_ms, run_uuid, array_id, array_cap,"
        " attempt, epoch, failures, interruptions, attained_ms, avoid, engine_note, version)"
        " VALUES (?, ?, ?, ?, 1, ?, 'succeeded', 'default', 2, 0, 0, ?, ?, ?, ?, '', 0, 1, 1, 0,"
        " 0, 0, '[]', '', 1)",
        [
            (r[0], f"j{r[0]}", r[1], f"user-{r[2]}", f"job-{r[0]}", r[3] - HOUR_MS, r[3], r[4],
             f"run{r[0]}")
            for r in rows
        ],
    )  # fmt: skip
    tx.many(
        "INSERT INTO attempts (attempt_id, job, number, epoch, state, placement, members,"
        " admitted_ms, launched_ms, started_ms, ended_ms, cause, saved, environment, token_id,"
        " claimed, notes, stalled, nan_seen, settled, unpacked_ms, first_step_ms)"
        " VALUES (?, ?, 1, 1, ?, ?, 1, ?, ?, ?, ?, ?, 0, '', '', '', '[]', 0, 0, 1, ?, ?)",
        [
            (f"j{r[0]}-a1", r[0], r[5], json.dumps(r[7]), r[3], r[3] + 1000, r[3] + 20_000, r[4],
             r[6], r[3] + 5000, r[3] + 50_000)
            for r in rows
        ],
    )  # fmt: skip
    tx.many(
        "INSERT INTO checkpoints (job, attempt, name, step, sequence, size_bytes, created_ms,"
        " blocked_ms) VALUES (?, 1, ?, ?, ?, 0, ?, 4000)",
        [
            (r[0], f"c{at}", at, at, moment)
            for r in rows
            for at, moment in enumerate(range(r[3] + HOUR_MS, r[4], HOUR_MS))
        ],
    )


def _write_events(tx: Tx, dice: random.Random, low: int, events: int, begin: int) -> None:
    kinds = ["run.logged", "job.admitted", "checkpoint.saved", "artifact.written", "job.stalled"]
    data = json.dumps({"attempt": 1, "name": "a job", "run_id": "r" * 32})
    tx.many(
        "INSERT INTO events (time_ms, team_id, actor, kind, subject, subject_id, data)"
        " VALUES (?, ?, 'system', ?, ?, ?, ?)",
        [
            (begin + at * 30 * DAY_MS // events, dice.randint(1, TEAMS), kind,
             "job" if kind.startswith("job") else "run", f"j{dice.randint(1, 10_000)}", data)
            for at in range(low, min(low + 20_000, events))
            for kind in dice.choices(kinds, [70, 10, 10, 9.8, 0.2])
        ],
    )  # fmt: skip


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument(
        "--keep", type=Path, help="keep the database in this file, or use it again"
    )
    parser.add_argument("--postgresql", help="address of an empty PostgreSQL database instead")
    return parser.parse_args()


if __name__ == "__main__":
    main()
