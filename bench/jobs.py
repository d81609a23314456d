"""Jobs in figures: start-up latency, submissions a second, a long queue, short jobs back to back.

    python -m bench.jobs                        # everything, about four minutes
    python -m bench.jobs --only start,queue     # some of it
    python -m bench.jobs --only short --short-jobs 200 --slots 4

Starts a server of its own with declared GPUs in a throw-away folder; what it prints is one JSON
object per measure, and a table at the end. Nothing here runs in the tests.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import pty
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from bench.tracking.servers import free_port

ROOT = Path(__file__).resolve().parents[1]
MEASURES = ("start", "submit", "queue", "short")


@dataclass
class Server:
    """A server with declared GPUs, alone on its home folder."""

    slots: int
    home: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="yard-bench-")))
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Server:
        command = [sys.executable, "-m", "trackyard.cli.main", "up", "--home", str(self.home)]
        command += ["--port", str(self.port), "--gpus", str(self.slots)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        with (self.home / "bench.log").open("wb") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                if httpx.get(f"http://127.0.0.1:{self.port}/ready").status_code == 200:
                    break
            except httpx.HTTPError:
                time.sleep(0.05)
        token = (self.home / "token").read_text().strip()
        self.client = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}",
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
        )
        # The nodes are there once the scheduler has looked.
        while not self.get("/api/v1/cluster")["totals"]["gpus"]:
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process is not None
        # What runs would outlive the server: that is what it is made for.
        for state in ("queued", "starting", "running"):
            jobs = self.get("/api/v1/jobs", state=state, limit=20000)["jobs"]
            for name in {job["array_id"] or job["job_id"] for job in jobs}:
                self.post(f"/api/v1/jobs/{name}/stop", {"grace_seconds": 0})
        counts = {"running": 1, "starting": 0}
        while counts["running"] or counts["starting"]:
            counts = self.get("/api/v1/jobs", limit=1)["counts"]
            time.sleep(0.2)
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        shutil.rmtree(self.home, ignore_errors=True)

    def get(self, path: str, **params: Any) -> Any:
        """GET and return the JSON."""
        return self.client.get(path, params=params).raise_for_status().json()

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """POST and return the JSON."""
        return self.client.post(path, json=body).raise_for_status().json()

    def submit(self, **wish: Any) -> Any:
        """Submit a job that does nothing, unless told otherwise."""
        return self.post("/api/v1/jobs", {"command": ["true"], **wish})


def measure_start(server: Server, rounds: int) -> dict[str, Any]:
    """Submit to running on an idle slot, by the server's own clock and by the caller's."""
    inside, outside = [], []
    for _ in range(rounds):
        began = time.monotonic()
        job = server.submit(command=["sleep", "0.3"], gpus=1)["job_ids"][0]
        while True:
            found = server.get(f"/api/v1/jobs/{job}")["job"]
            if found["started_ms"]:
                break
            time.sleep(0.005)
        outside.append(time.monotonic() - began)
        inside.append((found["started_ms"] - found["submitted_ms"]) / 1000)
        time.sleep(0.6)
    return {
        "measure": "submit to running, idle slot, s",
        "median": round(statistics.median(inside), 3),
        "worst": round(max(inside), 3),
        "seen_by_caller_median": round(statistics.median(outside), 3),
        "bar": 0.5,
    }


async def _submit_many(server: Server, count: int, width: int) -> list[float]:
    took: list[float] = []
    waiting = iter(range(count))
    base, headers = server.client.base_url, server.client.headers
    async with httpx.AsyncClient(base_url=base, headers=headers, timeout=60) as client:

        async def one() -> None:
            for number in waiting:
                began = time.monotonic()
                body = {"command": ["true"], "gpus": 1, "hold": True, "name": f"held-{number}"}
                (await client.post("/api/v1/jobs", json=body)).raise_for_status()
                took.append(time.monotonic() - began)

        await asyncio.gather(*(one() for _ in range(width)))
    return took


def measure_submit(server: Server, count: int) -> dict[str, Any]:
    """Submissions a second, eight callers at once; each is durable when it is answered."""
    began = time.monotonic()
    took = asyncio.run(_submit_many(server, count, 8))
    seconds = time.monotonic() - began
    return {
        "measure": "submissions a second, 8 callers",
        "rate": round(count / seconds, 1),
        "p99_s": round(sorted(took)[int(len(took) * 0.99) - 1], 3),
        "bar": 50,
    }


def measure_queue(server: Server, count: int) -> dict[str, Any]:
    """A queue of many jobs: how long a pass and a list take."""
    each = 2000
    for number in range(0, count, each):
        wish = {"array": f"0-{min(each, count - number) - 1}", "gpus": server.slots}
        server.submit(command=["sleep", "600"], name=f"many-{number}", **wish)
    time.sleep(1.5)
    passes, lists, pages, typed, drawn = [], [], [], [], []
    for _ in range(7):
        server.submit(command=["sleep", "600"], gpus=1)
        time.sleep(0.8)
        passes.append(server.get("/api/v1/cluster")["pass_seconds"])
        began = time.monotonic()
        found = server.get("/api/v1/jobs", limit=100)
        pages.append(time.monotonic() - began)
        began = time.monotonic()
        whole = server.get("/api/v1/jobs", limit=20000)
        lists.append(time.monotonic() - began)
        typed.append(_yard_ps(server, is_terminal=False))
        drawn.append(_yard_ps(server, is_terminal=True))
        assert found["counts"]["queued"] >= count - server.slots
        assert len(whole["jobs"]) >= count
    return {
        "measure": f"a queue of {count}",
        "pass_median_s": round(statistics.median(passes), 3),
        "pass_worst_s": round(max(passes), 3),
        "first_page_median_s": round(statistics.median(pages), 3),
        "all_of_them_median_s": round(statistics.median(lists), 3),
        "yard_ps_median_s": round(statistics.median(typed), 3),
        "yard_ps_worst_s": round(max(typed), 3),
        "yard_ps_in_a_terminal_median_s": round(statistics.median(drawn), 3),
        "bar": "pass 0.1, yard ps 0.3",
    }


def _yard_ps(server: Server, *, is_terminal: bool) -> float:
    """Seconds that `yard ps` takes as a user types it: a whole process."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TERM": "xterm"}
    environment["YARD_URL"] = str(server.client.base_url)
    environment["YARD_TOKEN"] = (server.home / "token").read_text().strip()
    ours, theirs = pty.openpty() if is_terminal else os.pipe()
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "trackyard.cli.main", "ps"],
        env=environment,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    printed = b""
    # A terminal whose last writer has gone answers with an error instead of an end.
    with contextlib.suppress(OSError):
        while data := os.read(ours, 65536):
            printed += data
    assert process.wait() == 0
    took = time.monotonic() - began
    os.close(ours)
    assert printed.count(b"\n") > 100
    return took


