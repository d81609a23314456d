"""A real nginx in front of several servers, with the very block that the documentation gives."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import httpx

from tests.acceptance.serving import ROOT, TrackingServer, free_port

_FRAME = """
{user}
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 1024; }}
http {{
    access_log {folder}/access.log;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{block}
}}
"""


def documented_block() -> str:
    """Return the balancer's block from docs/operations.md."""
    page = (ROOT / "docs" / "operations.md").read_text()
    blocks = re.findall(r"```nginx\n(.*?)```", page, re.DOTALL)
    (found,) = [block for block in blocks if "upstream trackyard" in block]
    return str(found)


class Balancer:
    """nginx on a free port; all servers get an equal share of the calls."""

    def __init__(self, folder: Path, servers: Sequence[TrackingServer]) -> None:
        program = shutil.which("nginx") or "/usr/sbin/nginx"
        assert Path(program).exists(), "nginx is missing; run tools/test_needs.sh"
        folder.mkdir(parents=True)
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        block = documented_block()
        addresses = iter(f"127.0.0.1:{server.port}" for server in servers)
        block, count = re.subn(
            r"server 10\.0\.0\.\d+:8000", lambda _: f"server {next(addresses)}", block
        )
        assert count == len(servers)
        block, count = re.subn(r"listen 443 ssl;", f"listen 127.0.0.1:{self.port};", block)
        assert count == 1
        # Certificates are not what is tried here.
        block = re.sub(r"\n *ssl_certificate[^\n]*", "", block)
        config = folder / "nginx.conf"
        # Started by root, it would work as a user who may not enter the tests' folders.
        user = "user root;" if os.getuid() == 0 else ""
        config.write_text(_FRAME.format(folder=folder, block=block, user=user))
        self._process = subprocess.Popen(
            [program, "-p", str(folder), "-c", str(config), "-e", str(folder / "error.log")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )
        self._wait()

    def _wait(self) -> None:
        over = time.monotonic() + 60
        while True:
            assert self._process.poll() is None, self.errors
            try:
                httpx.get(f"{self.url}/health", timeout=10)
            except httpx.TransportError:
                assert time.monotonic() < over, self.errors
                time.sleep(0.05)
            else:
                return

    @property
    def errors(self) -> str:
        """What nginx complained of."""
        path = self.folder / "error.log"
        return path.read_text()[-4000:] if path.exists() else ""

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)
