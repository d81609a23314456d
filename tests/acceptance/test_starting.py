"""Starting: soon ready, small, and one clear sentence with a hint where it cannot be."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil

from tests.acceptance.serving import ROOT, free_port

YARD = [sys.executable, "-m", "trackyard.cli.main"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def refused(*options: str) -> str:
    """Start a server that cannot start, and return its words."""
    done = subprocess.run(
        [*YARD, "up", "--ephemeral", *options],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    sentence, hint = (part.strip() for part in done.stderr.strip().split("\n\n"))
    assert sentence.startswith("error: ")
    assert hint.startswith("hint: ")
    return sentence


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port}: Address already in use" in refused("--port", str(port))


def test_an_unknown_config_key_is_named(tmp_path: Path) -> None:
    config = tmp_path / "yard.toml"
    config.write_text("prot = 8000\n")
    assert "unknown key 'prot'" in refused("--config", str(config))


def test_a_database_that_is_away_is_named() -> None:
    away = f"postgresql://yard:secret@127.0.0.1:{free_port()}/yard"
    words = refused("--port", str(free_port()), "--database", away)
    assert "cannot reach the database" in words
    assert "secret" not in words


def test_a_server_is_ready_after_a_second_of_work_and_small() -> None:
    """Counted in the processor's time; where others keep it busy, the best of several starts."""
    for _ in range(5):
        used, memory = start_once()
        if used < 1.0:
            break
    assert used < 1.0
    assert memory < 200 << 20


def start_once() -> tuple[float, int]:
    """Start a server; return the processor's seconds until it was ready, and its memory."""
    port = free_port()
    with subprocess.Popen(
        [*YARD, "up", "--ephemeral", "--port", str(port)],
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        try:
            while not is_ready(port):
                assert server.poll() is None
                time.sleep(0.01)
            process = psutil.Process(server.pid)
            used, memory = process.cpu_times(), process.memory_info()
        finally:
            server.terminate()
    assert server.returncode == 0
    return used.user + used.system, memory.rss


def is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/ready", timeout=180).status_code == 200
    except httpx.HTTPError:
        return False
