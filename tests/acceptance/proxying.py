"""A real nginx in front of a server, with the very block that the documentation gives."""

import contextlib
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.acceptance.serving import ROOT, TrackingServer, free_port

_CONFIG = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        {block}
    }}
}}
"""


def documented_block(server: TrackingServer) -> str:
    """Return the location block of docs/operations.md, pointed at a server."""
    text = (ROOT / "docs" / "operations.md").read_text()
    blocks = re.findall(r"```nginx\n(.*?)```", text, re.DOTALL)
    (found,) = [block for block in blocks if block.startswith("location / ")]
    block, count = re.subn(r"http://[\d.]+:\d+", server.url, found)
    assert count == 1
    return block


@contextlib.contextmanager
def nginx(server: TrackingServer, folder: Path) -> Iterator[TrackingServer]:
    """Run nginx before a server; what is yielded is that server as callers beyond it see it."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    assert program is not None, "nginx is missing; run tools/test_needs.sh"
    folder.mkdir()
    beyond = TrackingServer(server.home, port=free_port(), token=server.token)
    config = folder / "nginx.conf"
    config.write_text(
        _CONFIG.format(folder=folder, port=beyond.port, block=documented_block(server))
    )
    process = subprocess.Popen([program, "-p", folder, "-c", config], stderr=subprocess.DEVNULL)
    try:
        _wait_for(beyond.port, process, folder)
        yield beyond
    finally:
        process.terminate()
        process.wait(60)


def _wait_for(port: int, process: subprocess.Popen[bytes], folder: Path) -> None:
    over = time.monotonic() + 60
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        log = folder / "error.log"
        said = log.read_text() if log.exists() else ""
        assert process.poll() is None, f"nginx ended: {said}"
        assert time.monotonic() < over, f"nginx does not listen: {said}"
        time.sleep(0.05)
