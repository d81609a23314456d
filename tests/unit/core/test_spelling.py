"""Names that pass for others are told from names in any one script."""

import pytest

from trackyard.core.spelling import has_hidden, passes_for


@pytest.mark.parametrize(
    "name",
    [
        "resnet-50",
        "r\u00e9seau",
        "\u043c\u043e\u0434\u0435\u043b\u044c",
        "\u03bc\u03bf\u03bd\u03c4\u03ad\u03bb\u03bf",
        "\u6a21\u578b-v2",
        "\u30e2\u30c7\u30eb",
        "\u0646\u0645\u0648\u0630\u062c",
        "model \u6a21\u578b",
        "2024",
        "",
    ],
)
def test_honest_names_pass(name: str) -> None:
    assert not has_hidden(name)
    assert passes_for(name) is None


@pytest.mark.parametrize(
    "name",
    ["a\u200bb", "a\u202eb", "\u00adab", "\ufeffa", "a\u2060", "a\u3164", "a\ufe0fb", "a\u2800"],
)
def test_hidden_characters_are_seen(name: str) -> None:
    assert has_hidden(name)


@pytest.mark.parametrize(
    ("name", "latin"),
    [
        ("\u0440rod", "prod"),
        ("pr\u043ed", "prod"),
        ("\u0440\u043e\u0441", "poc"),
        ("\u0391lpha", "Alpha"),
        ("resn\u0435t-50", "resnet-50"),
    ],
)
def test_look_alikes_are_told_with_what_they_pass_for(name: str, latin: str) -> None:
    assert passes_for(name) == latin
