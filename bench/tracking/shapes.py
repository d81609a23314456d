"""The requests: byte templates for log-batch bodies, runs and reads, the same for every server.

Everything here speaks the MLflow REST protocol and nothing else.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

from bench.tracking.servers import Server

BATCH = "/api/2.0/mlflow/runs/log-batch"
METRIC = "/api/2.0/mlflow/runs/log-metric"


def new_experiment(server: Server, label: str) -> str:
    """Create an experiment and return its id."""
    name = f"bench-{label}-{random.getrandbits(48):012x}"
    return str(server.call("POST", "experiments/create", {"name": name})["experiment_id"])


def new_run(server: Server, experiment: str) -> str:
    """Create a run and return its id."""
    body = {"experiment_id": experiment, "start_time": int(time.time() * 1000)}
    return str(server.call("POST", "runs/create", body)["run"]["info"]["run_id"])


class BatchTemplate:
    """log-batch bodies of `keys` x `steps` points; only steps and times change between them."""

    def __init__(self, head: bytes, run: str, keys: int, steps: int, seed: int = 7) -> None:
        """Lay out the body once; values are random floats fixed per slot."""
        draw = random.Random(seed)
        self._head = head
        self._keys = keys
        self._steps = steps
        self._time = int(time.time() * 1000)
        self._pieces: list[bytes] = [b""] * (2 * keys * steps + 1)
        slot = 0
        for key in range(keys):
            for _ in range(steps):
                lead = b'{"run_id":"%s","metrics":[' % run.encode() if slot == 0 else b"},"
                value = repr(round(draw.random() * 3, 6)).encode()
                self._pieces[2 * slot] = lead + b'{"key":"metric_%d","value":%s,' % (key, value)
                slot += 1
        self._pieces[-1] = b"}]}"

    @property
    def points(self) -> int:
        """Points in one batch."""
        return self._keys * self._steps

    def fill(self, first_step: int) -> bytes:
        """Return the whole request for the batch that begins at a step."""
        stamps = [
            b'"timestamp":%d,"step":%d' % (self._time + step * 250, step)
            for step in range(first_step, first_step + self._steps)
        ]
        self._pieces[1::2] = stamps * self._keys
        body = b"".join(self._pieces)
        return b"%s%d\r\n\r\n%s" % (self._head, len(body), body)


def framed(head: bytes, body: bytes) -> bytes:
    """Return a whole request from a head and a body."""
    return b"%s%d\r\n\r\n%s" % (head, len(body), body)


def run_contents(number: int) -> dict[str, Any]:
    """Return the 20 params, 10 metrics and 5 tags that a measured run logs."""
    draw = random.Random(number)
    now = int(time.time() * 1000)
    params = [{"key": "model", "value": draw.choice(("resnet", "vit", "gpt", "mlp"))}]
    params += [{"key": f"param_{i}", "value": f"{draw.random():.6f}"} for i in range(19)]
    metrics = [
        {"key": name, "value": draw.random(), "timestamp": now, "step": 1}
        for name in ("loss", "accuracy", *(f"score_{i}" for i in range(8)))
    ]
    tags = [{"key": f"tag_{i}", "value": f"value-{draw.randrange(10)}"} for i in range(5)]
    return {"params": params, "metrics": metrics, "tags": tags}


def numbers(start: int = 0) -> Iterator[int]:
    """Count upwards for ever."""
    while True:
        yield start
        start += 1
