"""Search of runs and experiments on both databases, held against a model in plain Python."""

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.tracking.search_model import (
    METRICS,
    NUMBERS,
    PARAMS,
    TAGS,
    TEXTS,
    ModelRun,
    insert,
    insert_run,
    random_runs,
    search,
)
from tests.unit.tracking.search.trees import random_filter, write_filter, write_order
from trackyard.core.errors import InvalidInput
from trackyard.store.connection import PostgresConnection, SqliteConnection
from trackyard.store.database import Database
from trackyard.tracking.names import Names
from trackyard.tracking.search import plan, runs
from trackyard.tracking.search.experiments import find_experiments
from trackyard.tracking.search.grammar import Key, SortKey
from trackyard.tracking.search.language import RUNS
from trackyard.tracking.search.runs import find_runs
from trackyard.tracking.search.sql import Fragment

EXPERIMENTS = {10: 1, 11: 1, 12: 1, 20: 2}
KEYS = [
    *(Key("metric", name) for name in (*METRICS, *METRICS, "no such")),
    *(Key("metric", name, how) for name in METRICS for how in ("min", "max")),  # type: ignore[arg-type]
    *(Key("parameter", name) for name in (*PARAMS, "no such")),
    *(Key("tag", name) for name in (*TAGS, "no such")),
    *(Key("attribute", name) for name in RUNS.filters["attribute"] if name.islower()),
    *(Key("dataset", name) for name in ("name", "digest", "context")),
]
KEYS = [
    Key(key.entity, {"created": "start_time", "run name": "run_name"}.get(key.name, key.name),
        key.aggregate)
    for key in KEYS
]  # fmt: skip
PATTERNS = ["%", "a%", "%NET%", "_", "__B%", "%50", "%'%", "*%", "[x]", "\\"]
BAD_TOKENS = ["not a token", "e30=", "W10=", "bnVsbA==", "é", "x" * 5000, "WyJhIiwwLDFd", "===="]
SORTABLE = [key for key in KEYS if key.entity != "dataset"]


class World:
    """A database with runs in it, and the same runs as the model has them."""

    def __init__(self, conn: Any, found: list[ModelRun], names: Names) -> None:
        self.conn = conn
        self.runs = found
        self.names = names

    def find(self, **how: Any) -> tuple[list[int], str | None]:
        return find_runs(self.conn, **{"names": self.names, "team_id": 1, **how})

    def pages(self, size: int, **how: Any) -> list[int]:
        """All runs, page by page."""
        found, token = self.find(max_results=size, **how)
        while token:
            assert len(found) % size == 0
            more, token = self.find(max_results=size, page_token=token, **how)
            assert more
            found += more
        return found


@pytest.fixture
def conn(database_url: str) -> Iterator[Any]:
    if database_url.startswith("sqlite:///"):
        opened: Any = SqliteConnection(Path(database_url.removeprefix("sqlite:///")))
    else:
        opened = PostgresConnection(database_url)
    yield opened
    opened.close()


@pytest.fixture
def world(conn: Any, database: Database) -> World:
    found = random_runs(random.Random(5), 150, EXPERIMENTS)
    insert(conn, found, EXPERIMENTS)
    return World(conn, found, Names(database))


def pick(world: World) -> Any:
    def value(source: random.Random, key: Key, operator: str) -> str | float | int:
        if key.entity == "metric":
            return source.choice(NUMBERS)
        if key.name in ("start_time", "end_time"):
            return source.choice([1000, 2000, 3000, 1000.5, source.randrange(5000)])
        if key.entity == "dataset":
            return source.choice(["imagenet", "d1", "train", "coco"])
        if operator in ("LIKE", "ILIKE"):
            return source.choice(
                ["%", "a%", "%NET%", "_", "__B%", "%50", "%'%", "*%", "[x]", "\\"]
            )
        if key.name == "run_id":
            return source.choice(world.runs).uuid
        return source.choice([*TEXTS, "alpha", "beta", "ann", "RUNNING", "FAILED"])

    return value


def random_search(source: random.Random, world: World) -> tuple[dict[str, Any], list[int]]:
    """A search, and what the model answers."""
    expression = None
    if source.random() < 0.85:
        expression = random_filter(source, RUNS, KEYS, pick(world), source.randint(0, 2))
    chosen = source.sample(SORTABLE, source.randint(0, 3))
    orders = [SortKey(key, source.random() < 0.5) for key in dict.fromkeys(chosen)]
    view = source.choice(["ACTIVE_ONLY", "ACTIVE_ONLY", "DELETED_ONLY", "ALL"])
    experiments = source.sample(list(EXPERIMENTS), source.randint(1, 4))
    expected = search(
        world.runs, team_id=1, experiment_ids=experiments, expression=expression,
        orders=orders, view=view,
    )  # fmt: skip
    asked = {
        "filter": write_filter(expression, source) if expression else "",
        "order_by": [write_order(order, source) for order in orders],
        "view": view,
        "experiment_ids": experiments,
    }
    return asked, expected


