"""Which runs an attempt's token reaches: its job's own, and those that its script created there.

Owns `child_runs`. A user's token reaches whatever the team has; that is not asked here.
"""

from __future__ import annotations

from trackyard.access.principal import Principal
from trackyard.core.errors import NotFound
from trackyard.store.database import ReadConnection, Tx


def reaches(reader: ReadConnection | Tx, principal: Principal, run_id: str) -> bool:
    """Tell whether the caller's token, if it is an attempt's, is good for this run."""
    scope = principal.scope
    if scope is None or scope.run_id == run_id:
        return True
    row = reader.one(
        "SELECT 1 FROM child_runs WHERE run_uuid = ? AND root_uuid = ?", (run_id, scope.run_id)
    )
    return row is not None


def check_reach(reader: ReadConnection | Tx, principal: Principal, run_id: str) -> None:
    """Refuse an attempt's token that reaches beyond its own runs, as if there were no other."""
    if not reaches(reader, principal, run_id):
        raise NotFound(f"Run with id={run_id[:80]} not found")


def own_experiment(reader: ReadConnection | Tx, principal: Principal) -> int | None:
    """Return the experiment an attempt is bound to, or None for a user."""
    if principal.scope is None:
        return None
    row = reader.one(
        "SELECT experiment_id FROM runs WHERE uuid = ? AND team_id = ?",
        (principal.scope.run_id, principal.team_id),
    )
    if row is None:
        raise NotFound(f"Run with id={principal.scope.run_id} not found")
    return int(row[0])


def adopt_run(tx: Tx, principal: Principal, run_id: str) -> None:
    """Let an attempt reach a run it has just created."""
    if principal.scope is not None:
        tx.run(
            "INSERT INTO child_runs (run_uuid, root_uuid) VALUES (?, ?)",
            (run_id, principal.scope.run_id),
        )
