"""What a runner is told, sealed for its way through a cluster whose list of jobs others read.

The other side is `runner.ray.ticket`, which has the standard library alone; hence a key stream of
HMAC-SHA256 over a counter, and a second HMAC over what it made. Each key seals one spec.
"""

from __future__ import annotations

import hashlib
import hmac

TAG_BYTES = hashlib.sha256().digest_size


def seal(key: str, data: bytes) -> bytes:
    """Return the data as only who has the key can read it, and change it unnoticed."""
    secret = bytes.fromhex(key)
    hidden = _mix(_derived(secret, b"hide"), data)
    return _tag(secret, hidden) + hidden


def _derived(secret: bytes, use: bytes) -> bytes:
    return hmac.new(secret, use, hashlib.sha256).digest()


def _tag(secret: bytes, hidden: bytes) -> bytes:
    return hmac.new(_derived(secret, b"prove"), hidden, hashlib.sha256).digest()


def _mix(secret: bytes, data: bytes) -> bytes:
    blocks = range(0, len(data), TAG_BYTES)
    stream = b"".join(_derived(secret, block.to_bytes(8, "big")) for block in blocks)
    size = len(data)
    mixed = int.from_bytes(data, "big") ^ int.from_bytes(stream[:size], "big")
    return mixed.to_bytes(size, "big")
