"""Log policies: what a line in the log of a failed attempt means for the job.

Owns `log_policies`, the ones that ship, and what a match changes: a label, the node of the next
attempt, whether there is one, and the sentence that is shown. Only the end of a log is searched.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

import msgspec

from trackyard.access.principal import Principal, Role
from trackyard.core.errors import Denied, InvalidInput, NotFound
from trackyard.core.ids import QUEUE_NAME
from trackyard.core.log_patterns import BY_NAME, SHIPPED, check_regex, first_match
from trackyard.core.ports import ExitRecord
from trackyard.queue.attempts import logs
from trackyard.queue.records import attempt_of, job_by_inner
from trackyard.queue.retry_policy import AttemptVerdict
from trackyard.queue.transitions import job_event
from trackyard.store.database import Database, ReadConnection, Tx

TAIL_BYTES = 64 * 1024
MAX_POLICIES, MAX_MESSAGE, MAX_LABEL = 100, 500, 60
_COLUMNS = "id, team_id, queue, pattern, label, exclude_node, stop_retries, message, actor"


class LogPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A pattern and what it means."""

    id: str
    #: null: all teams
    team_id: int | None = None
    #: empty: all queues
    queue: str = ""
    #: a shipped pattern's name, or a regular expression
    pattern: str
    label: str = ""
    exclude_node: bool = False
    stop_retries: bool = False
    #: what is shown in place of the attempt's own sentence
    message: str = ""
    actor: str = "trackyard"
    is_shipped: bool = False


#: Those that hold everywhere, after the ones that people made.
DEFAULTS = tuple(
    LogPolicy(
        id=f"shipped-{one.name}",
        pattern=one.name,
        label=one.name,
        exclude_node=one.blames_node,
        is_shipped=True,
    )
    for one in SHIPPED
)


def matching(policies: list[LogPolicy], text: str) -> tuple[LogPolicy, str] | None:
    """Return the first policy that knows the end of a log, and the line it knows it by."""
    for policy in policies:
        line = first_match(policy.pattern, text)
        if line is not None:
            return policy, line
    return None


def judged(tx: Tx, record: ExitRecord, verdict: AttemptVerdict) -> AttemptVerdict:
    """Let the policies of the job's team and queue say what a failure means."""
    if record.succeeded or record.exit_code == 0:
        return verdict
    attempt = attempt_of(tx, record.attempt_id)
    if attempt is None or attempt.is_over:
        return verdict
    job = job_by_inner(tx, attempt.job)
    end = logs.log_end(tx, attempt.id, record.member) or 0
    tail = logs.read(tx, attempt.id, record.member, max(0, end - TAIL_BYTES), TAIL_BYTES)
    found = matching(in_force(tx, job.team_id, job.queue), tail.decode("utf-8", "replace"))
    if found is None:
        return verdict
    policy, line = found
    words = told(policy, line)
    job_event(
        tx,
        "attempt.labelled",
        job,
        attempt=attempt.number,
        label=policy.label,
        policy=policy.id,
        line=line,
        sentence=words,
    )
    return replace(
        verdict,
        notes=(*verdict.notes, words),
        sentence=policy.message or verdict.sentence,
        avoid_node=policy.exclude_node,
        stop_retries=policy.stop_retries,
    )


def told(policy: LogPolicy, line: str) -> str:
    """Say what a policy found and what follows."""
    known = BY_NAME.get(policy.pattern)
    words = [f"Log policy {policy.label or policy.pattern}: {line}"]
    if known is not None and not policy.message:
        words.append(known.sentence)
    if policy.stop_retries:
        words.append("It is not tried again.")
    elif policy.exclude_node:
        words.append("A further attempt avoids its node.")
    return " · ".join(words)


def in_force(reader: ReadConnection | Tx, team_id: int, queue: str) -> list[LogPolicy]:
    """Return the policies about a team's jobs in a queue, the closest first."""
    rows = reader.all(
        f"SELECT {_COLUMNS} FROM log_policies WHERE (team_id = ? OR team_id IS NULL)"
        " AND queue IN ('', ?) ORDER BY CASE WHEN team_id IS NULL THEN 1 ELSE 0 END,"
        " CASE WHEN queue = '' THEN 1 ELSE 0 END, created_ms, id",
        (team_id, queue),
    )
    return [*(_read(row) for row in rows), *DEFAULTS]


