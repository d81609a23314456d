"""Sixty real jobs beside the same sixty in the simulator: completion times and order of starts.

    python -m bench.live_vs_simulated                  # about three minutes
    python -m bench.live_vs_simulated --seed 7 --jobs 30 --gpus 2

Starts a server of its own with declared GPUs, submits jobs that sleep, of several sizes, classes
and teams, at moments drawn from a seed, and waits for all of them. Then it replays the list, as it
was really submitted, under the same policy, shares and stated run times, twice: with run times as
planned and one cost of starting and ending a process for all (the median of the live jobs), and
at the moments of the live passes, with the time that each live job really held its GPUs. The
second leaves the decisions alone to differ. Nothing here runs in the tests.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec

from bench.jobs import Server
from trackyard.core.job import Job, PriorityClass
from trackyard.core.resources import ResourceRequest
from trackyard.scheduling import PassScheduler, Snapshot, Team, WaitingJob
from trackyard.server.settings import Settings
from trackyard.server.startup.engines import policy
from trackyard.simulate.cluster import read_cluster
from trackyard.simulate.replay import Replay, Setting
from trackyard.simulate.trace import JobTrace, TraceJob

TEAMS = {"blue": 1.0, "green": 2.0}
SIZES = (1, 1, 1, 1, 1, 1, 2, 2, 2, 4)
CLASSES = ("low", "normal", "normal", "normal", "high")
#: Live starts closer together than this count as one moment: a pass admits several at once, and
#: those that it admits after another's end follow within a second.
TIE_SECONDS = 1.0
#: Averages may differ by so many per cent.
MOST_PERCENT = 5.0
#: What came about so shortly before a pass wrote its starts was not yet there when it looked.
UNSEEN_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Planned:
    """One job of the list."""

    name: str
    at: float
    seconds: float
    gpus: int
    team: str
    priority: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What became of a live job, in seconds from the first submission."""

    submitted: float
    started: float
    ended: float


def plan(seed: int, jobs: int, within: float, gpus: int) -> list[Planned]:
    """Draw a list of jobs."""
    draw = random.Random(seed)
    found = [
        Planned(
            name=f"job{number:02d}",
            at=round(draw.uniform(0, within), 2),
            seconds=round(draw.uniform(2, 10), 1),
            gpus=min(draw.choice(SIZES), gpus),
            team=draw.choice(sorted(TEAMS)),
            priority=draw.choice(CLASSES),
        )
        for number in range(jobs)
    ]
    return sorted(found, key=lambda job: job.at)


def run_live(server: Server, jobs: list[Planned]) -> dict[str, Seen]:
    """Submit each job at its moment, wait for all, and return what became of them."""
    for team, share in TEAMS.items():
        server.post("/api/v1/teams", {"name": team})
        server.client.put(f"/api/v1/teams/{team}/share", json={"share": share}).raise_for_status()
    began = time.monotonic()
    ids: dict[str, str] = {}
    for job in jobs:
        time.sleep(max(0.0, began + job.at - time.monotonic()))
        body = {
            "command": ["sleep", str(job.seconds)],
            "name": job.name,
            "team": job.team,
            "gpus": job.gpus,
            "priority": job.priority,
            "estimate_seconds": job.seconds,
        }
        ids[job.name] = server.post("/api/v1/jobs", body)["jobs"][0]["job_id"]
    counts = {"queued": 1}
    while any(counts.get(state) for state in ("queued", "starting", "running")):
        time.sleep(1.0)
        counts = server.get("/api/v1/jobs", limit=1, all="1")["counts"]
    pages = {name: server.get(f"/api/v1/jobs/{job}") for name, job in ids.items()}
    first = min(page["job"]["submitted_ms"] for page in pages.values())
    return {name: _seen(page, first) for name, page in pages.items()}


def _seen(page: dict[str, Any], first_ms: int) -> Seen:
    job, attempt = page["job"], page["attempts"][0]
    assert job["state"] == "succeeded", job
    return Seen(
        submitted=(job["submitted_ms"] - first_ms) / 1000,
        started=(attempt["admitted_ms"] - first_ms) / 1000,
        ended=(job["ended_ms"] - first_ms) / 1000,
    )


class ClassedReplay(Replay):
    """A replay whose jobs have classes and state their run times, as the live ones do."""

    def __init__(self, trace: JobTrace, gpus: int, setting: Setting, jobs: list[Planned]) -> None:
        super().__init__(trace, read_cluster(str(gpus)), setting)
        planned = {job.name: job for job in jobs}
        enter = self._scheduler.submit

        def submit(waiting: WaitingJob) -> None:
            mine = planned[waiting.job.id]
            job = replace(
                waiting.job,
                priority=PriorityClass[mine.priority.upper()],
                estimate_seconds=mine.seconds,
                preemptible=False,
            )
            enter(replace(waiting, job=job))

        self._scheduler.submit = submit  # type: ignore[method-assign]


def run_simulated(
    jobs: list[Planned], live: dict[str, Seen], gpus: int, seconds: dict[str, float]
) -> dict[str, Seen]:
    """Replay the jobs as they were submitted, each for so many seconds."""
    trace = JobTrace(
        name="live",
        format="live",
        jobs=tuple(
            TraceJob(
                id=job.name,
                submitted_at=live[job.name].submitted,
                duration=seconds[job.name],
                gpus=job.gpus,
                team=job.team,
                name=job.name,
            )
            for job in sorted(jobs, key=lambda job: live[job.name].submitted)
        ),
    )
    setting = Setting(
        policy=policy(Settings()),
        teams=tuple(Team(id=team, weight=share) for team, share in TEAMS.items()),
    )
    outcome = ClassedReplay(trace, gpus, setting, jobs).run()
    return {
        lived.source.id: Seen(
            submitted=lived.source.submitted_at,
            started=lived.first_start,
            ended=lived.ended_at,
        )
        for lived in outcome.jobs
    }


