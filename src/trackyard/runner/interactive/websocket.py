"""A WebSocket as a client speaks it (RFC 6455), without a socket: bytes in, messages out.

Owns the handshake's text, masking and frames. Knows neither threads nor what messages mean.
"""

from __future__ import annotations

import base64
import hashlib
import os
import struct
from typing import Dict, List, Optional, Tuple

_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
#: a server that sends more in one message is not ours
MOST_BYTES = 4 * 1024 * 1024
HEAD_BYTES = 64 * 1024


class WrongAnswer(Exception):
    """What came is no WebSocket; `status` is the HTTP status, 0 if there was none."""

    def __init__(self, sentence: str, status: int = 0) -> None:
        super().__init__(sentence)
        self.status = status


def handshake(host: str, path: str, headers: Dict[str, str]) -> Tuple[bytes, bytes]:
    """Return the request that opens a WebSocket, and the key that its answer must prove."""
    key = base64.b64encode(os.urandom(16))
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {host}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {key.decode()}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode(), key


def check_answer(head: bytes, key: bytes) -> None:
    """Refuse an answer that is not the start of our WebSocket."""
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ", 2)
    status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
    if status != 101:
        raise WrongAnswer(f"the server answered {lines[0][:80]!r}", status)
    proof = base64.b64encode(hashlib.sha1(key + _MAGIC).digest()).decode()  # noqa: S324
    found = [
        line.partition(":")[2].strip()
        for line in lines[1:]
        if line.partition(":")[0].strip().lower() == "sec-websocket-accept"
    ]
    if found != [proof]:
        raise WrongAnswer("the server did not prove that it speaks WebSocket")


def frame(data: bytes, kind: int = BINARY) -> bytes:
    """Return one masked frame."""
    size = len(data)
    if size < 126:
        head = struct.pack(">BB", 0x80 | kind, 0x80 | size)
    elif size < 1 << 16:
        head = struct.pack(">BBH", 0x80 | kind, 0x80 | 126, size)
    else:
        head = struct.pack(">BBQ", 0x80 | kind, 0x80 | 127, size)
    mask = os.urandom(4)
    return head + mask + _masked(data, mask)


def _masked(data: bytes, mask: bytes) -> bytes:
    """XOR by whole numbers: byte by byte would take a hundred times as long."""
    size = len(data)
    repeated = (mask * (size // 4 + 1))[:size]
    mixed = int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")
    return mixed.to_bytes(size, "big")


class FrameReader:
    """Frames as they come, put together into messages."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._parts: List[bytes] = []
        self._kind = 0

    def feed(self, data: bytes) -> List[Tuple[int, bytes]]:
        """Take bytes; return the messages that are now whole, as kind and content."""
        self._bytes += data
        found: List[Tuple[int, bytes]] = []
        while True:
            one = self._next()
            if one is None:
                return found
            final, kind, content = one
            if kind >= CLOSE:
                found.append((kind, content))
                continue
            if kind:
                self._kind = kind
            self._parts.append(content)
            if sum(len(part) for part in self._parts) > MOST_BYTES:
                raise WrongAnswer("a message of the server is too long")
            if final:
                found.append((self._kind, b"".join(self._parts)))
                self._parts = []

    def _next(self) -> Optional[Tuple[bool, int, bytes]]:
        held = self._bytes
        if len(held) < 2:
            return None
        size, start = held[1] & 0x7F, 2
        if size >= 126:
            width = 2 if size == 126 else 8
            if len(held) < 2 + width:
                return None
            size, start = int.from_bytes(held[2 : 2 + width], "big"), 2 + width
        if size > MOST_BYTES or held[1] & 0x80:
            raise WrongAnswer("a frame of the server breaks the protocol")
        if len(held) < start + size:
            return None
        final, kind = bool(held[0] & 0x80), held[0] & 0x0F
        content = bytes(held[start : start + size])
        del held[: start + size]
        return final, kind, content