def test_any_search_answers_what_the_model_answers(world: World) -> None:
    source = random.Random(1)
    met = 0
    for _ in range(300):
        asked, expected = random_search(source, world)
        assert world.find(**asked) == (expected, None), asked
        met += bool(expected)
    assert met > 100


def test_every_way_through_the_database_answers_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However large an experiment were, and wherever the search began."""
    source = random.Random(2)
    taken: set[str] = set()

    def any_start(
        figures: plan.SearchFigures, leaves: Any, *, order: str | None, **rest: Any
    ) -> plan.Start:
        plan_choice(figures, leaves, order=order, **rest)
        starts: list[plan.Start] = ["runs"] + (["order"] if order else [])  # type: ignore[list-item]
        for place, leaf in enumerate(leaves):
            if plan.is_range(leaf) or plan.is_indexed(leaf.clause):
                starts += [place, place]
        start = source.choice(starts)
        taken.add(start if isinstance(start, str) else "clause")
        return start

    plan_choice = plan.choose
    monkeypatch.setattr(plan, "SMALL", -1)
    monkeypatch.setattr(plan, "choose", any_start)
    for _ in range(300):
        monkeypatch.setattr(runs, "FEW", source.choice([0, 5000]))
        asked, expected = random_search(source, world)
        assert world.find(**asked) == (expected, None), asked
    assert taken == {"runs", "order", "clause"}


@pytest.mark.parametrize("small", [-1, 2000])
def test_pages_follow_each_other_without_gap_or_repeat(
    world: World, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "SMALL", small)
    source = random.Random(7)
    for _ in range(40):
        asked, expected = random_search(source, world)
        assert world.pages(source.choice([1, 3, 7, 40]), **asked) == expected, asked


def test_a_page_begun_one_way_goes_on_another(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token does not depend on how the page before it was found."""
    asked = {"experiment_ids": [10, 11, 12], "order_by": ["metrics.loss DESC", "params.lr"]}
    whole, _ = world.find(**asked)
    found, token = world.find(max_results=1, **asked)
    while token:
        monkeypatch.setattr(plan, "SMALL", -1 if len(found) % 2 else 2000)
        more, token = world.find(max_results=1, page_token=token, **asked)
        found += more
    assert found == whole


def test_runs_that_come_and_go_between_pages_disturb_no_other(world: World) -> None:
    asked = {"experiment_ids": [10, 11, 12], "order_by": ["metrics.loss ASC"], "view": "ALL"}
    before, _ = world.find(**asked)
    first, token = world.find(max_results=10, **asked)
    fresh = ModelRun(
        id=9001, uuid="f" * 32, experiment_id=10, team_id=1, name="late", user="ann",
        status="RUNNING", start_ms=9, end_ms=None, metrics={"loss": (-99.0, -99.0, -99.0)},
    )  # fmt: skip
    names = {name: number + 1 for number, name in enumerate(PARAMS + TAGS + METRICS)}
    world.conn.begin()
    insert_run(world.conn, fresh, names)
    world.conn.run("DELETE FROM runs WHERE id = ?", (first[4],))
    world.conn.commit()
    rest: list[int] = []
    while token:
        more, token = world.find(max_results=10, page_token=token, **asked)
        rest += more
    assert first + rest == before


def test_a_token_fits_its_own_query_and_team_alone(world: World) -> None:
    asked: dict[str, Any] = {"experiment_ids": [10, 11], "max_results": 5}
    _, token = world.find(**asked)
    assert token
    for other in (
        {"team_id": 2},
        {"experiment_ids": [10]},
        {"filter": "metrics.loss > 0"},
        {"order_by": ["start_time"]},
        {"view": "ALL"},
    ):
        with pytest.raises(InvalidInput, match="Invalid page token"):
            world.find(page_token=token, **{**asked, **other})


def test_a_bad_token_is_refused(world: World) -> None:
    for token in [*BAD_TOKENS, "\0"]:
        with pytest.raises(InvalidInput, match="Invalid page token"):
            world.find(experiment_ids=[10], page_token=token)


