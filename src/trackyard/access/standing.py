"""What a user may do in a team now, for work that goes on after the call that asked for it.

Owns those look-ups. A credential is not needed; a user who left the team or was disabled has none.
"""

from __future__ import annotations

from trackyard.access.principal import Principal, Role
from trackyard.store.database import ReadConnection, Tx


def standing(
    reader: ReadConnection | Tx, *, user_id: int | None, team_id: int, at_most: Role
) -> Principal | None:
    """Return a user as a caller of a team, with the role they have now; None: they have none."""
    row = reader.one(
        "SELECT u.name, u.is_admin, t.name, t.default_experiment_id, m.role FROM users u"
        " JOIN teams t ON t.id = ? LEFT JOIN members m ON m.user_id = u.id AND m.team_id = t.id"
        " WHERE u.id = ? AND u.disabled_ms IS NULL",
        (team_id, user_id),
    )
    if row is None or (row[4] is None and not row[1]):
        return None
    has = Role.owner if row[1] else Role[row[4]]
    return Principal(
        name=row[0],
        user_id=user_id,
        team_id=team_id,
        team=row[2],
        default_experiment=row[3],
        role=min(has, at_most),
    )


def role_in(reader: ReadConnection | Tx, team_id: int, user_id: int | None) -> Role | None:
    """Return the role a user has in a team, or None for no member."""
    row = reader.one(
        "SELECT role FROM members WHERE team_id = ? AND user_id = ?", (team_id, user_id)
    )
    return None if row is None else Role.parse(row[0])


def is_admin(reader: ReadConnection | Tx, user_id: int | None) -> bool:
    """Tell whether a user is a platform admin."""
    row = reader.one("SELECT is_admin FROM users WHERE id = ?", (user_id,))
    return bool(row and row[0])
