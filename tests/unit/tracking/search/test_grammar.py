"""The grammar: what it reads, what it refuses, and the words it refuses with."""

import random
from contextlib import suppress

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests.unit.tracking.search.trees import random_filter, write_filter, write_key, write_order
from trackyard.core.errors import InvalidInput
from trackyard.tracking.search.grammar import (
    CLAUSE_LIMIT,
    DEPTH_LIMIT,
    All,
    Clause,
    Either,
    Expression,
    Key,
    Not,
    SortKey,
    parse_filter,
    parse_order,
)
from trackyard.tracking.search.language import (
    EXPERIMENTS,
    LOGGED_MODELS,
    MODEL_VERSIONS,
    REGISTERED_MODELS,
    RUNS,
    Language,
)
from trackyard.tracking.search.lexer import TEXT_LIMIT

LANGUAGES = [RUNS, EXPERIMENTS, REGISTERED_MODELS, MODEL_VERSIONS, LOGGED_MODELS]


def metric(name: str, operator: str, value: float) -> Clause:
    return Clause(Key("metric", name), operator, value)  # type: ignore[arg-type]


def param(name: str, operator: str, value: str | None) -> Clause:
    return Clause(Key("parameter", name), operator, value)  # type: ignore[arg-type]


def run(name: str, operator: str, value: object) -> Clause:
    return Clause(Key("attribute", name), operator, value)  # type: ignore[arg-type]


READ: list[tuple[str, Expression | None]] = [
    ("", None),
    ("  \n ", None),
    ("metrics.loss < 0.5", metric("loss", "<", 0.5)),
    ("metric.loss<=-.5e3", metric("loss", "<=", -500.0)),
    ("metrics.loss>=+7.5E-1", metric("loss", ">=", 0.75)),
    ("metrics.`val loss` != 1", metric("val loss", "!=", 1.0)),
    ('metrics."val loss" = 1', metric("val loss", "=", 1.0)),
    ("`metrics`.loss = 1", metric("loss", "=", 1.0)),
    ("metrics.a.b.c = 1", metric("a.b.c", "=", 1.0)),
    ("metrics.val/loss-1 = 1", metric("val/loss-1", "=", 1.0)),
    ("params.model = 'ResNet'", param("model", "=", "ResNet")),
    ('parameter.model = "Res\'Net"', param("model", "=", "Res'Net")),
    ("param.model = 'it''s'", param("model", "=", "it's")),
    ("parameters.model like 'a%'", param("model", "LIKE", "a%")),
    ("params.model ILIKE '%\\_'", param("model", "ILIKE", "%\\_")),
    ("params.x is not null", param("x", "IS NOT NULL", None)),
    ("params.x IS NULL", param("x", "IS NULL", None)),
    ("params.and = 'or'", param("and", "=", "or")),
    ("tags.`mlflow.parentRunId` = ''", Clause(Key("tag", "mlflow.parentRunId"), "=", "")),
    ("status = 'RUNNING'", run("status", "=", "RUNNING")),
    ("attributes.status != 'RUNNING'", run("status", "!=", "RUNNING")),
    ("run.`Run Name` = 'x'", run("run_name", "=", "x")),
    ('"run name" = "x"', run("run_name", "=", "x")),
    ("attr.Created > 10", run("start_time", ">", 10)),
    ("start_time > 10.5", run("start_time", ">", 10.5)),
    ("run_id IN ('a', \"b\",)", run("run_id", "IN", ("a", "b"))),
    ("run_id not in ('a')", run("run_id", "NOT IN", ("a",))),
    ("dataset.digest IN ('a')", Clause(Key("dataset", "digest"), "IN", ("a",))),
    ("max(metrics.acc) > 1", Clause(Key("metric", "acc", "max"), ">", 1.0)),
    ("MIN(metrics.`a b`) > 1", Clause(Key("metric", "a b", "min"), ">", 1.0)),
    ("metrics.max > 1", metric("max", ">", 1.0)),
    (
        "metrics.a > 1 AND metrics.b > 2 OR NOT metrics.c > 3",
        Either((All((metric("a", ">", 1), metric("b", ">", 2))), Not(metric("c", ">", 3)))),
    ),
    (
        "metrics.a > 1 and (metrics.b > 2 or metrics.c > 3)",
        All((metric("a", ">", 1), Either((metric("b", ">", 2), metric("c", ">", 3))))),
    ),
    ("((metrics.a > 1))", metric("a", ">", 1)),
    ("NOT NOT metrics.a > 1", Not(Not(metric("a", ">", 1)))),
]


