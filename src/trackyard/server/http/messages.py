"""Requests and replies of the wire. Owns reading bodies within limits and writing answers; knows
no route.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import msgspec

from trackyard.access.tokens import redact
from trackyard.core.errors import (
    BadRequest,
    InvalidInput,
    TooLarge,
    TooSlow,
    WrongMediaType,
    YardError,
)
from trackyard.core.strict_json import check_json, count_values, too_deep
from trackyard.server.wire.heads import keep_encoded

if TYPE_CHECKING:
    from trackyard.access.principal import Principal
    from trackyard.server.http.pace import CallTurn
    from trackyard.server.routing import Route

#: Values in a JSON body beyond which it is decoded off the event loop: about 2 ms of work.
FEW_VALUES = 4000
#: Seconds in which a JSON body must have arrived, where the settings name no other.
BODY_SECONDS = 30.0
#: Digits of any number worth reading: 64 bits have 19.
_DIGITS = 19
_JSON = ("content-type", "application/json")
#: On every answer; pages add their own Content-Security-Policy.
SECURITY_HEADERS = [
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("x-frame-options", "DENY"),
    ("cache-control", "no-store"),
]
#: All headers of a plain JSON answer, made once: most answers are one.
_PLAIN = [_JSON, *SECURITY_HEADERS]
keep_encoded(_PLAIN)
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Request:
    """One HTTP request, with its caller once access has been checked."""

    __slots__ = (
        "_headers",
        "_query",
        "body_seconds",
        "ended",
        "label",
        "method",
        "params",
        "path",
        "plain",
        "principal",
        "proto",
        "route",
        "scope",
        "turn",
    )

    def __init__(self, scope: Any, proto: Any, body_seconds: float = BODY_SECONDS) -> None:
        self.scope = scope
        self.body_seconds = body_seconds
        self.proto = proto
        self.method: str = scope.method
        self.path: str = scope.path
        self._headers: Any = scope.headers
        self._query: dict[str, list[str]] | None = None
        self.params: Mapping[str, str] = {}
        #: set by the application before the handler runs
        self.route: Route = None  # type: ignore[assignment]
        #: the route by name; empty while none is found
        self.label = ""
        #: whether an error is told as a plain sentence, set from the route
        self.plain = False
        #: set by the application before the handler runs; a public route has none
        self.principal: Principal = None  # type: ignore[assignment]
        #: resolved when a WebSocket's credential has ended; set by the application
        self.ended: asyncio.Future[None] | None = None
        #: the caller's place in line, taken once the body is here
        self.turn: CallTurn | None = None

    def header(self, name: str) -> str | None:
        """Return a header's value by its lower-case name."""
        value: str | None = self._headers.get(name)
        return value

    def headers(self) -> list[tuple[str, str]]:
        """Return every header line, repeated ones too."""
        lines: list[tuple[str, str]] = self._headers.items()
        return lines

    @property
    def peer(self) -> str:
        """Return the caller's socket address as `host:port`."""
        peer: str = self.scope.client
        return peer

    def is_gone(self) -> bool:
        """Tell whether the caller has ended the connection, so that no answer will leave."""
        gone: bool = self.proto.is_gone()
        return gone

    @property
    def query(self) -> dict[str, list[str]]:
        """Return the query string as lists of values."""
        if self._query is None:
            parsed: dict[str, list[str]] = {}
            try:
                pairs = parse_qsl(
                    self.scope.query_string, keep_blank_values=True, max_num_fields=2000
                )
            except ValueError:
                raise BadRequest("the query string has too many parameters") from None
            for key, value in pairs:
                if "\0" in value or "\0" in key:
                    raise BadRequest("the query string holds a NUL character; leave it out")
                parsed.setdefault(key, []).append(value)
            self._query = parsed
        return self._query

    def arg(self, name: str, default: str | None = None) -> str | None:
        """Return the last value of a query parameter."""
        values = self.query.get(name)
        return values[-1] if values else default

    def number(self, name: str, default: int) -> int:
        """Return a query parameter that is a whole number from 0 up, of 64 bits at most."""
        text = self.arg(name)
        if text is None:
            return default
        found = whole_number(text)
        if found is None:
            raise InvalidInput(f"{name} must be a whole number from 0 up")
        return found

    def content_length(self) -> int | None:
        """Return the declared length of the body."""
        text = self.header("content-length")
        if text is None:
            return None
        if not (text.isascii() and text.isdigit()):
            raise BadRequest("the Content-Length header is not a number")
        if len(text) > _DIGITS:
            raise TooLarge("the body is longer than anything this server takes")
        return int(text)

    async def body(self, *, may_be_packed: bool = False) -> bytes:
        """Read the whole body within the route's limit, whether or not its length was declared."""
        limit = self.route.body_limit
        assert limit is not None
        length = self.content_length()
        if length is not None and length > limit:
            raise TooLarge(f"the body has {length} bytes; this call takes at most {limit}")
        packing = self.header("content-encoding")
        if packing is not None and packing.lower() != "identity" and not may_be_packed:
            raise WrongMediaType("packed bodies are not taken; send it without Content-Encoding")
        raw: bytes | None = self.proto.whole()
        if raw is None:
            try:
                async with asyncio.timeout(self.body_seconds):
                    raw = await self._receive(length, limit)
            except TimeoutError:
                raise TooSlow(
                    f"the body did not arrive within {self.body_seconds:.0f} seconds;"
                    " nothing was done"
                ) from None
        elif len(raw) > limit:
            raise TooLarge(f"the body is over {limit} bytes, the most this call takes")
        if self.turn is not None:
            await self.turn.take()
        return raw

    async def _receive(self, length: int | None, limit: int) -> bytes:
        if length is not None:
            whole: bytes = await self.proto()
            if len(whole) != length:
                raise BadRequest("the body ended early")
            return whole
        if self.header("transfer-encoding") is None:
            return b""
        parts = bytearray()
        async for part in self.proto:
            parts += part
            if len(parts) > limit:
                raise TooLarge(f"the body is over {limit} bytes, the most this call takes")
        return bytes(parts)

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield the body in pieces, as they arrive."""
        async for part in self.proto:
            yield part

    def require_json(self) -> None:
        """Refuse a body that a web form could have sent."""
        kind = self.header("content-type")
        if kind is None:
            return
        name = kind.split(";", 1)[0].strip().lower()
        if name != "application/json":
            raise WrongMediaType(f"this call takes application/json, not {name[:80]!r}")

    async def json(self) -> Any:
        """Read the body as JSON."""
        self.require_json()
        raw = await self.body()
        return await read_json(raw) if raw else {}


async def read_json(raw: bytes) -> Any:
    """Decode JSON and refuse what no honest caller sends; a long body leaves the event loop."""
    if count_values(raw) <= FEW_VALUES:
        return _read_json(raw)
    return await asyncio.get_running_loop().run_in_executor(None, _read_json, raw)


def _read_json(raw: bytes) -> Any:
    try:
        value = _decode(raw)
    except RecursionError:
        raise too_deep() from None
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise BadRequest(f"the body is not valid JSON: {fault}") from fault
    check_json(raw, value)
    return value


def whole_number(text: str) -> int | None:
    """Read a number from 0 up that fits 64 bits, or return None."""
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        return None
    number = int(text)
    return number if number < 2**63 else None


class Response:
    """An answer that is ready as a whole."""

    __slots__ = ("body", "headers", "status")

    def __init__(
        self,
        body: bytes = b"",
        *,
        status: int = 200,
        headers: list[tuple[str, str]] | None = None,
        content_type: str | None = None,
    ) -> None:
        self.status = status
        self.body = body
        self.headers = headers if headers is not None else []
        if content_type is not None:
            self.headers.append(("content-type", content_type))

    def secure(self) -> None:
        """Add the headers every answer carries, where it has none of its own by that name."""
        if self.headers is _PLAIN:
            return
        present = {name for name, _ in self.headers}
        self.headers.extend(line for line in SECURITY_HEADERS if line[0] not in present)

    async def send(self, proto: Any) -> None:
        """Write the answer."""
        proto.response_bytes(self.status, self.headers, self.body)


class JSONResponse(Response):
    """An answer in JSON."""

    __slots__ = ()

    def __init__(
        self, data: Any, *, status: int = 200, headers: list[tuple[str, str]] | None = None
    ) -> None:
        lines = _PLAIN if headers is None else [_JSON, *headers]
        super().__init__(_encode(data), status=status, headers=lines)


class RawJSON(Response):
    """An answer whose JSON text is already made."""

    __slots__ = ()

    def __init__(self, text: bytes) -> None:
        super().__init__(text, headers=_PLAIN)


class StreamResponse(Response):
    """An answer written piece by piece as its source yields."""

    __slots__ = ("pieces",)

    def __init__(
        self,
        pieces: AsyncIterator[bytes],
        *,
        status: int = 200,
        headers: list[tuple[str, str]] | None = None,
    ) -> None:
        super().__init__(status=status, headers=headers)
        self.pieces = pieces

    async def send(self, proto: Any) -> None:
        """Write the pieces; stop when the caller has gone."""
        transport = proto.response_stream(self.status, self.headers)
        async for piece in self.pieces:
            await transport.send_bytes(piece)


class FileResponse(Response):
    """An answer read from a file of the server's own, piece by piece at its caller's pace."""

    __slots__ = ("path", "span")

    def __init__(
        self,
        path: str,
        *,
        span: tuple[int, int] | None = None,
        status: int = 200,
        headers: list[tuple[str, str]] | None = None,
    ) -> None:
        super().__init__(status=status, headers=headers)
        self.path = path
        #: first byte and the byte after the last one
        self.span = span

    async def send(self, proto: Any) -> None:
        """Hand the file over."""
        await proto.response_file(self.status, self.headers, self.path, *(self.span or ()))


def error_response(fault: YardError, *, plain: bool = False) -> Response:
    """Return MLflow's error form for a fault, or the sentence alone."""
    headers = [("retry-after", str(fault.retry_after))] if fault.retry_after else []
    if plain:
        headers.append(("content-type", "text/plain; charset=utf-8"))
        return Response(redact(fault.message).encode(), status=fault.status, headers=headers)
    body: dict[str, Any] = {"error_code": fault.code, "message": redact(fault.message)}
    if fault.details is not None:
        body["details"] = fault.details
    return JSONResponse(body, status=fault.status, headers=headers)
