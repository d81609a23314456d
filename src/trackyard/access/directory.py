"""Teams, users, members and tokens as rows. Every change is one transaction with its event."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from trackyard.access.app_tokens import read_app_scope
from trackyard.access.attempt_tokens import issue, read_scope
from trackyard.access.lineage import bounds, bounds_for_child, end_below
from trackyard.access.principal import AttemptScope, Principal, Role
from trackyard.access.tokens import digest, new_token
from trackyard.core.errors import (
    AlreadyExists,
    Conflict,
    Denied,
    InvalidInput,
    NotFound,
    TooBusy,
)
from trackyard.core.ids import TEAM_NAME, USER_NAME, new_experiment_id
from trackyard.store.database import Database, ReadConnection, Tx

DAY_MS = 86_400_000
#: The scope of a user's token that another than the user or an admin issued.
TEAM_ONLY = '{"team_only": true}'
_PRINCIPAL = (
    "SELECT k.id, k.kind, k.role, k.scope, k.expires_ms, k.revoked_ms, k.parent_id, t.id, t.name,"
    " t.default_experiment_id, u.id, u.name, u.is_admin, u.disabled_ms, m.role"
    " FROM tokens k JOIN teams t ON t.id = k.team_id"
    " LEFT JOIN users u ON u.id = k.user_id"
    " LEFT JOIN members m ON m.user_id = k.user_id AND m.team_id = k.team_id"
    " WHERE k.digest = ?"
)


class Directory:
    """The platform's people and their credentials."""

    def __init__(self, database: Database) -> None:
        self._db = database

    # -- teams ------------------------------------------------------------------------------

    async def create_team(self, name: str, *, actor: str) -> int:
        """Create a team with its Default experiment; return its id."""
        return await self._db.write(lambda tx: create_team(tx, name, actor=actor))

    async def teams(self) -> list[dict[str, Any]]:
        """List the teams with their size."""
        sql = (
            "SELECT t.name, t.created_ms, count(m.user_id) FROM teams t"
            " LEFT JOIN members m ON m.team_id = t.id GROUP BY t.id, t.name, t.created_ms"
            " ORDER BY t.name"
        )
        rows = await self._db.read(lambda reader: reader.all(sql))
        return [{"name": row[0], "created_ms": row[1], "members": row[2]} for row in rows]

    async def members(self, team_id: int) -> list[dict[str, Any]]:
        """List a team's members with their roles."""
        sql = (
            "SELECT u.name, m.role, u.is_admin FROM members m JOIN users u ON u.id = m.user_id"
            " WHERE m.team_id = ? ORDER BY u.name"
        )
        rows = await self._db.read(lambda reader: reader.all(sql, (team_id,)))
        return [{"user": row[0], "role": row[1], "is_admin": bool(row[2])} for row in rows]

    async def set_member(self, team: str, user: str, role: str, *, actor: str) -> None:
        """Put a user into a team, or change the user's role there."""
        Role.parse(role)

        def change(tx: Tx) -> None:
            team_id, user_id = team_id_of(tx, team), user_id_of(tx, user)
            tx.run(
                "INSERT INTO members (team_id, user_id, role) VALUES (?, ?, ?)"
                " ON CONFLICT (team_id, user_id) DO UPDATE SET role = excluded.role",
                (team_id, user_id, role),
            )
            tx.event(
                "member.set",
                team_id=team_id,
                actor=actor,
                subject="user",
                subject_id=user,
                role=role,
            )

        await self._db.write(change)

    async def remove_member(self, team: str, user: str, *, actor: str) -> None:
        """Take a user out of a team and end the tokens held there, with what they issued."""

        def change(tx: Tx) -> None:
            drop_member(tx, team_id_of(tx, team), user_id_of(tx, user), user, actor=actor)

        await self._db.write(change)

    # -- users ------------------------------------------------------------------------------

    async def create_user(self, name: str, *, actor: str, is_admin: bool = False) -> int:
        """Create a user without any team."""
        return await self._db.write(
            lambda tx: create_user(tx, name, actor=actor, is_admin=is_admin)
        )

    async def users(self) -> list[dict[str, Any]]:
        """List the users with their teams."""
        sql = (
            "SELECT u.name, u.is_admin, u.created_ms, u.disabled_ms, t.name, m.role FROM users u"
            " LEFT JOIN members m ON m.user_id = u.id LEFT JOIN teams t ON t.id = m.team_id"
            " ORDER BY u.name, t.name"
        )
        found: dict[str, dict[str, Any]] = {}
        for name, is_admin, created, disabled, team, role in await self._db.read(
            lambda reader: reader.all(sql)
        ):
            user = found.setdefault(
                name,
                {
                    "name": name,
                    "is_admin": bool(is_admin),
                    "created_ms": created,
                    "disabled": disabled is not None,
                    "teams": {},
                },
            )
            if team is not None:
                user["teams"][team] = role
        return list(found.values())

    async def disable_user(self, name: str, *, actor: str, disabled: bool = True) -> None:
        """Shut a user out at once, or let the user in again."""

        def change(tx: Tx) -> None:
            user_id = user_id_of(tx, name)
            tx.run(
                "UPDATE users SET disabled_ms = ? WHERE id = ?",
                (tx.now_ms if disabled else None, user_id),
            )
            if disabled:
                tx.run("DELETE FROM sessions WHERE user_id = ?", (user_id,))
            tx.event(
                "user.updated",
                team_id=None,
                actor=actor,
                subject="user",
                subject_id=name,
                disabled=disabled,
            )

        await self._db.write(change)

    # -- tokens -----------------------------------------------------------------------------

    async def create_token(
        self,
        *,
        user: str,
        team: str,
        role: str,
        label: str,
        actor: str,
        days: int | None = 90,
        kind: str = "user",
        members_only: bool = False,
        team_only: bool = False,
        parent_id: str | None = None,
    ) -> dict[str, Any]:
        """Issue a token that acts for a user in a team, with at most the user's role.

        One of kind `feed` reads the calendar feed and nothing else. An owner issues tokens for
        the team's members alone, and none for a platform admin, who could do more than an owner;
        such a token, and what is issued by it, signs its user in to this team only. What is issued
        with a token, its parent, ends with it at the latest.
        """
        Role.parse(role)

        def change(tx: Tx) -> dict[str, Any]:
            team_id, user_id = team_id_of(tx, team), user_id_of(tx, user)
            if members_only:
                _check_member(tx, team_id, user_id, f"{user} in team {team}")
            public, secret = new_token()
            expires = _end(tx, days, parent_id)
            scope = TEAM_ONLY if members_only or team_only else None
            row = (public, digest(secret), kind, user_id, team_id, role, label, scope)
            tx.run(
                "INSERT INTO tokens (id, digest, kind, user_id, team_id, role, label, scope,"
                " created_ms, expires_ms, parent_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, tx.now_ms, expires, parent_id),
            )
            tx.event(
                "token.created",
                team_id=team_id,
                actor=actor,
                subject="token",
                subject_id=public,
                user=user,
                role=role,
                label=label,
                parent=parent_id,
                expires_ms=expires,
            )
            made = {"id": public, "token": secret, "team": team, "user": user, "role": role}
            return {**made, "expires_ms": expires, "parent_id": parent_id}

        return await self._db.write(change)

    async def create_attempt_token(
        self, *, team_id: int, scope: AttemptScope, expires_ms: int | None
    ) -> tuple[str, str]:
        """Issue one narrow token of an attempt; return its id and text."""

        def change(tx: Tx) -> tuple[str, str]:
            return issue(tx, team_id=team_id, scope=scope, expires_ms=expires_ms)

        return await self._db.write(change)

    async def tokens(self, *, team_id: int | None, user_id: int | None) -> list[dict[str, Any]]:
        """List user tokens by what may be shown of them."""
        where, params = ["k.kind IN ('user', 'feed')"], []
        if team_id is not None:
            where.append("k.team_id = ?")
            params.append(team_id)
        if user_id is not None:
            where.append("k.user_id = ?")
            params.append(user_id)
        sql = (
            "SELECT k.id, u.name, t.name, k.role, k.label, k.created_ms, k.expires_ms, k.used_ms,"
            " k.revoked_ms, k.parent_id FROM tokens k JOIN teams t ON t.id = k.team_id"
            " JOIN users u ON u.id = k.user_id"
            f" WHERE {' AND '.join(where)} ORDER BY k.created_ms DESC"
        )
        keys = (
            "id user team role label created_ms expires_ms used_ms revoked_ms parent_id"
        ).split()
        rows = await self._db.read(lambda reader: reader.all(sql, params))
        return [dict(zip(keys, row, strict=True)) for row in rows]

    async def revoke_token(
        self, token_id: str, *, actor: str, team_id: int | None, user_id: int | None
    ) -> None:
        """End a token and all that were issued with it; from now on they open nothing."""

        def change(tx: Tx) -> None:
            where, params = "id = ? AND revoked_ms IS NULL", [tx.now_ms, token_id]
            if team_id is not None:
                where += " AND team_id = ?"
                params.append(team_id)
            if user_id is not None:
                where += " AND user_id = ?"
                params.append(user_id)
            if not tx.run(f"UPDATE tokens SET revoked_ms = ? WHERE {where}", params):
                raise NotFound(f"no live token {token_id}; `yard token list` shows yours")
            tx.event(
                "token.revoked",
                team_id=team_id,
                actor=actor,
                subject="token",
                subject_id=token_id,
                children=end_below(tx, token_id),
            )

        await self._db.write(change)

    async def authenticate(self, token: str) -> Principal | None:
        """Return the caller behind a token, or None if it opens nothing now."""
        now_ms = self._db.clock.time_ms()
        key = digest(token)
        return await self._db.peek(lambda reader: _principal(reader, key, now_ms), journaled=False)

    def note_refusal(
        self, *, actor: str, team_id: int | None, path: str, token_id: str, **facts: Any
    ) -> None:
        """Queue the event of a refused request; its caller does not wait for it."""

        def change(tx: Tx) -> None:
            tx.event(
                "access.denied",
                team_id=team_id,
                actor=actor,
                subject="route",
                subject_id=path,
                token=token_id,
                **facts,
            )

        with contextlib.suppress(TooBusy):
            self._db.write(change).add_done_callback(_forget_fault)

    async def touch(self, token_ids: dict[str, int]) -> None:
        """Note when tokens were last used; kept in memory and written now and then."""
        if token_ids:
            await self._db.write(
                lambda tx: tx.many(
                    "UPDATE tokens SET used_ms = ? WHERE id = ?",
                    [(when, token_id) for token_id, when in token_ids.items()],
                )
            )


