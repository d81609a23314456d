"""One POST to an address that a user named. Blocks: call it in a thread.

Owns the connection to an address that was checked, the limits on time and bytes, and redirects:
only those that repeat the request, each checked like the first. Uses no proxy, no cookie, no
credential and keeps no connection.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urljoin

from trackyard.core.errors import InvalidInput
from trackyard.outbound.addresses import AddressTarget, AllowedAddresses, read_target, resolve

CONNECT_SECONDS, TOTAL_SECONDS = 10.0, 30.0
MAX_REDIRECTS = 3
#: Bytes of an answer that are read; what follows is left.
ANSWER_BYTES = 16 * 1024
#: Redirects that repeat the method and the body.
_REPEATING = (307, 308)


@dataclass(frozen=True, slots=True)
class Answer:
    """What an address answered, or why there is no answer."""

    status: int | None = None
    body: str = ""
    error: str = ""
    #: seconds after which the other side asks to be called again
    retry_after: float | None = None

    @property
    def is_good(self) -> bool:
        """Tell whether the call was taken."""
        return self.status is not None and self.status < 400 and not self.error

    @property
    def may_pass(self) -> bool:
        """Tell whether a later try may succeed."""
        if self.status is None:
            return True
        return self.status in (408, 425, 429) or self.status >= 500


def post(url: str, body: bytes, headers: Mapping[str, str], allowed: AllowedAddresses) -> Answer:
    """Send one request and return what came of it; nothing is raised."""
    until = time.monotonic() + TOTAL_SECONDS
    for _ in range(MAX_REDIRECTS + 1):
        try:
            target = read_target(url, allowed)
            addresses = resolve(target, allowed)
        except InvalidInput as refusal:
            return Answer(error=refusal.message)
        answer, location = _try_each(target, addresses, body, headers, until)
        if not location:
            return answer
        url = urljoin(url, location)
    return Answer(status=answer.status, error=f"more than {MAX_REDIRECTS} redirects")


def _try_each(
    target: AddressTarget,
    addresses: list[str],
    body: bytes,
    headers: Mapping[str, str],
    until: float,
) -> tuple[Answer, str]:
    """Send to the first address that takes a connection."""
    fault = "no address"
    for address in addresses:
        left = min(CONNECT_SECONDS, until - time.monotonic())
        if left <= 0:
            break
        try:
            raw = socket.create_connection((address, target.port), timeout=left)
        except OSError as why:
            fault = _said(why)
            continue
        try:
            return _exchange(target, raw, body, headers, until)
        except (OSError, http.client.HTTPException) as why:
            return Answer(error=f"the request failed: {_said(why)}"), ""
        finally:
            raw.close()
    return Answer(error=f"cannot connect to {target.host}:{target.port}: {fault}"), ""


def _exchange(
    target: AddressTarget,
    raw: socket.socket,
    body: bytes,
    headers: Mapping[str, str],
    until: float,
) -> tuple[Answer, str]:
    link = http.client.HTTPConnection(target.host, target.port)
    link.sock = raw
    if target.scheme == "https":
        context = ssl.create_default_context()
        link.sock = context.wrap_socket(raw, server_hostname=target.host)
    try:
        _limit(link, until)
        shown = f"[{target.host}]" if ":" in target.host else target.host
        port = "" if target.port in (80, 443) else f":{target.port}"
        link.request(
            "POST",
            target.path,
            body=body,
            headers={**headers, "Host": f"{shown}{port}", "Connection": "close"},
        )
        response = link.getresponse()
        if response.status in _REPEATING and response.headers.get("location"):
            return Answer(status=response.status), str(response.headers["location"])
        text = _read(link, response, until).decode("utf-8", "replace")
        after = response.headers.get("retry-after", "")
        wait = float(after) if after.isdecimal() and len(after) < 7 else None
        return Answer(status=response.status, body=text, retry_after=wait), ""
    finally:
        link.close()


def _read(
    link: http.client.HTTPConnection, response: http.client.HTTPResponse, until: float
) -> bytes:
    """Read the beginning of an answer within the time that is left."""
    found = b""
    while len(found) < ANSWER_BYTES:
        _limit(link, until)
        piece = response.read1(ANSWER_BYTES - len(found))
        if not piece:
            break
        found += piece
    return found


def _limit(link: http.client.HTTPConnection, until: float) -> None:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("it took too long")
    if link.sock is not None:
        link.sock.settimeout(min(left, CONNECT_SECONDS))


def _said(why: Exception) -> str:
    return (str(why) or type(why).__name__)[:200]
