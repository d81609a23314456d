"""Queues and teams as the scheduler sees them: limits, order, share. Every change is audited.

Owns `queues` and the settings in `team_shares`. The queue `default` exists without a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from trackyard.access.directory import team_id_of
from trackyard.core.errors import InvalidInput, NotFound, SetupError
from trackyard.core.ids import QUEUE_NAME
from trackyard.queue.shares.budgets import budget_holds
from trackyard.queue.shares.settings import QueueSettings, TeamShare, check_departments
from trackyard.scheduling.policy import QueueOrder
from trackyard.scheduling.snapshot import Queue, Team
from trackyard.store.database import ReadConnection, Tx

DEFAULT = "default"
T = TypeVar("T")


_decode = msgspec.json.Decoder(QueueSettings).decode
_decode_classes = msgspec.json.Decoder(dict[str, str]).decode


def queue_names(reader: ReadConnection | Tx) -> list[str]:
    """Return the names of all queues."""
    rows = reader.all("SELECT name FROM queues ORDER BY name")
    names = [row[0] for row in rows]
    return names if DEFAULT in names else [DEFAULT, *names]


def load_queues(reader: ReadConnection | Tx) -> dict[str, QueueSettings]:
    """Return every queue with its rules."""
    rows = reader.all("SELECT name, settings FROM queues ORDER BY name")
    return {DEFAULT: QueueSettings(), **{name: _decode(text) for name, text in rows}}


def set_queue(tx: Tx, name: str, settings: QueueSettings, *, actor: str) -> None:
    """Make a queue, or give it other rules."""
    if not QUEUE_NAME.match(name):
        raise InvalidInput(f"queue name {name[:80]!r} is not allowed: 1-63 of a-z, 0-9, _ and -")
    settings.check()
    before = load_queues(tx).get(name)
    tx.run(
        "INSERT INTO queues (name, settings, created_ms, updated_ms) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (name) DO UPDATE SET settings = excluded.settings,"
        " updated_ms = excluded.updated_ms",
        (name, msgspec.json.encode(settings).decode(), tx.now_ms, tx.now_ms),
    )
    tx.event(
        "queue.set",
        team_id=None,
        actor=actor,
        subject="queue",
        subject_id=name,
        before=None if before is None else msgspec.to_builtins(before),
        after=msgspec.to_builtins(settings),
    )


def delete_queue(tx: Tx, name: str, *, actor: str) -> None:
    """Remove an empty queue."""
    if name == DEFAULT:
        raise InvalidInput("the queue `default` cannot be removed; it can be given limits")
    waiting = tx.one(
        "SELECT count(*) FROM jobs WHERE queue = ? AND state IN"
        " ('queued', 'starting', 'running', 'stopping')",
        (name,),
    )
    if waiting is not None and waiting[0]:
        raise InvalidInput(f"queue {name} still has {waiting[0]} jobs: stop or move them first")
    if not tx.run("DELETE FROM queues WHERE name = ?", (name,)):
        raise NotFound(f"no queue {name[:80]!r}; `yard queue ls` shows the queues")
    tx.event("queue.deleted", team_id=None, actor=actor, subject="queue", subject_id=name)


def load_shares(reader: ReadConnection | Tx) -> dict[str, TeamShare]:
    """Return every team with its claim."""
    rows = reader.all(
        "SELECT t.name, s.weight, s.quota_gpus, s.limit_gpus, s.max_running, s.classes,"
        " s.urgent_gpu_hours, s.parent, s.lendable_gpus"
        " FROM teams t LEFT JOIN team_shares s ON s.team_id = t.id ORDER BY t.name"
    )
    return {
        name: TeamShare(
            share=1.0 if weight is None else weight,
            quota_gpus=quota,
            limit_gpus=limit,
            max_running=most,
            classes=_decode_classes(classes) if classes else {},
            urgent_gpu_hours=hours,
            parent=parent or "",
            lendable_gpus=lendable or 0.0,
        )
        for name, weight, quota, limit, most, classes, hours, parent, lendable in rows
    }


def set_share(tx: Tx, team: str, share: TeamShare, *, actor: str) -> None:
    """Give a team another claim."""
    share.check()
    team_id_of(tx, team)
    check_departments({**load_shares(tx), team: share})
    _write_share(tx, team, share, actor=actor)


def _write_share(tx: Tx, team: str, share: TeamShare, *, actor: str) -> None:
    team_id = team_id_of(tx, team)
    before = load_shares(tx)[team]
    tx.run(
        "INSERT INTO team_shares (team_id, weight, quota_gpus, limit_gpus, max_running, classes,"
        " urgent_gpu_hours, parent, lendable_gpus, usage, usage_ms)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)"
        " ON CONFLICT (team_id) DO UPDATE SET"
        " weight = excluded.weight, quota_gpus = excluded.quota_gpus,"
        " limit_gpus = excluded.limit_gpus, max_running = excluded.max_running,"
        " classes = excluded.classes, urgent_gpu_hours = excluded.urgent_gpu_hours,"
        " parent = excluded.parent, lendable_gpus = excluded.lendable_gpus",
        (
            team_id,
            share.share,
            share.quota_gpus,
            share.limit_gpus,
            share.max_running,
            msgspec.json.encode(share.classes).decode(),
            share.urgent_gpu_hours,
            share.parent or None,
            share.lendable_gpus,
            tx.now_ms,
        ),
    )
    tx.event(
        "team.updated",
        team_id=team_id,
        actor=actor,
        subject="team",
        subject_id=team,
        before=msgspec.to_builtins(before),
        after=msgspec.to_builtins(share),
    )


class Config(NamedTuple):
    """Queues and shares as a config file states them."""

    queues: dict[str, QueueSettings]
    shares: dict[str, TeamShare]


def read_config(queues: Mapping[str, Any], shares: Mapping[str, Any]) -> Config:
    """Check the tables of a config file before anything is opened."""
    found = Config(
        {name: _read(QueueSettings, value, f"[queues.{name}]") for name, value in queues.items()},
        {name: _read(TeamShare, value, f"[teams.{name}]") for name, value in shares.items()},
    )
    for where, settings in (("queues", found.queues), ("teams", found.shares)):
        for name, value in settings.items():
            try:
                value.check()
            except InvalidInput as fault:
                raise SetupError(f"[{where}.{name}] in the config file: {fault}") from fault
    return found


def apply_config(tx: Tx, config: Config, *, actor: str = "config") -> None:
    """Bring queues and shares to what the config file says; what it does not name stays."""
    known, teams = load_queues(tx), load_shares(tx)
    for name in config.shares:
        if name not in teams:
            raise InvalidInput(f"the config file names team {name!r}, which there is not")
    for name, settings in config.queues.items():
        if known.get(name) != settings:
            set_queue(tx, name, settings, actor=actor)
    # Of several changes only the outcome must make sense.
    check_departments({**teams, **config.shares})
    for name, share in config.shares.items():
        if teams[name] != share:
            _write_share(tx, name, share, actor=actor)


def _read(kind: type[T], values: Any, where: str) -> T:
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as fault:
        raise SetupError(f"{where} in the config file: {fault}") from fault


def scheduler_queues(reader: ReadConnection) -> tuple[Queue, ...]:
    """Return the queues in the scheduler's own words."""
    return tuple(
        Queue(
            name=name,
            teams=tuple(rules.teams),
            rank=rules.rank,
            order=QueueOrder(rules.order) if rules.order else None,
            **_limits(rules),
        )
        for name, rules in load_queues(reader).items()
    )


def scheduler_teams(
    reader: ReadConnection, usage: dict[str, float], now_ms: int
) -> tuple[Team, ...]:
    """Return the teams in the scheduler's own words, with their use and spent budgets."""
    shares = load_shares(reader)
    held = budget_holds(reader, {name: share.parent for name, share in shares.items()}, now_ms)
    return tuple(
        Team(
            id=name,
            parent=share.parent,
            quota_gpus=share.quota_gpus,
            limit_gpus=share.limit_gpus,
            lendable_gpus=share.lendable_gpus,
            weight=share.share,
            max_running=share.max_running,
            usage_gpu_seconds=usage.get(name, 0.0),
            budget_hold=held.get(name),
        )
        for name, share in shares.items()
    )


def _limits(rules: QueueSettings) -> dict[str, Any]:
    names = (
        "quota_gpus",
        "max_running",
        "max_nodes_per_job",
        "max_gpus_per_job",
        "max_wall_seconds",
        "max_gpus_per_user",
        "max_running_per_user",
        "default_cpus",
        "default_memory_bytes",
        "default_cpus_per_gpu",
        "default_memory_per_gpu_bytes",
        "max_cpus_per_job",
        "max_memory_per_job_bytes",
    )
    return {name: getattr(rules, name) for name in names}
