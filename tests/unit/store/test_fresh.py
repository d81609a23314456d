"""The schema of an empty database: one statement per table and index, never from a stale copy."""

import shutil
import sys
from pathlib import Path

import pytest

from trackyard.store import fresh
from trackyard.store.fresh import fresh_schema
from trackyard.store.schema import metadata


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the schema's sources, whose bytecode folder is the test's own."""
    folder = tmp_path / "schema"
    shutil.copytree(fresh._SCHEMA, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(fresh, "_SCHEMA", folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return folder


@pytest.mark.parametrize(
    ("dialect", "word"), [("sqlite", "id INTEGER"), ("postgresql", "BIGSERIAL")]
)
def test_each_table_and_index_is_made_once(dialect: str, word: str) -> None:
    lines = fresh_schema(dialect).splitlines()
    count = sum(1 + len(table.indexes) for table in metadata.tables.values())
    assert len(lines) == len(set(lines)) == count
    assert any(word in line for line in lines)


def test_a_copy_is_used_while_the_sources_are_the_same(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = fresh_schema("sqlite")
    calls: list[str] = []
    monkeypatch.setattr(fresh, "_render", lambda dialect: calls.append(dialect) or ["SELECT 1"])
    assert fresh_schema("sqlite") == made
    assert calls == []
    (sources / "usage.py").write_text("# changed\n")
    assert fresh_schema("sqlite") == "SELECT 1;\n"
    assert calls == ["sqlite"]


@pytest.mark.parametrize("keep", [0, 10, -5])
def test_a_copy_that_was_cut_short_is_made_anew(sources: Path, keep: int) -> None:
    made = fresh_schema("sqlite")
    [copy] = sources.rglob("fresh_sqlite.sql")
    copy.write_text(copy.read_text()[:keep])
    assert fresh_schema("sqlite") == made


def test_a_folder_that_cannot_be_written_to_costs_only_the_copy(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fresh, "_kept_at", lambda _: sources / "usage.py" / "no" / "folder.sql")
    assert fresh_schema("sqlite").startswith("CREATE TABLE")
