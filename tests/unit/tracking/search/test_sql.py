"""Conditions: where user text goes, and the pieces that other lists are searched with."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackyard.store.connection import POSTGRESQL, SQLITE, SqliteConnection
from trackyard.tracking.search.grammar import parse_filter, parse_order
from trackyard.tracking.search.language import LOGGED_MODELS, REGISTERED_MODELS
from trackyard.tracking.search.paging import Term, binding, find_page, nulls_last
from trackyard.tracking.search.sql import (
    ALWAYS,
    NEVER,
    Column,
    Fragment,
    Rows,
    SearchColumns,
    compile_where,
    join,
)

MODELS = SearchColumns(
    attributes={"name": Column("m.name")},
    rows={
        "tag": Rows(
            table="model_tags",
            owner="model_id",
            parent="m.id",
            absent={"mlflow.prompt.is_prompt": "false"},
        )
    },
)


@pytest.fixture
def conn() -> Iterator[SqliteConnection]:
    """Three models: one a prompt, one said to be none, one silent."""
    opened = SqliteConnection(Path(":memory:"))
    opened.run("CREATE TABLE models (id INTEGER PRIMARY KEY, name TEXT, updated INTEGER)")
    opened.run("CREATE TABLE model_tags (model_id INTEGER, key TEXT, value TEXT)")
    opened.many("INSERT INTO models VALUES (?, ?, ?)", [(1, "a", 5), (2, "b", None), (3, "c", 7)])
    opened.many(
        "INSERT INTO model_tags VALUES (?, ?, ?)",
        [(1, "mlflow.prompt.is_prompt", "true"), (2, "mlflow.prompt.is_prompt", "false")],
    )
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("tags.`mlflow.prompt.is_prompt` != 'true'", [2, 3]),
        ("tags.`mlflow.prompt.is_prompt` = 'false'", [2, 3]),
        ("tags.`mlflow.prompt.is_prompt` = 'true'", [1]),
        ("tags.`mlflow.prompt.is_prompt` != 'false'", [1]),
        ("tags.`mlflow.prompt.is_prompt` LIKE 'f%'", [2]),
        ("tags.other != 'true'", []),
        ("NOT tags.other = 'true' AND name IN ('a', 'c')", [1, 3]),
    ],
)
def test_an_absent_tag_counts_as_its_default_for_equality(
    conn: SqliteConnection, text: str, ids: list[int]
) -> None:
    where = compile_where(SQLITE, parse_filter(text, REGISTERED_MODELS), MODELS)
    rows = conn.all(f"SELECT m.id FROM models m WHERE {where.sql} ORDER BY m.id", where.params)
    assert [row[0] for row in rows] == ids


@pytest.mark.parametrize("ascending", [True, False])
def test_pages_of_any_list_put_nulls_last(conn: SqliteConnection, ascending: bool) -> None:
    terms = [
        *nulls_last("m.updated", ascending=ascending, kind="whole"),
        Term("m.name", ascending=True, kind="text"),
    ]
    found: list[int] = []
    token: str | None = None
    while True:
        page, token = find_page(
            conn,
            key="m.id",
            source=Fragment("models m"),
            where=ALWAYS,
            terms=terms,
            query=binding("models", 1),
            max_results=1,
            page_token=token,
        )
        found += page
        if token is None:
            break
    assert found == ([1, 3, 2] if ascending else [3, 1, 2])


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0'"), min_size=1, max_size=20))
def test_what_a_user_writes_is_only_ever_a_parameter(word: str) -> None:
    """The SQL is the same whatever the names and values are."""
    columns = SearchColumns(
        attributes={"name": Column("m.name")},
        rows={
            "tag": Rows(table="tags", owner="model_id", parent="m.id"),
            "parameter": Rows(table="params", owner="model_id", parent="m.id"),
        },
    )

    def sql(name: str) -> str:
        key = name.replace("`", "``")
        text = (
            f"name = '{name}' AND tags.`{key}` LIKE '{name}' OR params.`{key}` IN ('{name}')"
            f" OR NOT name ILIKE '{name}'"
        )
        for dialect in (SQLITE, POSTGRESQL):
            found = compile_where(dialect, parse_filter(text, LOGGED_MODELS), columns)
            assert found.sql.count("?") == len(found.params)
        return found.sql

    assert sql(word) == sql("x")


def test_conditions_are_joined() -> None:
    one, two = Fragment("a = ?", (1,)), Fragment("b = ?", (2,))
    assert join("AND", []) == ALWAYS
    assert join("OR", []) == NEVER
    assert join("OR", [one]) == one
    assert join("OR", [one, two]) == Fragment("(a = ?) OR (b = ?)", (1, 2))


def test_the_registry_s_orders_are_read() -> None:
    orders = parse_order(["timestamp DESC", "name"], REGISTERED_MODELS)
    assert [order.key.name for order in orders] == ["last_updated_timestamp", "name"]
