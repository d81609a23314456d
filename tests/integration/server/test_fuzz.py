"""Every route with requests made from its types: no 500, and no step that holds the loop.

`FUZZ_SEED` and `FUZZ_ROUNDS` choose other requests, or more of them; a failure prints
the seed. A step is measured by the processor time the loop's own thread takes for it, so that a
busy machine fails nothing.
"""

import asyncio
import os
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pytest

from tests.integration.server.fuzzing import Case, Maker
from tests.integration.server.platform import HOST, Caller, Headers, Platform, Proto, Scope
from trackyard.access.attempt_tokens import AttemptTokens
from trackyard.core.resources import NodeShare, Placement
from trackyard.queue.records import find_jobs
from trackyard.queue.transitions import admit
from trackyard.server.routing import Permission, Route
from trackyard.store.database import Tx

SEED = int(os.environ.get("FUZZ_SEED", "20261117"))
ROUNDS = int(os.environ.get("FUZZ_ROUNDS", "8"))
#: Processor seconds of one step of the loop; the promise is 50 ms on an idle machine.
STEP_SECONDS = 0.3
#: Seconds in which a request is answered, or given up by its caller.
PATIENCE = 60.0


class HangUp(Proto):
    """A caller that listens to a stream for a moment and leaves."""

    async def client_disconnect(self) -> None:
        await asyncio.sleep(0.01)


@dataclass
class Steps:
    """The longest step of the loop, and what it was."""

    longest: float = 0.0
    during: str = ""
    over: list[str] = field(default_factory=list)
    #: the request under way
    doing: str = ""

    def note(self, seconds: float) -> None:
        if seconds > self.longest:
            self.longest, self.during = seconds, self.doing
        if seconds > STEP_SECONDS:
            self.over.append(f"{seconds:.3f} s: {self.doing}")


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Measure each step of the event loop."""
    found = Steps()
    real = asyncio.Handle._run

    def measured(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        real(handle)
        found.note(time.thread_time() - began)

    monkeypatch.setattr(asyncio.Handle, "_run", measured)
    return found


@dataclass
class Ground:
    """What lies on the server before it is fuzzed."""

    admin: Caller
    runner: Caller
    command: Caller
    ticket: Caller
    known: list[str]


async def prepared(platform: Platform) -> Ground:
    """Make a run, a model, jobs with an attempt under way, a lease: things to be asked about."""
    admin = platform.admin
    run = (await admin.mlflow("POST", "runs/create", {"experiment_id": "0"})).json()["run"]["info"]
    point = {"run_id": run["run_id"], "key": "loss", "value": 1.0, "timestamp": 1, "step": 1}
    assert (await admin.mlflow("POST", "runs/log-metric", point)).status == 200
    assert (await admin.mlflow("POST", "registered-models/create", {"name": "net"})).status == 200
    logged = await admin.mlflow("POST", "logged-models", {"experiment_id": "0", "name": "m"})
    made = await admin("POST", "/api/v1/jobs", {"command": ["true"], "name": "train"})
    array = await admin("POST", "/api/v1/jobs", {"command": ["true"], "array": "0-30"})
    (job,) = made.json()["job_ids"]
    principal = await platform.services.directory.authenticate(admin.token or "")
    assert principal is not None

    def start(tx: Tx) -> tuple[str, AttemptTokens]:
        placement = Placement(shares=(NodeShare(node="node1", gpus=(), cpu_milli=0),))
        row = find_jobs(tx, principal, job)[0]
        admitted = admit(tx, row, placement, environment="{}", backfilled=False, with_ticket=True)
        assert admitted.tokens is not None
        return admitted.attempt.attempt_id, admitted.tokens

    attempt_id, tokens = await platform.services.database.write(start)
    known = [
        run["run_id"],
        logged.json()["model"]["info"]["model_id"],
        job,
        array.json()["array_id"],
        attempt_id,
        *"0 1 2 10 net train default loss member viewer admin node1 PACK FINISHED 1".split(),
        "metrics.loss > 0",
        "attributes.start_time DESC",
        "model/MLmodel",
        f"0/{run['run_id']}/artifacts/file.txt",
    ]
    return Ground(
        admin,
        Caller(platform.application, tokens.runner),
        Caller(platform.application, tokens.command),
        Caller(platform.application, tokens.ticket),
        known,
    )


async def ask(
    platform: Platform, caller: Caller, case: Case, proto: HangUp | None = None
) -> tuple[int, bytes]:
    """Send one request to the application; return its status and answer."""
    path, _, query = case.target.partition("?")
    lines = [("host", HOST), ("authorization", f"Bearer {caller.token}"), ("x-yard-epoch", "1")]
    lines += list(case.headers)
    if case.body:
        lines.append(("content-length", str(len(case.body))))
    proto = proto or HangUp(case.body or b"")
    scope = Scope(case.method, unquote(path, errors="replace"), query, Headers(lines))
    async with asyncio.timeout(PATIENCE):
        await asyncio.create_task(platform.application(scope, proto))
    return proto.answer.status, proto.answer.body


def chosen(routes: list[Route]) -> list[Route]:
    """Every route but WebSockets, which take no request of ours, and aliases of one handler."""
    found: dict[Any, Route] = {}
    for route in routes:
        if not route.websocket and route.permission is not Permission.PUBLIC:
            found.setdefault((route.method, route.handler), route)
    return [*found.values(), *(one for one in routes if one.permission is Permission.PUBLIC)]


async def test_no_request_is_a_fault_or_holds_the_loop(platform: Platform, steps: Steps) -> None:
    """Requests of every route, half of them plausible, are answered, refused or asked to wait."""
    ground = await prepared(platform)
    maker = Maker(SEED, ground.known)
    faults: list[str] = []
    answered: dict[int, int] = {}
    for number in range(ROUNDS):
        for route in chosen(platform.application.router.routes):
            case = await asyncio.to_thread(maker.case, route)
            steps.doing = f"{route.label} {case.target[:300]} {(case.body or b'')[:300]!r}"
            is_commands = "/demand" in route.path or "/trials" in route.path
            caller = ground.command if is_commands else ground.admin
            if route.runners:
                caller = ground.runner
            if route.tickets:
                caller = ground.ticket
            try:
                status, body = await ask(platform, caller, case)
            except TimeoutError:
                status, body = 0, b"no answer"
            answered[status] = answered.get(status, 0) + 1
            if status in (0, 500):
                faults.append(f"round {number}: {steps.doing}: {body!r}")
    told = f"seed {SEED}, {ROUNDS} rounds, answers {answered}, longest step {steps.longest:.3f} s"
    assert not faults, f"{told}\n" + "\n".join(faults[:20])
    assert not steps.over, f"{told}\n" + "\n".join(steps.over[:20])
    # Most that is sent is refused, yet enough comes through to reach what lies behind.
    assert answered.get(200, 0) > 20, told
