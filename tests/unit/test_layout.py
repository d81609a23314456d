"""The shape of the tree: lengths, docstrings, names, and what a file may not hold."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "trackyard"

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 80
BANNED_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager2"}
#: Words that were once used for a request, a claims service, a forecast, progress, remaining time,
#: a fork server, a cache and the lease synchronisation: one word for one thing.
DIALECT = set("wish wishes wished desk foresight foreseen ahead nursery shelf rests edges".split())
CODE = {".py", ".ts", ".tsx", ".css", ".sql"}

#: Written in parts, so that this file does not hold what it forbids.
BANNED_WORDS = [
    re.compile(pattern)
    for pattern in (
        r"(?<![\w./-])/" + r"(work|root|opt/(wheels|pypi[\w-]*))/[\w.-]",
        r"/home/" + r"(?!user\b|you\b|me\b|alice\b|bob\b|ada\b)[a-z]\w*/",
        r"registry\.npm" + r"js\.org",
        r"registry\.yarn" + r"pkg\.com",
        r"files\.python" + r"hosted\.org",
        r"pypi\.org/" + r"simple",
    )
]
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b|raise NotImpl" + r"ementedError")
SKIPPED = re.compile(
    r"pytest\.(mark\.)?(skip|xfail|importor" + r"skip)|\b(it|test|describe)\.skip\("
)


def tracked() -> list[Path]:
    """Files that git tracks or would track, that exist and are text."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    paths = {ROOT / name for name in answer.stdout.split("\0") if name}
    return sorted(path for path in paths if path.is_file() and not path.is_symlink())


def text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def code_files() -> Iterator[Path]:
    for path in tracked():
        top = path.relative_to(ROOT).parts[0]
        if top in {"src", "tests", "frontend", "bench", "tools"} and path.suffix in CODE:
            yield path


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_no_file_is_too_long() -> None:
    lengths = {
        short(path): len(path.read_text().splitlines())
        for path in code_files()
        if not path.name.endswith(".gen.ts")
    }
    assert {name: n for name, n in lengths.items() if n > MAX_FILE_LINES} == {}


def test_no_function_is_too_long() -> None:
    too_long = [
        f"{short(path)}:{node.lineno} {node.name}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.parent.name != "versions"  # migrations are written by a tool
        for node in functions(ast.parse(path.read_text()))
        if (node.end_lineno or node.lineno) - node.lineno + 1 > MAX_FUNCTION_LINES
    ]
    assert too_long == []


def test_every_module_says_what_it_owns() -> None:
    silent = [
        short(path)
        for path in sorted(SOURCE.rglob("*.py"))
        if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    nameless = [short(path) for path in code_files() if path.stem.lower() in BANNED_NAMES]
    folders = [short(path) for path in SOURCE.rglob("*") if path.name in BANNED_NAMES]
    assert nameless + folders == []


def test_no_two_public_classes_share_a_name() -> None:
    places: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(short(path))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_classes_bear_the_words_of_the_field() -> None:
    found = [
        f"{short(path)}: {node.name}"
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        if DIALECT & {word.lower() for word in re.findall(r"[A-Z][a-z]+", node.name)}
    ]
    assert found == []


def test_no_file_names_a_machine_or_a_registry() -> None:
    found = [
        f"{short(path)}: {match[0]}"
        for path in tracked()
        if (words := text(path)) is not None
        for pattern in BANNED_WORDS
        if (match := pattern.search(words))
    ]
    assert found == []


def test_nothing_is_left_unfinished_or_skipped() -> None:
    found = [
        f"{short(path)}: {match[0]}"
        for path in code_files()
        for pattern in (UNFINISHED, SKIPPED)
        if (match := pattern.search(path.read_text()))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("line", "is_banned"),
    [
        ("open('/" + "work/shared/x')", True),
        ("https://registry.npm" + "js.org/react", True),
        ("/home/" + "carol/data", True),
        ("~/.trackyard/token", False),
        ("https://host/work/items", False),
    ],
)
def test_banned_words_are_told_from_innocent_ones(line: str, is_banned: bool) -> None:
    assert any(pattern.search(line) for pattern in BANNED_WORDS) is is_banned