def _end(tx: Tx, days: int | None, parent_id: str | None) -> int | None:
    """Return when a new token ends: after its days, and with its parent at the latest."""
    own = tx.now_ms + days * DAY_MS if days else None
    latest = bounds_for_child(tx, parent_id).expires_ms if parent_id else None
    return min((end for end in (own, latest) if end is not None), default=None)


def _forget_fault(done: asyncio.Future[None]) -> None:
    """Take a lost note's fault, which the writer has logged, so that asyncio does not."""
    if not done.cancelled():
        done.exception()


def _principal(reader: ReadConnection, key: str, now_ms: int) -> Principal | None:
    row = reader.one(_PRINCIPAL, (key,))
    if row is None:
        return None
    token_id, kind, role, scope, expires, revoked, parent_id = row[:7]
    team_id, team, default_experiment, user_id, user, is_admin, disabled, member_role = row[7:]
    if kind == "attempt" and revoked is not None:
        raise Conflict("a newer attempt holds this job: end what runs under the old one")
    if revoked is not None or (expires is not None and expires <= now_ms):
        return None
    if kind == "attempt":
        reach = read_scope(scope)
        return Principal(
            name=f"attempt:{reach.attempt_id or reach.run_id}",
            user_id=None,
            team_id=team_id,
            team=team,
            default_experiment=default_experiment,
            role=Role.member,
            token_id=token_id,
            scope=reach,
        )
    if user_id is None or disabled is not None or (member_role is None and not is_admin):
        return None
    standing = Role.owner if is_admin else Role[member_role]
    granted = min(Role[role], standing)
    if parent_id is not None:
        above = bounds(reader, parent_id, now_ms)
        if above is None:
            return None
        granted, is_admin = min(granted, above.role), is_admin and above.is_admin
    is_feed = kind == "feed"
    app = read_app_scope(scope) if kind == "app" else None
    if app is not None and app.is_ticket:
        return None
    return Principal(
        name=user,
        user_id=user_id,
        team_id=team_id,
        team=team,
        default_experiment=default_experiment,
        role=granted,
        # An admin's token issued with a lower role stays within that role.
        is_admin=bool(is_admin) and Role[role] is Role.owner and not is_feed and app is None,
        token_id=token_id,
        is_feed=is_feed,
        app=app.app if app is not None else "",
        is_narrow=scope is not None or granted < standing,
    )


