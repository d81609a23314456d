"""`python -m bench.data`: a data set added and fetched, beside `cp` and MLflow's artifacts.

Two sets: a few large files, and many small ones. Each is copied with `cp`, added and fetched with
`yard data`, and sent up and down as artifacts by the stock MLflow client to this server. All in
one run, the median of several rounds; times include the start of each program.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bench.tracking.servers import ENVS

ROOT = Path(__file__).resolve().parent.parent
MLFLOW = """
import sys
from mlflow import MlflowClient
client = MlflowClient()
if sys.argv[1] == "up":
    run = client.create_run("0").info.run_id
    client.log_artifacts(run, sys.argv[2])
    open(sys.argv[3], "w").write(run)
else:
    client.download_artifacts(open(sys.argv[3]).read(), "", sys.argv[2])
"""


def make(folder: Path, *, files: int, size: int) -> None:
    """Fill a folder with random files."""
    folder.mkdir(parents=True)
    for number in range(files):
        (folder / f"{number:06d}.bin").write_bytes(os.urandom(size))


def timed(work: Callable[[], None]) -> float:
    """Return the seconds that something takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


class Bench:
    """A server in its own home, and what is measured on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {
            **os.environ,
            "YARD_HOME": str(folder / "home"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "PYTHONPATH": str(ROOT / "src"),
        }
        words = [sys.executable, "-m", "trackyard.cli.main", "up", "--port", "0"]
        self.server = subprocess.Popen(
            words, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + 120
        ask = self.yard("data", "list")
        while subprocess.run(ask, env=self.env, capture_output=True, check=False).returncode:
            assert time.monotonic() < until, "the server did not start"
            time.sleep(0.5)
        url = json.loads((folder / "home" / "server.json").read_text())["url"]
        token = (folder / "home" / "token").read_text().strip()
        self.env |= {"MLFLOW_TRACKING_URI": url, "MLFLOW_TRACKING_TOKEN": token}

    def yard(self, *words: str) -> list[str]:
        """Return a command line."""
        return [sys.executable, "-m", "trackyard.cli.main", *words]

    def run(self, line: list[str]) -> None:
        """Run a program to its good end."""
        subprocess.run(line, env=self.env, check=True, capture_output=True)

    def round(self, name: str, source: Path, number: int) -> dict[str, float]:
        """Measure everything once."""
        out = self.folder / f"out-{name}-{number}"
        note = str(self.folder / "run")
        mlflow = [str(ENVS / "mlflow3" / "bin" / "python"), "-c", MLFLOW]
        found = {"cp": timed(lambda: self.run(["cp", "-r", str(source), str(out / "cp")]))}
        found["yard data add"] = timed(
            lambda: self.run(self.yard("data", "add", f"{name}-{number}", str(source)))
        )
        found["yard data get"] = timed(
            lambda: self.run(self.yard("data", "get", f"{name}-{number}", str(out / "get")))
        )
        found["mlflow up"] = timed(lambda: self.run([*mlflow, "up", str(source), note]))
        (out / "mlflow").mkdir()
        found["mlflow down"] = timed(
            lambda: self.run([*mlflow, "down", str(out / "mlflow"), note])
        )
        shutil.rmtree(out)
        return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--large", type=int, default=4, help="files of 64 MiB")
    parser.add_argument("--small", type=int, default=2000, help="files of 20 KiB")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-data-") as name:
        folder = Path(name)
        bench = Bench(folder)
        try:
            for kind, files, size in (
                ("large", args.large, 64 * 1024**2),
                ("small", args.small, 20 * 1024),
            ):
                rounds = []
                for number in range(args.rounds):
                    # Fresh bytes each round, or the second add would have nothing to send.
                    source = folder / f"{kind}-{number}"
                    make(source, files=files, size=size)
                    (folder / f"out-{kind}-{number}").mkdir()
                    rounds.append(bench.round(kind, source, number))
                    shutil.rmtree(source)
                total = files * size / 1024**2
                print(f"{kind}: {files} files, {total:.0f} MiB")
                for what in rounds[0]:
                    seconds = median(one[what] for one in rounds)
                    print(f"  {what:<14} {seconds:6.2f} s  {total / seconds:7.1f} MiB/s")
        finally:
            bench.server.terminate()
            bench.server.wait()


if __name__ == "__main__":
    main()