@pytest.mark.parametrize(("text", "tree"), READ)
def test_a_filter_is_read(text: str, tree: Expression | None) -> None:
    assert parse_filter(text, RUNS) == tree


REFUSED = [
    ("metrics.acc", "Invalid clause(s) in filter string: at position 12. Expected an operator"),
    ("metrics.acc > 1 AND", "at position 20. Expected a key"),
    ("metrics.acc > 1 metrics.b > 2", "'metrics.b' at position 17. Expected AND, OR or the end"),
    ("AND metrics.a > 1", "Invalid attribute key 'AND'"),
    (
        "metrics.acc > 'high'",
        "Expected numeric value type for metric at position 15. Found",
    ),
    ("metrics.acc > nan", "Expected numeric value type for metric"),
    ("metrics.acc >", "Expected numeric value type for metric at position 14. Found nothing"),
    ("metrics.acc LIKE '0%'", "Invalid comparator 'LIKE' at position 13 not one of"),
    ("metrics.acc == 1", "Invalid comparator '=='"),
    ("metrics.acc IS NULL", "IS NULL / IS NOT NULL is only supported for tags and params"),
    ("params.model > 'a'", "Invalid comparator '>' at position 14 not one of '=, !=, LIKE"),
    ("params.model = 3", "Expected a quoted string value for parameter (e.g. 'my-value')"),
    ("params.model IN ('a')", "only ['run_id'] attributes"),
    ("params.model NOT LIKE 'a'", "Expected IN after NOT"),
    (
        "tags.team = blue",
        "unidentified quote types used for string value blue at position 13",
    ),
    ("tags.team = `blue`", "Use either single or double quotes"),
    ("tags.team = 'blue", "the quote ' is never closed"),
    ("tags.`team = 'blue'", "the quote ` is never closed"),
    ("tags. = 'blue'", "Invalid tag key ''"),
    ("colour.acc > 1", "Invalid entity type 'colour' at position 1. Valid values are"),
    ("Metrics.acc > 1", "Invalid entity type 'Metrics'"),
    (
        "attributes.colour = 'x'",
        "Invalid attribute key 'colour' specified at position 1",
    ),
    ("datasets.colour = 'x'", "Invalid dataset key 'colour'"),
    ("run_id > 'a'", "Invalid comparator '>'"),
    ("status IN ('a')", "support comparison with a list of quoted string values"),
    ("start_time = 'x'", "Expected numeric value type for numeric attribute: start_time"),
    ("start_time IN ('x')", "Invalid comparator 'IN'"),
    ("start_time > 99999999999999999999", "Invalid value for numeric attribute 'start_time'"),
    ("run_id IN ()", "got empty list at position 12"),
    ("run_id IN 'a'", "got ill-formed list at position 11"),
    ("run_id IN ('a' 'b')", "got ill-formed list at position 16"),
    ("run_id IN ('a', 3)", "got different type in list: '3'"),
    ("run_id IN ('a'", "got ill-formed list"),
    ("(metrics.a > 1", "at position 15. Expected ')', but it ends"),
    ("metrics.a > 1)", "')' at position 14. Expected AND"),
    ("()", "Expected a key"),
    ("NOT", "Expected a key"),
    ("max(params.x) > 1", "max() takes a metric"),
    ("max(metrics.x > 1", "Expected ')'"),
    ("max() > 1", "Expected a metric"),
    ("metrics.a > 1; DROP TABLE runs", "the character ';' has no meaning here"),
    ("__import__('os').system('x')", "the character '.' has no meaning here"),
    ("{0.__class__} = 'x'", "the character '{' has no meaning here"),
    ("status = 'a\0b'", "a zero byte at position 12"),
    ("status = '\ud800'", "characters that are not text"),
    (f"status = '{'x' * 9000}'", "at most 8192 are taken"),
]


