"""Footprint measures: disk per point, memory while an artifact streams, start and idle memory."""

from __future__ import annotations

import http.client
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

from bench.tracking import shapes
from bench.tracking.load import Client, drive
from bench.tracking.servers import ROOT, BenchError, Server, process_tree, start
from bench.tracking.writes import Figures, random_walk

CHUNK = 1 << 20


def resident(pid: int) -> int:
    """Return the resident bytes of a process tree, cheaply enough to sample."""
    total = 0
    for member in process_tree(pid):
        try:
            fields = Path(f"/proc/{member}/statm").read_text().split()
        except OSError:
            continue
        total += int(fields[1]) * os.sysconf("SC_PAGE_SIZE")
    return total


class Sampler:
    """Samples a server's resident memory until told to stop; keeps first and highest."""

    def __init__(self, server: Server) -> None:
        """Take the first sample and begin."""
        self._pid = server.process.pid
        self.first = self.peak = resident(self._pid)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            self.peak = max(self.peak, resident(self._pid))

    def grown(self) -> int:
        """Stop and return how many bytes the server grew at most."""
        self._stop.set()
        self._thread.join()
        return self.peak - self.first


def startup(server: Server, seconds: float) -> Figures:
    """Start to ready, and memory of all processes once idle."""
    time.sleep(min(seconds, 2.0))
    processes, rss, pss = server.memory()
    return {
        "ready_s": server.ready_seconds,
        "processes": processes,
        "rss_mb": rss / 1e6,
        "pss_mb": pss / 1e6,
    }


def artifact(server: Server, size: int) -> Figures:
    """Stream one artifact up and down through the server and watch its memory."""
    if server.name == "fasttrackml":
        return {"none": "has no artifact proxy"}
    run = shapes.new_run(server, shapes.new_experiment(server, "artifact"))
    info = server.call("GET", f"runs/get?run_id={run}")["run"]["info"]
    inside = info["artifact_uri"].removeprefix("mlflow-artifacts:/").lstrip("/")
    path = f"/api/2.0/mlflow-artifacts/artifacts/{inside}/big.bin"
    headers = {"Content-Length": str(size)}
    if server.token:
        headers["Authorization"] = f"Bearer {server.token}"
    block = random.Random(5).randbytes(CHUNK)
    up = Sampler(server)
    began = time.perf_counter()
    link = http.client.HTTPConnection(server.host, server.port, timeout=600)
    link.request("PUT", path, (block for _ in range(size // CHUNK)), headers)
    answer = link.getresponse()
    answer.read()
    up_seconds, up_grown = time.perf_counter() - began, up.grown()
    if answer.status != 200:
        raise BenchError(f"{server.name}: PUT of an artifact answered {answer.status}")
    headers.pop("Content-Length")
    down = Sampler(server)
    began = time.perf_counter()
    link.request("GET", path, headers=headers)
    answer = link.getresponse()
    got = 0
    while part := answer.read(CHUNK):
        got += len(part)
    down_seconds, down_grown = time.perf_counter() - began, down.grown()
    link.close()
    if answer.status != 200 or got != size:
        raise BenchError(f"{server.name}: GET answered {answer.status} with {got} of {size} bytes")
    return {
        "bytes": size,
        "up_mb_per_s": size / up_seconds / 1e6,
        "down_mb_per_s": size / down_seconds / 1e6,
        "up_growth_mb": up_grown / 1e6,
        "down_growth_mb": down_grown / 1e6,
        "peak_rss_mb": max(up.peak, down.peak) / 1e6,
    }


def disk(name: str, folder: Path, points: int) -> Figures:
    """Bytes on disk per metric point at rest: 10 keys of one run, noise on a slope."""
    server = start(name, folder / "disk")
    try:
        run = shapes.new_run(server, shapes.new_experiment(server, "disk"))
        requests = random_walk(server.head("POST", shapes.BATCH), run, 10, points // 10)

        def writer() -> Client:
            for request in requests:
                reply = yield request
                if reply.status != 200:
                    return

        empty = server.disk_bytes()
        outcome = drive(server.host, server.port, [writer()], limit=900)
        if outcome.failures:
            raise BenchError(f"{name}: filling failed: {outcome.first_error}")
        live = server.disk_bytes()
        if name == "trackyard":
            _compact(server)
    finally:
        server.stop()
    rest = server.disk_bytes()
    return {
        "points": points,
        "bytes_per_point": (rest - empty) / points,
        "live_bytes_per_point": (live - empty) / points,
    }


def _compact(server: Server) -> None:
    command = [sys.executable, "-m", "trackyard.cli.main", "gc"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "YARD_URL": f"http://{server.host}:{server.port}",
        "YARD_TOKEN": server.token or "",
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"yard gc ended with {done.returncode}: {done.stderr[-300:]}")
