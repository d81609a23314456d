"""Secrets of teams: named values that jobs are given and nobody is shown.

Owns the table `secrets`. Values are sealed (`sealing`) before they reach the database, and opened
for one purpose alone: the start of an attempt of the same team that names them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

from trackyard.access.principal import Principal, Role
from trackyard.access.sealing import Seal, key_of
from trackyard.core.errors import InvalidInput, NotFound
from trackyard.core.ports import ENV_NAME
from trackyard.store.database import Database, ReadConnection, Tx

MAX_SECRETS = 200
MAX_BYTES = 32 * 1024


def keys_of_secrets(reader: ReadConnection) -> Counter[str]:
    """Count the secrets by the name of the key that sealed them."""
    return Counter(key_of(row[0]) for row in reader.all("SELECT sealed FROM secrets"))


class Secrets:
    """A team's secrets, by name."""

    def __init__(self, database: Database, seal: Seal) -> None:
        self._db = database
        self._seal = seal

    async def set(self, principal: Principal, name: str, value: str) -> bool:
        """Store a value under a name; return whether the name is new."""
        if ENV_NAME.match(name) is None:
            raise InvalidInput(
                f"secret name {name[:80]!r} is not allowed: letters, digits and _, not first a"
                " digit; jobs find it in a variable of that name"
            )
        if not value or len(value.encode()) > MAX_BYTES or "\0" in value:
            raise InvalidInput(
                f"a secret has 1 to {MAX_BYTES} bytes and no NUL; keep files elsewhere"
            )
        purpose = _purpose(principal.team_id, name)
        loop = asyncio.get_running_loop()
        sealed = await loop.run_in_executor(None, lambda: self._seal.close(value, purpose=purpose))

        def change(tx: Tx) -> bool:
            team_id = principal.team_id
            is_new = name not in _names(tx, team_id)
            _check_own(tx, principal, name)
            if is_new and len(_names(tx, team_id)) >= MAX_SECRETS:
                raise InvalidInput(f"a team has at most {MAX_SECRETS} secrets; remove one first")
            tx.run(
                "INSERT INTO secrets (team_id, name, sealed, created_ms, updated_ms, actor)"
                " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (team_id, name) DO UPDATE SET"
                " sealed = excluded.sealed, updated_ms = excluded.updated_ms,"
                " actor = excluded.actor",
                (team_id, name, sealed, tx.now_ms, tx.now_ms, principal.name),
            )
            _tell(tx, "secret.set", principal, name)
            return is_new

        return await self._db.write(change)

    async def names(self, principal: Principal) -> list[dict[str, Any]]:
        """List the team's secrets, without their values."""
        rows = await self._db.read(
            lambda reader: reader.all(
                "SELECT name, created_ms, updated_ms, actor FROM secrets WHERE team_id = ?"
                " ORDER BY name",
                (principal.team_id,),
            )
        )
        return [
            {"name": row[0], "created_ms": row[1], "updated_ms": row[2], "set_by": row[3]}
            for row in rows
        ]

    async def remove(self, principal: Principal, name: str) -> None:
        """Forget a secret; what runs with it goes on."""

        def change(tx: Tx) -> None:
            _check_own(tx, principal, name)
            gone = tx.run(
                "DELETE FROM secrets WHERE team_id = ? AND name = ?", (principal.team_id, name)
            )
            if not gone:
                raise NotFound(f"no secret {name[:80]!r}; `yard secret list` shows the names")
            _tell(tx, "secret.removed", principal, name)

        await self._db.write(change)

    def values(
        self, reader: ReadConnection | Tx, team_id: int, names: Sequence[str]
    ) -> dict[str, str]:
        """Return the values of secrets for a job that starts."""
        found: dict[str, str] = {}
        for name in names:
            row = reader.one(
                "SELECT sealed FROM secrets WHERE team_id = ? AND name = ?", (team_id, name)
            )
            if row is None:
                raise NotFound(f"the team has no secret {name} any more")
            found[name] = self._seal.open(row[0], purpose=_purpose(team_id, name))
        return found


def check_names(reader: ReadConnection | Tx, team_id: int, names: Sequence[str]) -> None:
    """Refuse a job that names a secret its team does not have."""
    if not names:
        return
    known = _names(reader, team_id)
    missing = sorted(set(names) - known)
    if missing:
        raise InvalidInput(
            f"the team has no secret {missing[0][:80]!r}; `yard secret set {missing[0][:80]}`"
            " stores one"
        )


def _check_own(tx: Tx, principal: Principal, name: str) -> None:
    """Leave what another stored to maintainers."""
    row = tx.one(
        "SELECT actor FROM secrets WHERE team_id = ? AND name = ?", (principal.team_id, name)
    )
    if row is not None and row[0] != principal.name:
        principal.need(Role.maintainer, f"changing the secret {name}, which {row[0]} stored,")


def _names(reader: ReadConnection | Tx, team_id: int) -> set[str]:
    return {row[0] for row in reader.all("SELECT name FROM secrets WHERE team_id = ?", (team_id,))}


def _purpose(team_id: int, name: str) -> str:
    return f"secret:{team_id}:{name}"


def _tell(tx: Tx, kind: str, principal: Principal, name: str) -> None:
    tx.event(
        kind,
        team_id=principal.team_id,
        actor=principal.name,
        subject="secret",
        subject_id=name,
    )
