"""Callers that log numbers by plain HTTP until told to stop, with a book of what was answered."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx

from tests.acceptance.serving import TrackingServer


@dataclass
class Book:
    """What callers tried and what was acknowledged: (caller, number)."""

    run_id: str
    tried: set[tuple[int, int]] = field(default_factory=set)
    acked: set[tuple[int, int]] = field(default_factory=set)
    refusals: dict[int, int] = field(default_factory=dict)
    cut: int = 0

    def check(self, server: TrackingServer) -> None:
        """Insist that all acknowledged is there once, and nothing that was never tried."""
        there: list[tuple[int, int]] = []
        for caller in {caller for caller, _ in self.tried}:
            points = server.history(self.run_id, f"m{caller}")
            there += [(caller, int(point["step"])) for point in points]
        assert len(there) == len(set(there)), "something is there twice"
        lost = self.acked - set(there)
        assert lost == set(), f"{len(lost)} of {len(self.acked)} acknowledged are lost"
        assert set(there) <= self.tried


@contextlib.contextmanager
def load(server: TrackingServer, callers: int = 4, *, pace: float = 0.0) -> Iterator[Book]:
    """Log numbers from several threads while the block runs, repeating what was not answered."""
    run_id = server.post("runs/create", experiment_id="0")["run"]["info"]["run_id"]
    book, stop = Book(run_id), threading.Event()
    threads = [
        threading.Thread(target=_log, args=(server, book, number, stop, pace), daemon=True)
        for number in range(callers)
    ]
    for thread in threads:
        thread.start()
    try:
        yield book
    finally:
        stop.set()
        for thread in threads:
            thread.join(180)
    assert not any(thread.is_alive() for thread in threads)


def _log(
    server: TrackingServer, book: Book, caller: int, stop: threading.Event, pace: float
) -> None:
    number = 0
    with httpx.Client(base_url=server.url, headers=server.headers, timeout=120) as client:
        while not stop.is_set():
            book.tried.add((caller, number))
            point = {"key": f"m{caller}", "value": number, "timestamp": number, "step": number}
            try:
                answer = client.post(
                    "/api/2.0/mlflow/runs/log-metric", json={"run_id": book.run_id, **point}
                )
            except httpx.HTTPError:
                book.cut += 1
                stop.wait(0.05)
                continue
            if answer.status_code == 200:
                book.acked.add((caller, number))
                number += 1
                stop.wait(pace)
            else:
                status = answer.status_code
                book.refusals[status] = book.refusals.get(status, 0) + 1
                stop.wait(0.05)
