"""One server with a declared GPU, and what stock Ray clients bring along."""

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.acceptance.jobs.yard import JobServer


@dataclass
class Door:
    """A server, two teams' tokens, and a folder with something to run."""

    server: JobServer
    folder: Path
    wheel: Path
    token: str
    other: str

    @property
    def url(self) -> str:
        """Where Ray's clients find it."""
        return self.server.url


def small_wheel(folder: Path) -> Path:
    """Write a small pure wheel, so that a requirement needs no index."""
    path = folder / "tartlet-1.0-py3-none-any.whl"
    info = "tartlet-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tartlet.py", "TASTE = 'sour'\n")
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tartlet\nVersion: 1.0\n"
        )
        tag = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{info}/WHEEL", tag)
        archive.writestr(f"{info}/RECORD", f"tartlet.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n")
    return path


_MAIN = """\
import os, sys, time
import mlflow_free, sidecar, tartlet
print("flavour", os.environ["FLAVOUR"], sidecar.WORD, tartlet.TASTE, sys.argv[1], flush=True)
print("tracking", os.environ["MLFLOW_TRACKING_URI"], "gpus", os.environ["CUDA_VISIBLE_DEVICES"])
print("path", os.environ["EXTENDED"].endswith("/bin:/more"), flush=True)
until = time.monotonic() + 120
while not os.path.exists(os.environ["GATE"]):
    assert time.monotonic() < until, "nobody heard what was said so far"
    time.sleep(0.05)
print("done", flush=True)
"""

_TALK = """\
import sys
print("said", sys.argv[1:], flush=True)
sys.exit(int(sys.argv[1]))
"""


def _write_folders(folder: Path) -> None:
    files = {
        "job/main.py": _MAIN,
        "job/mlflow_free.py": "",
        "modules/sidecar/__init__.py": "WORD = 'beside'\n",
        "cli/talk.py": _TALK,
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture(scope="session")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A running server that these tests share."""
    folder = tmp_path_factory.mktemp("door")
    server = JobServer(folder / "home", options=("--gpus", "1"))
    server.start()
    _write_folders(folder)
    server.post("/api/v1/teams", name="others")
    server.post("/api/v1/users", name="olga")
    server.ask("PUT", "/api/v1/teams/others/members/olga", json={"role": "member"})
    other = server.post("/api/v1/tokens", user="olga", team="others", role="member", label="ray")
    yield Door(server, folder, small_wheel(folder), server.token, other["token"])
    server.stop()