def test_a_token_with_other_values_is_refused_or_harmless(world: World) -> None:
    """Whatever its values, it shows no run of another team."""
    from trackyard.tracking.search.paging import binding, write_token
    from trackyard.tracking.search.values import attribute_terms, complete

    terms = [term for order in complete([]) for term in attribute_terms(order)]
    query = binding("runs", 1, (10, 20), "", "ALL", [])
    asked: dict[str, Any] = {"experiment_ids": [10, 20], "view": "ALL", "max_results": 500}
    own = {run.id for run in world.runs if run.team_id == 1}
    for values in ([0, 2**62, ""], [-5, 0, "x"], [7, -1, "\U0010ffff"]):
        found, _ = world.find(page_token=write_token(query, 0, terms, values), **asked)
        assert set(found) <= own
    for values in ([0, 2**63, ""], ["0", 0, ""], [0, 0, 0], [0, 0, "\0"]):
        with pytest.raises(InvalidInput, match="Invalid page token"):
            world.find(page_token=write_token(query, 0, terms, values), **asked)


def test_another_team_s_experiments_show_nothing(world: World) -> None:
    assert world.find(experiment_ids=[20], view="ALL") == ([], None)
    found, _ = world.find(experiment_ids=list(EXPERIMENTS), view="ALL")
    assert set(found) == {run.id for run in world.runs if run.team_id == 1}


def test_no_experiments_no_runs(world: World) -> None:
    assert world.find(experiment_ids=[], view="ALL") == ([], None)


def test_a_thousand_experiments_may_be_named(world: World) -> None:
    few, _ = world.find(experiment_ids=[10, 11])
    many, _ = world.find(experiment_ids=[10, 11, *range(100_000, 140_000)])
    assert many == few


def test_a_caller_s_own_condition_narrows_the_search(world: World) -> None:
    run = next(one for one in world.runs if one.team_id == 1)
    also = Fragment("r.uuid = ?", (run.uuid,))
    found, _ = world.find(experiment_ids=list(EXPERIMENTS), view="ALL", also=also)
    assert found == [run.id]


def test_a_page_has_a_size_within_reason(world: World) -> None:
    for size in (0, -1, 50_001):
        with pytest.raises(InvalidInput, match="max_results"):
            world.find(experiment_ids=[10], max_results=size)


def test_an_unknown_view_is_refused(world: World) -> None:
    with pytest.raises(InvalidInput, match="run_view_type"):
        world.find(experiment_ids=[10], view="SOME")


