"""Lines of JSON between the members of a gang, each with proof that its sender knows their secret.

Owns framing and authentication: both sides give a number used once, and every line carries a
digest over secret, numbers, direction and its place in the stream. Nothing is hidden from who
listens in, but nobody else can say a word. Knows nothing of what is said.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import select
import socket
import time
from typing import Any, Dict, List, Optional

#: longest line; an end that sends more is none of ours
MOST_BYTES = 4 * 1024 * 1024
NONCE_BYTES = 16


class ChannelLost(Exception):
    """The other side is gone, or it is not who it should be."""


class GangChannel:
    """One connection to another member."""

    def __init__(self, connection: socket.socket, secret: str, *, is_server: bool) -> None:
        self._socket = connection
        self._secret = secret.encode()
        self._own = os.urandom(NONCE_BYTES).hex().encode()
        self._other = b""
        self._is_server = is_server
        self._held = b""
        self._sent = self._heard = 0
        connection.setblocking(True)
        connection.settimeout(20.0)
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._write(self._own + b"\n")

    @property
    def socket(self) -> socket.socket:
        """What to wait on."""
        return self._socket

    def send(self, message: Dict[str, Any]) -> None:
        """Say something; the other side's number must have come."""
        body = json.dumps(message).encode()
        proof = self._proof(self._is_server, self._sent, body)
        self._sent += 1
        self._write(proof + b" " + body + b"\n")

    def greet(self, seconds: float) -> None:
        """Wait for the other side's number, without which nothing can be said."""
        deadline = time.monotonic() + seconds
        while not self._other:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._socket], [], [], left)[0]:
                raise ChannelLost("no greeting came in time")
            self._fill()
            self._take_greeting()

    def hear(self) -> List[Dict[str, Any]]:
        """Return what has come, without waiting."""
        found: List[Dict[str, Any]] = []
        while select.select([self._socket], [], [], 0)[0]:
            try:
                self._fill()
            except ChannelLost:
                if found:
                    return found
                raise
            self._take_greeting()
            found += self._take_lines()
        return found

    def wait(self, seconds: float) -> List[Dict[str, Any]]:
        """Return what has come, after waiting for something at most so long."""
        select.select([self._socket], [], [], seconds)
        return self.hear()

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(OSError):
            self._socket.close()

    def _write(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as fault:
            raise ChannelLost(str(fault)) from fault

    def _fill(self) -> None:
        try:
            data = self._socket.recv(65536)
        except (OSError, ValueError) as fault:
            raise ChannelLost(str(fault)) from fault
        if not data:
            raise ChannelLost("the connection was closed")
        self._held += data
        if len(self._held) > MOST_BYTES:
            raise ChannelLost("a line is too long")

    def _take_greeting(self) -> None:
        if not self._other and b"\n" in self._held:
            self._other, _, self._held = self._held.partition(b"\n")
            if len(self._other) != 2 * NONCE_BYTES:
                raise ChannelLost("the greeting is not one of ours")

    def _take_lines(self) -> List[Dict[str, Any]]:
        found = []
        while self._other and b"\n" in self._held:
            line, _, self._held = self._held.partition(b"\n")
            proof, _, body = line.partition(b" ")
            if not hmac.compare_digest(proof, self._proof(not self._is_server, self._heard, body)):
                raise ChannelLost("a line bears no proof of the gang's secret")
            self._heard += 1
            found.append(json.loads(body))
        return found

    def _proof(self, by_server: bool, number: int, body: bytes) -> bytes:
        numbers = [self._own, self._other] if self._is_server else [self._other, self._own]
        head = b"%s %s %d %d " % (numbers[0], numbers[1], by_server, number)
        return hmac.new(self._secret, head + body, hashlib.sha256).hexdigest().encode()


def connect(address: str, port: int, secret: str, *, seconds: float = 5.0) -> GangChannel:
    """Return a greeted channel to a member; OSError or ChannelLost if none listens there."""
    connection = socket.create_connection((address, port), timeout=seconds)
    try:
        channel = GangChannel(connection, secret, is_server=False)
        channel.greet(seconds)
    except ChannelLost:
        connection.close()
        raise
    return channel


class GangListener:
    """Where other members connect to; takes who greets, whenever it is asked."""

    def __init__(self, secret: str, *, ports: Optional[List[int]] = None, family: int = 0) -> None:
        self._secret = secret
        self._socket = _listen(ports or [0], family or socket.AF_INET)
        self._socket.setblocking(False)
        #: where it listens
        self.port = int(self._socket.getsockname()[1])

    def accept(self) -> List[GangChannel]:
        """Return the connections that were made since."""
        found: List[GangChannel] = []
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return found
            try:
                found.append(GangChannel(connection, self._secret, is_server=True))
            except ChannelLost:
                connection.close()

    def close(self) -> None:
        """Take nobody any more."""
        with contextlib.suppress(OSError):
            self._socket.close()


def _listen(ports: List[int], family: int) -> socket.socket:
    """Return a socket that listens at the first of these ports that is free."""
    fault: Optional[OSError] = None
    for port in ports:
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("", port))
            listener.listen(256)
        except OSError as found:
            listener.close()
            fault = found
            continue
        return listener
    raise fault or OSError("no port was given")


def free_port(family: int = socket.AF_INET) -> int:
    """Return a port that nothing listens at just now."""
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
