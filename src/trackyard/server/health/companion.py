"""A Prometheus of the server's own: `yard up --with prometheus`.

Owns its folder, configuration, token and process, which ends with the server, and the few queries
by which pages read long histories. Without it everything works as it does.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import logging
import os
import shutil
import signal
import subprocess
from pathlib import Path
from urllib.parse import urlencode

import msgspec

from trackyard.core.errors import SetupError
from trackyard.queue.attempts.node_load import LoadHistory, LoadPoint, NodeLoad
from trackyard.server.settings import Settings
from trackyard.server.startup.home import free_port, write_secret

log = logging.getLogger(__name__)

KNOWN = ("prometheus",)
SCRAPE_SECONDS, KEPT = 15, "400d"
STOP_SECONDS, ANSWER_SECONDS = 5.0, 10.0
#: Bytes of an answer that are read; a thousand nodes for a year fit.
ANSWER_BYTES = 32 * 1024 * 1024
#: What pages may ask for: part of a node -> the metric, and the label that tells parts apart.
_PARTS = {
    "cpu": "yard_node_cpu_utilization_ratio",
    "memory": "yard_node_memory_used_ratio",
    "gpu": "yard_gpu_utilization_ratio",
}


def check_companions(names: tuple[str, ...]) -> None:
    """Refuse what cannot be started beside the server."""
    for name in names:
        if name not in KNOWN:
            raise SetupError(
                f"--with {name} is not known", hint=f"what can be started is {', '.join(KNOWN)}"
            )
        if shutil.which(name) is None:
            raise SetupError(
                f"--with {name} needs the program {name}, which is not installed here",
                hint=f"apt install {name}, or leave --with out",
            )


class Prometheus:
    """The process beside the server."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.folder = settings.home / "prometheus"
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def token_path(self) -> Path:
        """The file that holds the token it scrapes with."""
        return self.folder / "token"

    @property
    def is_running(self) -> bool:
        """Tell whether it can be asked."""
        return self._process is not None and self._process.poll() is None

    def start(self, token: str | None) -> None:
        """Write its files and start it; blocks for a moment."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        if token is not None:
            write_secret(self.token_path, token)
        (self.folder / "prometheus.yml").write_text(configuration(self._settings, self.token_path))
        self.port = free_port("127.0.0.1", 0)
        # Ended by the kernel where the server is killed, so that it never outlives it.
        tied = shutil.which("setpriv")
        command = [
            *([tied, "--pdeathsig", "TERM"] if tied else []),
            "prometheus",
            f"--config.file={self.folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--storage.tsdb.retention.time={KEPT}",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]
        with (self.folder / "log").open("wb") as out:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={"PATH": os.environ.get("PATH", ""), "HOME": str(self.folder)},
            )
        (self.folder / "address").write_text(f"http://127.0.0.1:{self.port}\n")
        log.info("Prometheus answers at http://127.0.0.1:%s", self.port)

    async def stop(self) -> None:
        """End it, in order if it can be."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(process.wait, STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    async def load(self, since_ms: int, until_ms: int, points: int) -> LoadHistory | None:
        """Return how busy nodes were, or None where it cannot tell."""
        if not self.is_running:
            return None
        try:
            return await asyncio.to_thread(self._load, since_ms, until_ms, points)
        except (OSError, http.client.HTTPException, msgspec.MsgspecError, KeyError) as fault:
            log.warning("Prometheus cannot be asked now: %s", fault)
            return None

    def _load(self, since_ms: int, until_ms: int, points: int) -> LoadHistory | None:
        width = max(SCRAPE_SECONDS * 1000, -(-(until_ms - since_ms) // points))
        start = since_ms // width * width
        found: dict[tuple[str, str], NodeLoad] = {}
        for part, metric in _PARTS.items():
            means = self._range(f"avg_over_time({metric}[{width}ms])", start, until_ms, width)
            peaks = self._range(f"max_over_time({metric}[{width}ms])", start, until_ms, width)
            for labels, values in means.items():
                node, gpu = labels
                what = f"gpu{gpu}" if part == "gpu" else part
                most = dict(peaks.get(labels, []))
                # What is told at a moment is of the stretch before it.
                told = [
                    LoadPoint(at - width, _percent(mean), _percent(most.get(at, mean)))
                    for at, mean in values
                ]
                found[node, what] = NodeLoad(node, what, told)
        if not found:
            return None
        return LoadHistory(start, until_ms, width, [found[key] for key in sorted(found)])

    def _range(
        self, query: str, since_ms: int, until_ms: int, width_ms: int
    ) -> dict[tuple[str, str], list[tuple[int, float]]]:
        words = urlencode(
            {
                "query": query,
                "start": since_ms / 1000,
                "end": until_ms / 1000,
                "step": width_ms / 1000,
            }
        )
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS)
        with contextlib.closing(link):
            link.request("GET", f"/api/v1/query_range?{words}")
            body = link.getresponse().read(ANSWER_BYTES)
        answer = msgspec.json.decode(body)
        return {
            (one["metric"].get("node", ""), one["metric"].get("gpu", "")): [
                (int(float(at) * 1000), float(value)) for at, value in one["values"]
            ]
            for one in answer["data"]["result"]
        }


def configuration(settings: Settings, token_path: Path) -> str:
    """Return what Prometheus is told: this server, and a Ray cluster's own exporters beside it."""
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host  # noqa: S104
    shown = f"[{host}]" if ":" in host else host
    lines = [
        "global:",
        f"  scrape_interval: {SCRAPE_SECONDS}s",
        "scrape_configs:",
        "  - job_name: trackyard",
        f"    metrics_path: {settings.prefix}/metrics",
        f"    scheme: {'https' if settings.tls_cert else 'http'}",
        *(["    tls_config: {insecure_skip_verify: true}"] if settings.tls_cert else []),
        "    authorization:",
        f"      credentials_file: {_quoted(str(token_path))}",
        "    static_configs:",
        f"      - targets: [{_quoted(f'{shown}:{settings.port}')}]",
    ]
    if settings.engine.startswith("ray="):
        lines += [
            "  # A Ray cluster tells by itself where its exporters are.",
            "  - job_name: ray",
            "    http_sd_configs:",
            f"      - url: {_quoted(settings.engine[4:].rstrip('/') + '/api/prometheus/sd')}",
        ]
        if settings.ray_token_file:
            lines += [
                "        authorization:",
                f"          credentials_file: {_quoted(settings.ray_token_file)}",
            ]
    return "\n".join(lines) + "\n"


def _percent(share: float) -> float:
    return round(100 * share, 2)


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()