@pytest.mark.parametrize("word", [" AND ", " OR "])
def test_as_many_clauses_and_orders_as_are_allowed_run(
    world: World, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No database's own limit is met before ours."""
    clauses = [f"metrics.`{name}` != 77" for name in METRICS] * 20
    clauses += [
        "params.lr LIKE '%'",
        "datasets.context != 'x'",
        "tags.team != 'q'",
        "status != 'x'",
    ]
    orders = [f"{how}(metrics.`{name}`)" for name in METRICS for how in ("min", "max")]
    orders += [f"params.`{name}`" for name in PARAMS] + [f"tags.`{name}`" for name in TAGS]
    text = word.join(clauses[-64:])
    for small in (2000, -1):
        monkeypatch.setattr(plan, "SMALL", small)
        found, _ = world.find(experiment_ids=[10], filter=text, order_by=orders)
        assert found or word == " AND "


def test_a_slow_pattern_is_answered_soon(world: World) -> None:
    world.conn.begin()
    world.conn.run("UPDATE tags SET value = ?", ("a" * 5000,))
    world.conn.commit()
    pattern = "%a" * 500 + "b"
    began = time.monotonic()
    for word in ("LIKE", "ILIKE"):
        text = f"tags.team {word} '{pattern}'"
        assert world.find(experiment_ids=[10, 11, 12], filter=text) == ([], None)
    assert time.monotonic() - began < 30


def test_sampling_tells_a_rare_clause_from_a_common_one(world: World) -> None:
    """The planner starts at the clause that few runs meet."""
    scope = plan.SearchScope(1, (10,))
    query = runs._query(
        world.conn, world.names, scope,
        runs.parse_filter("metrics.loss > -99 AND params.lr = 'no run has it'", RUNS),
        orders=(), more=(),
    )  # fmt: skip
    assert query is not None
    figures = plan.look(world.conn, scope, query.leaves, query.others)
    assert figures.leaves[1] < 0.05 < figures.leaves[0]
    big = plan.SearchFigures(runs=90_000, total=100_000, leaves=figures.leaves, others=1.0)
    assert plan.choose(big, query.leaves, wanted=101, order="value") == 1


# -- experiments -------------------------------------------------------------------------------


@pytest.fixture
def experiments(conn: Any) -> Any:
    """Seven experiments of team 1 and one of team 2; 5 is the Default."""
    conn.begin()
    for team in (1, 2):
        conn.run(
            "INSERT INTO teams (id, name, created_ms, settings) VALUES (?, ?, 0, '{}')",
            (team, f"team-{team}"),
        )
    rows = [
        (5, 1, "Default", "active", 100, 100),
        (2, 1, "alpha", "active", 200, 900),
        (3, 1, "Beta", "active", 200, 300),
        (4, 1, "gamma", "deleted", 300, 400),
        (6, 1, "a_c", "active", 300, 300),
        (7, 1, "abc", "active", 300, 300),
        (8, 2, "alpha", "active", 999, 999),
    ]
    conn.many(
        "INSERT INTO experiments (id, team_id, name, lifecycle, created_ms, updated_ms,"
        " artifact_location) VALUES (?, ?, ?, ?, ?, ?, '')",
        rows,
    )
    conn.many(
        "INSERT INTO experiment_tags (experiment_id, key, value) VALUES (?, ?, ?)",
        [(2, "kind", "vision"), (3, "kind", "text"), (8, "kind", "vision"), (6, "a b", "x")],
    )
    conn.commit()
    return conn


FOUND: list[tuple[dict[str, Any], list[int]]] = [
    ({}, [6, 7, 2, 3, 5]),
    ({"view": "ALL"}, [4, 6, 7, 2, 3, 5]),
    ({"view": "DELETED_ONLY"}, [4]),
    ({"filter": "name = 'alpha'"}, [2]),
    ({"filter": "name != 'alpha'"}, [6, 7, 3, 5]),
    ({"filter": "attribute.name LIKE 'a%'"}, [6, 7, 2]),
    ({"filter": "name LIKE 'A%'"}, []),
    ({"filter": "name ILIKE 'A%'"}, [6, 7, 2]),
    ({"filter": "name LIKE 'a_c'"}, [6, 7]),
    ({"filter": "tags.kind = 'vision'"}, [2]),
    ({"filter": "tags.kind != 'vision'"}, [3]),
    ({"filter": "NOT tags.kind = 'vision'"}, [6, 7, 3, 5]),
    ({"filter": "tags.kind IS NULL AND name != 'abc'"}, [6, 5]),
    ({"filter": "tag.`a b` IS NOT NULL OR creation_time < 150"}, [6, 5]),
    ({"filter": "last_update_time >= 900"}, [2]),
    ({"filter": "experiment_id = '3'"}, [3]),
    ({"filter": "experiment_id != '3' AND creation_time = 200"}, [2]),
    ({"filter": "experiment_id IN ('0', '3', '8')"}, [3, 5]),
    ({"filter": "experiment_id NOT IN ('0', '3')"}, [6, 7, 2]),
    ({"filter": "experiment_id = '5'", "default_experiment": None}, [5]),
    ({"order_by": ["name"]}, [3, 5, 6, 7, 2]),
    ({"order_by": ["name DESC"]}, [2, 7, 6, 5, 3]),
    ({"order_by": ["creation_time ASC"]}, [5, 3, 2, 7, 6]),
    ({"order_by": ["last_update_time DESC"]}, [2, 7, 6, 3, 5]),
    ({"order_by": ["last_update_time", "experiment_id"]}, [5, 3, 6, 7, 2]),
    ({"order_by": ["experiment_id"]}, [5, 2, 3, 6, 7]),
]


def test_experiments_are_found(experiments: Any) -> None:
    for asked, ids in FOUND:
        for size in (1, 2, 100):
            how = {"team_id": 1, "default_experiment": 5, "max_results": size, **asked}
            found, token = find_experiments(experiments, **how)
            while token:
                more, token = find_experiments(experiments, page_token=token, **how)
                found += more
            assert found == ids, (asked, size)


WRONG: list[dict[str, Any]] = [
    {"filter": "experiment_id = 'x'"},
    {"filter": "experiment_id = '99999999999999999999'"},
    {"filter": "metrics.a > 1"},
    {"order_by": ["tags.kind"]},
    {"order_by": ["name", "name DESC"]},
    {"max_results": 0},
    {"view": "NONE"},
    {"page_token": "x"},
]


def test_a_wrong_search_of_experiments_is_refused(experiments: Any) -> None:
    for asked in WRONG:
        with pytest.raises(InvalidInput):
            find_experiments(experiments, team_id=1, **asked)


def test_another_team_s_token_is_refused(experiments: Any) -> None:
    _, token = find_experiments(experiments, team_id=1, max_results=2)
    with pytest.raises(InvalidInput, match="Invalid page token"):
        find_experiments(experiments, team_id=2, max_results=2, page_token=token)
