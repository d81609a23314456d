"""One scheduler for all servers on one database: a row with a holder, an epoch and an expiry.

Owns the row. Who applies a decision proves inside that very transaction that the epoch is still
its own, so a server that was frozen and comes back changes nothing.
"""

from __future__ import annotations

import secrets
import socket

from trackyard.core.errors import Conflict
from trackyard.store.database import Tx

ROLE = "scheduler"
LEASE_SECONDS = 10.0
RENEW_SECONDS = 3.0


class Superseded(Conflict):
    """Another server schedules now; what this one decided is dropped."""


class Leadership:
    """This process's claim to schedule."""

    def __init__(self, *, alone: bool, lease_seconds: float = LEASE_SECONDS) -> None:
        #: where one process owns the database, a former holder is dead for certain
        self._alone = alone
        self._lease_ms = int(lease_seconds * 1000)
        self.holder = f"{socket.gethostname()[:60]}-{secrets.token_hex(6)}"
        self.epoch: int | None = None

    def claim(self, tx: Tx) -> bool:
        """Take or keep the lead; return whether it is ours."""
        row = tx.one(
            f"SELECT holder, epoch, expires_ms FROM leaders WHERE role = ?{tx.dialect.for_update}",
            (ROLE,),
        )
        expires = tx.now_ms + self._lease_ms
        if row is None:
            done = tx.run(
                "INSERT INTO leaders (role, holder, epoch, since_ms, expires_ms)"
                " VALUES (?, ?, 1, ?, ?) ON CONFLICT (role) DO NOTHING",
                (ROLE, self.holder, tx.now_ms, expires),
            )
            return self._won(tx, 1) if done else False
        holder, epoch, until = row
        if holder == self.holder and epoch == self.epoch:
            tx.run("UPDATE leaders SET expires_ms = ? WHERE role = ?", (expires, ROLE))
            return True
        if until > tx.now_ms and not self._alone:
            self.epoch = None
            return False
        tx.run(
            "UPDATE leaders SET holder = ?, epoch = ?, since_ms = ?, expires_ms = ?"
            " WHERE role = ?",
            (self.holder, epoch + 1, tx.now_ms, expires, ROLE),
        )
        return self._won(tx, epoch + 1)

    def _won(self, tx: Tx, epoch: int) -> bool:
        self.epoch = epoch
        tx.event(
            "scheduler.elected",
            team_id=None,
            actor="system",
            subject="scheduler",
            subject_id=self.holder,
            epoch=epoch,
        )
        return True

    def prove(self, tx: Tx) -> None:
        """Refuse to go on unless the lead is still ours."""
        lock = " FOR SHARE" if tx.dialect.name == "postgresql" else ""
        row = tx.one(f"SELECT holder, epoch FROM leaders WHERE role = ?{lock}", (ROLE,))
        if row is None or self.epoch is None or (row[0], row[1]) != (self.holder, self.epoch):
            raise Superseded("another server schedules now")

    def resign(self, tx: Tx) -> None:
        """Let another server take over at once."""
        tx.run(
            "UPDATE leaders SET expires_ms = 0 WHERE role = ? AND holder = ?",
            (ROLE, self.holder),
        )
        self.epoch = None
