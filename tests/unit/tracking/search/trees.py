"""Random filters: trees of every language, and the text that says each."""

import random
from collections.abc import Callable, Sequence

from trackyard.tracking.search.grammar import All, Clause, Either, Expression, Key, Not, SortKey
from trackyard.tracking.search.language import Language

#: Picks a value for a key and an operator.
Pick = Callable[[random.Random, Key, str], str | float | int]

_PREFIX = {
    "attribute": ("", "attribute.", "attributes.", "attr."),
    "metric": ("metric.", "metrics."),
    "parameter": ("param.", "params.", "parameter.", "parameters."),
    "tag": ("tag.", "tags."),
    "dataset": ("dataset.", "datasets."),
}


def random_filter(
    source: random.Random, language: Language, keys: Sequence[Key], pick: Pick, depth: int = 3
) -> Expression:
    """A tree over these keys that the language allows."""
    shape = source.random()
    if depth == 0 or shape < 0.4:
        return random_clause(source, language, source.choice(list(keys)), pick)
    if shape < 0.5:
        return Not(random_filter(source, language, keys, pick, depth - 1))
    kind = All if shape < 0.8 else Either
    count = source.randint(2, 4)
    parts = [random_filter(source, language, keys, pick, depth - 1) for _ in range(count)]
    return kind(tuple(parts))


def random_clause(source: random.Random, language: Language, key: Key, pick: Pick) -> Clause:
    fields = language.filters[key.entity]
    field = fields.get(key.name) or fields["*"]
    operator = source.choice(field.operators)
    if operator in ("IS NULL", "IS NOT NULL"):
        return Clause(key, operator, None)
    if operator in ("IN", "NOT IN"):
        some = tuple(str(pick(source, key, operator)) for _ in range(source.randint(1, 4)))
        return Clause(key, operator, some)
    return Clause(key, operator, pick(source, key, operator))


def write_filter(expression: Expression, source: random.Random | None = None) -> str:
    """The text of a tree; a source of chance varies its spelling, brackets and spaces."""
    if isinstance(expression, Clause):
        return _clause(expression, source)
    if isinstance(expression, Not):
        return f"{_case('NOT', source)} ({write_filter(expression.part, source)})"
    word = "AND" if isinstance(expression, All) else "OR"
    inside = [_bracketed(part, word, source) for part in expression.parts]
    return f" {_case(word, source)} ".join(inside)


def write_order(order: SortKey, source: random.Random | None = None) -> str:
    word = _case("ASC" if order.ascending else "DESC", source)
    if order.ascending and source and source.random() < 0.3:
        word = ""
    return f"{write_key(order.key, source)} {word}".strip()


def write_key(key: Key, source: random.Random | None = None) -> str:
    prefix = source.choice(_PREFIX[key.entity]) if source else _PREFIX[key.entity][-1]
    quote = source.choice('`"') if source else "`"
    is_bare = key.name.replace("_", "a").replace(".", "a").isalnum() and not key.name[0].isdigit()
    if is_bare and "." not in key.name and (source is None or source.random() < 0.5):
        name = key.name
    else:
        name = quote + key.name.replace(quote, quote * 2) + quote
    if key.aggregate == "latest":
        return prefix + name
    return f"{_case(key.aggregate, source)}({prefix}{name})"


def _bracketed(part: Expression, word: str, source: random.Random | None) -> str:
    text = write_filter(part, source)
    # Side by side, the same words would melt into one list; OR binds less than AND.
    if isinstance(part, Clause | Not) and not (source and source.random() < 0.2):
        return text
    if isinstance(part, All) and word == "OR" and source and source.random() < 0.5:
        return text
    return f"({text})"


def _clause(clause: Clause, source: random.Random | None) -> str:
    key = write_key(clause.key, source)
    operator = _case(clause.operator, source)
    if clause.value is None:
        return f"{key} {operator}"
    if isinstance(clause.value, tuple):
        inside = ", ".join(_quoted(one, source) for one in clause.value)
        return f"{key} {operator} ({inside})"
    if isinstance(clause.value, str):
        return f"{key} {operator} {_quoted(clause.value, source)}"
    gap = "" if source and source.random() < 0.3 and not clause.operator.isalpha() else " "
    return f"{key}{gap}{operator}{gap}{clause.value!r}"


def _quoted(value: str, source: random.Random | None) -> str:
    quote = source.choice("'\"") if source else "'"
    return quote + value.replace(quote, quote * 2) + quote


def _case(word: str, source: random.Random | None) -> str:
    return word.lower() if source and source.random() < 0.3 else word
