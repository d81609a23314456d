"""Documentation as a test: every setting, variable, command, flag, event, error and reason is in
docs/, nothing there is out of date, and every link leads somewhere.
"""

import argparse
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from trackyard.artifacts.blobs import BlobFault
from trackyard.cli.main import VERBS, build_parser
from trackyard.core import errors
from trackyard.core.events import EVENT_KINDS
from trackyard.core.reasons import CATALOGUE
from trackyard.server.settings import Settings
from trackyard.store.crashpoints import POINTS
from trackyard.store.faults import CommitUnknown, SyncFault

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))


def page(name: str) -> str:
    return (DOCS / name).read_text()


def codes(text: str) -> set[str]:
    """Return everything set as code in the first cell of a table's rows."""
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| ")]
    return {found for cell in cells for found in re.findall(r"`([^`]+)`", cell)}


# -- settings and variables -------------------------------------------------------------------


def test_every_setting_is_documented_and_no_other() -> None:
    section = page("configuration.md").split("## Settings")[1].split("\n## ")[0]
    assert codes(section) == {field.name for field in dataclasses.fields(Settings)}


def test_every_variable_is_documented() -> None:
    text = page("configuration.md")
    missing = set()
    for path in sorted((ROOT / "src").rglob("*.py")):
        for name in re.findall(r"[\"'](YARD_[A-Z_]+[A-Z])[\"']", path.read_text()):
            if f"`{name}`" not in text:
                missing.add(f"{path.name}: {name}")
    assert missing == set()


def test_every_crash_point_is_named() -> None:
    assert all(f"`{point}`" in page("configuration.md") for point in POINTS)


# -- commands ---------------------------------------------------------------------------------


def section_of(verb: str) -> str:
    """Return the part of cli.md that tells of a verb."""
    parts = re.split(r"^### yard ", page("cli.md"), flags=re.MULTILINE)
    found = [part for part in parts if part.split("\n", 1)[0].strip() == verb]
    assert len(found) == 1, f"docs/cli.md needs exactly one heading `### yard {verb}`"
    return found[0]


def children(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def flags(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if not isinstance(action, argparse._HelpAction):
            yield from action.option_strings
    for child in children(parser).values():
        yield from flags(child)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_its_flags_and_an_example_are_documented(verb: str) -> None:
    section = section_of(verb)
    parser = children(build_parser((verb,)))[verb]
    undocumented = {flag for flag in flags(parser) if not re.search(rf"`{flag}[` ]", section)}
    assert undocumented == set()
    for child in children(parser):
        assert re.search(rf"`(yard {verb} )?{child}`", section), f"yard {verb} {child}"
    assert f"$ yard {verb}" in section, "show what it prints"


def test_no_verb_is_documented_that_is_not_there() -> None:
    named = re.findall(r"^### yard (\S+)$", page("cli.md"), flags=re.MULTILINE)
    assert sorted(named) == sorted(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_no_flag_is_documented_that_is_not_there(verb: str) -> None:
    known = set(flags(children(build_parser((verb,)))[verb]))
    rows = codes(section_of(verb))
    named = {word for row in rows for word in re.findall(r"^--?[a-z][a-z-]*", row)}
    assert named <= known


def test_commands_in_the_pages_exist() -> None:
    """A page that tells the reader to type `yard …` names a verb that there is."""
    wrong = set()
    for path in [*PAGES, ROOT / "README.md"]:
        for word in re.findall(
            r"(?:`|^\$ |^)yard ([a-z]+(?:-[a-z]+)*)\b", path.read_text(), re.MULTILINE
        ):
            if word not in (*VERBS, "lease", "simulate"):
                wrong.add(f"{path.name}: yard {word}")
    assert wrong == set()


# -- events, errors, reasons ------------------------------------------------------------------


def test_every_event_kind_is_documented_and_no_other() -> None:
    named = {code for code in codes(page("events.md")) if re.fullmatch(r"[a-z_]+\.[a-z_]+", code)}
    assert named == set(EVENT_KINDS)


def every_error() -> list[type[errors.YardError]]:
    found = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.YardError)
    ]
    return [kind for kind in found if kind is not errors.YardError]


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.__name__)
def test_every_error_is_documented(kind: type[errors.YardError]) -> None:
    row = f"| {kind.status} | `{kind.code}` | `{kind.__name__}` |"
    assert row in page("errors.md")
    doc = errors.__doc__ or ""
    assert re.search(rf"{kind.__name__}\s+{kind.code}\s+{kind.status}\b", doc), "the tree, too"


@pytest.mark.parametrize("kind", [BlobFault, CommitUnknown, SyncFault, errors.SetupError])
def test_faults_of_the_parts_are_told_of(kind: type[Exception]) -> None:
    assert f"`{kind.__name__}`" in page("errors.md")


def test_every_reason_is_documented_and_no_other() -> None:
    named = codes(page("reasons.md"))
    assert {str(code) for code in CATALOGUE} - named == set()
    assert {code for code in named if re.fullmatch(r"[a-z_]+", code)} <= {
        str(code) for code in CATALOGUE
    }


# -- the pages themselves ---------------------------------------------------------------------


def anchors(text: str) -> set[str]:
    """Return the names under which a page's headings can be linked to."""
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_link_leads_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        file = path.parent / name if name else path
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file.read_text()), target


def test_every_page_is_in_the_list() -> None:
    listed = set(re.findall(r"\]\(([a-z-]+\.md)\)", page("README.md")))
    assert {path.name for path in PAGES} - {"README.md"} == listed


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_files_that_pages_name_exist(path: Path) -> None:
    """A test or source file that a page points to is there."""
    for name in re.findall(r"`((?:tests|src|tools|bench)/[\w./-]+)`", path.read_text()):
        assert (ROOT / name).exists(), name
