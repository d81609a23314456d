"""The two tokens of an attempt: its runner's, and the narrower one of the job's command.

Owns issuing, ending and reading them. The command's token hangs below the runner's, so that
whatever ends the one ends both. What each opens is said by routes (`Route.takes_attempt`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import msgspec

from trackyard.access.principal import AttemptScope, Purpose
from trackyard.access.tokens import digest, new_token
from trackyard.store.database import Tx

_PAIR = "(id = ? OR parent_id = ?)"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptTokens:
    """What one attempt is given; the texts are shown to nobody else."""

    #: public id of the runner's token, which stands for both
    id: str
    runner: str = field(repr=False)
    command: str = field(repr=False)


def issue_pair(tx: Tx, *, team_id: int, scope: AttemptScope) -> AttemptTokens:
    """Issue both tokens of an attempt inside the caller's transaction."""
    runner = replace(scope, purpose=Purpose.RUNNER)
    command = replace(scope, purpose=Purpose.COMMAND)
    public, runner_text = issue(tx, team_id=team_id, scope=runner)
    _, command_text = issue(tx, team_id=team_id, scope=command, parent_id=public)
    return AttemptTokens(id=public, runner=runner_text, command=command_text)


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
