"""The lists of tests/README.md are true: each fault and each bad input names tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
_TEST = re.compile(r"(\S+\.py)::(test_\w+)")


def rows(letter: str) -> dict[str, list[str]]:
    """Return the cells of each numbered row after its description."""
    found = {}
    for line in (TESTS / "README.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if re.fullmatch(rf"{letter}\d\d", cells[0]):
            assert cells[0] not in found, f"{cells[0]} is there twice"
            found[cells[0]] = cells[2:]
    return found


@cache
def names_in(path: str) -> frozenset[str]:
    """Return the names of the tests of a file, those of its classes among them."""
    tree = ast.parse((TESTS / path).read_text())
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def check(cell: str, row: str) -> None:
    """Insist that a cell names tests that exist, or says why there are none."""
    if cell.startswith("- "):
        assert len(cell) > 5, f"{row}: say why"
        return
    named = _TEST.findall(cell)
    assert named, f"{row}: no test is named in {cell!r}"
    assert _TEST.sub("", cell).strip() == "", f"{row}: what is {cell!r}?"
    for path, name in named:
        assert (TESTS / path).exists(), f"{row}: no file {path}"
        assert name in names_in(path), f"{row}: no test {name} in {path}"


def test_every_fault_is_tried_on_every_backend_or_says_why_not() -> None:
    found = rows("F")
    assert list(found) == [f"F{number:02d}" for number in range(1, 23)]
    for row, cells in found.items():
        assert len(cells) == 4, row
        for cell in cells:
            check(cell, row)


def test_every_bad_input_has_a_test() -> None:
    found = rows("B")
    assert list(found) == [f"B{number:02d}" for number in range(1, 49)]
    for row, cells in found.items():
        (cell,) = cells
        assert not cell.startswith("-"), f"{row} has no test"
        check(cell, row)
