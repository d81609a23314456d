"""Which runs go back to which: restarts, forks and resumed runs, by tags that name a run.

Owns those tags and the queries along them. A run's descendants are looked for in its own
experiment, where restarts and forks are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from trackyard.access.principal import Principal
from trackyard.core.ids import RUN_ID
from trackyard.store.database import ReadConnection
from trackyard.tracking.runs import find_run

#: tag -> how a sentence says it
RELATIONS = {
    "yard.restart_of": "restart of",
    "yard.fork_of": "fork of",
    "yard.resumed_from": "resumed from",
}
COMMIT_TAG = "mlflow.source.git.commit"
DIFF_TAG = "yard.git.diff"
MAX_RUNS = 20


class RunHead(NamedTuple):
    """A run's own facts, its parameters and tags."""

    id: int
    run_id: str
    name: str
    user: str
    status: str
    start_ms: int | None
    end_ms: int | None
    experiment_id: int
    params: dict[str, str]
    tags: dict[str, str]

    @property
    def parents(self) -> list[tuple[str, str]]:
        """The runs it goes back to: (relation, run id)."""
        named = ((words, self.tags.get(tag, "")) for tag, words in RELATIONS.items())
        return [(words, run_id) for words, run_id in named if RUN_ID.match(run_id)]


class NamedMetric(NamedTuple):
    """A metric of a run by name."""

    name_id: int
    name: str


def load_head(reader: ReadConnection, principal: Principal, run_id: str) -> RunHead:
    """Return a run of the caller's team with its parameters and tags."""
    inner = find_run(reader, principal, run_id).id
    row = reader.one(
        "SELECT id, uuid, name, user_name, status, start_ms, end_ms, experiment_id FROM runs"
        " WHERE id = ?",
        (inner,),
    )
    assert row is not None
    facts = (*row, _pairs(reader, "params", inner), _pairs(reader, "tags", inner))
    return RunHead._make(facts)


def _pairs(reader: ReadConnection, table: str, inner: int) -> dict[str, str]:
    rows = reader.all(
        f"SELECT n.name, t.value FROM {table} t JOIN names n ON n.id = t.name_id"
        " WHERE t.run_id = ?",
        (inner,),
    )
    return {str(row[0]): str(row[1]) for row in rows}


def load_lineage(reader: ReadConnection, principal: Principal, run_id: str) -> list[RunHead]:
    """Return a run with those it goes back to and those that go back to it, the oldest first."""
    found: dict[str, RunHead] = {}
    waiting = [run_id]
    while waiting and len(found) < MAX_RUNS:
        one = waiting.pop(0)
        if one in found:
            continue
        if one != run_id and not _is_own(reader, principal, one):
            continue
        head = load_head(reader, principal, one)
        found[one] = head
        waiting += [parent for _, parent in head.parents]
        waiting += _children(reader, head)
    return sorted(found.values(), key=lambda head: (head.start_ms or 0, head.id))


def load_metrics(reader: ReadConnection, run: int) -> list[NamedMetric]:
    """Return the names of a run's metrics."""
    rows = reader.all(
        "SELECT m.name_id, n.name FROM metric_latest m JOIN names n ON n.id = m.name_id"
        " WHERE m.run_id = ? ORDER BY n.name",
        (run,),
    )
    return [NamedMetric(*row) for row in rows]


def names_of(reader: ReadConnection, team_id: int, run_ids: Iterable[str]) -> dict[str, str]:
    """Return the names of a team's runs by id."""
    wanted = sorted(set(run_ids))
    found: dict[str, str] = {}
    for at in range(0, len(wanted), 500):
        part = wanted[at : at + 500]
        marks = ",".join("?" * len(part))
        rows = reader.all(
            f"SELECT uuid, name FROM runs WHERE team_id = ? AND uuid IN ({marks})",
            (team_id, *part),
        )
        found |= {str(row[0]): str(row[1]) for row in rows}
    return found


def _is_own(reader: ReadConnection, principal: Principal, run_id: str) -> bool:
    row = reader.one(
        "SELECT 1 FROM runs WHERE uuid = ? AND team_id = ?", (run_id, principal.team_id)
    )
    return row is not None


def _children(reader: ReadConnection, head: RunHead) -> list[str]:
    marks = ",".join("?" * len(RELATIONS))
    rows = reader.all(f"SELECT id FROM names WHERE name IN ({marks})", tuple(RELATIONS))
    found: list[str] = []
    for (name_id,) in rows:
        found += [
            row[0]
            for row in reader.all(
                "SELECT r.uuid FROM runs r JOIN tags t ON t.run_id = r.id AND t.name_id = ?"
                " WHERE r.experiment_id = ? AND t.value = ? ORDER BY r.id LIMIT ?",
                (name_id, head.experiment_id, head.run_id, MAX_RUNS),
            )
        ]
    return found
