"""MLflow's database in PostgreSQL is read as the same one in SQLite is."""

import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.acceptance.moving.stores import unpack
from tests.integration.conftest import PostgresServer
from trackyard.core.errors import SetupError
from trackyard.moving.mlflow_sql import MlflowDatabase
from trackyard.moving.records import RecordSource


def copy(database: Path, url: str) -> None:
    """Copy MLflow's tables, with the types that it gives their columns in PostgreSQL."""
    source = sqlite3.connect(database)
    with psycopg.connect(url, autocommit=True) as target:
        sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        for (table,) in source.execute(sql).fetchall():
            facts = source.execute(f"PRAGMA table_info({table})").fetchall()
            names = ", ".join(f'"{fact[1]}"' for fact in facts)
            kinds = [kind_of(fact[2]) for fact in facts]
            columns = ", ".join(
                f'"{fact[1]}" {kind}' for fact, kind in zip(facts, kinds, strict=True)
            )
            target.execute(f'CREATE TABLE "{table}" ({columns})'.encode())
            rows = [
                [
                    bool(value) if kind == "BOOLEAN" and value is not None else value
                    for value, kind in zip(row, kinds, strict=True)
                ]
                for row in source.execute(f'SELECT {names} FROM "{table}"')
            ]
            marks = ", ".join(["%s"] * len(facts))
            if rows:
                with target.cursor() as cursor:
                    insert = f'INSERT INTO "{table}" ({names}) VALUES ({marks})'
                    cursor.executemany(insert.encode(), rows)
    source.close()


def kind_of(declared: str) -> str:
    word = declared.upper()
    if word.startswith("BOOL"):
        return "BOOLEAN"
    if "INT" in word:
        return "BIGINT"
    if word.startswith(("FLOAT", "DOUBLE")):
        return "DOUBLE PRECISION"
    return "TEXT"


def whole(source: RecordSource) -> list[Any]:
    """Read everything that a source yields."""
    found: list[Any] = []
    for experiment in source.experiments():
        found.append(experiment)
        for run in source.runs(experiment):
            found.append(run)
            for series in source.points(run, run.counts or {}):
                texts = [repr(value) for value in series.values.tolist()]
                columns = (series.steps.tolist(), series.times.tolist(), texts)
                order = sorted(zip(*columns, strict=True))
                found.append((series.key, order))
        found += [*source.logged_models(experiment), *source.traces(experiment)]
    models = sorted(source.models(), key=lambda model: model.name)
    return [*found, *models, *source.left_out()]


@pytest.mark.parametrize("name", ["sql2", "sql3"])
def test_both_databases_tell_the_same(
    name: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    store = unpack(name, tmp_path)
    made = f"mlflow_{name}"
    postgres_server.run(f"CREATE DATABASE {made}")
    try:
        url = postgres_server.url(made)
        copy(store.folder / "mlflow.db", url)
        there = whole(MlflowDatabase(store.where))
        here = whole(MlflowDatabase(url.replace("postgresql://", "postgresql+psycopg2://")))
        assert len(there) > 15
        assert here == there
    finally:
        postgres_server.run(f"DROP DATABASE {made} WITH (FORCE)")


def test_a_database_of_something_else_is_told_in_a_sentence(
    postgres_server: PostgresServer,
) -> None:
    with pytest.raises(SetupError, match="no database of MLflow"):
        MlflowDatabase(postgres_server.url("postgres"))
