"""Closed months and the rate card, as they are kept.

Owns `closed_months` and the rate card's row of `settings`. A closed month is the account of that
day with its rates; what changes later does not alter it.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

import msgspec

from trackyard.core.errors import Conflict, InvalidInput
from trackyard.insight.rates import RateCard
from trackyard.insight.report import UsageAccount
from trackyard.queue.shares.budgets import month_bounds
from trackyard.store.database import ReadConnection, Tx
from trackyard.store.settings import keep_setting, setting

RATES_KEY = "usage_rates"
_decode = msgspec.msgpack.Decoder(UsageAccount).decode
_decode_rates = msgspec.json.Decoder(RateCard).decode


class ClosedMonth(NamedTuple):
    """A month that was closed."""

    month: str
    closed_ms: int
    actor: str


def load_rates(reader: ReadConnection | Tx) -> RateCard:
    """Return the rate card in force; an empty one where none was set."""
    text = setting(reader, RATES_KEY)
    return RateCard() if text is None else _decode_rates(text)


def set_rates(tx: Tx, card: RateCard, *, actor: str) -> None:
    """Change the rate card."""
    card.check()
    keep_setting(tx, RATES_KEY, msgspec.json.encode(card).decode())
    tx.event(
        "usage.rates_set",
        team_id=None,
        actor=actor,
        subject="usage",
        subject_id="rates",
        rates=msgspec.to_builtins(card),
    )


def list_closed(reader: ReadConnection | Tx) -> list[ClosedMonth]:
    """Return the closed months, the newest first."""
    rows = reader.all("SELECT month, closed_ms, actor FROM closed_months ORDER BY month DESC")
    return [ClosedMonth(*row) for row in rows]


def load_closed(
    reader: ReadConnection | Tx, month: str
) -> tuple[ClosedMonth, UsageAccount] | None:
    """Return a closed month with its account, or None if it is open."""
    row = reader.one(
        "SELECT month, closed_ms, actor, data FROM closed_months WHERE month = ?", (month,)
    )
    if row is None:
        return None
    return ClosedMonth(*row[:3]), _decode(zlib.decompress(bytes(row[3])))


def check_closable(month: str, now_ms: int) -> tuple[int, int]:
    """Return the bounds of a month that is over, or say that it is not."""
    since, until = month_bounds(month)
    if now_ms < until:
        raise InvalidInput(
            f"{month} is not over; it can be closed from its last midnight (UTC) on"
        )
    return since, until


def pack(account: UsageAccount) -> bytes:
    """Return an account as it is kept."""
    return zlib.compress(msgspec.msgpack.encode(account), 6)


def store_month(tx: Tx, month: str, packed: bytes, *, actor: str) -> ClosedMonth:
    """Keep a month's account for good; a second one is refused."""
    done = tx.run(
        "INSERT INTO closed_months (month, closed_ms, actor, data) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (month) DO NOTHING",
        (month, tx.now_ms, actor, packed),
    )
    if not done:
        raise Conflict(f"{month} is closed already; `yard usage --month {month}` shows it")
    tx.event(
        "usage.month_closed",
        team_id=None,
        actor=actor,
        subject="usage",
        subject_id=month,
    )
    return ClosedMonth(month, tx.now_ms, actor)
