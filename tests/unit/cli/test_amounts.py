"""Amounts as people write them."""

import pytest

from trackyard.cli import amounts
from trackyard.core.errors import SetupError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", 90),
        ("45m", 2700),
        ("2h30m", 9000),
        ("1.5h", 5400),
        ("1d", 86400),
        ("1w", 604800),
        ("12:00:00", 43200),
        ("1-00:30:00", 88200),
    ],
)
def test_a_length_of_time_is_read(text: str, expected: float) -> None:
    assert amounts.seconds(text, what="--time") == expected


@pytest.mark.parametrize("text", ["", "90", 90, "2 hours", "h", "-5m", "1:2", "nan"])
def test_a_length_without_units_is_refused_with_a_form_that_works(text: object) -> None:
    with pytest.raises(SetupError, match=r"--time .* is not a length of time") as fault:
        amounts.seconds(text, what="--time")
    assert "2h30m" in str(fault.value.hint)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500M", 500 * 1024**2),
        ("64G", 64 * 1024**3),
        ("64GiB", 64 * 1024**3),
        ("64gb", 64 * 1000**3),
        ("1.5t", round(1.5 * 1024**4)),
    ],
)
def test_an_amount_of_memory_is_read(text: str, expected: int) -> None:
    assert amounts.memory_bytes(text) == expected


@pytest.mark.parametrize("text", ["64", 64, "lots", "-1G", "G"])
def test_memory_without_a_unit_is_refused(text: object) -> None:
    with pytest.raises(SetupError, match="is not an amount of memory"):
        amounts.memory_bytes(text)


@pytest.mark.parametrize("text", ["-1", "two", "nan", "inf", None, True])
def test_what_is_no_number_is_refused(text: object) -> None:
    with pytest.raises(SetupError, match="is not a number"):
        amounts.number(text, what="--gpus")


def test_half_a_node_is_refused() -> None:
    with pytest.raises(SetupError, match=r"--nodes '1.5' is not a whole number"):
        amounts.whole("1.5", what="--nodes")


@pytest.mark.parametrize(
    ("count", "types", "nodes", "said"),
    [
        (0, None, 1, "cpu"),
        (0.5, None, 1, "0.5 gpu"),
        (1, None, 1, "1 gpu"),
        (2, None, 1, "2 gpus"),
        (8, ["H100", "A100"], 1, "8xH100|A100"),
        (8, ["H100"], 4, "4 nodes of 8xH100"),
        (0, None, 2, "2 nodes of cpu"),
    ],
)
def test_a_request_is_said_in_few_words(count, types, nodes, said) -> None:
    assert amounts.gpu_words(count, types, nodes) == said


@pytest.mark.parametrize(
    ("count", "said"),
    [(None, "-"), (512, "512 B"), (1536, "1.5 KiB"), (64 * 1024**3, "64 GiB"), (5e15, "4547 TiB")],
)
def test_a_size_is_said_with_its_unit(count, said) -> None:
    assert amounts.size_words(count) == said
