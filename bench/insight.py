"""Fills a server with many runs and events, and times the routes of logbook pages and digests.

python -m bench.insight --runs 10000 --events 1000000 [--home .cache/bench/insight]

Starts `yard up` twice on a home of its own: once to make it, once to be measured. Figures are the
best and the median of so many calls, over HTTP, one after the other, and the processor time that
the server used, which is what counts on a machine that is busy with other work.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trackyard.client.api import Api

DAY_MS, MINUTE_MS = 86_400_000, 60_000
#: Seconds that a page and the digest of a month may take.
PAGE_SECONDS, DIGEST_SECONDS = 0.3, 5.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--home", type=Path, help="kept and used again; a temporary one else")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        home = options.home or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if not (home / "bench.json").exists():
            home.mkdir(parents=True, exist_ok=True)
            with serving(home):
                pass
            made = fill(home / "trackyard.db", options.runs, options.events)
            (home / "bench.json").write_text(json.dumps(made))
        made = json.loads((home / "bench.json").read_text())
        with serving(home) as (api, pid):
            log_points(api, made["run_id"], made["start_ms"])
            measure(api, pid, made, options.rounds)


@contextlib.contextmanager
def serving(home: Path) -> Iterator[tuple[Api, int]]:
    """Run a server on a home for as long as it is needed; give its process id, too."""
    command = [sys.executable, "-m", "trackyard.cli.main", "up"]
    command += ["--home", str(home), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = next(
            found[1] for line in server.stdout if (found := re.search(r"ready at (\S+)", line))
        )
        yield Api(url, (home / "token").read_text().strip(), timeout=120), server.pid
    finally:
        server.terminate()
        server.wait(60)


def fill(path: Path, runs: int, events: int) -> dict[str, Any]:
    """Write runs, jobs and a month of events straight into the database."""
    rng = random.Random(1)
    now = int(time.time() * 1000)
    database = sqlite3.connect(path)
    (experiment,) = database.execute("SELECT min(id) FROM experiments").fetchone()
    names = [uuid.UUID(int=rng.getrandbits(128)).hex for _ in range(runs)]
    spec = json.dumps({"command": ["train"]})
    (spec_id,) = database.execute(
        "INSERT INTO job_specs (spec) VALUES (?) RETURNING id", (spec,)
    ).fetchone()
    starts = sorted(now - rng.randrange(29 * DAY_MS) - DAY_MS for _ in range(runs))
    per_run = max(12, events // runs)
    log: list[tuple[Any, ...]] = []
    for number, (run_id, start) in enumerate(zip(names, starts, strict=True)):
        job_id = f"j{number:010d}"
        database.execute(
            "INSERT INTO runs (uuid, experiment_id, team_id, name, user_name, status, start_ms,"
            " end_ms, lifecycle, artifact_uri) VALUES (?, ?, 1, ?, 'ada', 'FINISHED', ?, ?,"
            " 'active', 'mlflow-artifacts:/x')",
            (run_id, experiment, f"run-{number}", start, start + 90 * MINUTE_MS),
        )
        (job,) = database.execute(
            "INSERT INTO jobs (job_id, team_id, user_name, spec_id, name, state, queue, priority,"
            " held, not_before_ms, submitted_ms, run_uuid, array_id, array_cap, attempt, epoch,"
            " failures, interruptions, attained_ms, avoid, engine_note, version) VALUES (?, 1,"
            " 'ada', ?, ?, 'succeeded', 'default', 1, 0, 0, ?, ?, '', 0, 2, 2, 0, 1, 0, '[]', '',"
            " 1) RETURNING id",
            (job_id, spec_id, f"run-{number}", start, run_id),
        ).fetchone()
        attempts(database, job, job_id, start)
        log += story(number, run_id, start, per_run, node=[f"n{rng.randrange(200)}"])
    log.sort(key=lambda one: one[0])
    database.executemany(
        "INSERT INTO events (time_ms, team_id, actor, kind, subject, subject_id, data)"
        " VALUES (?, 1, ?, ?, ?, ?, ?)",
        log,
    )
    database.commit()
    database.close()
    print(f"{runs:,} runs, {len(log):,} events", flush=True)
    return {"run_id": names[-1], "start_ms": starts[-1], "events": len(log), "runs": runs}


def attempts(database: sqlite3.Connection, job: int, job_id: str, start: int) -> None:
    placement = json.dumps({"shares": [{"node": "n1", "gpus": [0], "gpu_milli": 1000}]})
    for number in (1, 2):
        began = start + (4 if number == 1 else 50) * MINUTE_MS
        database.execute(
            "INSERT INTO attempts (attempt_id, job, number, epoch, state, placement, members,"
            " admitted_ms, started_ms, ended_ms, saved, environment, token_id, claimed, notes,"
            " stalled, nan_seen, settled, step) VALUES (?, ?, ?, ?, 'succeeded', ?, 1, ?, ?, ?, 0,"
            " '{}', '', '', '[]', 0, 0, 1, 100)",
            (
                f"{job_id}-a{number}",
                job,
                number,
                number,
                placement,
                began,
                began,
                began + 40 * MINUTE_MS,
            ),
        )


def story(
    number: int, run_id: str, start: int, total: int, *, node: list[str]
) -> list[tuple[Any, ...]]:
    """Return a run's events: two attempts, checkpoints, and what was logged between them."""
    job_id = f"j{number:010d}"

    def job(minute: float, kind: str, **data: Any) -> tuple[Any, ...]:
        facts = {"name": f"run-{number}", "run_id": run_id, **data}
        time_ms = start + round(minute * MINUTE_MS)
        return (time_ms, "system", kind, "job", job_id, json.dumps(facts))

    lost = {"cause": "node_lost", "sentence": "The node went away.", "nodes": node}
    found = [
        job(0, "job.submitted", queue="default", gpus=8.0, nodes=1),
        job(4, "job.admitted", attempt=1, nodes=node, gpus=8.0, waited_ms=240_000),
        job(5, "job.running", attempt=1, nodes=node, resume_step=None),
        job(45, "attempt.lost", attempt=1, ran_ms=2_400_000, **lost),
        job(45, "job.requeued", attempt=1, sentence="again"),
        job(50, "job.admitted", attempt=2, nodes=node, gpus=8.0, waited_ms=0),
        job(51, "job.running", attempt=2, nodes=node, resume_step=800),
        job(52, "job.rolled_back", attempt=2, step=800, reached=900),
        job(90, "attempt.ended", attempt=2, cause="succeeded", nodes=node, ran_ms=2_340_000),
        job(90, "job.succeeded", attempts=2, wall_ms=5_100_000),
    ]
    rest = total - len(found)
    for at in range(rest):
        minute = 5 + 84 * at / rest
        if at % 3 == 0:
            attempt = 1 if minute < 45 else 2
            found.append(job(minute, "checkpoint.saved", attempt=attempt, step=20 * at))
        else:
            facts = json.dumps({"experiment_id": "0", "params": [], "tags": ["note"]})
            when = start + round(minute * MINUTE_MS)
            found.append((when, "ada", "run.logged", "run", run_id, facts))
    return found


