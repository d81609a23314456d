"""A real nginx before one server or several, with the very blocks that the documentation gives."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.acceptance.serving import ROOT, TrackingServer, free_port

_FRAME = """
{user}
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{block}
}}
"""
PATIENCE = 60.0


def documented(wanted: str) -> str:
    """Return the block of docs/operations.md that holds these words."""
    page = (ROOT / "docs" / "operations.md").read_text()
    blocks = re.findall(r"```nginx\n(.*?)```", page, re.DOTALL)
    (found,) = [block for block in blocks if wanted in block]
    return str(found)


class Nginx:
    """An nginx process on a port, with a block of configuration."""

    def __init__(self, folder: Path, port: int, block: str) -> None:
        program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
        assert program is not None, "nginx is missing; run tools/test_needs.sh"
        folder.mkdir(parents=True)
        self.folder, self.port = folder, port
        self.url = f"http://127.0.0.1:{port}"
        config = folder / "nginx.conf"
        # Started by root, it would work as a user who may not enter the tests' folders.
        user = "user root;" if os.getuid() == 0 else ""
        config.write_text(_FRAME.format(folder=folder, block=block, user=user))
        self._process = subprocess.Popen(
            [program, "-p", folder, "-c", config, "-e", folder / "error.log"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )
        self._wait()

    def _wait(self) -> None:
        over = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            assert self._process.poll() is None, f"nginx ended: {self.errors}"
            assert time.monotonic() < over, f"nginx does not listen: {self.errors}"
            time.sleep(0.05)

    @property
    def errors(self) -> str:
        """What nginx complained of."""
        path = self.folder / "error.log"
        return path.read_text()[-4000:] if path.exists() else ""

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)


@contextlib.contextmanager
def proxy(server: TrackingServer, folder: Path) -> Iterator[TrackingServer]:
    """Run nginx before a server; what is yielded is that server as callers beyond it see it."""
    block, count = re.subn(
        r"http://[\d.]+:\d+", server.url, documented("proxy_pass http://10.0.0.5:8000")
    )
    assert count == 1
    beyond = TrackingServer(server.home, port=free_port(), token=server.token)
    listening = f"server {{ listen 127.0.0.1:{beyond.port};\n{block} }}"
    one = Nginx(folder, beyond.port, listening)
    try:
        yield beyond
    finally:
        one.close()


def balancer(folder: Path, servers: Sequence[TrackingServer]) -> Nginx:
    """Run nginx before several servers, which get an equal share of the calls."""
    port = free_port()
    addresses = iter(f"127.0.0.1:{server.port}" for server in servers)
    block, count = re.subn(
        r"server 10\.0\.0\.\d+:8000",
        lambda _: f"server {next(addresses)}",
        documented("upstream trackyard"),
    )
    assert count == len(servers)
    block, count = re.subn(r"listen 443 ssl;", f"listen 127.0.0.1:{port};", block)
    assert count == 1
    # Certificates are not what is tried here.
    return Nginx(folder, port, re.sub(r"\n *ssl_certificate[^\n]*", "", block))
