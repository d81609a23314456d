"""The load generator: keep-alive HTTP/1.1 on bare asyncio protocols, one generator per client.

A client is a generator that yields ready-made request bytes and is sent each reply. Bodies are
built from byte templates and replies are scanned, not parsed, so that the generator leaves the
machine to the server under test. It knows nothing about what the requests mean.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import cast

import uvloop

#: A client yields request bytes, or a number of seconds to wait, and receives the last reply.
Client = Generator[bytes | float, "Reply", None]


@dataclass(slots=True)
class Reply:
    """One answer: its status, its body and the head for the few who look at headers."""

    status: int
    body: bytes
    head: bytes

    def header(self, name: bytes) -> bytes | None:
        """Return a header's value, or None."""
        for line in self.head.split(b"\r\n")[1:]:
            key, _, value = line.partition(b":")
            if key.strip().lower() == name:
                return value.strip()
        return None


#: What a waiting client is sent in place of an answer.
WAITED = Reply(0, b"", b"")


@dataclass(slots=True)
class Outcome:
    """What one wave of load did."""

    statuses: Counter[int] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    lost: int = 0
    unfinished: int = 0
    elapsed: float = 0.0
    generator_cpu: float = 0.0
    first_error: str = ""

    @property
    def calls(self) -> int:
        """Answers received, of any status."""
        return sum(self.statuses.values())

    @property
    def failures(self) -> int:
        """Calls that did not end in 200: other answers, lost connections, no answer in time."""
        return self.calls - self.statuses[200] + self.lost + self.unfinished


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` of the values lie (nearest rank)."""
    if not values:
        return float("nan")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Wire(asyncio.Protocol):
    """One connection driven by one client generator."""

    def __init__(self, client: Client, outcome: Outcome, finished: Callable[[], None]) -> None:
        """Take the client that writes and the outcome that counts."""
        self._client = client
        self._outcome = outcome
        self._finished = finished
        self._buffer = bytearray()
        self._need = -1
        self._sent_at = 0.0
        self._open = False
        self._done = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the client's first request."""
        self._transport = cast("asyncio.Transport", transport)
        self._advance(None)

    def data_received(self, data: bytes) -> None:
        """Collect one answer; hand it over when it is whole."""
        self._buffer += data
        if self._need < 0 and not self._measure_reply():
            return
        if len(self._buffer) < self._need:
            return
        self._complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count a call that was cut."""
        if self._open:
            self._open = False
            self._outcome.lost += 1
            self._outcome.first_error = self._outcome.first_error or f"connection lost: {exc}"
        self._end()

    def give_up(self) -> None:
        """Stop waiting; an open call counts as unfinished."""
        if self._open:
            self._open = False
            self._outcome.unfinished += 1
        if self._transport is not None:
            self._transport.abort()

    def _measure_reply(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = bytes(self._buffer[:end]).lower()
        mark = head.find(b"content-length:")
        if mark >= 0:
            self._need = end + 4 + int(head[mark + 15 :].split(b"\r\n", 1)[0])
            return True
        if b"transfer-encoding: chunked" in head:
            if not self._buffer.endswith(b"0\r\n\r\n"):
                return False
            self._need = len(self._buffer)
            return True
        self._need = end + 4
        return True

    def _complete(self) -> None:
        now = time.perf_counter()
        end = self._buffer.find(b"\r\n\r\n")
        head = bytes(self._buffer[:end])
        reply = Reply(int(head[9:12]), bytes(self._buffer[end + 4 : self._need]), head)
        self._buffer.clear()
        self._need = -1
        self._open = False
        self._outcome.statuses[reply.status] += 1
        self._outcome.latencies.append(now - self._sent_at)
        if reply.status != 200 and not self._outcome.first_error:
            self._outcome.first_error = f"{reply.status}: {reply.body[:300]!r}"
        self._advance(reply)

    def _advance(self, reply: Reply | None) -> None:
        try:
            step = next(self._client) if reply is None else self._client.send(reply)
        except StopIteration:
            self._end()
            return
        if isinstance(step, float):
            asyncio.get_running_loop().call_later(step, self._advance, WAITED)
            return
        assert self._transport is not None
        if self._transport.is_closing():
            self._outcome.lost += 1
            self._end()
            return
        self._open = True
        self._sent_at = time.perf_counter()
        self._transport.write(step)

    def _end(self) -> None:
        if self._done:
            return
        self._done = True
        if self._transport is not None:
            self._transport.close()
        self._finished()


async def _drive(host: str, port: int, clients: Sequence[Client], limit: float) -> Outcome:
    loop = asyncio.get_running_loop()
    outcome = Outcome()
    left = len(clients)
    over = asyncio.Event()

    def finished() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            over.set()

    wires: list[Wire] = []
    start, cpu = time.perf_counter(), time.process_time()
    for client in clients:
        wire = Wire(client, outcome, finished)
        try:
            await loop.create_connection(lambda wire=wire: wire, host, port)  # type: ignore[misc]
        except OSError as error:
            outcome.lost += 1
            outcome.first_error = outcome.first_error or f"connect: {error}"
            finished()
            continue
        wires.append(wire)
    try:
        await asyncio.wait_for(over.wait(), limit)
    except TimeoutError:
        for wire in wires:
            wire.give_up()
    outcome.elapsed = time.perf_counter() - start
    outcome.generator_cpu = (time.process_time() - cpu) / outcome.elapsed
    return outcome


def drive(host: str, port: int, clients: Sequence[Client], limit: float = 120.0) -> Outcome:
    """Run all clients at once, each on its own connection, until they end or `limit` passes."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_drive(host, port, clients, limit))
