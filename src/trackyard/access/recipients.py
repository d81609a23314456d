"""Who is meant by a team, by the admins or by a name: users to be told something.

Owns queries over users and members for notices. Knows no notice.
"""

from __future__ import annotations

from collections.abc import Sequence

from trackyard.store.database import ReadConnection, Tx

#: Users that one notice goes to.
MOST = 500


def team_members(reader: ReadConnection | Tx, team_id: int) -> list[int]:
    """Return the users of a team."""
    rows = reader.all(
        "SELECT u.id FROM members m JOIN users u ON u.id = m.user_id"
        f" WHERE m.team_id = ? AND u.disabled_ms IS NULL ORDER BY u.id LIMIT {MOST}",
        (team_id,),
    )
    return [int(row[0]) for row in rows]


def admins(reader: ReadConnection | Tx) -> list[int]:
    """Return the platform's admins."""
    rows = reader.all(
        f"SELECT id FROM users WHERE is_admin = 1 AND disabled_ms IS NULL ORDER BY id LIMIT {MOST}"
    )
    return [int(row[0]) for row in rows]


def members_by_name(reader: ReadConnection | Tx, team_id: int, names: Sequence[str]) -> list[int]:
    """Return those of the named users who are in a team, or are admins."""
    wanted = sorted({name.lower() for name in names})[:MOST]
    if not wanted:
        return []
    marks = ",".join("?" * len(wanted))
    rows = reader.all(
        f"SELECT u.id FROM users u WHERE lower(u.name) IN ({marks}) AND u.disabled_ms IS NULL"
        " AND (u.is_admin = 1 OR EXISTS (SELECT 1 FROM members m WHERE m.user_id = u.id"
        " AND m.team_id = ?)) ORDER BY u.id",
        (*wanted, team_id),
    )
    return [int(row[0]) for row in rows]
