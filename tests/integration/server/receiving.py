"""Receivers of alerts on this machine: a webhook's, and a mail server that keeps what it gets."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Hook:
    """A place that takes webhooks and answers as it is told."""

    url: str = ""
    calls: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    #: what it answers next, as status and location; then 200
    plan: list[tuple[int, str]] = field(default_factory=list)

    def bodies(self) -> list[Any]:
        return [json.loads(body) for _, body in self.calls]


@contextlib.contextmanager
def open_hook(found: Hook | None = None) -> Iterator[Hook]:
    found = found or Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status, location = found.plan.pop(0) if found.plan else (200, "")
            found.calls.append(({k.lower(): v for k, v in self.headers.items()}, body))
            self.send_response(status)
            if location:
                self.send_header("location", location)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class MailServer:
    """Speaks enough SMTP to take a mail, or to refuse one."""

    def __init__(self) -> None:
        self.mails: list[Message] = []
        self.recipients: list[str] = []
        #: answers to DATA that come first
        self.refusals: list[str] = []
        self._server: asyncio.Server | None = None

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def say(line: str) -> None:
            writer.write(f"{line}\r\n".encode())

        say("220 test")
        while line := (await reader.readline()).decode().strip():
            verb = line.split()[0].upper()
            if verb == "DATA":
                if self.refusals:
                    say(self.refusals.pop(0))
                    continue
                say("354 go on")
                data = (await reader.readuntil(b"\r\n.\r\n"))[:-5]
                self.mails.append(message_from_bytes(data, policy=default))
            elif verb == "RCPT":
                self.recipients.append(line.partition("<")[2].rstrip(">"))
            if verb == "QUIT":
                say("221 bye")
                break
            say("250 ok")
        writer.close()
