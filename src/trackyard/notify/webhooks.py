"""Webhooks of teams: who wants to be told what, and where. Owns the table `webhooks`; what is sent
is `deliveries`' business.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from trackyard.access.principal import Principal
from trackyard.access.sealing import Seal
from trackyard.core.errors import InvalidInput, NotFound
from trackyard.notify.hook_events import write_event
from trackyard.outbound.addresses import AllowedAddresses, read_target, resolve
from trackyard.store.database import Database, ReadConnection, Tx
from trackyard.tracking.search.paging import Term, binding, find_page
from trackyard.tracking.search.sql import Fragment

MAX_WEBHOOKS, MAX_SECRET, MAX_DESCRIPTION = 100, 1000, 1000
PAGE_DEFAULT, PAGE_MOST = 100, 1000
STATUSES = ("ACTIVE", "DISABLED")
_NAME = re.compile(r"(?=.{1,63}\Z)[a-z0-9]([a-z0-9._-]*[a-z0-9])?\Z", re.IGNORECASE)
_ID = re.compile(r"[a-f0-9-]{36}\Z")
_COLUMNS = "id, name, description, url, events, status, secret, created_ms, updated_ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRow:
    """A webhook as deliveries need it."""

    id: str
    name: str
    description: str
    url: str
    events: tuple[str, ...]
    status: str
    #: sealed
    secret: str | None
    created_ms: int
    updated_ms: int

    def shape(self) -> dict[str, Any]:
        """Return it in MLflow's form, which never shows the secret."""
        return {
            "webhook_id": self.id,
            "name": self.name,
            **({"description": self.description} if self.description else {}),
            "url": self.url,
            "events": [write_event(event) for event in self.events],
            "status": self.status,
            "creation_timestamp": self.created_ms,
            "last_updated_timestamp": self.updated_ms,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookChange:
    """What a create or an update sets; None leaves a field as it is."""

    name: str | None = None
    description: str | None = None
    url: str | None = None
    events: Sequence[str] | None = None
    secret: str | None = None
    status: str | None = None


class Webhooks:
    """The webhooks of a team."""

    def __init__(self, database: Database, seal: Seal, allowed: AllowedAddresses) -> None:
        self._db = database
        self._seal = seal
        self.allowed = allowed
        #: called after each change
        self.on_change: Callable[[], None] = lambda: None

    async def create(self, principal: Principal, change: WebhookChange) -> WebhookRow:
        """Create a webhook; it receives events from now on."""
        await self._check(change)
        webhook_id = str(uuid.uuid4())
        sealed = await self._sealed(webhook_id, change.secret)

        def operation(tx: Tx) -> WebhookRow:
            row = tx.one("SELECT count(*) FROM webhooks WHERE team_id = ?", (principal.team_id,))
            if row is not None and row[0] >= MAX_WEBHOOKS:
                raise InvalidInput(f"a team has at most {MAX_WEBHOOKS} webhooks; delete one first")
            tx.run(
                "INSERT INTO webhooks (id, team_id, name, description, url, events, status,"
                " secret, after_event, actor, created_ms, updated_ms)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    webhook_id,
                    principal.team_id,
                    change.name,
                    change.description or "",
                    change.url,
                    _encode(change.events),
                    change.status or STATUSES[0],
                    sealed,
                    _last_event(tx),
                    principal.name,
                    tx.now_ms,
                    tx.now_ms,
                ),
            )
            _event(tx, "webhook.created", principal, webhook_id, name=change.name)
            return find(tx, principal, webhook_id)

        made = await self._db.write(operation)
        self.on_change()
        return made

    async def update(
        self, principal: Principal, webhook_id: str, change: WebhookChange
    ) -> WebhookRow:
        """Change a webhook; one that is switched on again is not told what it missed."""
        await self._check(change)
        sealed = await self._sealed(webhook_id, change.secret)

        def operation(tx: Tx) -> WebhookRow:
            before = find(tx, principal, webhook_id)
            is_back = change.status == STATUSES[0] and before.status != STATUSES[0]
            tx.run(
                "UPDATE webhooks SET name = coalesce(?, name), description = coalesce(?,"
                " description), url = coalesce(?, url), events = coalesce(?, events),"
                " status = coalesce(?, status), secret = coalesce(?, secret),"
                " after_event = CASE WHEN ? = 1 THEN ? ELSE after_event END, updated_ms = ?"
                " WHERE id = ?",
                (
                    change.name,
                    change.description,
                    change.url,
                    _encode(change.events),
                    change.status,
                    sealed,
                    int(is_back),
                    _last_event(tx) if is_back else 0,
                    tx.now_ms,
                    webhook_id,
                ),
            )
            _event(tx, "webhook.updated", principal, webhook_id)
            return find(tx, principal, webhook_id)

        made = await self._db.write(operation)
        self.on_change()
        return made

    async def delete(self, principal: Principal, webhook_id: str) -> None:
        """Delete a webhook with what is still to be sent to it."""

        def operation(tx: Tx) -> None:
            found = find(tx, principal, webhook_id)
            tx.run("DELETE FROM webhooks WHERE id = ?", (webhook_id,))
            _event(tx, "webhook.deleted", principal, webhook_id, name=found.name)

        await self._db.write(operation, frees=True)
        self.on_change()

    async def get(self, principal: Principal, webhook_id: str) -> WebhookRow:
        """Return a webhook."""
        return await self._db.peek(lambda reader: find(reader, principal, webhook_id))

    async def list(
        self, principal: Principal, *, max_results: int | None, page_token: str | None
    ) -> tuple[list[WebhookRow], str | None]:
        """Return a page of the team's webhooks, the newest first."""
        limit = max_results or PAGE_DEFAULT
        if not 1 <= limit <= PAGE_MOST:
            raise InvalidInput(f"max_results must be between 1 and {PAGE_MOST}.")

        def query(reader: ReadConnection) -> tuple[list[WebhookRow], str | None]:
            ids, token = find_page(
                reader,
                key="w.id",
                source=Fragment("webhooks w"),
                where=Fragment("w.team_id = ?", (principal.team_id,)),
                terms=[
                    Term("w.created_ms", ascending=False, kind="whole"),
                    Term("w.id", ascending=True, kind="text"),
                ],
                query=binding("webhooks", principal.team_id),
                max_results=limit,
                page_token=page_token,
            )
            return [find(reader, principal, one) for one in ids], token

        return await self._db.read(query)

    async def secret_of(self, webhook: WebhookRow) -> str | None:
        """Return what a webhook's deliveries are signed with."""
        if webhook.secret is None:
            return None
        sealed, purpose = webhook.secret, _purpose(webhook.id)
        return await asyncio.get_running_loop().run_in_executor(
            None, lambda: self._seal.open(sealed, purpose=purpose)
        )

    async def _sealed(self, webhook_id: str, secret: str | None) -> str | None:
        if not secret:
            return None
        return await asyncio.get_running_loop().run_in_executor(
            None, lambda: self._seal.close(secret, purpose=_purpose(webhook_id))
        )

    async def _check(self, change: WebhookChange) -> None:
        if change.name is not None and _NAME.match(change.name) is None:
            raise InvalidInput(
                f"Webhook name {change.name[:80]!r} is invalid. It must start and end with a"
                " letter or digit, be less than 63 characters long, and contain only letters,"
                " digits, dots (.), underscores (_), and hyphens (-)."
            )
        if change.status is not None and change.status not in STATUSES:
            raise InvalidInput(f"Webhook status is one of {', '.join(STATUSES)}")
        if (
            len(change.secret or "") > MAX_SECRET
            or len(change.description or "") > MAX_DESCRIPTION
        ):
            raise InvalidInput(
                f"a webhook's secret and its description have at most {MAX_SECRET} characters"
            )
        if change.url is not None:
            target = read_target(change.url, self.allowed)
            if target.host in self.allowed.hosts:
                return
            await asyncio.get_running_loop().run_in_executor(None, resolve, target, self.allowed)


