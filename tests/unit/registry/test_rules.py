"""Names, aliases, stages and numbers of the registry."""

import pytest

from trackyard.core.errors import InvalidInput
from trackyard.registry import rules


@pytest.mark.parametrize("name", ["net", "My Model-1.2", "über_netz", "模型", "100%", "a.b"])
def test_ordinary_names_pass(name: str) -> None:
    assert rules.check_model_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", "  ", "a/b", "a:b", ".", "..", "../x", "a\nb", "a\0", "a\x7f", "x" * 257, "\ud800"],
)
def test_names_that_are_no_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        rules.check_model_name(name)


@pytest.mark.parametrize(
    ("name", "plain"),
    [("a%20b", "a b"), (" net", "net"), ("net ", "net"), ("ﬁt", "fit"), ("n%65t", "net"),
     ("\uff4e\uff45\uff54", "net"), ("e\u0301", "é")],
)  # fmt: skip
def test_another_spelling_of_a_name_is_refused_with_the_plain_one(name: str, plain: str) -> None:
    """Two names that decode, fold or trim to the same text cannot both exist."""
    with pytest.raises(InvalidInput, match=plain):
        rules.check_model_name(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("pr\u043ed", "pass for 'prod'"),
        ("\u0440\u043e\u0441", "pass for 'poc'"),
        ("prod\u200b", "nobody sees"),
        ("a\u202eb", "nobody sees"),
        ("prod\u3164", "nobody sees"),
    ],
)
def test_names_that_look_like_others_are_refused(name: str, why: str) -> None:
    for check in (rules.check_model_name, rules.check_logged_name):
        with pytest.raises(InvalidInput, match=why):
            check(name)


@pytest.mark.parametrize("alias", ["pr\u043ed", "champi\u03bfn"])
def test_aliases_that_look_like_others_are_refused(alias: str) -> None:
    with pytest.raises(InvalidInput, match="could pass for"):
        rules.check_new_alias(alias)


@pytest.mark.parametrize("alias", ["champion", "v", "v1x", "a-b_c", "x" * 255])
def test_aliases_pass(alias: str) -> None:
    assert rules.check_new_alias(alias) == alias


@pytest.mark.parametrize(
    "alias",
    ["", "a b", "a.b", "latest", "LATEST", "v7", "V12", "x" * 256, "a\nb", "a/b", "a:b",
     "\uff4c\uff41\uff54\uff45\uff53\uff54", "v\uff17"],
)  # fmt: skip
def test_reserved_and_odd_aliases_are_refused(alias: str) -> None:
    with pytest.raises(InvalidInput):
        rules.check_new_alias(alias)


@pytest.mark.parametrize(
    ("given", "canonical"),
    [("production", "Production"), ("STAGING", "Staging"), ("none", "None")],
)
def test_stages_are_read_in_any_case(given: str, canonical: str) -> None:
    assert rules.check_stage(given) == canonical


@pytest.mark.parametrize("name", ["", "a/b", "a:b", "a.b", "a%b", "a\nb", "a\x85b", "x" * 501])
def test_names_of_logged_models_that_are_none_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        rules.check_logged_name(name)


def test_an_unknown_stage_names_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="None, Staging, Production, Archived"):
        rules.check_stage("Moon")


def test_the_stage_of_tombstones_is_not_for_callers() -> None:
    with pytest.raises(InvalidInput):
        rules.check_stage(rules.STAGE_DELETED)


@pytest.mark.parametrize("stage", ["None", "Archived"])
def test_only_stages_in_use_archive_others(stage: str) -> None:
    with pytest.raises(InvalidInput, match="not an Active stage"):
        rules.check_archiving(stage)


@pytest.mark.parametrize("version", ["abc", "", "1.5", "1e3", "٣", "9" * 30])
def test_a_version_is_an_integer(version: str) -> None:
    with pytest.raises(InvalidInput, match="must be an integer"):
        rules.check_version(version)


def test_the_last_of_a_doubled_tag_wins() -> None:
    assert rules.check_tags([("a", "1"), ("b", "2"), ("a", "3")]) == {"a": "3", "b": "2"}


@pytest.mark.parametrize(
    ("key", "value"), [("", "v"), ("../x", "v"), ("x" * 251, "v"), ("k", "v" * 100_001)]
)
def test_tags_keep_their_limits(key: str, value: str) -> None:
    with pytest.raises(InvalidInput):
        rules.check_tags([(key, value)])


@pytest.mark.parametrize("name", ["a/b", "a.b", "a:b", "a%b", "it's", 'a"b', "x" * 501])
def test_logged_model_names_keep_mlflows_rule(name: str) -> None:
    with pytest.raises(InvalidInput):
        rules.check_logged_name(name)
