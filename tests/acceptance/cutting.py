"""A TCP proxy that loses chosen replies: the request is served, its answer never arrives."""

import socket
import threading
from types import TracebackType


class CuttingProxy:
    """Forwards to a port; cuts the connection in place of the first answer to each named call."""

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
            doomed = threading.Event()

            def down() -> None:
                while data := _read(server):
                    if doomed.is_set():
                        client.shutdown(socket.SHUT_RDWR)
                        return
                    client.sendall(data)

            answers = threading.Thread(target=down, daemon=True)
            answers.start()
            while data := _read(client):
                if self._is_doomed(data):
                    doomed.set()
                server.sendall(data)
            server.close()


def _read(end: socket.socket) -> bytes:
    try:
        return end.recv(65536)
    except OSError:
        return b""
