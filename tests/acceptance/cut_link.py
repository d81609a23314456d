"""A stock client on another machine whose link goes down for a while.

python -m tests.acceptance.cut_link FOLDER SECONDS, inside a network namespace of its own (unshare
--map-root-user --net): the server is here, the client in a second namespace behind a veth pair.
Ends with status 0 if the client never noticed and all it was told is there.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.serving import SCRIPTS, TrackingServer, client_environment, python_of

HERE, THERE = "10.77.0.1", "10.77.0.2"


@dataclass
class FarServer(TrackingServer):
    """A server that is called over the link."""

    @property
    def url(self) -> str:
        return f"http://{HERE}:{self.port}"


def run(*words: str) -> None:
    subprocess.run(words, check=True)


def make_link() -> subprocess.Popen[bytes]:
    """Join this namespace and a new one; return a process that holds the new one."""
    holder = subprocess.Popen(["unshare", "--net", "sleep", "600"])
    own, new = Path("/proc/self/ns/net"), Path(f"/proc/{holder.pid}/ns/net")
    wait_until(lambda: own.readlink() != new.readlink(), "no namespace")
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "here", "type", "veth", "peer", "name", "there")
    run("ip", "link", "set", "there", "netns", str(holder.pid))
    run("ip", "addr", "add", f"{HERE}/24", "dev", "here")
    run("ip", "link", "set", "here", "up")
    inside = ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]
    run(*inside, "ip", "addr", "add", f"{THERE}/24", "dev", "there")
    run(*inside, "ip", "link", "set", "there", "up")
    return holder


def wait_until(holds: Callable[[], object], what: str, patience: float = 240.0) -> None:
    over = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < over, what
        time.sleep(0.05)


def acks(folder: Path) -> int:
    return sum(path.read_text().count("ack ") for path in folder.glob("*.book"))


def main(folder: Path, seconds: float) -> None:
    holder = make_link()
    config = f'host = "{HERE}"\ntrusted_proxies = ["{HERE}", "{THERE}"]\n'
    server = FarServer(folder / "home", config=config)
    books = folder / "books"
    books.mkdir(parents=True)
    client = None
    try:
        server.start()
        environment = client_environment(server, folder)
        # As users have it: the client's own patience.
        del environment["MLFLOW_HTTP_REQUEST_MAX_RETRIES"]
        client = subprocess.Popen(
            [
                "nsenter",
                f"--net=/proc/{holder.pid}/ns/net",
                str(python_of("mlflow3")),
                str(SCRIPTS / "log_numbers.py"),
                "0",
                "w",
                "1",
                str(books),
            ],
            env=environment,
        )
        wait_until(lambda: acks(books) > 5, "the client did not begin")
        run("ip", "link", "set", "here", "down")
        # What was answered before the cut may still be written down.
        time.sleep(1.0)
        before = acks(books)
        time.sleep(seconds)
        assert acks(books) == before, "the link was not cut"
        run("ip", "link", "set", "here", "up")
        wait_until(lambda: acks(books) > before + 5, "the client did not go on")
        (books / "stop").touch()
        assert client.wait(240) == 0
        check(server, books)
    finally:
        if client is not None and client.poll() is None:
            client.kill()
        server.kill()
        holder.kill()


def check(server: TrackingServer, books: Path) -> None:
    """Insist that the client gave nothing up and that all it was told is there once."""
    book = (books / "w-0.book").read_text()
    assert "gave-up" not in book, book
    wanted = {int(line.split()[2]) for line in book.splitlines() if line.startswith("ack point")}
    points = server.history((books / "w.run").read_text(), "w-0")
    steps = [int(point["step"]) for point in points]
    assert sorted(steps) == sorted(set(steps))
    assert set(steps) >= wanted
    runs = server.post("runs/search", experiment_ids=["0"], max_results=1000)["runs"]
    names = [run["info"]["run_name"] for run in runs if run["info"]["run_name"] != "log-w"]
    assert len(names) == len(set(names)) == book.count("ack run")


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
    print("unnoticed")
