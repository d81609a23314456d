"""Many callers and rude ones: a thousand at once are served late but served; those who dawdle,
sit idle or shout are sent away while everyone else is served as before.
"""

import asyncio
import json
import statistics
import time
from collections.abc import Callable

import pytest

from tests.acceptance.serving import TrackingServer

NewServer = Callable[..., TrackingServer]
CROWD = 1000
#: The server's patience with heads and bodies in these tests, and ours with its answer.
REQUEST_SECONDS, DAWDLE_SECONDS = 4, 120.0


def head(server: TrackingServer, line: str, *more: str) -> bytes:
    lines = [f"{line} HTTP/1.1", f"Host: 127.0.0.1:{server.port}"]
    lines += [f"{name}: {value}" for name, value in server.headers.items()]
    return "\r\n".join([*lines, *more, "", ""]).encode()


def call(server: TrackingServer, path: str, body: object) -> bytes:
    raw = json.dumps(body).encode()
    more = ("Content-Type: application/json", f"Content-Length: {len(raw)}")
    return head(server, f"POST /api/2.0/mlflow/{path}", *more) + raw


async def answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """Read one whole answer."""
    top = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in top[1:] if ": " in line)
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return int(top[0].split()[1]), headers, body


async def connect(server: TrackingServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", server.port)


@pytest.mark.alone
async def test_a_thousand_callers_at_once_are_all_served(new_server: NewServer) -> None:
    """A thousand connections of one token log at once, again and again: none is lost."""
    server = new_server()
    server.start()
    run_id = server.post("runs/create", experiment_id="0")["run"]["info"]["run_id"]
    statuses: list[int] = []
    gate = asyncio.Event()

    async def log(caller: int) -> None:
        reader, writer = await connect(server)
        await gate.wait()
        for step in range(3):
            point = {"key": f"m{caller % 20}", "value": 1.0, "timestamp": caller, "step": step}
            writer.write(call(server, "runs/log-metric", {"run_id": run_id, **point}))
            statuses.append((await answer(reader))[0])
        writer.close()

    callers = [asyncio.create_task(log(number)) for number in range(CROWD)]
    await asyncio.sleep(1)
    gate.set()
    await asyncio.wait_for(asyncio.gather(*callers), 300)
    assert statuses == [200] * (CROWD * 3)
    points = [server.history(run_id, f"m{number}") for number in range(20)]
    assert sum(len(series) for series in points) == CROWD * 3


@pytest.mark.alone
async def test_a_thousand_come_back_at_once_after_a_crash(new_server: NewServer) -> None:
    """As after a kill for want of memory: all return at once, and all are served."""
    server = new_server()
    server.start()
    run_id = server.post("runs/create", experiment_id="0")["run"]["info"]["run_id"]
    acked: list[int] = []
    some = asyncio.Event()

    async def log(caller: int) -> None:
        point = {"key": "m", "value": 1.0, "timestamp": caller, "step": caller}
        while True:
            try:
                reader, writer = await connect(server)
                writer.write(call(server, "runs/log-metric", {"run_id": run_id, **point}))
                status, _, _ = await answer(reader)
                writer.close()
            except (OSError, asyncio.IncompleteReadError):
                await asyncio.sleep(0.2)
                continue
            if status == 200:
                acked.append(caller)
                if len(acked) == 20:
                    # Here and now, while none of the others can be answered.
                    server.kill()
                    some.set()
                return
            assert status in (429, 503)
            await asyncio.sleep(0.2)

    callers = [asyncio.create_task(log(number)) for number in range(CROWD)]
    await some.wait()
    assert len(acked) < CROWD
    await asyncio.to_thread(server.start)
    await asyncio.wait_for(asyncio.gather(*callers), 300)
    assert [int(point["step"]) for point in server.history(run_id, "m")] == list(range(CROWD))
    assert await latency(server) < 5.0


async def test_those_who_dawdle_are_sent_away(
    new_server: NewServer, tracking: TrackingServer
) -> None:
    """Half a header, half a body, silence, a giant header: refused; others hardly notice."""
    server = new_server()
    server.config = f"request_seconds = {REQUEST_SECONDS}\n"
    server.start()
    calm = await latency(server)
    slow_header, slow_writer = await connect(server)
    slow_writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0")
    slow_body, body_writer = await connect(server)
    more = ("Content-Type: application/json", "Content-Length: 50")
    body_writer.write(head(server, "POST /api/2.0/mlflow/runs/create", *more) + b'{"experi')
    idle = [await connect(server) for _ in range(400)]
    dawdlers = []
    for _ in range(100):
        reader, writer = await connect(server)
        writer.write(head(server, "POST /api/2.0/mlflow/runs/create", *more) + b"{")
        dawdlers.append((reader, writer))
    assert await latency(server) < 10 * calm + 5.0
    # Who is no dawdler but on a slow machine is refused for what it sends, by a patient server.
    for line in (
        head(tracking, "GET /health", f"X-Long: {'a' * 1_000_000}"),
        head(tracking, "GET /health", *(f"X-{number}: a" for number in range(500))),
        head(tracking, f"GET /health?{'a' * 100_000}"),
    ):
        reader, writer = await connect(tracking)
        writer.write(line)
        status, _, _ = await asyncio.wait_for(answer(reader), DAWDLE_SECONDS)
        assert status in (400, 413, 414, 431)
    chunks = b"".join(b"%x\r\n" % 65_536 + b"x" * 65_536 + b"\r\n" for _ in range(140))
    json_chunked = ("Content-Type: application/json", "Transfer-Encoding: chunked")
    reader, writer = await connect(tracking)
    writer.write(head(tracking, "POST /api/2.0/mlflow/runs/create", *json_chunked) + chunks)
    status, _, body = await asyncio.wait_for(answer(reader), DAWDLE_SECONDS)
    assert (status, json.loads(body)["error_code"]) == (413, "REQUEST_LIMIT_EXCEEDED")
    status, _, body = await asyncio.wait_for(answer(slow_body), DAWDLE_SECONDS)
    assert (status, json.loads(body)["error_code"]) == (408, "DEADLINE_EXCEEDED")
    assert (await asyncio.wait_for(answer(slow_header), DAWDLE_SECONDS))[0] == 408
    slow_writer.close()
    for reader, writer in dawdlers:
        assert (await asyncio.wait_for(answer(reader), DAWDLE_SECONDS))[0] == 408
        writer.close()
    assert await latency(server) < 10 * calm + 5.0
    for _, writer in idle:
        writer.close()
    assert server.post("runs/search", experiment_ids=["0"]) == {}


async def latency(server: TrackingServer) -> float:
    """Return the median seconds of a call on a connection of its own."""
    taken = []
    reader, writer = await connect(server)
    for _ in range(20):
        began = time.monotonic()
        writer.write(head(server, "GET /api/2.0/mlflow/experiments/get?experiment_id=0"))
        status, _, _ = await asyncio.wait_for(answer(reader), DAWDLE_SECONDS)
        taken.append(time.monotonic() - began)
        assert status == 200
    writer.close()
    return statistics.median(taken)
