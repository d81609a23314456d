"""People as an identity provider knows them: which user each is, and the teams their groups give.

Owns the table `identities` and the mapping of groups. Each sign-in brings memberships into line
with the groups of that moment; teams that no group names are left alone. Knows no HTTP.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trackyard.access.directory import Directory, create_team, create_user, drop_member
from trackyard.access.principal import Role
from trackyard.core.errors import Denied, SetupError
from trackyard.core.ids import TEAM_NAME, USER_NAME
from trackyard.store.database import Database, Tx

ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Who the provider says has signed in."""

    issuer: str
    subject: str
    name: str
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRules:
    """What groups are good for."""

    #: group -> teams with a role in each
    teams: Mapping[str, Mapping[str, Role]] = field(default_factory=dict)
    #: groups whose members administer the platform
    admins: frozenset[str] = frozenset()
    #: whether a name that is taken here may be taken over at the first sign-in
    link_existing: bool = False

    @property
    def managed(self) -> set[str]:
        """Teams whose members come and go with their groups."""
        return {team for teams in self.teams.values() for team in teams}

    def standing(self, groups: Iterable[str]) -> dict[str, Role]:
        """Return the highest role in each team that some groups give."""
        found: dict[str, Role] = {}
        for group in groups:
            for team, role in self.teams.get(group, {}).items():
                found[team] = max(role, found.get(team, role))
        return found


def read_groups(table: Mapping[str, Any]) -> tuple[dict[str, dict[str, Role]], frozenset[str]]:
    """Read the mapping of groups: `"group" = "team:role"`, a list of those, or `admin`."""
    teams: dict[str, dict[str, Role]] = {}
    admins = set()
    for group, value in table.items():
        for word in value if isinstance(value, list) else [value]:
            if word == ADMIN:
                admins.add(group)
                continue
            team, _, role = str(word).partition(":")
            if TEAM_NAME.match(team) is None or role not in Role.__members__:
                raise SetupError(
                    f"[oidc.groups] {group} = {word!r} is not understood",
                    hint='write "team:role", as in "vision:member", or "admin"',
                )
            teams.setdefault(group, {})[team] = Role[role]
    return teams, frozenset(admins)


class Identities:
    """Turns people of a provider into users."""

    def __init__(self, database: Database, directory: Directory, rules: GroupRules) -> None:
        self._db = database
        self._directory = directory
        self._rules = rules

    async def admit(self, person: Person) -> int:
        """Return the user a person is, made and put into teams where needed."""
        return await self._db.write(lambda tx: self._admit(tx, person))

    def _admit(self, tx: Tx, person: Person) -> int:
        standing = self._rules.standing(person.groups)
        is_admin = bool(self._rules.admins & person.groups)
        user_id, name = self._user(tx, person)
        if not standing and not is_admin and not self._has_team(tx, user_id):
            raise Denied(
                f"{name} is signed in at the provider, but none of its groups has a team here;"
                " ask an admin to name one in [oidc.groups]"
            )
        if self._rules.admins:
            _set_admin(tx, user_id, name, is_admin=is_admin)
        for team, role in sorted(standing.items()):
            _set_role(tx, user_id, name, team, role)
        for team in sorted(self._rules.managed - set(standing)):
            row = tx.one(
                "SELECT m.team_id FROM members m JOIN teams t ON t.id = m.team_id"
                " WHERE t.name = ? AND m.user_id = ?",
                (team, user_id),
            )
            if row is not None:
                drop_member(tx, row[0], user_id, name, actor=person.issuer)
        return user_id

    def _user(self, tx: Tx, person: Person) -> tuple[int, str]:
        row = tx.one(
            "SELECT u.id, u.name, u.disabled_ms FROM identities i JOIN users u ON u.id = i.user_id"
            " WHERE i.issuer = ? AND i.subject = ?",
            (person.issuer, person.subject),
        )
        if row is None:
            row = self._first(tx, person)
        if row[2] is not None:
            raise Denied(f"{row[1]} was shut out here; ask an admin")
        return row[0], row[1]

    def _first(self, tx: Tx, person: Person) -> tuple[int, str, int | None]:
        """Bind a person to a user at the first sign-in."""
        if USER_NAME.match(person.name) is None:
            raise Denied(
                f"the provider's name {person.name[:80]!r} is no user name here; choose another"
                " claim with user_claim in [oidc]"
            )
        row = tx.one(
            "SELECT id, name, disabled_ms FROM users WHERE lower(name) = lower(?)", (person.name,)
        )
        if row is not None and not self._rules.link_existing:
            raise Denied(
                f"there is a user {row[1]} already, who did not come from this provider; an admin"
                " may set link_existing in [oidc] to take it over"
            )
        if row is None:
            row = (create_user(tx, person.name, actor=person.issuer), person.name, None)
        tx.run(
            "INSERT INTO identities (issuer, subject, user_id, created_ms) VALUES (?, ?, ?, ?)",
            (person.issuer, person.subject, row[0], tx.now_ms),
        )
        return row[0], row[1], row[2]

    @staticmethod
    def _has_team(tx: Tx, user_id: int) -> bool:
        """Tell whether someone here gave the user a team that no group manages."""
        found = tx.one(
            "SELECT 1 FROM users u LEFT JOIN members m ON m.user_id = u.id"
            " WHERE u.id = ? AND (m.user_id IS NOT NULL OR u.is_admin = 1)",
            (user_id,),
        )
        return found is not None


def _set_admin(tx: Tx, user_id: int, name: str, *, is_admin: bool) -> None:
    changed = tx.run(
        "UPDATE users SET is_admin = ? WHERE id = ? AND is_admin <> ?",
        (int(is_admin), user_id, int(is_admin)),
    )
    if changed:
        tx.event(
            "user.updated",
            team_id=None,
            actor="single sign-on",
            subject="user",
            subject_id=name,
            is_admin=is_admin,
        )


def _set_role(tx: Tx, user_id: int, name: str, team: str, role: Role) -> None:
    row = tx.one("SELECT id FROM teams WHERE name = ?", (team,))
    team_id = row[0] if row else create_team(tx, team, actor="single sign-on")
    now = tx.one("SELECT role FROM members WHERE team_id = ? AND user_id = ?", (team_id, user_id))
    if now is not None and now[0] == role.name:
        return
    tx.run(
        "INSERT INTO members (team_id, user_id, role) VALUES (?, ?, ?)"
        " ON CONFLICT (team_id, user_id) DO UPDATE SET role = excluded.role",
        (team_id, user_id, role.name),
    )
    tx.event(
        "member.set",
        team_id=team_id,
        actor="single sign-on",
        subject="user",
        subject_id=name,
        role=role.name,
    )
