"""Names that pass for others are told from names in any one script."""

import pytest

from trackyard.core.spelling import has_hidden, mixes_alphabets, passes_for, plain


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


@pytest.mark.parametrize(
    "spelling",
    ["a b", " a b", "a  b", "a%20b", "a\u00a0b", "\uff41 b", "a\u200b b", "a b\u202e", "a\tb"],
)
def test_what_could_pass_for_a_name_is_plainly_that_name(spelling: str) -> None:
    assert plain(spelling) == "a b"


@pytest.mark.parametrize("name", ["A b", "a-b", "a b2", "ä b", "a.b"])
def test_names_that_differ_to_the_eye_stay_apart(name: str) -> None:
    assert plain(name) != "a b"


@pytest.mark.parametrize(
    ("name", "is_hidden"),
    [
        ("resnet", False),
        ("modèle-\u03b1", False),
        ("模型", False),
        ("👩\u200d💻", False),
        ("res\u200bnet", True),
        ("prod\u200d", True),
        ("pr\u200dod", True),
        ("\u0646\u200c\u0645", False),
        ("\u202eten", True),
        ("res\u2060net", True),
        ("\ue000", True),
        ("\ufeffresnet", True),
    ],
)
def test_characters_nobody_sees_are_found(name: str, is_hidden: bool) -> None:
    assert has_hidden(name) is is_hidden


@pytest.mark.parametrize(
    ("name", "mixes"),
    [
        ("resnet-\u03b1", False),
        ("модель", False),
        ("модель v2", False),
        ("rеsnet", True),  # noqa: RUF001 - that is the point
        ("Αlpha", True),  # noqa: RUF001 - that is the point
        ("モデルA", False),
    ],
)
def test_a_word_of_several_alphabets_is_a_disguise(name: str, mixes: bool) -> None:
    assert mixes_alphabets(name) is mixes
