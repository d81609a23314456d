"""What tables print of names that others chose."""

import pytest

from trackyard.cli.output import table


def test_a_name_neither_steers_the_terminal_nor_begins_a_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    table(["name", "value"], [["\x1b[2J\x1b]0;x\x07evil\nFAKE\tROW", 1]])
    assert capsys.readouterr().out == "NAME\tVALUE\n [2J ]0;x evil FAKE ROW\t1\n"
