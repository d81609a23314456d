"""Where alerts go: named channels of teams and of the admin.

Owns `alert_channels`, what a channel may point at, and opening its sealed target. Sending is
`sending`'s.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from dataclasses import dataclass

from trackyard.access.sealing import Seal
from trackyard.core.alerts import CHANNEL_NAME
from trackyard.core.errors import InvalidInput
from trackyard.notify.alerts.records import INBOX
from trackyard.notify.alerts.settings import AlertSettings
from trackyard.outbound.addresses import AllowedAddresses, read_target, resolve
from trackyard.store.database import Database, ReadConnection, Tx

KINDS = ("email", "slack", "teams", "webhook")
MAX_CHANNELS, MAX_RECIPIENTS, MAX_SECRET = 100, 20, 1000
_MAIL = re.compile(r"[A-Za-z0-9._%+'-]{1,64}@([A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})+)\Z")
_COLUMNS = "id, team_id, name, kind, target, shown, secret, actor, created_ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertChannel:
    """A channel as it is kept; target and secret are sealed."""

    id: str
    team_id: int | None
    name: str
    kind: str
    target: str
    shown: str
    secret: str | None
    actor: str
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedChannel:
    """A channel that can be sent to."""

    name: str
    kind: str
    target: str = ""
    secret: str | None = None
    argv: tuple[str, ...] = ()


class Channels:
    """Finds, makes and opens channels."""

    def __init__(
        self, database: Database, seal: Seal, allowed: AllowedAddresses, settings: AlertSettings
    ) -> None:
        self._db = database
        self._seal = seal
        self.allowed = allowed
        self.settings = settings

    async def make(
        self, *, team_id: int | None, name: str, kind: str, target: str, secret: str, actor: str
    ) -> AlertChannel:
        """Check and keep a channel."""
        if not CHANNEL_NAME.match(name) or name == INBOX or name in self.settings.commands:
            raise InvalidInput(
                f"a channel cannot be called {name[:80]!r}: use small letters, digits, dots and"
                f" dashes, and neither {INBOX} nor the name of a command of the server's settings"
            )
        if kind not in KINDS:
            raise InvalidInput(f"the kind of a channel is one of {', '.join(KINDS)}")
        if len(secret) > MAX_SECRET:
            raise InvalidInput(f"a channel's secret has at most {MAX_SECRET} characters")
        shown = self._check_mail(target) if kind == "email" else await self._check_url(target)
        channel_id = f"ch-{secrets.token_hex(6)}"
        run = asyncio.get_running_loop().run_in_executor
        sealed = await run(None, lambda: self._seal.close(target, purpose=_purpose(channel_id)))
        key = None
        if secret:
            key = await run(None, lambda: self._seal.close(secret, purpose=_key(channel_id)))
        return AlertChannel(
            id=channel_id,
            team_id=team_id,
            name=name,
            kind=kind,
            target=sealed,
            shown=shown,
            secret=key,
            actor=actor,
            created_ms=self._db.clock.time_ms(),
        )

    def _check_mail(self, target: str) -> str:
        if not self.settings.smtp_host:
            raise InvalidInput(
                "this server sends no mail: an admin names a mail server in [alerts] of its"
                " config file (smtp, mail_from)"
            )
        people = read_recipients(target)
        allowed = self.settings.mail_domains
        for one in people:
            if allowed and one.rpartition("@")[2].lower() not in allowed:
                raise InvalidInput(f"mail goes to {', '.join(allowed)} alone, not to {one}")
        return ", ".join(people)

    async def _check_url(self, target: str) -> str:
        found = read_target(target, self.allowed)
        if found.host not in self.allowed.hosts:
            run = asyncio.get_running_loop().run_in_executor
            await run(None, resolve, found, self.allowed)
        return f"{found.scheme}://{found.host}/…"

    async def opened(self, team_id: int | None, name: str) -> OpenedChannel | None:
        """Return a channel that a team's rule may use, or None: its own, or one of the admin's."""
        command = self.settings.commands.get(name)
        if command is not None:
            may = team_id is None or command.for_teams
            return OpenedChannel(name=name, kind="command", argv=command.argv) if may else None
        channel = await self._db.peek(
            lambda reader: find_channel(reader, team_id, name), journaled=False
        )
        if channel is None:
            return None
        return await asyncio.get_running_loop().run_in_executor(None, self._open, channel)

    def _open(self, channel: AlertChannel) -> OpenedChannel:
        secret = channel.secret
        return OpenedChannel(
            name=channel.name,
            kind=channel.kind,
            target=self._seal.open(channel.target, purpose=_purpose(channel.id)),
            secret=secret and self._seal.open(secret, purpose=_key(channel.id)),
        )

    def is_known(self, reader: ReadConnection | Tx, team_id: int | None, name: str) -> bool:
        """Tell whether a team's rule may name a channel."""
        command = self.settings.commands.get(name)
        if command is not None:
            return team_id is None or command.for_teams
        return name == INBOX or find_channel(reader, team_id, name) is not None