def log_points(api: Api, run_id: str, start: int) -> None:
    """Give the measured run a curve of 20,000 points with a spike."""
    for first in range(0, 20_000, 1000):
        metrics = [
            {
                "key": "loss",
                "value": 9.0 if step == 12_000 else 2 - step / 20_000,
                "step": step,
                "timestamp": start + step * 240,
            }
            for step in range(first, first + 1000)
        ]
        api.mlflow("POST", "runs/log-batch", {"run_id": run_id, "metrics": metrics})


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(api: Api, pid: int, made: dict[str, Any], rounds: int) -> None:
    """Time each route, and say whether it keeps its promise."""
    run = f"/api/v1/runs/{made['run_id']}"
    asked: list[tuple[str, str, dict[str, Any], float]] = [
        ("logbook of a run", f"{run}/logbook", {}, PAGE_SECONDS),
        ("logbook of its lineage", f"{run}/logbook", {"lineage": 1}, PAGE_SECONDS),
        ("why it got worse", f"{run}/why-worse", {"step": 12_000}, PAGE_SECONDS),
        ("logbook of the team, 7 days", "/api/v1/logbook", {}, PAGE_SECONDS),
        ("the same, searched", "/api/v1/logbook", {"q": "run-99 lost"}, PAGE_SECONDS),
        ("digest of this week", "/api/v1/logbook/digest", {"week": "this"}, DIGEST_SECONDS),
        ("digest of last month", "/api/v1/logbook/digest", {"month": "last"}, DIGEST_SECONDS),
        ("digest of this month", "/api/v1/logbook/digest", {"month": "this"}, DIGEST_SECONDS),
        ("usage of this month", "/api/v1/usage", {"by": "team"}, PAGE_SECONDS),
        ("fleet over time, a week", "/api/v1/fleet/history", {}, PAGE_SECONDS),
        ("incidents", "/api/v1/incidents", {}, PAGE_SECONDS),
    ]
    heads = ("best", "median", "best of the server's processor", "promised")
    print(f"| {made['runs']:,} runs, {made['events']:,} events | {' | '.join(heads)} |")
    print("|---|---|---|---|---|")
    for name, path, query, promised in asked:
        times, spent = [], []
        for _ in range(rounds):
            began, used = time.perf_counter(), processor_seconds(pid)
            api.get(path, query)
            times.append(time.perf_counter() - began)
            spent.append(processor_seconds(pid) - used)
        middle = statistics.median(times)
        kept = "" if middle <= promised else " (missed)"
        print(
            f"| {name} | {min(times) * 1000:,.0f} ms | {middle * 1000:,.0f} ms{kept} |"
            f" {min(spent) * 1000:,.0f} ms | {promised * 1000:,.0f} ms |",
            flush=True,
        )


if __name__ == "__main__":
    main()
