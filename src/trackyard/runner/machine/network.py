"""Which of the machine's networks a gang uses, for libraries that would guess by its host name.

Owns reading interfaces and their addresses. Decides nothing about gangs.
"""

from __future__ import annotations

import fcntl
import socket
import struct
from typing import Optional

_SIOCGIFADDR = 0x8915


def interface_of(address: str) -> Optional[str]:
    """Return the interface that has an IPv4 address; None if none here has it."""
    try:
        wanted = socket.inet_aton(socket.gethostbyname(address))
    except OSError:
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
            except OSError:
                continue
            if answer[20:24] == wanted:
                return name
    return None


def misleading_name() -> bool:
    """Tell whether this host's own name leads nowhere else but here, as on many Debians."""
    try:
        return socket.gethostbyname(socket.gethostname()).startswith("127.")
    except OSError:
        return True
