"""What teams have used, decayed: the ledger behind fair shares. Owns `usage` of team_shares."""

from __future__ import annotations

from trackyard.store.database import ReadConnection, Tx

#: Use counts half after this long; the queue's policy says the same.
HALF_LIFE_SECONDS = 7 * 86_400.0


def decayed(usage: float, since_ms: int, now_ms: int, half_life: float) -> float:
    """Return what is left of a use after time has passed."""
    elapsed = max(0.0, (now_ms - since_ms) / 1000)
    return float(usage * 0.5 ** (elapsed / half_life))


def charge(
    tx: Tx, team_id: int, gpu_seconds: float, *, half_life: float = HALF_LIFE_SECONDS
) -> None:
    """Add GPU-seconds to a team's use."""
    row = tx.one(
        f"SELECT usage, usage_ms FROM team_shares WHERE team_id = ?{tx.dialect.for_update}",
        (team_id,),
    )
    if row is None:
        tx.run(
            "INSERT INTO team_shares (team_id, weight, usage, usage_ms) VALUES (?, 1, ?, ?)"
            " ON CONFLICT (team_id) DO UPDATE SET usage = team_shares.usage + excluded.usage",
            (team_id, gpu_seconds, tx.now_ms),
        )
        return
    left = decayed(row[0], row[1], tx.now_ms, half_life)
    tx.run(
        "UPDATE team_shares SET usage = ?, usage_ms = ? WHERE team_id = ?",
        (left + gpu_seconds, tx.now_ms, team_id),
    )


def usages(reader: ReadConnection, now_ms: int, half_life: float) -> dict[int, float]:
    """Return every team's use as it counts now."""
    rows = reader.all("SELECT team_id, usage, usage_ms FROM team_shares")
    return {row[0]: decayed(row[1], row[2], now_ms, half_life) for row in rows}
