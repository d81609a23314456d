"""The inbox of each user: what the bell in the web UI shows.

Owns the table `inbox`. A line is written in the transaction of what it tells of, once for each
user; reading marks it, and old ones are forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from trackyard.access.principal import Principal
from trackyard.core.errors import InvalidInput
from trackyard.store.database import Database, ReadConnection, Tx

LISTED, MAX_TITLE = 100, 500
KEEP_MS = 60 * 24 * 3600 * 1000


class InboxLine(msgspec.Struct, frozen=True):
    """One line of an inbox."""

    id: int
    #: `alert` or `mention`
    kind: str
    title: str
    link: str
    created_ms: int
    is_read: bool


class InboxView(msgspec.Struct, frozen=True):
    """A user's inbox, the newest first."""

    unread: int
    lines: list[InboxLine]


def add(
    tx: Tx,
    users: Iterable[int],
    *,
    team_id: int | None,
    kind: str,
    title: str,
    link: str,
    about: str,
) -> int:
    """Put a line into inboxes; one about the same thing is there once."""
    rows = [
        (user, team_id, kind, title[:MAX_TITLE], link[:500], about, tx.now_ms)
        for user in dict.fromkeys(users)
    ]
    if rows:
        tx.many(
            "INSERT INTO inbox (user_id, team_id, kind, title, link, about, created_ms)"
            " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (user_id, about) DO NOTHING",
            rows,
        )
    return len(rows)


class Inbox:
    """Inboxes as the server shows them."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def show(self, principal: Principal) -> InboxView:
        """Return the caller's inbox."""
        user = _user(principal)

        def query(reader: ReadConnection) -> InboxView:
            rows = reader.all(
                "SELECT id, kind, title, link, created_ms, read_ms FROM inbox"
                f" WHERE user_id = ? ORDER BY id DESC LIMIT {LISTED}",
                (user,),
            )
            count = reader.one(
                "SELECT count(*) FROM inbox WHERE user_id = ? AND read_ms IS NULL", (user,)
            )
            lines = [InboxLine(*(*row[:5], row[5] is not None)) for row in rows]
            return InboxView(unread=int(count[0]) if count else 0, lines=lines)

        return await self._db.read(query)

    async def mark_read(self, principal: Principal, up_to: int) -> None:
        """Mark lines as read, up to one of them."""
        user = _user(principal)

        def operation(tx: Tx) -> None:
            tx.run(
                "UPDATE inbox SET read_ms = ? WHERE user_id = ? AND id <= ? AND read_ms IS NULL",
                (tx.now_ms, user, up_to),
            )
            tx.run(
                "DELETE FROM inbox WHERE user_id = ? AND created_ms < ?",
                (user, tx.now_ms - KEEP_MS),
            )

        await self._db.write(operation)


def _user(principal: Principal) -> int:
    if principal.user_id is None:
        raise InvalidInput("only users have an inbox, not the tokens of jobs")
    return principal.user_id