@pytest.mark.parametrize(("text", "words"), REFUSED)
def test_a_wrong_filter_is_refused_with_its_place_and_a_remedy(text: str, words: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_filter(text, RUNS)
    assert words in refusal.value.message
    assert refusal.value.code == "INVALID_PARAMETER_VALUE"
    assert len(refusal.value.message) < 600


def test_as_many_clauses_as_the_limit_are_read_and_no_more() -> None:
    clause = "metrics.a > 1"
    assert parse_filter(" AND ".join([clause] * CLAUSE_LIMIT), RUNS) is not None
    with pytest.raises(InvalidInput, match=f"more than {CLAUSE_LIMIT} clauses"):
        parse_filter(" AND ".join([clause] * (CLAUSE_LIMIT + 1)), RUNS)


@pytest.mark.parametrize("opening", ["(", "NOT "])
def test_nesting_ends_at_its_limit(opening: str) -> None:
    def nested(depth: int) -> str:
        closing = ")" * depth if opening == "(" else ""
        return opening * depth + "metrics.a > 1" + closing

    assert parse_filter(nested(DEPTH_LIMIT), RUNS) is not None
    with pytest.raises(InvalidInput, match="nested deeper"):
        parse_filter(nested(DEPTH_LIMIT + 1), RUNS)
    with pytest.raises(InvalidInput):
        parse_filter(nested(1900), RUNS)


ORDERS: list[tuple[str, SortKey]] = [
    ("metrics.acc", SortKey(Key("metric", "acc"))),
    ("metrics.acc desc", SortKey(Key("metric", "acc"), ascending=False)),
    ("metrics.`a b` ASC", SortKey(Key("metric", "a b"))),
    ('tags."a b" DESC', SortKey(Key("tag", "a b"), ascending=False)),
    ("  start_time  DESC ", SortKey(Key("attribute", "start_time"), ascending=False)),
    ("created", SortKey(Key("attribute", "start_time"))),
    ("attribute.`run name`", SortKey(Key("attribute", "run_name"))),
    ("max(metrics.acc) DESC", SortKey(Key("metric", "acc", "max"), ascending=False)),
]


@pytest.mark.parametrize(("text", "order"), ORDERS)
def test_an_order_is_read(text: str, order: SortKey) -> None:
    assert parse_order([text], RUNS) == (order,)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["metrics.acc SIDEWAYS"], "Invalid ordering key in order_by clause"),
        (["metrics.acc DESC NULLS"], "expected its end at position 18"),
        (["colour.acc"], "Invalid entity type 'colour'"),
        (["colour"], "Invalid attribute key 'colour'"),
        (["dataset.name"], "Invalid order_by entity: dataset"),
        ([""], "Could not be parsed"),
        (["'acc'"], "Could not be parsed"),
        (["metrics.acc", "metrics.acc DESC"], "`order_by` contains duplicate fields"),
        (["start_time", "created DESC"], "`order_by` contains duplicate fields"),
        (["metrics.a"] * 33, "at most 32"),
    ],
)
def test_a_wrong_order_is_refused(texts: list[str], words: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_order(texts, RUNS)
    assert words in refusal.value.message


@pytest.mark.parametrize(
    ("language", "text"),
    [
        (EXPERIMENTS, "name LIKE 'a%' AND tags.x IS NULL AND creation_time > 5"),
        (EXPERIMENTS, "attribute.experiment_id IN ('1', '2') AND last_update_time <= 9"),
        (REGISTERED_MODELS, "name IN ('a') AND tag.`mlflow.prompt.is_prompt` != 'true'"),
        (MODEL_VERSIONS, "name = 'a' AND run_id NOT IN ('b') AND version_number > 1"),
        (MODEL_VERSIONS, "source_path LIKE '%x' AND tags.a ILIKE 'b'"),
        (LOGGED_MODELS, "metrics.a > 1 AND params.b IN ('c') AND tags.d = 'e'"),
        (LOGGED_MODELS, "creation_time > 1 AND model_type = 'x' AND source_run_id = 'y'"),
    ],
)
def test_each_language_reads_its_own_keys(language: Language, text: str) -> None:
    assert parse_filter(text, language) is not None


@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        (EXPERIMENTS, "metrics.a > 1", "Invalid entity type 'metrics'"),
        (EXPERIMENTS, "status = 'x'", "Invalid attribute key 'status'"),
        (EXPERIMENTS, "creation_time > 1.5", "a whole number of 64 bits is expected"),
        (EXPERIMENTS, "experiment_id LIKE '1'", "Invalid comparator 'LIKE'"),
        (EXPERIMENTS, "name IS NULL", "only supported for tags"),
        (REGISTERED_MODELS, "version_number > 1", "Invalid attribute key 'version_number'"),
        (REGISTERED_MODELS, "max(metrics.a) > 1", "Invalid clause(s)"),
        (MODEL_VERSIONS, "version_number = '1'", "Expected numeric value type"),
        (MODEL_VERSIONS, "source_path IN ('a')", "['name', 'run_id'] attributes"),
        (LOGGED_MODELS, "metrics.a LIKE 'x'", "Invalid comparator 'LIKE'"),
    ],
)
def test_each_language_refuses_what_it_has_not(language: Language, text: str, words: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_filter(text, language)
    assert words in refusal.value.message


# -- properties --------------------------------------------------------------------------------

names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)