class LogPolicies:
    """Log policies as the server offers them."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def list(self, principal: Principal) -> list[LogPolicy]:
        """Return the policies about the caller's team."""

        def query(reader: ReadConnection) -> list[LogPolicy]:
            rows = reader.all(
                f"SELECT {_COLUMNS} FROM log_policies WHERE team_id = ? OR team_id IS NULL"
                " ORDER BY created_ms, id",
                (principal.team_id,),
            )
            return [*(_read(row) for row in rows), *DEFAULTS]

        return await self._db.read(query)

    async def add(self, principal: Principal, wish: LogPolicy, *, all_teams: bool) -> LogPolicy:
        """Make a policy for the team, or, by an admin, for all teams."""
        if all_teams and not principal.is_admin:
            raise Denied("a log policy for all teams is the platform admin's to make")
        principal.need(Role.maintainer, "a log policy")
        _check(wish)
        made = msgspec.structs.replace(
            wish,
            id=f"lp-{secrets.token_hex(6)}",
            team_id=None if all_teams else principal.team_id,
            actor=principal.name,
        )

        def operation(tx: Tx) -> LogPolicy:
            row = tx.one(
                "SELECT count(*) FROM log_policies WHERE coalesce(team_id, 0) = ?",
                (made.team_id or 0,),
            )
            if row is not None and row[0] >= MAX_POLICIES:
                raise InvalidInput(f"there are at most {MAX_POLICIES} log policies; remove one")
            values: tuple[Any, ...] = (
                made.id,
                made.team_id,
                made.queue,
                made.pattern,
                made.label,
                int(made.exclude_node),
                int(made.stop_retries),
                made.message,
                made.actor,
                tx.now_ms,
            )
            tx.run(
                f"INSERT INTO log_policies ({_COLUMNS}, created_ms)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            )
            _event(tx, "log_policy.added", principal, made)
            return made

        return await self._db.write(operation)

    async def remove(self, principal: Principal, policy_id: str) -> None:
        """Remove a policy."""
        principal.need(Role.maintainer, "a log policy")

        def operation(tx: Tx) -> None:
            row = tx.one(f"SELECT {_COLUMNS} FROM log_policies WHERE id = ?", (policy_id,))
            if row is None or row[1] not in (None, principal.team_id):
                raise NotFound(f"there is no log policy {policy_id[:80]!r} of this team's")
            if row[1] is None and not principal.is_admin:
                raise Denied("this log policy is the platform admin's")
            tx.run("DELETE FROM log_policies WHERE id = ?", (policy_id,))
            _event(tx, "log_policy.removed", principal, _read(row))

        await self._db.write(operation, frees=True)


def _check(wish: LogPolicy) -> None:
    if wish.pattern not in BY_NAME:
        check_regex(wish.pattern)
    if wish.queue and not QUEUE_NAME.match(wish.queue):
        raise InvalidInput(f"{wish.queue[:80]!r} is no name of a queue")
    if len(wish.message) > MAX_MESSAGE or len(wish.label) > MAX_LABEL:
        raise InvalidInput(f"a label has at most {MAX_LABEL} characters, a message {MAX_MESSAGE}")
    if not (wish.label or wish.exclude_node or wish.stop_retries or wish.message):
        raise InvalidInput(
            "say what a match means: a label, another node, no further attempt, or a message"
        )


def _read(row: Any) -> LogPolicy:
    return LogPolicy(
        id=row[0],
        team_id=row[1],
        queue=row[2],
        pattern=row[3],
        label=row[4],
        exclude_node=bool(row[5]),
        stop_retries=bool(row[6]),
        message=row[7],
        actor=row[8],
    )


def _event(tx: Tx, kind: str, principal: Principal, policy: LogPolicy) -> None:
    tx.event(
        kind,
        team_id=policy.team_id,
        actor=principal.name,
        subject="log_policy",
        subject_id=policy.id,
        pattern=policy.pattern,
        label=policy.label,
    )
