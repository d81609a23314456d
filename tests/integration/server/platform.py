"""The whole application in this process, called without a socket.

Quick enough for every route times every caller.
"""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from trackyard.server.app import Application
from trackyard.server.build import build
from trackyard.server.main import _first_start
from trackyard.server.routes import table
from trackyard.server.routing import Router
from trackyard.server.services import Services
from trackyard.server.settings import Settings

HOST = "127.0.0.1:8000"
#: What no answer may tell of the server.
TRACE = re.compile(
    r'Traceback|File ".*", line|\bsqlite3\b|\bpsycopg\b|\.py\b|\bFROM runs\b|\bINTO [a-z]'
)


class Headers:
    def __init__(self, lines: list[tuple[str, str]]) -> None:
        self._lines = lines
        self.size = sum(len(name) + len(value) for name, value in lines)

    def get(self, name: str, default: Any = None) -> Any:
        return next((value for key, value in self._lines if key == name), default)

    def items(self) -> list[tuple[str, str]]:
        return self._lines


@dataclass
class Scope:
    method: str
    path: str
    query_string: str
    headers: Headers
    client: str = "127.0.0.1:50000"
    proto: str = "http"


@dataclass
class Answer:
    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""

    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


class Stream:
    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def send_bytes(self, data: bytes) -> None:
        self._answer.body += data


class Proto:
    """Stands for the HTTP layer: hands the body over and takes the answer."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.answer = Answer()
        #: whether the caller's connection has ended
        self.has_gone = False

    def whole(self) -> bytes | None:
        return None

    async def __call__(self) -> bytes:
        return self._body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._body), 1000):
            yield self._body[start : start + 1000]

    async def client_disconnect(self) -> None:
        await asyncio.Event().wait()

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.answer.status, self.answer.headers, self.answer.body = status, headers, body

    def is_gone(self) -> bool:
        return self.has_gone

    def hand_over(
        self,
        status: int,
        headers: list[tuple[str, str]],
        body: bytes,
        claim: Callable[[], bool],
    ) -> bool:
        if self.has_gone or not claim():
            return False
        self.response_bytes(status, headers, body)
        return True

    async def response_file(
        self,
        status: int,
        headers: list[tuple[str, str]],
        file: str,
        start: int = 0,
        end: int | None = None,
    ) -> None:
        self.response_bytes(status, headers, Path(file).read_bytes()[start:end])  # noqa: ASYNC240

    def response_stream(self, status: int, headers: list[tuple[str, str]]) -> Stream:
        self.answer.status, self.answer.headers = status, headers
        return Stream(self.answer)


class Caller:
    """Calls the application with one credential, or none."""

    def __init__(self, application: Application, token: str | None = None) -> None:
        self.application = application
        self.token = token

    async def __call__(
        self,
        method: str,
        target: str,
        body: Any = None,
        *,
        headers: dict[str, str] | list[tuple[str, str]] | None = None,
        raw: bytes | None = None,
    ) -> Answer:
        path, _, query = target.partition("?")
        payload = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        lines = [("host", HOST)]
        if self.token is not None:
            lines.append(("authorization", f"Bearer {self.token}"))
        if body is not None:
            lines.append(("content-type", "application/json"))
        if payload:
            lines.append(("content-length", str(len(payload))))
        extra = list(headers.items()) if isinstance(headers, dict) else headers or []
        replaced = {name for name, _ in extra}
        lines = [line for line in lines if line[0] not in replaced] + extra
        proto = Proto(payload)
        # The HTTP layer decodes a path exactly once.
        scope = Scope(method, unquote(path, errors="replace"), query, Headers(lines))
        await self.application(scope, proto)
        return proto.answer

    async def mlflow(self, method: str, path: str, body: Any = None) -> Answer:
        return await self(method, f"/api/2.0/mlflow/{path}", body)


@dataclass
class Platform:
    services: Services
    application: Application
    admin: Caller
    nobody: Caller

    async def caller(self, user: str, team: str, role: str) -> Caller:
        """Return a caller with a role in a team, making both where needed."""
        directory = self.services.directory
        if team not in {row["name"] for row in await directory.teams()}:
            await directory.create_team(team, actor="test")
        if user not in {row["name"] for row in await directory.users()}:
            await directory.create_user(user, actor="test")
        await directory.set_member(team, user, role, actor="test")
        made = await directory.create_token(
            user=user, team=team, role=role, label="test", actor="test"
        )
        return Caller(self.application, made["token"])


def refused(answer: Answer, *statuses: int) -> str:
    """Insist on an error in MLflow's form that tells nothing of the server; return its text."""
    assert answer.status in statuses, (answer.status, answer.body[:300])
    shaped = answer.json()
    assert {"error_code", "message"} <= set(shaped) <= {"error_code", "message", "details"}
    assert shaped["message"]
    assert shaped["error_code"] == shaped["error_code"].upper()
    assert TRACE.search(shaped["message"]) is None, shaped["message"]
    assert answer.header("content-type") == "application/json"
    assert answer.header("x-content-type-options") == "nosniff"
    return str(shaped["message"])


async def new_run(caller: Caller) -> str:
    answer = await caller.mlflow("POST", "runs/create", {"experiment_id": "0"})
    return str(answer.json()["run"]["info"]["run_id"])


@contextlib.asynccontextmanager
async def open_platform(database_url: str, home: Path, **more: Any) -> AsyncIterator[Platform]:
    """Open a platform in a home folder, with its first admin and further settings."""
    settings = Settings(home=home, database=database_url, **more)
    settings.home.mkdir()
    services = build(settings)
    services.database.start()
    await _first_start(services)
    application = Application(Router(table.routes(services)), services.gate)
    token = settings.token_path.read_text().strip()
    yield Platform(services, application, Caller(application, token), Caller(application))
    await services.tracking.stop()
    await services.database.close()
