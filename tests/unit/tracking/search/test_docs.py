"""The page about the search language says what the language does."""

import re
from pathlib import Path

import pytest

from trackyard.core.errors import InvalidInput
from trackyard.tracking.search.grammar import CLAUSE_LIMIT, DEPTH_LIMIT, parse_filter
from trackyard.tracking.search.language import (
    EXPERIMENTS,
    LOGGED_MODELS,
    MODEL_VERSIONS,
    REGISTERED_MODELS,
    RUNS,
)
from trackyard.tracking.search.lexer import TEXT_LIMIT

PAGE = (Path(__file__).parents[4] / "docs" / "search.md").read_text()
EXAMPLES = re.search(r"```\n(.*?)```", PAGE, re.DOTALL)
WRONG = PAGE.partition("## When a filter is wrong")[2]
ERRORS = re.findall(r"^\| `(.+?)` \| (.+?) \|$", WRONG, re.MULTILINE)


def test_the_examples_are_read() -> None:
    assert EXAMPLES is not None
    lines = EXAMPLES[1].strip().splitlines()
    assert len(lines) == 3
    for line in lines:
        assert parse_filter(line, RUNS) is not None


@pytest.mark.parametrize(("text", "answer"), ERRORS)
def test_a_wrong_filter_is_answered_as_the_page_says(text: str, answer: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_filter(text, RUNS)
    assert refusal.value.message == answer


def test_every_key_is_on_the_page() -> None:
    assert len(ERRORS) == 7
    for language in (RUNS, EXPERIMENTS, REGISTERED_MODELS, MODEL_VERSIONS, LOGGED_MODELS):
        for entity, fields in language.filters.items():
            for name, field in fields.items():
                if field.name is None and name != "*":
                    shown = f"datasets.{name}" if entity == "dataset" else name
                    assert f"`{shown}`" in PAGE, (language.name, name)


def test_the_limits_are_on_the_page() -> None:
    assert f"at most {CLAUSE_LIMIT}" in PAGE
    assert f"{DEPTH_LIMIT} levels" in PAGE
    assert f"{TEXT_LIMIT // 1024} KB" in PAGE
