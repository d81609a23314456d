"""Each text field of each route, one at a time, with what must not act.

Requests are made from the live route table and its types: honest but for one field, so that they
come past the first check. A route or field that is added is tried as well.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from msgspec import inspect

from tests.integration.server.fuzzing import Case
from tests.integration.server.platform import Platform
from tests.integration.server.plausible import Plausible
from tests.integration.server.test_fuzz import HangUp, ask, chosen, prepared
from tests.integration.server.test_outbound import serving
from trackyard.server.routing import Route

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

MARKUP = "<script>alert(1)</script>\"'`${7*7}"
#: What a shell, a scheduler's directive or a log would take for more than a name.
LINES = (
    "a\nb",
    "a\r\nB: c",
    "a;id",
    "$(id)",
    "`id`",
    "a|b",
    "#SBATCH -n1\n",
    "-rf",
    "a&&b",
    "a\x1b[1m",
)
#: Columns that hold names which commands, configuration and other programs are made of.
NAMES = {
    "jobs": ("name", "queue", "user_name"),
    "queues": ("name",),
    "teams": ("name",),
    "users": ("name",),
    "secrets": ("name",),
    "tokens": ("label",),
    "leases": ("name",),
}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SHELL = re.compile(r"[;|&`$<>\n\r]")


def placed(kind: inspect.Type, text: str) -> Iterator[Any]:
    """Yield values of a type that hold a text at one place of all there are."""
    if isinstance(kind, inspect.StrType | inspect.AnyType):
        yield text
    elif isinstance(kind, inspect.DictType):
        yield {text: "x"}
    for shape, part in _parts(kind):
        for value in placed(part, text):
            yield shape(value)


def _parts(kind: inspect.Type) -> list[tuple[Callable[[Any], Any], inspect.Type]]:
    """Return the parts of a type, each with what makes a value of it out of the part's."""
    if isinstance(kind, inspect.Metadata):
        return [(lambda value: value, kind.type)]
    if isinstance(kind, inspect.UnionType):
        return [(lambda value: value, one) for one in kind.types]
    if isinstance(kind, inspect.StructType):
        fields = [(field.encode_name, field.type) for field in kind.fields]
        return [(lambda value, name=name: {name: value}, part) for name, part in fields]
    if isinstance(kind, inspect.DictType):
        return [(lambda value: {"k": value}, kind.value_type)]
    if isinstance(kind, inspect.CollectionType):
        return [(lambda value: [value], kind.item_type)]
    return []


def cases(route: Route, plausible: Plausible, text: str) -> Iterator[Case]:
    """Yield requests of a route: the text in one field, in one query parameter, in its path."""
    kind = (("content-type", "application/json"),)
    honest = json.loads(plausible.body(route, 1) or b"{}")
    is_read = route.method in ("GET", "DELETE")
    if route.takes is not None:
        for value in placed(inspect.type_info(route.takes), text):
            body = json.dumps({**honest, **value} if isinstance(value, dict) else value).encode()
            if not is_read:
                yield Case(route.method, plausible.target(route, 1), body, kind)
    sent = None if is_read else json.dumps(honest).encode()
    target = plausible.target(route, 1)
    names = [*route.query, *(plausible.fields(route) if is_read else ())]
    for name in names:
        yield Case(route.method, f"{target}&{name}={quote(text)}", sent, kind)
    if "{" in route.path:
        path = re.sub(r"\{[a-z_.]+\}", quote(text, safe=""), route.path)
        yield Case(route.method, path, sent, kind)


async def send_all(platform: Platform, *texts: str) -> Iterator[tuple[Case, int, HangUp]]:
    """Send every case of every route; return what was answered."""
    ground = await prepared(platform)
    run, array = ground.known[0], ground.known[3]
    plausible = Plausible(ground, [run], array)
    found: list[tuple[Case, int, HangUp]] = []
    routes = [one for one in chosen(platform.application.router.routes) if not one.stays_open]
    for route in sorted(routes, key=lambda one: one.method == "DELETE"):
        if route.path.startswith("/assets/") or "backups" in route.path:
            continue
        caller = ground.runner if route.runners else ground.admin
        caller = ground.ticket if route.tickets else caller
        for text in texts:
            for case in cases(route, plausible, text):
                proto = HangUp(case.body or b"")
                status, _ = await ask(platform, caller, case, proto)
                found.append((case, status, proto))
    return iter(found)


async def test_markup_in_any_field_comes_back_as_text(platform: Platform) -> None:
    """B36: an answer that holds it is JSON or plain text, which no browser takes for a page."""
    held = 0
    for case, status, proto in await send_all(platform, MARKUP):
        kind = proto.answer.header("content-type") or ""
        told = (case.method, case.target, case.body, status)
        assert status != 500, told
        if b"<script>alert" in proto.answer.body or status >= 400:
            held += 1
            assert kind.startswith(("application/json", "text/plain")), (*told, kind)
            assert proto.answer.header("x-content-type-options") == "nosniff", told
    assert held > 200


async def test_an_address_in_any_field_is_called_by_nobody(platform: Platform) -> None:
    """B38: refused or kept as text, however it is spelt."""
    with serving() as canary:
        port = canary.port
        hosts = ("127.0.0.1", "[::ffff:127.0.0.1]", "2130706433")
        answers = await send_all(platform, *(f"http://{host}:{port}/x.zip" for host in hosts))
        assert all(status != 500 for _, status, _ in answers)
        assert canary.calls == []


async def test_no_name_with_line_ends_or_shell_characters_is_kept(platform: Platform) -> None:
    """B41: names of jobs, queues, teams, users, variables, secrets, labels and leases."""
    before = await _names(platform)
    taken = [case for case, status, _ in await send_all(platform, *LINES) if status < 300]
    assert taken, "nothing came through: the requests are not honest enough"
    for place, name in await _names(platform) - before:
        assert _CONTROL.search(name) is None, (place, name)
        # A token's label is a note to people; no command is made of it.
        assert place == "tokens.label" or _SHELL.search(name) is None, (place, name)


async def _names(platform: Platform) -> set[tuple[str, str]]:
    """Return every name that the database holds, with where."""
    database = platform.services.database
    found: set[tuple[str, str]] = set()
    for table, columns in NAMES.items():
        rows = await database.read(
            lambda reader, table=table, columns=columns: reader.all(
                f"SELECT {', '.join(columns)} FROM {table}"
            )
        )
        found |= {
            (f"{table}.{column}", str(value))
            for row in rows
            for column, value in zip(columns, row, strict=True)
            if value
        }
    specs = await database.read(lambda reader: reader.all("SELECT spec FROM job_specs"))
    for (text,) in specs:
        spec = json.loads(text)
        for part in ("env", "labels"):
            found |= {(f"job_specs.{part}", name) for name in spec.get(part, {})}
        found |= {("job_specs.gpu_types", name) for name in spec.get("gpu_types", [])}
    return found
