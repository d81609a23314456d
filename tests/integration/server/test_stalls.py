"""What callers send holds up nobody: work is refused by its size, cut, or leaves the loop."""

import asyncio
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.integration.server.platform import Caller, Platform, new_run, open_platform, refused
from trackyard.core.strict_json import MAX_VALUES
from trackyard.server.http import messages
from trackyard.server.routing import PUBLIC_BODY_LIMIT, PUBLIC_HEADER_LIMIT, Permission
from trackyard.store.bounds import unbounded
from trackyard.store.connection import PostgresConnection, SqliteConnection
from trackyard.tracking.metrics import history

JSON = {"content-type": "application/json"}


async def turns_of_the_loop(during: asyncio.Task[object]) -> int:
    """Count how often the loop comes round while something is done."""
    turns = 0
    while not during.done():
        await asyncio.sleep(0.001)
        turns += 1
    return turns


async def test_every_request_type_has_its_bounds(platform: Platform) -> None:
    """No field of any request takes any amount."""
    typed = [route for route in platform.application.router.routes if route.takes is not None]
    families = ("/api/2.0/mlflow/", "/api/jobs/", "/api/v1/", "/api/v1/attempts/")
    for family in families:
        assert any(route.path.startswith(family) for route in typed), family
    gaps = {f"{route.method} {route.path}": unbounded(route.takes) for route in typed}
    assert {name: gap for name, gap in gaps.items() if gap} == {}


async def test_public_routes_take_a_few_kilobytes(platform: Platform) -> None:
    """Whoever has no credential sends little: neither body, nor cookies, nor headers."""
    public = [
        route
        for route in platform.application.router.routes
        if route.permission is Permission.PUBLIC
    ]
    assert all((route.body_limit or 0) <= 4096 for route in public)
    assert all((route.header_limit or 0) <= 8192 for route in public)
    twin = b"{" + b",".join(b'"n%d":0' % n for n in range(20_000)) + b',"n0":1}'
    refused(await platform.nobody("POST", "/api/v1/session", raw=twin, headers=JSON), 413)
    short = twin[: PUBLIC_BODY_LIMIT - 100].rpartition(b",")[0] + b',"n0":1}'
    answer = await platform.nobody("POST", "/api/v1/session", raw=short, headers=JSON)
    assert "'n0' twice" in refused(answer, 400)
    cookie = {"cookie": 'a="' + "\\" * 62_000}
    for path in ("/health", "/api/v1/session", "/api/2.0/mlflow/experiments/search"):
        answer = await platform.nobody("GET", path, headers=cookie)
        assert answer.status == 431, path
    small = {"cookie": 'a="' + "\\" * (PUBLIC_HEADER_LIMIT - 200)}
    assert (await platform.nobody("GET", "/health", headers=small)).status == 200


async def test_the_session_is_found_among_odd_cookies(platform: Platform) -> None:
    opened = await platform.nobody("POST", "/api/v1/session", {"token": platform.admin.token})
    own = (opened.header("set-cookie") or "").partition(";")[0]
    page = Caller(platform.application)
    for cookie in (own, f"a=b; {own}", f'a="\\"; {own} ;c', f"=;;x; {own}; yard_session2=z"):
        answer = await page("GET", "/api/v1/session", headers={"cookie": cookie})
        assert answer.status == 200, cookie
    for cookie in ("", ";", "yard_session", "yard_session=", 'yard_session="'):
        assert (await page("GET", "/api/v1/session", headers={"cookie": cookie})).status == 401


