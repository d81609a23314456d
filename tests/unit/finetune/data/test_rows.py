"""What a row means."""

import pytest

from trackyard.core.errors import SetupError
from trackyard.finetune.data.rows import ChatTurn, DataRow, understand
from trackyard.finetune.recipe import DataPart


@pytest.mark.parametrize(
    ("values", "row"),
    [
        ({"text": "a"}, DataRow(text="a")),
        (
            {"prompt": "a", "completion": "b"},
            DataRow((ChatTurn("user", "a"), ChatTurn("assistant", "b"))),
        ),
        (
            {"instruction": "a", "input": "", "output": "b"},
            DataRow((ChatTurn("user", "a"), ChatTurn("assistant", "b"))),
        ),
        (
            {"instruction": "a", "input": "c", "output": "b"},
            DataRow((ChatTurn("user", "a"), ChatTurn("input", "c"), ChatTurn("assistant", "b"))),
        ),
        (
            {"messages": [{"role": "user", "content": "a"}]},
            DataRow((ChatTurn("user", "a"),)),
        ),
        (
            {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]},
            DataRow((ChatTurn("user", "a"), ChatTurn("assistant", "b"))),
        ),
    ],
)
def test_formats_are_recognised(values: dict[str, object], row: DataRow) -> None:
    """By their columns."""
    assert understand(values, DataPart(), "row 1") == row


def test_columns_can_be_named() -> None:
    """For files of others."""
    part = DataPart(format="prompt-completion", prompt_column="q", completion_column="a")
    assert understand({"q": "x", "a": "y"}, part, "row 1").turns[1] == ChatTurn("assistant", "y")


def test_a_row_that_fits_nothing_is_named() -> None:
    """With what it has, and what would do."""
    with pytest.raises(SetupError) as fault:
        understand({"question": "x"}, DataPart(), "rows.csv, row 4")
    assert "rows.csv, row 4" in fault.value.message
    assert "question" in fault.value.message
    assert "messages" in (fault.value.hint or "")
    with pytest.raises(SetupError, match=r"data\.format alpaca"):
        understand({"text": "x"}, DataPart(format="alpaca"), "row 1")
