"""Bad networks: a proxy that loses chosen replies, and a cable that can be pulled."""

import contextlib
import socket
import threading
from types import TracebackType


class CuttingProxy:
    """Forwards to a port; the first of each named call ends on both sides before its answer.

    The call itself arrives whole, and with it the end of its connection: no answer is read.
    """

    def __init__(self, target_port: int, *calls: bytes) -> None:
        """Name the calls by the start of their request line."""
        self._target = target_port
        self._left = list(calls)
        self.cut: list[bytes] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> "CuttingProxy":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _is_doomed(self, request: bytes) -> bool:
        with self._lock:
            for call in self._left:
                if request.startswith(call):
                    self._left.remove(call)
                    self.cut.append(call)
                    return True
        return False

    def _serve(self, client: socket.socket) -> None:
        """Requests up, answers down; the client speaks first and waits for each answer."""
        with client, socket.create_connection(("127.0.0.1", self._target)) as server:

            def down() -> None:
                while data := _read(server):
                    with contextlib.suppress(OSError):
                        client.sendall(data)

            threading.Thread(target=down, daemon=True).start()
            while data := _read(client):
                if self._is_doomed(data):
                    while not _is_whole(data):
                        data += _read(client)
                    send_and_leave(server, data)
                    return
                server.sendall(data)


def send_and_leave(line: socket.socket, data: bytes) -> None:
    """Send the last bytes of a connection and its end as one: the other side sees both at once."""
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    line.sendall(data)
    line.shutdown(socket.SHUT_RDWR)
    line.close()


def _is_whole(request: bytes) -> bool:
    head, found, body = request.partition(b"\r\n\r\n")
    if not found:
        return False
    lengths = [
        int(value)
        for name, _, value in (line.partition(b":") for line in head.split(b"\r\n"))
        if name.lower() == b"content-length"
    ]
    return len(body) >= (lengths[0] if lengths else 0)


def _read(end: socket.socket) -> bytes:
    try:
        return end.recv(65536)
    except OSError:
        return b""


class Cable:
    """Forwards to a port until it is pulled: then what flows is cut and nobody gets through."""

    def __init__(self, target_port: int) -> None:
        self._target = target_port
        self._is_plugged = True
        self._lock = threading.Lock()
        self._ends: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "Cable":
        return self

    def __exit__(self, *_: object) -> None:
        self.pull()
        self._listener.close()

    def pull(self) -> None:
        """Cut every connection and let no new one through."""
        with self._lock:
            self._is_plugged = False
            ends, self._ends = self._ends, set()
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def plug(self) -> None:
        """Let callers through again."""
        with self._lock:
            self._is_plugged = True

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                is_plugged = self._is_plugged
            if not is_plugged:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self._target))
            with self._lock:
                self._ends |= {client, server}
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=_forward, args=(source, sink), daemon=True).start()


def _forward(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := _read(source):
            sink.sendall(data)
    except OSError:
        pass
    finally:
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
