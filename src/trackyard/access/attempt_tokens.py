"""The tokens of an attempt: its runner's, the narrower one of the job's command, and a ticket.

Owns issuing, ending and reading them. The command's token hangs below the runner's, so that
whatever ends the one ends both. What each opens is said by routes (`Route.takes_attempt`).

A ticket goes where others can read it, as in a cluster's list of jobs. It is traded once, for the
key of what the runner is told.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace

import msgspec

from trackyard.access.principal import AttemptScope, Purpose
from trackyard.access.tokens import digest, new_token
from trackyard.store.database import Tx

#: How long a ticket is good: a cluster may make an environment before it starts the runner.
TICKET_MS = 3_600_000
KEY_BYTES = 32
_PAIR = "(id = ? OR parent_id = ?)"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptTokens:
    """What one attempt is given; the texts are shown to nobody else."""

    #: public id of the runner's token, which stands for both
    id: str
    runner: str = field(repr=False)
    command: str = field(repr=False)
    #: a ticket and the key it is traded for; empty where nobody else reads what a runner is told
    ticket: str = field(default="", repr=False)
    key: str = field(default="", repr=False)


def drop_old_tokens(tx: Tx) -> None:
    """Forget the credentials of attempts that ended long ago."""
    tx.run("DELETE FROM tokens WHERE kind = 'attempt' AND expires_ms < ?", (tx.now_ms,))


def issue_pair(
    tx: Tx, *, team_id: int, scope: AttemptScope, with_ticket: bool = False
) -> AttemptTokens:
    """Issue both tokens of an attempt inside the caller's transaction, and a ticket if asked."""
    runner = replace(scope, purpose=Purpose.RUNNER)
    command = replace(scope, purpose=Purpose.COMMAND)
    public, runner_text = issue(tx, team_id=team_id, scope=runner)
    _, command_text = issue(tx, team_id=team_id, scope=command, parent_id=public)
    if not with_ticket:
        return AttemptTokens(id=public, runner=runner_text, command=command_text)
    key = secrets.token_hex(KEY_BYTES)
    _, ticket = issue(
        tx,
        team_id=team_id,
        scope=replace(scope, purpose=Purpose.TICKET, key=key),
        expires_ms=tx.now_ms + TICKET_MS,
        parent_id=public,
    )
    return AttemptTokens(
        id=public, runner=runner_text, command=command_text, ticket=ticket, key=key
    )


def trade(tx: Tx, token_id: str, claim: str) -> str | None:
    """Trade a ticket for its key, once; None if another has done so.

    `claim` is known to the caller alone: who repeats it has lost the answer.
    """
    row = tx.one(f"SELECT scope FROM tokens WHERE id = ?{tx.dialect.for_update}", (token_id,))
    if row is None:
        return None
    scope, mine = read_scope(row[0]), digest(claim)
    if scope.claim:
        return scope.key if scope.claim == mine else None
    text = msgspec.json.encode(replace(scope, claim=mine)).decode()
    tx.run("UPDATE tokens SET scope = ? WHERE id = ?", (text, token_id))
    return scope.key


def issue(
    tx: Tx,
    *,
    team_id: int,
    scope: AttemptScope,
    expires_ms: int | None = None,
    parent_id: str | None = None,
) -> tuple[str, str]:
    """Write one token of an attempt; return its public id and its text."""
    public, secret = new_token()
    tx.run(
        "INSERT INTO tokens (id, digest, kind, team_id, role, label, scope, created_ms,"
        " expires_ms, parent_id) VALUES (?, ?, 'attempt', ?, 'member', '', ?, ?, ?, ?)",
        (
            public,
            digest(secret),
            team_id,
            msgspec.json.encode(scope).decode(),
            tx.now_ms,
            expires_ms,
            parent_id,
        ),
    )
    return public, secret


def revoke_pair(tx: Tx, token_id: str) -> None:
    """End both tokens at once; whoever still holds one is told of a newer attempt."""
    tx.run(
        f"UPDATE tokens SET revoked_ms = ? WHERE revoked_ms IS NULL AND {_PAIR}",
        (tx.now_ms, token_id, token_id),
    )


def expire_pair(tx: Tx, token_id: str, expires_ms: int) -> None:
    """Let both tokens end at a moment."""
    tx.run(f"UPDATE tokens SET expires_ms = ? WHERE {_PAIR}", (expires_ms, token_id, token_id))


def delete_pair(tx: Tx, token_id: str) -> None:
    """Forget tokens that nobody was given."""
    tx.run("DELETE FROM tokens WHERE parent_id = ?", (token_id,))
    tx.run("DELETE FROM tokens WHERE id = ?", (token_id,))


def read_scope(text: str) -> AttemptScope:
    """Read a stored scope; one that names no purpose was issued for both."""
    values = msgspec.json.decode(text)
    return AttemptScope(**{**values, "purpose": Purpose(values.get("purpose", Purpose.BOTH))})
