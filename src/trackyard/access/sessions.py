"""Browser sessions and one-time sign-in codes. Only digests are stored; a code opens one
session once.

A session opened by a token, or by a code that a token asked for, ends with it. A token that is
weaker than its user in its team, or that somebody else issued, opens that team alone, with the
token's role; any other signs its user in, with all the user's teams. The token's public id is part
of the session's secret, and so of its digest: whoever takes it off holds no session.
"""

from __future__ import annotations

from typing import NamedTuple

from trackyard.access.lineage import bounds
from trackyard.access.principal import Principal, Role
from trackyard.access.tokens import digest, new_secret
from trackyard.core.errors import Unauthenticated
from trackyard.store.database import Database, ReadConnection, Tx

IDLE_MS = 12 * 3_600_000
LIFE_MS = 14 * 86_400_000
CODE_MS = 15 * 60_000
_BOUND = "."


class _Bound(NamedTuple):
    """What the token that opened a session is good for."""

    team: str
    role: Role
    is_team_only: bool


class Sessions:
    """Opens, finds and ends sessions."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def new_code(self, user_id: int, *, token_id: str = "", life_ms: int = CODE_MS) -> str:
        """Return a code that signs a user in once, with no more power than a token it names."""
        code = _secret(token_id)

        def change(tx: Tx) -> None:
            tx.run("DELETE FROM signins WHERE expires_ms < ?", (tx.now_ms,))
            tx.run(
                "INSERT INTO signins (digest, user_id, expires_ms) VALUES (?, ?, ?)",
                (digest(code), user_id, tx.now_ms + life_ms),
            )

        await self._db.write(change)
        return code

    async def open_with_code(self, code: str) -> str:
        """Spend a sign-in code; return the new session's secret."""

        def change(tx: Tx) -> str:
            spent = tx.run(
                "UPDATE signins SET used_ms = ? WHERE digest = ? AND used_ms IS NULL"
                " AND expires_ms > ?",
                (tx.now_ms, digest(code), tx.now_ms),
            )
            if not spent:
                raise Unauthenticated(
                    "this sign-in address was used already or is too old;"
                    " `yard login --browser` prints a new one"
                )
            row = tx.one("SELECT user_id FROM signins WHERE digest = ?", (digest(code),))
            assert row is not None
            return _open(tx, row[0], code.partition(_BOUND)[2])

        return await self._db.write(change)

    async def open_for(self, user_id: int, token_id: str) -> str:
        """Open a session for a user who proved a token."""
        return await self._db.write(lambda tx: _open(tx, user_id, token_id))

    async def find(
        self, secret: str, team: str | None, *, is_use: bool = True
    ) -> Principal | None:
        """Return the caller behind a session cookie, acting for the team asked for."""
        now_ms = self._db.clock.time_ms()
        key, token_id = digest(secret), secret.partition(_BOUND)[2]
        found = await self._db.peek(
            lambda reader: _find(reader, key, token_id, team, now_ms), journaled=False
        )
        if found is None:
            return None
        principal, seen_ms = found
        if is_use and now_ms - seen_ms > 60_000:
            await self._db.write(
                lambda tx: tx.run(
                    "UPDATE sessions SET seen_ms = ? WHERE digest = ?", (tx.now_ms, key)
                )
            )
        return principal

    async def end(self, secret: str, *, actor: str) -> None:
        """Sign out."""

        def change(tx: Tx) -> None:
            if tx.run("DELETE FROM sessions WHERE digest = ?", (digest(secret),)):
                tx.event(
                    "session.ended", team_id=None, actor=actor, subject="user", subject_id=actor
                )

        await self._db.write(change)


def _secret(token_id: str) -> str:
    return f"{new_secret()}{_BOUND}{token_id}" if token_id else new_secret()


def _open(tx: Tx, user_id: int, token_id: str) -> str:
    secret = _secret(token_id)
    tx.run("DELETE FROM sessions WHERE expires_ms < ?", (tx.now_ms,))
    tx.run(
        "INSERT INTO sessions (digest, user_id, csrf, created_ms, seen_ms, expires_ms)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (digest(secret), user_id, new_secret(), tx.now_ms, tx.now_ms, tx.now_ms + LIFE_MS),
    )
    row = tx.one("SELECT name FROM users WHERE id = ?", (user_id,))
    name = row[0] if row else "?"
    tx.event("session.started", team_id=None, actor=name, subject="user", subject_id=name)
    return secret


def _find(
    reader: ReadConnection, key: str, token_id: str, team: str | None, now_ms: int
) -> tuple[Principal, int] | None:
    row = reader.one(
        "SELECT s.csrf, s.seen_ms, s.expires_ms, u.id, u.name, u.is_admin, u.disabled_ms"
        " FROM sessions s JOIN users u ON u.id = s.user_id WHERE s.digest = ?",
        (key,),
    )
    if row is None:
        return None
    csrf, seen_ms, expires_ms, user_id, user, is_admin, disabled = row
    if disabled is not None or expires_ms <= now_ms or now_ms - seen_ms > IDLE_MS:
        return None
    limit: Role | None = None
    if token_id:
        bound = _bound(reader, token_id, user_id, now_ms)
        home = bound and _standing(reader, user_id, bool(is_admin), bound.team)
        if bound is None or home is None:
            return None
        team = team or bound.team
        is_narrow = bound.is_team_only or bound.role < home[3]
        limit = min(bound.role, home[3]) if is_narrow else None
        if limit is not None and team != bound.team:
            return None
    standing = _standing(reader, user_id, bool(is_admin), team)
    if standing is None:
        return None
    team_id, team_name, default_experiment, role = standing
    principal = Principal(
        name=user,
        user_id=user_id,
        team_id=team_id,
        team=team_name,
        default_experiment=default_experiment,
        role=role if limit is None else limit,
        is_admin=bool(is_admin) and limit is None,
        csrf=csrf,
        opened_by=token_id,
        is_narrow=limit is not None,
    )
    return principal, seen_ms


def _bound(reader: ReadConnection, token_id: str, user_id: int, now_ms: int) -> _Bound | None:
    """Return what a live token of the user is good for."""
    row = reader.one(
        "SELECT t.name, k.role, k.scope FROM tokens k JOIN teams t ON t.id = k.team_id"
        " WHERE k.id = ? AND k.user_id = ? AND k.kind = 'user'",
        (token_id, user_id),
    )
    above = None if row is None else bounds(reader, token_id, now_ms)
    if row is None or above is None:
        return None
    return _Bound(row[0], min(Role[row[1]], above.role), row[2] is not None)


def _standing(
    reader: ReadConnection, user_id: int, is_admin: bool, team: str | None
) -> tuple[int, str, int, Role] | None:
    """Return the team a user acts for, by name or the first one, and the role there."""
    sql = (
        "SELECT t.id, t.name, t.default_experiment_id, m.role FROM teams t"
        f" {'LEFT ' if is_admin else ''}JOIN members m ON m.team_id = t.id AND m.user_id = ?"
    )
    params: list[object] = [user_id]
    if team is not None:
        sql += " WHERE t.name = ?"
        params.append(team)
    row = reader.one(sql + " ORDER BY t.id LIMIT 1", params)
    if row is None:
        return None
    return row[0], row[1], row[2], Role.owner if is_admin else Role[row[3]]
