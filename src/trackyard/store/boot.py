"""What names this process among those that share a database. Knows no table."""

from __future__ import annotations

import hashlib
import secrets
import socket

#: Short for the machine, or the container: processes of one see each other's connections.
_MACHINE = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
#: This process, from its start to its end.
BOOT = f"{_MACHINE}-{secrets.token_hex(8)}"


def name_of(boot: str = BOOT) -> str:
    """Return what a process calls its connections to PostgreSQL: others see that it lives."""
    return f"trackyard {boot}"


def is_neighbour(boot: str, other: str = BOOT) -> bool:
    """Tell whether two processes are on one machine."""
    return boot.partition("-")[0] == other.partition("-")[0]