async def test_bodies_of_many_values_are_decoded_off_the_loop_or_refused(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long body is looked at by a thread, an endless one by nobody."""
    seen: list[bool] = []
    real = messages._read_json

    def watched(raw: bytes) -> object:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            seen.append(True)
        else:
            seen.append(False)
        return real(raw)

    monkeypatch.setattr(messages, "_read_json", watched)
    for count in (10, 10_000):
        body = {"experiment_ids": [str(n) for n in range(count)]}
        assert (await platform.admin.mlflow("POST", "runs/search", body)).status in (200, 400)
    assert seen == [False, True]
    for path in ("runs/search", "runs/log-batch", "runs/log-metric", "experiments/create"):
        raw = b'{"x":[' + b"[]," * MAX_VALUES + b"0]}"
        answer = await platform.admin("POST", f"/api/2.0/mlflow/{path}", raw=raw, headers=JSON)
        assert "values" in refused(answer, 413)
    assert len(seen) == 2


async def test_a_series_is_read_once_however_often_it_is_named(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await new_run(platform.admin)
    looks: list[int] = []
    real = history.tails
    monkeypatch.setattr(history, "tails", lambda *args: looks.append(1) or real(*args))
    body = {"run_ids": [run_id] * 900, "keys": ["loss"] * 900}
    assert (await platform.admin("POST", "/api/v1/series", body)).status == 200
    assert len(looks) == 1
    for wide in (
        {"run_ids": [run_id] * 200_000, "keys": []},
        {"run_ids": ["a"], "keys": ["k"] * 2000},
        {"run_ids": [str(n) for n in range(600)], "keys": []},
    ):
        refused(await platform.admin("POST", "/api/v1/series", wide), 400, 413)
    assert len(looks) == 1


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    shutil.copy(sqlite_template, tmp_path / "yard.db")
    return f"sqlite:///{tmp_path / 'yard.db'}"


async def test_a_large_array_is_submitted_and_stopped_beside_other_callers(
    sqlite_url: str, tmp_path: Path
) -> None:
    """Many jobs are written while the loop turns for everybody else."""
    async with open_platform(sqlite_url, tmp_path / "home") as platform:
        wish = {"command": ["true"], "array": "0-999", "hold": True, "key": "once"}
        submitting = asyncio.create_task(platform.admin("POST", "/api/v1/jobs", wish))
        assert await turns_of_the_loop(submitting) > 20
        made = (await submitting).json()
        assert len(made["job_ids"]) == 1000
        again = asyncio.create_task(platform.admin("POST", "/api/v1/jobs", wish))
        assert (await again).json()["repeated"] is True
        for verb in ("release", "hold", "stop"):
            target = f"/api/v1/jobs/{made['array_id']}/{verb}"
            acting = asyncio.create_task(platform.admin("POST", target, {}))
            await asyncio.sleep(0)
            # Another caller's write passes between two parts of it.
            await new_run(platform.admin)
            assert not acting.done(), verb
            assert await turns_of_the_loop(acting) > 10, verb
            assert (await acting).status == 200
        listed = await platform.admin("GET", "/api/v1/jobs?state=stopped&limit=1000")
        assert len(listed.json()["jobs"]) == 1000


async def test_a_large_array_is_written_by_a_few_statements(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others' writes wait for its transaction: it does not ask the database job by job."""
    kind = SqliteConnection if platform.services.database.is_sqlite else PostgresConnection
    asked: list[str] = []
    for name in ("all", "one", "run", "many", "insert"):
        real = getattr(kind, name)

        def counted(self: object, sql: str, *more: Any, real: Any = real) -> Any:
            if threading.current_thread().name.startswith("yard-commit"):
                asked.append(sql)
            return real(self, sql, *more)

        monkeypatch.setattr(kind, name, counted)
    for count in (30, 600):
        asked.clear()
        wish = {"command": ["true"], "array": f"0-{count - 1}", "hold": True, "tags": {"a": "b"}}
        made = (await platform.admin("POST", "/api/v1/jobs", wish)).json()
        assert len(made["job_ids"]) == count
        assert 5 < len(asked) < 40, asked
    shown = (await platform.admin("GET", f"/api/v1/jobs/{made['job_ids'][-1]}")).json()["job"]
    run = (await platform.admin.mlflow("GET", f"runs/get?run_id={shown['run_id']}")).json()["run"]
    assert run["info"]["status"] == "SCHEDULED"
    tags = {tag["key"]: tag["value"] for tag in run["data"]["tags"]}
    assert tags["yard.job"] == shown["job_id"]
    assert tags["a"] == "b"
    assert tags["mlflow.runName"] == run["info"]["run_name"] == f"{shown['name']}-599"
    told = (await platform.admin("GET", f"/api/v1/events?subject_id={shown['job_id']}")).json()
    assert [event["kind"] for event in told["events"]] == ["job.submitted"]


async def test_a_stream_that_was_away_is_handed_many_events_in_a_few_pieces(
    platform: Platform,
) -> None:
    """A piece costs a step of the loop: thousands of events are put together beside it."""
    wish = {"command": ["true"], "array": "0-599", "hold": True}
    assert (await platform.admin("POST", "/api/v1/jobs", wish)).status == 200
    principal = await platform.services.directory.authenticate(platform.admin.token or "")
    assert principal is not None
    pieces: list[bytes] = []
    async for piece in platform.services.hub.stream(principal.team_id, 0):
        pieces.append(piece)
        if b"".join(pieces).count(b'"kind":"job.submitted"') == 600:
            break
    assert len(pieces) < 10
    ids = [int(line[4:]) for line in b"".join(pieces).splitlines() if line.startswith(b"id: ")]
    assert ids == sorted(set(ids))
    assert len(ids) >= 1200


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("GET", "/api/v1/jobs?limit=%D9%A1", None),
        ("GET", "/api/v1/jobs?since=%C2%B2", None),
        ("GET", "/api/v1/nodes/x/verdicts?limit=%E2%91%A0", None),
        ("GET", "/api/v1/leases?from_ms=%D9%A1", None),
        ("GET", "/api/v1/events?since=99999999999999999999", None),
        ("GET", "/api/v1/series?run_id=a&key=b&points=%D9%A1", None),
        ("POST", "/api/2.0/mlflow/runs/search", {"max_results": "\u0661"}),
        ("POST", "/api/2.0/mlflow/runs/create", {"start_time": 10**30}),
        ("POST", "/api/2.0/mlflow/runs/create", {"experiment_id": "\u00b2"}),
        ("POST", "/api/v1/jobs", {"command": ["true"], "nodes": 10**30}),
        ("POST", "/api/v1/jobs", {"command": ["true"], "memory_bytes": -(10**30)}),
        ("POST", "/api/v1/jobs", {"command": ["true"], "array": "\u0660-\u0669"}),
        ("POST", "/api/v1/tokens", {"days": 10**30}),
        ("POST", "/api/v1/leases", {"name": "a", "nodes": ["n"], "minutes": 10**30}),
        ("POST", "/api/v1/series", {"run_ids": [], "keys": [], "first_step": 10**30}),
    ],
)
async def test_odd_digits_and_endless_integers_are_refused(
    platform: Platform, method: str, target: str, body: object
) -> None:
    answer = await platform.admin(method, target, body)
    assert 400 <= answer.status < 500, (answer.status, answer.body[:300])