def keys_of(language: Language, name: str) -> list[Key]:
    found: list[Key] = []
    for entity, fields in language.filters.items():
        for key, field in fields.items():
            found.append(Key(entity, field.name or (name if key == "*" else key)))
        if entity == "metric" and language.aggregates:
            found += [Key(entity, name, "min"), Key(entity, name, "max")]
    return found


@given(st.sampled_from(LANGUAGES), names, names, st.randoms(use_true_random=False))
def test_a_tree_written_down_is_read_back(
    language: Language, name: str, word: str, source: random.Random
) -> None:
    """Whatever the spelling, quoting, case and brackets."""

    def pick(source: random.Random, key: Key, operator: str) -> str | float | int:
        fields = language.filters[key.entity]
        kind = (fields.get(key.name) or fields["*"]).type
        if kind == "text":
            return word
        return source.uniform(-1e6, 1e6) if kind == "number" else source.randrange(2**53)

    tree = random_filter(source, language, keys_of(language, name), pick)
    text = write_filter(tree, source)
    assume(len(text.encode()) <= TEXT_LIMIT)
    assert flat(parse_filter(text, language)) == flat(tree)


@given(names, st.booleans(), st.randoms(use_true_random=False))
def test_an_order_written_down_is_read_back(
    name: str, is_ascending: bool, source: random.Random
) -> None:
    order = SortKey(Key(source.choice(["metric", "tag", "parameter"]), name), is_ascending)
    assert parse_order([write_order(order, source)], RUNS) == (order,)


def flat(tree: Expression | None) -> Expression | None:
    """The tree without lists inside lists of the same word, which brackets may or may not make."""
    if tree is None or isinstance(tree, Clause):
        return tree
    if isinstance(tree, Not):
        part = flat(tree.part)
        assert part is not None
        return Not(part)
    parts: list[Expression] = []
    for part in tree.parts:
        inner = flat(part)
        assert inner is not None
        parts += inner.parts if type(inner) is type(tree) else [inner]  # type: ignore[union-attr]
    return type(tree)(tuple(parts))


pieces = st.sampled_from(
    "metrics. params. tags. status run_id ( ) , AND OR NOT IN IS NULL LIKE = != < ' \" ` 1 -2e9"
    " max min . a/b 'x' IN( \\ % é \t".split(" ")
)


@given(st.sampled_from(LANGUAGES), st.lists(pieces, max_size=25).map(" ".join) | st.text())
@example(RUNS, "metrics.a > " + "9" * 5000)
@example(RUNS, "start_time > " + "9" * 5000)
@example(RUNS, "start_time > 1e999")
@example(RUNS, "(" * 5000)
def test_no_text_raises_anything_but_a_refusal(language: Language, text: str) -> None:
    with suppress(InvalidInput):
        parse_filter(text, language)
    with suppress(InvalidInput):
        parse_order([text], language)


def test_keys_are_written_as_users_write_them() -> None:
    assert write_key(Key("metric", "loss")) == "metrics.loss"
