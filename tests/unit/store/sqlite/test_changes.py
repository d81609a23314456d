"""What a statement changes is read from it, and what is not understood counts as everything."""

import pytest
from sqlalchemy import ForeignKeyConstraint

from trackyard.store.schema import claims, jobs, metadata  # noqa: F401 - all tables
from trackyard.store.sqlite import journal
from trackyard.store.sqlite.changes import (
    EVERYTHING,
    RUN_TABLES,
    SHARED_TABLES,
    Changes,
    effect_of,
)

DELETE_TAG = "DELETE FROM tags WHERE run_id = ? AND name_id = (?)"
STATE = "UPDATE runs SET status = ?, start_ms = coalesce(?, start_ms) WHERE id = ?"


def noted(sql: str, *rows: tuple[object, ...]) -> set[int]:
    changes = Changes()
    changes.note(sql, rows)
    return changes.take()


@pytest.mark.parametrize(
    ("sql", "row", "run"),
    [
        (journal.UPSERT_TAG, (7, 1, "v"), 7),
        (journal.UPSERT_LATEST, (7, 1, 2, 3, 0.5, 0.5, 0.5, "w"), 7),
        ("INSERT INTO run_models (model_id, run_id) VALUES (?, ?)", ("m", 7), 7),
        ("INSERT INTO params (value, run_id) VALUES ('x', ?)", (7,), 7),
        (STATE, ("FINISHED", 1, 7), 7),
        (DELETE_TAG, (7, 1), 7),
    ],
)
def test_a_run_is_found_among_the_values(sql: str, row: tuple[object, ...], run: int) -> None:
    assert noted(sql, row) == {run}


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE runs SET lifecycle = 'deleted' WHERE experiment_id = ?",
        "UPDATE runs SET name = ? WHERE id = ? OR name = ?",
        "UPDATE params SET value = 'x' WHERE run_id = (SELECT id FROM runs WHERE id = ?)",
        "INSERT INTO tags (run_id, name_id, value) SELECT id, 1, ? FROM runs",
        "DELETE FROM tags",
        "DELETE FROM experiments WHERE id = ?",
        "UPDATE datasets SET name = ? WHERE id = ?",
        "WITH old AS (SELECT 1) DELETE FROM runs WHERE id = ?",
        "REPLACE INTO tags VALUES (?, ?, ?)",
    ],
)
def test_what_is_not_understood_is_everything(sql: str) -> None:
    assert noted(sql, (1, 2, 3)) == {EVERYTHING}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 FROM runs WHERE id = ?",
        journal.INSERT_RUN,
        journal.INSERT_EVENT,
        "UPDATE models SET name = ? WHERE id = ?",
        "UPDATE experiments SET name = ? WHERE id = ?",
    ],
)
def test_what_no_cache_keeps_is_nothing(sql: str) -> None:
    assert effect_of(sql) is None


def test_only_facts_and_parameters_change_what_writes_are_judged_by() -> None:
    changes, heard = Changes(), []
    changes.on_run.append(heard.append)
    changes.note(journal.UPSERT_TAG, [(7, 1, "v")])
    assert heard == []
    changes.note(STATE, [("FINISHED", 1, 7)])
    assert heard == [7]
    changes.note("DELETE FROM experiments WHERE id = ?", [(1,)])
    assert heard == [7, EVERYTHING]


def test_every_table_that_takes_runs_with_it_is_known() -> None:
    """Rows that a cascade removes are named by no statement."""
    reached = set(RUN_TABLES)
    while True:
        parents = {
            constraint.referred_table.name
            for table in metadata.tables.values()
            if table.name in reached
            for constraint in table.constraints
            if isinstance(constraint, ForeignKeyConstraint) and constraint.ondelete == "CASCADE"
        }
        if parents <= reached:
            break
        reached |= parents
    assert reached - set(RUN_TABLES) <= SHARED_TABLES