@pytest.mark.parametrize("path", ["..%00/x", "a%00b", "%00", "..%2f..%00", "a/..%00/b"])
async def test_a_path_with_nul_is_refused_everywhere(platform: Platform, path: str) -> None:
    run_id = await new_run(platform.admin)
    for method, target in (
        ("GET", f"/{path}"),
        ("GET", f"/assets/{path}"),
        ("GET", f"/api/2.0/mlflow-artifacts/artifacts/0/{run_id}/artifacts/{path}"),
        ("PUT", f"/api/2.0/mlflow-artifacts/artifacts/0/{run_id}/artifacts/{path}"),
        ("GET", f"/api/v1/jobs/{path}"),
        ("GET", f"/get-artifact?run_id={run_id}&path={path}"),
        ("GET", f"/api/v1/artifacts/preview?run_id={run_id}&path={path}"),
    ):
        for caller in (platform.admin, platform.nobody):
            answer = await caller(method, target)
            assert 400 <= answer.status < 500, (target, answer.status, answer.body[:200])


async def test_stalls_show_in_ready_and_metrics(platform: Platform) -> None:
    """Anyone sees how long the loop stood still; what it was at is for who has a credential."""
    dog = platform.services.watchdog
    dog.counts[-1] += 1
    dog._seen = (dog._due, "POST /api/v1/jobs", "")
    dog._note(12.5, 1.0)
    ready = (await platform.nobody("GET", "/ready")).json()
    checks = {check["name"]: check for check in ready["checks"]}
    assert ready["ready"] is True
    assert checks["database"]["ok"] is True
    assert checks["event loop"]["worst_ms"] == 12_500
    assert "jobs" not in str(ready)
    assert (await platform.nobody("GET", "/metrics")).status == 401
    viewer = await platform.caller("eva", "default", "viewer")
    text = (await viewer("GET", "/metrics")).body.decode()
    assert 'yard_event_loop_lag_seconds_bucket{le="+Inf"} 1.0\n' in text
    assert 'yard_event_loop_lag_seconds_bucket{le="10"} 0.0\n' in text
    assert 'yard_event_loop_stalls_total{during="POST /api/v1/jobs"} 1.0\n' in text
