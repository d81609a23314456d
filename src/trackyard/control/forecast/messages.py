"""What the server and the process that runs ahead say to each other: length, then msgpack.

Owns the questions. The process reads the queue from the database itself, so a question is small
however long the queue is.
"""

from __future__ import annotations

from typing import Any

import msgspec

from trackyard.access.principal import Principal
from trackyard.leases.rules import LeaseRules
from trackyard.queue.specification import JobRequest, JobSpec
from trackyard.scheduling import Policy

#: Bytes that tell how long a message is.
HEAD_BYTES = 4

_encode = msgspec.msgpack.Encoder().encode


class ForecastSetup(msgspec.Struct, frozen=True):
    """The first message: where the queue is and by which rules it runs."""

    database: str
    policy: Policy
    rules: LeaseRules


class StartsQuery(msgspec.Struct, frozen=True, tag=True):
    """When do these waiting jobs start?"""

    now_ms: int
    jobs: list[str]


class SmallerQuery(msgspec.Struct, frozen=True, tag=True):
    """Which lesser requests of this waiting job would start now?"""

    now_ms: int
    job: str


class PreviewQuery(msgspec.Struct, frozen=True, tag=True):
    """What would a job meet that is not submitted yet?"""

    now_ms: int
    principal: Principal
    wish: JobRequest
    spec: JobSpec


Question = StartsQuery | SmallerQuery | PreviewQuery


def packed(message: Any) -> bytes:
    """Return a message as it goes over the pipe."""
    body = _encode(message)
    return len(body).to_bytes(HEAD_BYTES, "big") + body