def measure_short(server: Server, count: int, seconds: float) -> dict[str, Any]:
    """Short jobs back to back: what part of the slots' time was spent running commands."""
    wish = {"command": ["sleep", str(seconds)], "gpus": 1, "array": f"0-{count - 1}"}
    array = server.submit(**wish)["array_id"]
    while server.get("/api/v1/jobs", array=array, limit=1)["counts"]["succeeded"] < count:
        time.sleep(0.5)
    jobs = server.get("/api/v1/jobs", array=array, limit=20000)["jobs"]
    first = min(job["started_ms"] for job in jobs)
    last = max(job["ended_ms"] for job in jobs)
    busy = count * seconds / ((last - first) / 1000 * server.slots)
    assert all(job["attempt"] == 1 for job in jobs)
    return {
        "measure": f"{count} jobs of {seconds:g} s on {server.slots} slots",
        "slots_busy": round(busy, 3),
        "wall_s": round((last - first) / 1000, 1),
        "bar": 0.9,
    }


def main() -> None:
    """Measure what is asked for, each on a server of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(MEASURES))
    parser.add_argument("--slots", type=int, default=12, help="declared GPUs for short jobs")
    parser.add_argument("--short-jobs", type=int, default=1000)
    parser.add_argument("--queue", type=int, default=10_000)
    args = parser.parse_args()
    chosen = args.only.split(",")
    work = {
        "start": (2, lambda server: measure_start(server, 10)),
        "submit": (2, lambda server: measure_submit(server, 500)),
        "queue": (2, lambda server: measure_queue(server, args.queue)),
        "short": (args.slots, lambda server: measure_short(server, args.short_jobs, 2.0)),
    }
    for name in MEASURES:
        if name in chosen:
            slots, measure = work[name]
            with Server(slots) as server:
                print(json.dumps({"name": name, **measure(server)}), flush=True)


if __name__ == "__main__":
    main()