def find(reader: Tx | ReadConnection, principal: Principal, webhook_id: str) -> WebhookRow:
    """Return a webhook of the caller's team."""
    row = _ID.match(webhook_id) and reader.one(
        f"SELECT {_COLUMNS} FROM webhooks WHERE id = ? AND team_id = ?",
        (webhook_id, principal.team_id),
    )
    if not row:
        raise NotFound(f"Webhook with ID {webhook_id[:80]} not found.")
    return read_row(row)


def read_row(row: Sequence[Any]) -> WebhookRow:
    """Return a webhook from its columns."""
    return WebhookRow(
        id=row[0],
        name=row[1],
        description=row[2],
        url=row[3],
        events=tuple(msgspec.json.decode(row[4])),
        status=row[5],
        secret=row[6],
        created_ms=row[7],
        updated_ms=row[8],
    )


def active(reader: Tx | ReadConnection) -> list[tuple[WebhookRow, int, int]]:
    """Return every active webhook with its team and the last event it received."""
    lock = reader.dialect.for_update if isinstance(reader, Tx) else ""
    rows = reader.all(
        f"SELECT {_COLUMNS}, team_id, after_event FROM webhooks WHERE status = 'ACTIVE'"
        f" ORDER BY id{lock}"
    )
    return [(read_row(row), row[9], row[10]) for row in rows]


def told(tx: Tx, webhook_id: str, event_id: int) -> None:
    """Note the last event that deliveries of a webhook were made of."""
    tx.run("UPDATE webhooks SET after_event = ? WHERE id = ?", (event_id, webhook_id))


def _last_event(tx: Tx) -> int:
    row = tx.one("SELECT max(id) FROM events")
    return int(row[0] or 0) if row is not None else 0


def _encode(events: Sequence[str] | None) -> str | None:
    return None if events is None else msgspec.json.encode(list(events)).decode()


def _purpose(webhook_id: str) -> str:
    return f"webhook:{webhook_id}"


def _event(tx: Tx, kind: str, principal: Principal, webhook_id: str, **data: Any) -> None:
    tx.event(
        kind,
        team_id=principal.team_id,
        actor=principal.name,
        subject="webhook",
        subject_id=webhook_id,
        **data,
    )
