import pytest

from trackyard.core.spelling import has_hidden, mixes_alphabets, plain


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
