"""HTTP/1.1 and WebSockets on asyncio: bytes in, requests out, answers back.

Owns connections and their limits; llhttp parses, `websockets` speaks frames. Knows no route and no
caller. An application is a coroutine function of a scope (what was asked) and an exchange (how to
read the body and to answer), which is all that `server.app` sees of this package.
"""

from trackyard.server.wire.exchange import Exchange, ProtocolClosed, RequestScope
from trackyard.server.wire.listener import HttpListener

__all__ = ["Exchange", "HttpListener", "ProtocolClosed", "RequestScope"]