def read_recipients(target: str) -> list[str]:
    """Read addresses of people, separated by commas."""
    people = [one.strip() for one in target.split(",") if one.strip()]
    if not 1 <= len(people) <= MAX_RECIPIENTS or not all(_MAIL.match(one) for one in people):
        raise InvalidInput(
            f"{target[:80]!r} names no mail addresses: write one, or up to {MAX_RECIPIENTS}"
            " separated by commas"
        )
    return people


def find_channel(
    reader: ReadConnection | Tx, team_id: int | None, name: str
) -> AlertChannel | None:
    """Return the channel of a name: the team's own first, then the admin's."""
    rows = reader.all(
        f"SELECT {_COLUMNS} FROM alert_channels WHERE name = ?"
        " AND (team_id = ? OR team_id IS NULL) ORDER BY CASE WHEN team_id IS NULL THEN 1 ELSE 0"
        " END LIMIT 1",
        (name, team_id),
    )
    return read_channel(rows[0]) if rows else None


def list_channels(reader: ReadConnection | Tx, team_id: int) -> list[AlertChannel]:
    """Return the channels that a team's rules may name."""
    rows = reader.all(
        f"SELECT {_COLUMNS} FROM alert_channels WHERE team_id = ? OR team_id IS NULL"
        " ORDER BY name, id LIMIT 500",
        (team_id,),
    )
    return [read_channel(row) for row in rows]


def insert_channel(tx: Tx, channel: AlertChannel) -> None:
    """Keep a channel whose name is free."""
    known = tx.all(
        "SELECT name FROM alert_channels WHERE coalesce(team_id, 0) = ?", (channel.team_id or 0,)
    )
    if channel.name in {row[0] for row in known}:
        raise InvalidInput(f"there is a channel {channel.name} already; remove it first")
    if len(known) >= MAX_CHANNELS:
        raise InvalidInput(f"a team has at most {MAX_CHANNELS} channels; remove one first")
    tx.run(
        f"INSERT INTO alert_channels ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            channel.id,
            channel.team_id,
            channel.name,
            channel.kind,
            channel.target,
            channel.shown,
            channel.secret,
            channel.actor,
            channel.created_ms,
        ),
    )


def delete_channel(tx: Tx, channel_id: str) -> None:
    """Forget a channel."""
    tx.run("DELETE FROM alert_channels WHERE id = ?", (channel_id,))


def read_channel(row: tuple[object, ...]) -> AlertChannel:
    """Return a channel from its columns."""
    names = [name.strip() for name in _COLUMNS.split(",")]
    return AlertChannel(**dict(zip(names, row, strict=True)))  # type: ignore[arg-type]


def _purpose(channel_id: str) -> str:
    return f"alert-channel:{channel_id}"


def _key(channel_id: str) -> str:
    return f"alert-channel-key:{channel_id}"
