"""Tables in a terminal: aligned, folded where it is too narrow, coloured by state."""

from __future__ import annotations

from trackyard.cli.columns import lay_out


def test_columns_are_as_wide_as_their_longest_cell() -> None:
    lines = lay_out(["job", "state"], [["j1", "running"], ["longer", "failed"]], width=80)
    assert lines == ["JOB     STATE", "j1      running", "longer  failed"]


def test_the_widest_column_is_folded_where_the_terminal_is_narrow() -> None:
    lines = lay_out(["job", "why"], [["j1", "it needs two GPUs and one is free"]], width=22)
    assert lines == ["JOB  WHY", "j1   it needs two GPUs", "     and one is free"]
    assert max(map(len, lines)) <= 22


def test_a_word_longer_than_its_column_is_broken() -> None:
    lines = lay_out(["a"], [["x" * 20]], width=8)
    assert lines == ["A", "x" * 8, "x" * 8, "x" * 4]


def test_states_are_coloured_as_well_as_spelled() -> None:
    lines = lay_out(["state"], [["failed"], ["odd"]], width=80, colours={"failed": "red"})
    assert lines == ["\x1b[1mSTATE\x1b[0m", "\x1b[31mfailed\x1b[0m", "odd"]


def test_wide_characters_take_two_places() -> None:
    lines = lay_out(["name", "n"], [["訓練", "1"], ["abcd", "2"]], width=80)
    assert lines == ["NAME  N", "訓練  1", "abcd  2"]
