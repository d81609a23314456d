"""Tokens for the app of one job: a browser's cookie, a program's, and the ticket to a cookie.

Owns issuing and trading them. Such a token opens the pages of that app and nothing else of the
server; it ends with the token or the membership it was issued by, and after hours anyway.
"""

from __future__ import annotations

import msgspec

from trackyard.access.lineage import bounds_for_child
from trackyard.access.principal import Principal
from trackyard.access.tokens import digest, new_token
from trackyard.core.errors import Denied, Unauthenticated
from trackyard.store.database import Tx

TICKET_MS = 60_000
COOKIE_MS = 12 * 3_600_000
PROGRAM_MS = 7 * 86_400_000


class AppScope(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the token of an app is good for."""

    app: str
    #: good for one trade, for a cookie
    is_ticket: bool = False


def read_app_scope(text: str) -> AppScope:
    """Read a stored scope."""
    return msgspec.json.decode(text, type=AppScope)


def issue_app_token(
    tx: Tx, principal: Principal, job_id: str, *, life_ms: int, is_ticket: bool = False
) -> tuple[str, int]:
    """Issue a token for a job's app; return its text and when it ends."""
    if principal.user_id is None:
        raise Denied("apps are opened by people: sign in, or use a token of your own")
    parent = principal.issues_with
    expires = tx.now_ms + life_ms
    if parent is not None:
        above = bounds_for_child(tx, parent).expires_ms
        expires = expires if above is None else min(expires, above)
    scope = AppScope(app=job_id, is_ticket=is_ticket)
    facts = (principal.user_id, principal.team_id, principal.role.name, parent)
    return _write(tx, facts, scope, expires), expires


def trade_app_ticket(tx: Tx, ticket: str, job_id: str) -> tuple[str, int]:
    """Trade a ticket, once, for the token that a browser keeps; return it and when it ends."""
    row = tx.one(
        "SELECT id, user_id, team_id, role, parent_id, scope, expires_ms, revoked_ms FROM tokens"
        f" WHERE digest = ? AND kind = 'app'{tx.dialect.for_update}",
        (digest(ticket),),
    )
    scope = None if row is None else read_app_scope(row[5])
    is_over = row is None or row[7] is not None or row[6] <= tx.now_ms
    if row is None or scope is None or is_over or not scope.is_ticket or scope.app != job_id:
        raise Unauthenticated(
            "this address was used already or is too old; open the app from its job's page again"
        )
    tx.run("UPDATE tokens SET revoked_ms = ? WHERE id = ?", (tx.now_ms, row[0]))
    tx.run("DELETE FROM tokens WHERE kind = 'app' AND expires_ms < ?", (tx.now_ms - COOKIE_MS,))
    expires = tx.now_ms + COOKIE_MS
    if row[4] is not None:
        above = bounds_for_child(tx, row[4]).expires_ms
        expires = expires if above is None else min(expires, above)
    facts = (row[1], row[2], row[3], row[4])
    return _write(tx, facts, AppScope(app=job_id), expires), expires


def _write(
    tx: Tx, facts: tuple[int, int, str, str | None], scope: AppScope, expires_ms: int
) -> str:
    public, secret = new_token()
    user_id, team_id, role, parent = facts
    tx.run(
        "INSERT INTO tokens (id, digest, kind, user_id, team_id, role, label, scope, created_ms,"
        " expires_ms, parent_id) VALUES (?, ?, 'app', ?, ?, ?, '', ?, ?, ?, ?)",
        (
            public,
            digest(secret),
            user_id,
            team_id,
            role,
            msgspec.json.encode(scope).decode(),
            tx.now_ms,
            expires_ms,
            parent,
        ),
    )
    return secret