def create_team(tx: Tx, name: str, *, actor: str) -> int:
    """Create a team and the experiment it calls Default."""
    if TEAM_NAME.match(name) is None:
        raise InvalidInput(
            f"team name {name[:80]!r} is not allowed: use 1-63 of a-z, 0-9, - and _,"
            " starting with a letter or digit"
        )
    if tx.one("SELECT 1 FROM teams WHERE name = ?", (name,)):
        raise AlreadyExists(f"team {name} exists already")
    team_id = tx.insert(
        "INSERT INTO teams (name, created_ms, settings) VALUES (?, ?, '{}')", (name, tx.now_ms)
    )
    experiment = new_experiment_id()
    tx.run(
        "INSERT INTO experiments (id, team_id, name, artifact_location, lifecycle, created_ms,"
        " updated_ms) VALUES (?, ?, 'Default', ?, 'active', ?, ?)",
        (experiment, team_id, f"mlflow-artifacts:/{experiment}", tx.now_ms, tx.now_ms),
    )
    tx.run("UPDATE teams SET default_experiment_id = ? WHERE id = ?", (experiment, team_id))
    tx.event("team.created", team_id=team_id, actor=actor, subject="team", subject_id=name)
    return team_id


def create_user(tx: Tx, name: str, *, actor: str, is_admin: bool = False) -> int:
    """Create a user."""
    if USER_NAME.match(name) is None:
        raise InvalidInput(
            f"user name {name[:80]!r} is not allowed: use 1-127 letters, digits and . _ @ -"
        )
    # Names that differ in case alone would be taken for one another.
    twin = tx.one("SELECT name FROM users WHERE lower(name) = lower(?)", (name,))
    if twin is not None:
        raise AlreadyExists(f"user {twin[0]} exists already")
    user_id = tx.insert(
        "INSERT INTO users (name, is_admin, created_ms) VALUES (?, ?, ?)",
        (name, int(is_admin), tx.now_ms),
    )
    tx.event("user.created", team_id=None, actor=actor, subject="user", subject_id=name)
    return user_id


