"""Retries of create calls whose first try went unanswered. Owns `replies` and the rule that
tells a retry from a second wish; knows nothing of what is created.

Stock clients repeat a POST when its reply was lost, with no key on the wire. The same caller
sending the same words within five minutes is taken for a retry only if all of this holds: it
comes on another connection, that caller asked nothing else about the same thing in between, what
was made is untouched, and the first connection is gone. Who says it twice on a living connection
means it twice, and be it to two servers of one database.
"""

from __future__ import annotations

import hashlib
import ipaddress
import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import msgspec

from trackyard.store.boot import BOOT, is_neighbour, name_of
from trackyard.store.database import Tx
from trackyard.store.journal import UPSERT_REPLY

#: How long a first try is remembered; the gap that is a retry where sockets cannot be seen.
WINDOW_MS = 5 * 60 * 1000
BLIND_WINDOW_MS = 60 * 1000
#: Tells whether a peer's connection is still up; None where the system does not say.
PeerCheck = Callable[[str], bool | None]
#: Tells whether a process that shares the database still runs.
BootCheck = Callable[[Tx, str], bool]

_ESTABLISHED = "01"
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_encode = msgspec.json.Encoder(order="sorted").encode


def digest_of(*parts: Any) -> str:
    """Return one fingerprint of a caller, a route and a request's words (JSON-ready values)."""
    return hashlib.sha256(_encode(parts)).hexdigest()


def connection_is_open(peer: str, tables: tuple[Path, ...] = _TABLES) -> bool | None:
    """Tell whether this machine still holds an established connection to `host:port`."""
    wanted = _kernel_names(peer)
    if not wanted:
        return None
    seen_any = False
    for table in tables:
        try:
            lines = table.read_text().splitlines()[1:]
        except OSError:
            continue
        seen_any = True
        for line in lines:
            fields = line.split()
            if len(fields) > 3 and fields[3] == _ESTABLISHED and fields[2] in wanted:
                return True
    return False if seen_any else None


def boot_is_running(tx: Tx, boot: str) -> bool:
    """Tell whether another server of this database, known by its boot, is connected to it."""
    if tx.dialect.name == "sqlite":
        return False
    named = (name_of(boot),)
    return tx.one("SELECT 1 FROM pg_stat_activity WHERE application_name = ?", named) is not None


def find_retry(
    tx: Tx,
    digest: str,
    *,
    peer: str,
    is_latest: bool = True,
    is_fresh: Callable[[str], bool] | None = None,
    boot: str = BOOT,
    is_open: PeerCheck = connection_is_open,
    is_running: BootCheck = boot_is_running,
) -> str | None:
    """Return what the first try answered if this request is its retry, else None.

    `is_latest`: whether the first try was the last thing this caller asked about its subject.
    `is_fresh`: tells whether what the first try made is still as it was made; who never got the
    answer cannot have changed it.
    """
    row = tx.one("SELECT result, peer, boot, created_ms FROM replies WHERE digest = ?", (digest,))
    if row is None:
        return None
    result, first_peer, first_boot, created_ms = row
    gap_ms = tx.now_ms - created_ms
    if gap_ms > WINDOW_MS or not is_latest:
        return None
    if is_fresh is not None and not is_fresh(str(result)):
        return None
    if first_boot != boot and not is_running(tx, first_boot):
        # A connection of a process that has ended cannot be alive.
        return str(result)
    if first_peer == peer:
        return None
    # Sockets of another machine cannot be seen from here.
    alive = is_open(first_peer) if is_neighbour(first_boot, boot) else None
    if alive is None:
        alive = gap_ms >= BLIND_WINDOW_MS
    return None if alive else str(result)


def remember(tx: Tx, digest: str, result: str, *, peer: str, boot: str = BOOT) -> None:
    """Keep the answer of a create call for its possible retry."""
    tx.run(
        UPSERT_REPLY,
        (digest, result, peer, boot, tx.now_ms),
    )
    # One call in 16 sweeps, which keeps the table short without a delete per create.
    if digest.startswith("0"):
        tx.run("DELETE FROM replies WHERE created_ms < ?", (tx.now_ms - WINDOW_MS,))


class LatestRequests:
    """The last request of each caller about each thing, in memory; a restart forgets it."""

    def __init__(self, limit: int = 10_000) -> None:
        self._marks: OrderedDict[Hashable, str] = OrderedDict()
        self._limit = limit

    def note(self, about: Hashable, mark: str = "") -> bool:
        """Record a request; tell whether the one before bore the same mark or is not known."""
        before = self._marks.get(about)
        self._marks[about] = mark
        self._marks.move_to_end(about)
        if len(self._marks) > self._limit:
            self._marks.popitem(last=False)
        return before is None or before == mark


def _kernel_names(peer: str) -> frozenset[str]:
    """Return a peer's spellings in the kernel's socket tables."""
    host, _, port = peer.rpartition(":")
    if not port.isdigit():
        return frozenset()
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return frozenset()
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    tail = f":{int(port):04X}"
    names = {_words(address.packed) + tail}
    if isinstance(address, ipaddress.IPv4Address):
        names.add(_words(b"\0" * 10 + b"\xff\xff" + address.packed) + tail)
    return frozenset(names)


def _words(packed: bytes) -> str:
    """Write an address as the kernel does: 32-bit words in the machine's own byte order."""
    words = (packed[at : at + 4] for at in range(0, len(packed), 4))
    if sys.byteorder == "little":
        words = (word[::-1] for word in words)
    return "".join(word.hex().upper() for word in words)
