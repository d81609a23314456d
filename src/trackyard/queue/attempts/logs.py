"""What jobs print: bytes by offset, without a gap, in the database.

Owns `log_chunks` and the end of each member's log. Rows rather than files: a chunk is there with
the offset that says so or not at all, and every server on one database serves the same. The last
chunk grows until it is full; full ones are deflated.
"""

from __future__ import annotations

import zlib

from trackyard.core.errors import NotFound
from trackyard.queue.records import AttemptRow
from trackyard.store.database import ReadConnection, Tx

CHUNK_BYTES = 64 * 1024
#: Bytes one answer carries at most.
READ_BYTES = 1024 * 1024
_LEVEL = 3


def log_end(reader: ReadConnection | Tx, attempt: int, member: int) -> int | None:
    """Return up to where a member's log is held; None for a member there is not."""
    row = reader.one(
        "SELECT log_end FROM attempt_members WHERE attempt = ? AND member = ?", (attempt, member)
    )
    return None if row is None else int(row[0])


def append(tx: Tx, attempt: AttemptRow, member: int, offset: int, data: bytes) -> tuple[bool, int]:
    """Add bytes at an offset; return whether they follow without a gap, and the end held."""
    row = tx.one(
        "SELECT log_end FROM attempt_members WHERE attempt = ? AND member = ?"
        f"{tx.dialect.for_update}",
        (attempt.id, member),
    )
    if row is None:
        raise NotFound(f"attempt {attempt.attempt_id} has no member {member}")
    end = int(row[0])
    if offset > end:
        return False, end
    fresh = data[end - offset :]
    if not fresh:
        return True, end
    _write(tx, attempt.id, member, end, fresh)
    tx.run(
        "UPDATE attempt_members SET log_end = ? WHERE attempt = ? AND member = ?",
        (end + len(fresh), attempt.id, member),
    )
    return True, end + len(fresh)


def _write(tx: Tx, attempt: int, member: int, end: int, fresh: bytes) -> None:
    last = tx.one(
        "SELECT start, size, data FROM log_chunks WHERE attempt = ? AND member = ? AND packed = 0"
        " ORDER BY start DESC LIMIT 1",
        (attempt, member),
    )
    start, held = end, b""
    if last is not None and last[0] + last[1] == end:
        start, held = last[0], bytes(last[2])
    whole = held + fresh
    rows = []
    at = 0
    while len(whole) - at >= CHUNK_BYTES:
        part = whole[at : at + CHUNK_BYTES]
        rows.append((attempt, member, start + at, len(part), 1, zlib.compress(part, _LEVEL)))
        at += CHUNK_BYTES
    if at < len(whole):
        rows.append((attempt, member, start + at, len(whole) - at, 0, whole[at:]))
    tx.many(
        "INSERT INTO log_chunks (attempt, member, start, size, packed, data)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (attempt, member, start) DO UPDATE SET"
        " size = excluded.size, packed = excluded.packed, data = excluded.data",
        rows,
    )


def read(
    reader: ReadConnection, attempt: int, member: int, offset: int, limit: int = READ_BYTES
) -> bytes:
    """Return bytes from an offset, as many as are held and asked for."""
    if limit <= 0:
        return b""
    rows = reader.all(
        "SELECT start, size, packed, data FROM log_chunks WHERE attempt = ? AND member = ?"
        " AND start + size > ? AND start < ? ORDER BY start",
        (attempt, member, offset, offset + limit),
    )
    parts = []
    for start, _, packed, data in rows:
        raw = zlib.decompress(data) if packed else bytes(data)
        parts.append(raw[max(0, offset - start) : max(0, offset + limit - start)])
    return b"".join(parts)


def tail_offset(reader: ReadConnection, attempt: int, member: int, lines: int) -> int:
    """Return where the last lines of a log begin."""
    end = log_end(reader, attempt, member) or 0
    at, seen = end, 0
    while at > 0:
        start = max(0, at - CHUNK_BYTES)
        block = read(reader, attempt, member, start, at - start)
        # The newline that ends the log begins no line.
        stop = len(block) - 1 if at == end and block.endswith(b"\n") else len(block)
        while True:
            place = block.rfind(b"\n", 0, stop)
            if place < 0:
                break
            seen += 1
            if seen == lines:
                return start + place + 1
            stop = place
        at = start
    return 0
