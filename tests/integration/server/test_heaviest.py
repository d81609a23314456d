"""The heaviest request that each route accepts, on a server with much to show: the loop goes on.

Every route of the live table is asked, with a request that it accepts (`heavy_requests`); those
few that no request of this server can satisfy are named with the status they answer. A step of the
loop, and a write for which all other writes wait, are measured by the processor time that their
thread takes, and asked for again where it was long, so that a busy machine fails nothing.
`HEAVY_TELL=1` prints all of them.
"""

import asyncio
import gc
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.integration.server.fuzzing import Case
from tests.integration.server.heavy_requests import made, target
from tests.integration.server.heavy_world import World, furnish
from tests.integration.server.platform import open_platform
from tests.integration.server.test_fuzz import Steps, ask, chosen, steps
from trackyard.server.routing import Route
from trackyard.store.database import Database

__all__ = ["steps"]

#: Processor seconds of one step of the loop: the promise.
MOST_SECONDS = 0.05
#: And of one transaction, for which everybody else's writes wait.
WRITE_SECONDS = 0.15
#: Times that a request is sent whose step was longer; the quickest counts.
TRIES = 4
#: What this server cannot do at all, by its settings, and what it answers.
REFUSED = {
    "GET /api/2.0/mlflow-artifacts/presigned/{path...}": 501,  # an object store's
    "POST /api/2.0/mlflow/artifacts/presigned-upload-url": 501,
    "GET /api/v1/oidc/start": 404,  # single sign-on is tested with a real provider
    "GET /api/v1/oidc/callback": 404,
    # Of jobs that people reach into while they run; those are tested with real ones.
    "GET /api/v1/jobs/{job}/app": 409,
    "POST /api/v1/jobs/{job}/app": 409,
    "GET /apps/{job}/.yard/enter": 403,
    **{
        f"{method} /apps/{{job}}/{rest}": 409
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        for rest in ("", "{path...}")
    },
}
#: Routes that end what the others ask about; they come last, in this order.
LAST = (
    "POST /api/v1/jobs",
    "POST /api/v1/attempts/{attempt}/exit",
    "DELETE /api/v1/admin/backups/{backup_id}",
    "POST /api/v1/admin/backups",
    "DELETE /api/v1/session",
)


class Held(NamedTuple):
    """Processor seconds for which one request held the loop, and the writer, at a stretch."""

    loop: float
    writer: float

    @property
    def is_long(self) -> bool:
        """Whether it is longer than was promised."""
        return self.loop > MOST_SECONDS or self.writer > WRITE_SECONDS

    def __str__(self) -> str:
        return f"loop {self.loop * 1000:5.1f} ms, writer {self.writer * 1000:5.1f} ms"


@dataclass
class Writes:
    """The longest that a write held the writer, for which all others wait."""

    longest: float = 0.0


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Writes:
    """Measure each transaction of writes that leave the loop."""
    found = Writes()
    real = Database._run_here

    def measured(database: Database, group: Any) -> Any:
        began = time.thread_time()
        try:
            return real(database, group)
        finally:
            found.longest = max(found.longest, time.thread_time() - began)

    monkeypatch.setattr(Database, "_run_here", measured)
    return found


@pytest.fixture
def tuned() -> Iterator[None]:
    """Collect garbage as a server does."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.alone
async def test_the_heaviest_request_of_every_route_holds_the_loop_for_no_time(
    sqlite_template: Path, tmp_path: Path, steps: Steps, writes: Writes, tuned: None
) -> None:
    shutil.copy(sqlite_template, tmp_path / "yard.db")
    inside = {"outbound_allow": ("127.0.0.1",), "outbound_http": True}
    address = f"sqlite:///{tmp_path / 'yard.db'}"
    async with open_platform(address, tmp_path / "home", **inside) as platform:
        world = await furnish(platform)
        routes = [one for one in chosen(platform.application.router.routes) if not _is_file(one)]
        routes.sort(key=lambda one: LAST.index(one.label) if one.label in LAST else -1)
        longest: dict[str, Held] = {}
        wrong: list[str] = []
        for route in routes:
            held, status, told = await longest_step(world, route, steps, writes)
            longest[route.label] = held
            if status != REFUSED.get(route.label, 200):
                wrong.append(f"{status} {route.label}: {told[:200]!r}")
    ranked = sorted(longest.items(), key=lambda one: (-one[1].loop, -one[1].writer))
    if os.environ.get("HEAVY_TELL"):
        print(*(f"{held}  {label}" for label, held in ranked), sep="\n")
    assert not wrong, "\n".join(wrong)
    over = [f"{held}: {label}" for label, held in ranked if held.is_long]
    assert not over, "\n".join(over)


def _is_file(route: Route) -> bool:
    return route.path.startswith("/assets/")


async def longest_step(
    world: World, route: Route, steps: Steps, writes: Writes
) -> tuple[Held, int, bytes]:
    """Send a route's request, again if it held something for long; return the least of it."""
    least = Held(float("inf"), float("inf"))
    for number in range(TRIES):
        steps.doing = "making a request"
        request = await made(world, route, anew=number > 0)
        payload = await asyncio.to_thread(request.payload)
        kind = () if request.raw is not None else (("content-type", "application/json"),)
        lines = (*kind, *request.headers.items())
        case = Case(route.method, target(world, route, request), payload, lines)
        steps.longest, writes.longest, steps.doing = 0.0, 0.0, route.label
        status, told = await ask(world.platform, world.callers[request.caller], case)
        least = Held(min(least.loop, steps.longest), min(least.writer, writes.longest))
        if status >= 400 or not least.is_long:
            break
    return least, status, told
