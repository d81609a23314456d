"""Which token was issued with which: a child never outlives or exceeds the token above it.

Owns `tokens.parent_id`. The end and the role of a child are capped when it is issued, and asked
for again whenever it is used: whatever ends or weakens a token, the loss of a role or of the user
included, does so to all that were issued with it. Attempts' tokens are not asked about here.
"""

from __future__ import annotations

from typing import NamedTuple

from trackyard.access.principal import Role
from trackyard.core.errors import Denied
from trackyard.store.database import ReadConnection, Tx

#: Tokens issued with one another, at most; the walk goes a little further than that.
MAX_DEPTH = 16
_ABOVE = (
    "WITH RECURSIVE line (id, parent_id, depth) AS ("
    " SELECT id, parent_id, 0 FROM tokens WHERE id = ?"
    " UNION ALL SELECT k.id, k.parent_id, line.depth + 1 FROM tokens k"
    f" JOIN line ON k.id = line.parent_id WHERE line.depth < {MAX_DEPTH * 2})"
    " SELECT k.parent_id, k.role, k.revoked_ms, k.expires_ms, u.is_admin, u.disabled_ms, m.role"
    " FROM line JOIN tokens k ON k.id = line.id LEFT JOIN users u ON u.id = k.user_id"
    " LEFT JOIN members m ON m.user_id = k.user_id AND m.team_id = k.team_id"
    " ORDER BY line.depth"
)
_BELOW = (
    "WITH RECURSIVE below (id) AS (SELECT id FROM tokens WHERE parent_id = ?"
    " UNION SELECT k.id FROM tokens k JOIN below ON k.parent_id = below.id)"
    " SELECT id FROM below"
)


class Bounds(NamedTuple):
    """What tokens below one may be at most."""

    role: Role
    is_admin: bool
    expires_ms: int | None
    depth: int


def bounds(reader: ReadConnection | Tx, token_id: str, now_ms: int) -> Bounds | None:
    """Return what a token and all above it leave to those below; None if one of them ended."""
    rows = reader.all(_ABOVE, (token_id,))
    if not rows or rows[-1][0] is not None:
        return None
    role, is_admin, ends = Role.owner, True, None
    for _, own_role, revoked, expires, admin, disabled, member_role in rows:
        is_over = revoked is not None or (expires is not None and expires <= now_ms)
        if is_over or disabled is not None or (member_role is None and not admin):
            return None
        # An admin's own token may grant any role, in any team; others grant what they hold.
        if not (admin and Role[own_role] is Role.owner):
            is_admin = False
            role = min(role, Role[own_role], Role.owner if admin else Role[member_role])
        if expires is not None:
            ends = expires if ends is None else min(ends, expires)
    return Bounds(role, is_admin, ends, len(rows))


def bounds_for_child(tx: Tx, parent_id: str) -> Bounds:
    """Return the bounds of a token about to be issued, or refuse it."""
    found = bounds(tx, parent_id, tx.now_ms)
    if found is None:
        raise Denied("the token this is asked with has ended; use another one")
    if found.depth >= MAX_DEPTH:
        raise Denied(
            f"{MAX_DEPTH} tokens were issued one with the other already;"
            " issue this one with an earlier token, or signed in to the web pages"
        )
    return found


def end_below(tx: Tx, token_id: str) -> int:
    """Revoke every token issued with one, and with those; return how many."""
    return tx.run(
        f"UPDATE tokens SET revoked_ms = ? WHERE revoked_ms IS NULL AND id IN ({_BELOW})",
        (tx.now_ms, token_id),
    )
