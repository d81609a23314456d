"""Ends before their time: leases given back, lent nodes called back. Each is one step of a lease's
life inside the caller's transaction.
"""

from __future__ import annotations

from trackyard.core.lease import LeaseState
from trackyard.leases import life
from trackyard.leases.records import LeaseRecord
from trackyard.leases.rules import MINUTE_MS
from trackyard.leases.wording import names
from trackyard.store.database import Tx


def released(tx: Tx, record: LeaseRecord, *, actor: str, why: str) -> LeaseRecord:
    """End a lease early, in one step of its life."""
    if record.state is LeaseState.PENDING:
        return life.step(
            tx,
            record,
            LeaseState.DELETING,
            LeaseState.DELETED,
            event="lease.deleted",
            sentence=f"{why}.",
            actor=actor,
            columns={"sentence": f"{why}.", "ended_ms": tx.now_ms},
        )
    end = min(record.row.ends_ms, -(-tx.now_ms // MINUTE_MS) * MINUTE_MS)
    return life.step(
        tx,
        record,
        LeaseState.TERMINATING,
        event="lease.terminating",
        sentence=f"{why}.",
        actor=actor,
        columns={"sentence": f"{why}.", "ends_ms": end, "lent_ms": None},
    )


def recalled(tx: Tx, record: LeaseRecord, *, actor: str) -> LeaseRecord:
    """Call lent nodes back."""
    return life.step(
        tx,
        record,
        event="lease.recalled",
        sentence=f"{names(record.nodes)} is called back; what was lent saves and makes room.",
        actor=actor,
        columns={"lent_ms": None, "nudged_ms": None, "used_ms": tx.now_ms},
    )
