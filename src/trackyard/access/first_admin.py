"""The first team and its admin, whose token the home folder keeps. Owns what an empty database is
given; knows no file.
"""

from __future__ import annotations

from trackyard.access.directory import create_team, create_user
from trackyard.access.tokens import digest, new_token
from trackyard.store.database import Tx

ADMIN, FIRST_TEAM = "admin", "default"


def make_first_admin(tx: Tx, *, with_token: bool) -> tuple[int, str | None]:
    """Make the admin unless there is one; return the user's id and, if asked, a new token."""
    row = tx.one("SELECT id FROM users WHERE name = ?", (ADMIN,))
    if row is None:
        team_id = create_team(tx, FIRST_TEAM, actor="system")
        user_id = create_user(tx, ADMIN, actor="system", is_admin=True)
        tx.run(
            "INSERT INTO members (team_id, user_id, role) VALUES (?, ?, 'owner')",
            (team_id, user_id),
        )
    else:
        user_id = row[0]
    return user_id, _token(tx, user_id) if with_token else None


def _token(tx: Tx, user_id: int) -> str:
    team = tx.one("SELECT id FROM teams ORDER BY id LIMIT 1")
    assert team is not None
    public, secret = new_token()
    tx.run(
        "INSERT INTO tokens (id, digest, kind, user_id, team_id, role, label, created_ms)"
        " VALUES (?, ?, 'user', ?, ?, 'owner', 'first admin token', ?)",
        (public, digest(secret), user_id, team[0], tx.now_ms),
    )
    tx.event(
        "token.created",
        team_id=team[0],
        actor="system",
        subject="token",
        subject_id=public,
        user=ADMIN,
    )
    return secret