def run_at_moments(jobs: list[Planned], live: dict[str, Seen], gpus: int) -> dict[str, Seen]:
    """Let the scheduler decide whenever a live pass started something, on what it could see."""
    scheduler = PassScheduler(
        Snapshot(
            now=0.0,
            nodes=read_cluster(str(gpus)),
            teams=tuple(Team(id=team, weight=share) for team, share in TEAMS.items()),
            policy=policy(Settings()),
        ),
        keep_fragmentation=False,
    )
    coming = sorted(jobs, key=lambda job: live[job.name].submitted)
    ends: list[tuple[float, str]] = []
    found: dict[str, Seen] = {}
    moments = sorted({seen.started for seen in live.values()})
    while coming or ends:
        # Where live has nothing more to start, whoever is left starts as others end.
        now = moments.pop(0) if moments else ends[0][0] + UNSEEN_SECONDS
        seen_until = now - UNSEEN_SECONDS
        while ends and ends[0][0] <= seen_until:
            at, name = heappop(ends)
            scheduler.finish(name, at=at)
        while coming and live[coming[0].name].submitted <= seen_until:
            scheduler.submit(WaitingJob(job=_as_job(coming.pop(0), live)))
        for pending, _, _ in scheduler.step(now).started:
            name = pending.waiting.job.id
            held = live[name].ended - live[name].started
            found[name] = Seen(live[name].submitted, now, now + held)
            heappush(ends, (now + held, name))
    return found


def _as_job(planned: Planned, live: dict[str, Seen]) -> Job:
    return Job(
        id=planned.name,
        team=planned.team,
        name=planned.name,
        priority=PriorityClass[planned.priority.upper()],
        request=ResourceRequest(gpus=planned.gpus),
        submitted_at=live[planned.name].submitted,
        estimate_seconds=planned.seconds,
        preemptible=False,
    )


def out_of_order(live: dict[str, Seen], simulated: dict[str, Seen]) -> list[tuple[str, str]]:
    """Return the pairs that started the other way round, ties left out."""
    found = []
    for one, other in combinations(live, 2):
        seen = live[one].started - live[other].started
        foreseen = simulated[one].started - simulated[other].started
        if min(abs(seen), abs(foreseen)) > TIE_SECONDS and (seen > 0) != (foreseen > 0):
            found.append((one, other))
    return found


def average(seen: dict[str, Seen]) -> float:
    """Average completion time."""
    return statistics.fmean(one.ended - one.submitted for one in seen.values())


def holds(result: dict[str, Any]) -> bool:
    """Say whether live and simulated agree.

    Averages are within 5 % in both replays. The order of starts is the same where the simulator
    decides when the live queue did: with planned run times, what decides who is next (which team
    has used less, whether a job was there before another ended) ties within a pass and a start.
    """
    averages = [abs(result[name]["difference_percent"]) for name in ("planned", "passes")]
    return max(averages) <= MOST_PERCENT and not result["passes"]["pairs_out_of_order"]


def main() -> int:
    """Run both, print how far they are apart and say whether that is near enough."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--gpus", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--within", type=float, default=60.0, help="seconds of submissions")
    parser.add_argument("--keep", type=Path, help="a file for what the live jobs did")
    parser.add_argument("--again", type=Path, help="compare with such a file, run nothing live")
    args = parser.parse_args()
    jobs = plan(args.seed, args.jobs, args.within, args.gpus)
    began = time.monotonic()
    if args.again:
        live = msgspec.json.decode(args.again.read_bytes(), type=dict[str, Seen])
    else:
        with Server(args.gpus) as server:
            live = run_live(server, jobs)
    took = time.monotonic() - began
    if args.keep:
        args.keep.write_bytes(msgspec.json.encode(live))
    costs = {job.name: live[job.name].ended - live[job.name].started - job.seconds for job in jobs}
    cost = statistics.median(costs.values())
    constant = {job.name: job.seconds + cost for job in jobs}
    replays = {
        "planned": run_simulated(jobs, live, args.gpus, constant),
        "passes": run_at_moments(jobs, live, args.gpus),
    }
    result: dict[str, Any] = {
        "jobs": len(jobs),
        "gpus": args.gpus,
        "seed": args.seed,
        "live_average_seconds": round(average(live), 2),
        "cost_seconds": [round(pick(costs.values()), 2) for pick in (min, statistics.median, max)],
        "load": round(os.getloadavg()[0], 1),
        "took_seconds": round(took, 1),
    }
    pairs = len(jobs) * (len(jobs) - 1) // 2
    print(f"live     {average(live):8.2f} s on average; a start and an end cost {cost:.2f} s")
    for name, simulated in replays.items():
        wrong = out_of_order(live, simulated)
        difference = 100 * (average(live) / average(simulated) - 1)
        result[name] = {
            "average_seconds": round(average(simulated), 2),
            "difference_percent": round(difference, 2),
            "pairs_out_of_order": len(wrong),
        }
        print(
            f"{name:<8} {average(simulated):8.2f} s on average ({difference:+.2f} %);"
            f" {len(wrong)} of {pairs} pairs started the other way round (ties: {TIE_SECONDS:g} s)"
        )
        for one, other in wrong[:5]:
            print(
                f"  {one} {live[one].started:.1f} s, {other} {live[other].started:.1f} s;"
                f" simulated {simulated[one].started:.1f} s and {simulated[other].started:.1f} s"
            )
    print(json.dumps(result))
    return 0 if holds(result) else 1


if __name__ == "__main__":
    sys.exit(main())
