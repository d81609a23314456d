"""Trades the ticket that a runner was started with for the key of its own spec.

A cluster shows everybody the environment of its jobs, so the spec comes sealed and the server
hands its key out once. Owns that trade; `engines.ray.sealing` is the other side. Standard library
only.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
import zlib
from typing import Any, Callable, Dict

from trackyard.runner.report import Caller, ServerReply

#: How long a server that does not answer is asked: it may be restarting.
PATIENCE_SECONDS = 300.0
RETRY_SECONDS = 1.0
TAG_BYTES = 32

Post = Callable[[str, bytes], ServerReply]


class TicketRefused(ValueError):
    """The key was not given; the message says why."""


def is_sealed(text: str) -> bool:
    """Tell whether a spec comes sealed; a plain one is packed and so begins otherwise."""
    return text.startswith("{")


def read(text: str) -> Dict[str, Any]:
    """Open a sealed spec with the key that its ticket is traded for."""
    outer = json.loads(text)
    caller = Caller(outer["url"], outer["ticket"], outer["attempt_id"], int(outer["epoch"]))
    try:
        key = trade(caller.post)
    finally:
        caller.close()
    packed = opened(key, base64.b64decode(outer["sealed"]))
    data: Dict[str, Any] = json.loads(zlib.decompress(packed))
    return data


def trade(
    post: Post,
    wait: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> str:
    """Ask for the key until there is an answer; who asks again is known by the same claim."""
    claim = json.dumps({"claim": secrets.token_hex(32)}).encode()
    until = now() + PATIENCE_SECONDS
    while True:
        answer = post("/key", claim)
        if answer.status == 200:
            return str(answer.body["key"])
        if 400 <= answer.status < 500 and answer.status not in (408, 429):
            raise TicketRefused(
                f"the server did not give out the key ({answer.status}):"
                f" {str(answer.body.get('message', ''))[:300]}"
            )
        if now() > until:
            raise TicketRefused(f"the server has not answered for {PATIENCE_SECONDS:g} s")
        wait(RETRY_SECONDS)


def opened(key: str, sealed: bytes) -> bytes:
    """Return what was sealed; raise if it was changed, or sealed with another key."""
    secret = bytes.fromhex(key)
    tag, hidden = sealed[:TAG_BYTES], sealed[TAG_BYTES:]
    wanted = _hmac(_hmac(secret, b"prove"), hidden)
    if not hmac.compare_digest(tag, wanted):
        raise TicketRefused("the spec was changed on its way")
    stream_key = _hmac(secret, b"hide")
    blocks = range(0, len(hidden), TAG_BYTES)
    stream = b"".join(_hmac(stream_key, block.to_bytes(8, "big")) for block in blocks)
    size = len(hidden)
    mixed = int.from_bytes(hidden, "big") ^ int.from_bytes(stream[:size], "big")
    return mixed.to_bytes(size, "big")


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, hashlib.sha256).digest()