def drop_member(tx: Tx, team_id: int, user_id: int, user: str, *, actor: str) -> None:
    """Take a user out of a team and end the tokens held there, with what they issued."""
    gone = tx.run("DELETE FROM members WHERE team_id = ? AND user_id = ?", (team_id, user_id))
    if not gone:
        raise NotFound(f"{user} is not a member of that team")
    held = tx.all(
        "SELECT id FROM tokens WHERE team_id = ? AND user_id = ? AND revoked_ms IS NULL",
        (team_id, user_id),
    )
    for (token_id,) in held:
        tx.run("UPDATE tokens SET revoked_ms = ? WHERE id = ?", (tx.now_ms, token_id))
        end_below(tx, token_id)
    tx.event("member.removed", team_id=team_id, actor=actor, subject="user", subject_id=user)


def _check_member(tx: Tx, team_id: int, user_id: int, who: str) -> None:
    """Refuse a user over whom the team's owner has no say."""
    row = tx.one(
        "SELECT u.is_admin FROM members m JOIN users u ON u.id = m.user_id"
        " WHERE m.team_id = ? AND m.user_id = ?",
        (team_id, user_id),
    )
    if row is None:
        raise Denied(f"no token for {who}, who is no member of it; add the member first")
    if row[0]:
        raise Denied(f"no token for {who}: only platform admins issue tokens for one another")


def team_names(reader: ReadConnection | Tx) -> dict[int, str]:
    """Return the names of all teams by their inner id."""
    return {row[0]: row[1] for row in reader.all("SELECT id, name FROM teams")}


def team_id_of(tx: ReadConnection | Tx, name: str) -> int:
    """Return a team's id by name."""
    row = tx.one("SELECT id FROM teams WHERE name = ?", (name,))
    if row is None:
        raise NotFound(f"no team named {name!r}; `yard team list` shows the teams")
    found: int = row[0]
    return found


def user_id_of(tx: ReadConnection | Tx, name: str) -> int:
    """Return a user's id by name."""
    row = tx.one("SELECT id FROM users WHERE name = ?", (name,))
    if row is None:
        raise NotFound(f"no user named {name!r}; `yard user list` shows the users")
    found: int = row[0]
    return found


def count_users(reader: ReadConnection) -> int:
    """Return how many users there are who are not disabled."""
    row = reader.one("SELECT count(*) FROM users WHERE disabled_ms IS NULL")
    return int(row[0]) if row else 0
