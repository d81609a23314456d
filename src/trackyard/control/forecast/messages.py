"""What the server and the process that runs ahead say to each other: length, then msgpack.

Owns the questions. The process reads the queue from the database itself, so a question is small
however long the queue is.
"""

from __future__ import annotations

from typing import Any

import msgspec

from trackyard.access.principal import Principal
from trackyard.leases.rules import LeaseRules
from trackyard.queue.specification import JobSpec, Wish
from trackyard.scheduling import Policy

#: Bytes that tell how long a message is.
HEAD_BYTES = 4

_encode = msgspec.msgpack.Encoder().encode


class Setup(msgspec.Struct, frozen=True):
    """The first message: where the queue is and by which rules it runs."""

    database: str
    policy: Policy
    rules: LeaseRules


class Starts(msgspec.Struct, frozen=True, tag=True):
    """When do these waiting jobs start?"""

    now_ms: int
    jobs: list[str]


class Lesser(msgspec.Struct, frozen=True, tag=True):
    """Which lesser requests of this waiting job would start now?"""

    now_ms: int
    job: str


class Wished(msgspec.Struct, frozen=True, tag=True):
    """What would a job meet that is not submitted yet?"""

    now_ms: int
    principal: Principal
    wish: Wish
    spec: JobSpec


Question = Starts | Lesser | Wished


def packed(message: Any) -> bytes:
    """Return a message as it goes over the pipe."""
    body = _encode(message)
    return len(body).to_bytes(HEAD_BYTES, "big") + body
