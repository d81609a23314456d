"""Every route, method and alias against every kind of caller, from the live route table."""

import re

import pytest

from tests.integration.server.platform import Caller, Platform
from trackyard.access.principal import AttemptScope, Purpose
from trackyard.server.routing import Permission, Route

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
#: The only paths without a credential; a new public route has to be added here on purpose.
PUBLIC = re.compile(
    r"/(health|version|ready|signin|app|app/.*|assets/.*|[\w.-]+\.(svg|png|ico|webmanifest|txt|js|css|html))?\Z"
    r"|/api/v1/session\Z|/api/v1/oidc(/start|/callback)?\Z|/(ajax-)?api/3\.0/mlflow/server-info\Z"
    r"|/(ajax-)?api/2\.0/mlflow-artifacts/mpu/parts?/.*\Z|/api/v1/uploads/.*\Z"
    r"|/apps/x/\.yard/enter\Z"  # on the host of an app alone, with a ticket
)


def _filled(path: str) -> str:
    return re.sub(r"\{([a-z_]+)(\.\.\.)?\}", "x", path)


def _routes(platform: Platform) -> list[Route]:
    return platform.application.router.routes


async def test_public_routes_are_the_known_few(platform: Platform) -> None:
    """A route is open only if it is on this test's list."""
    found = {route.path for route in _routes(platform) if route.permission is Permission.PUBLIC}
    assert found
    assert {path for path in found if not PUBLIC.match(_filled(path))} == set()


async def test_no_route_answers_without_a_credential(platform: Platform) -> None:
    """Every route times every method without a credential is 401, public reads apart."""
    public = {
        (route.method, _filled(route.path))
        for route in _routes(platform)
        if route.permission is Permission.PUBLIC
    }
    for path in sorted({_filled(route.path) for route in _routes(platform)}):
        for method in METHODS:
            found = "GET" if method == "HEAD" else method
            if (found, path) in public:
                continue
            answer = await platform.nobody(method, path, {} if method == "POST" else None)
            assert answer.status == 401, (method, path, answer.status, answer.body[:200])


@pytest.mark.parametrize(
    "bend",
    [
        lambda path: "/" + path,
        lambda path: path + "/",
        lambda path: path.upper(),
        lambda path: path + ";x",
        lambda path: path.replace("/", "%2F", 2).replace("%2F", "/%2F", 1),
        lambda path: "/x/.." + path,
        lambda path: path.replace("/api/", "/API/"),
        lambda path: "/trackyard" + path,
    ],
    ids=["doubled", "trailing", "case", "semicolon", "encoded", "dotted", "prefix", "mounted"],
)
async def test_aliases_open_nothing(platform: Platform, bend) -> None:
    """Another spelling of a path never answers 2xx without a credential."""
    for route in _routes(platform):
        if route.permission is Permission.PUBLIC or route.websocket:
            continue
        answer = await platform.nobody(
            route.method,
            bend(_filled(route.path)),
            {} if route.method != "GET" else None,
            headers={"x-http-method-override": "GET"},
        )
        assert not 200 <= answer.status < 300, (route.method, bend(route.path), answer.status)


async def test_viewers_change_nothing(platform: Platform) -> None:
    """A viewer is refused wherever a route needs more than reading."""
    viewer = await platform.caller("vera", "default", "viewer")
    for route in _routes(platform):
        if route.permission > Permission.READ and not route.websocket:
            answer = await viewer(route.method, _filled(route.path), {})
            assert answer.status == 403, (route.method, route.path, answer.status)


async def test_members_do_not_administer(platform: Platform) -> None:
    """A member is refused by routes for maintainers, owners and admins."""
    member = await platform.caller("max", "default", "member")
    for route in _routes(platform):
        if route.permission > Permission.LOG and not route.websocket:
            answer = await member(route.method, _filled(route.path), {})
            assert answer.status == 403, (route.method, route.path, answer.status)


@pytest.mark.parametrize("purpose", [Purpose.COMMAND, Purpose.RUNNER])
async def test_attempt_tokens_open_their_own_routes_alone(
    platform: Platform, purpose: Purpose
) -> None:
    """The command's token opens no route of runners, the runner's none of tracking."""
    run = await platform.admin.mlflow("POST", "runs/create", {"experiment_id": "0"})
    principal = await platform.services.directory.authenticate(platform.admin.token or "")
    assert principal is not None
    scope = AttemptScope(run_id=run.json()["run"]["info"]["run_id"], attempt=1, purpose=purpose)
    _, token = await platform.services.directory.create_attempt_token(
        team_id=principal.team_id, scope=scope, expires_ms=None
    )
    attempt = Caller(platform.application, token)
    opened = 0
    for route in _routes(platform):
        if route.permission is Permission.PUBLIC or route.websocket:
            continue
        answer = await attempt(route.method, _filled(route.path), {})
        own = route.runners if purpose is Purpose.RUNNER else route.attempts
        opened += own
        assert (answer.status == 403) is not own, (route.method, route.path, answer.status)
    assert opened


async def test_attempt_tokens_reach_their_run_alone(platform: Platform) -> None:
    """The token of an attempt opens only the routes made for it, and there only its own run."""
    run = await platform.admin.mlflow("POST", "runs/create", {"experiment_id": "0"})
    mine = run.json()["run"]["info"]["run_id"]
    run = await platform.admin.mlflow("POST", "runs/create", {"experiment_id": "0"})
    other = run.json()["run"]["info"]["run_id"]
    principal = await platform.services.directory.authenticate(platform.admin.token or "")
    assert principal is not None
    _, token = await platform.services.directory.create_attempt_token(
        team_id=principal.team_id, scope=AttemptScope(run_id=mine, attempt=1), expires_ms=None
    )
    attempt = Caller(platform.application, token)
    for route in _routes(platform):
        if route.permission is Permission.PUBLIC or route.websocket or route.attempts:
            continue
        answer = await attempt(route.method, _filled(route.path), {})
        assert answer.status == 403, (route.method, route.path, answer.status)
    point = {"key": "loss", "value": 1.0, "timestamp": 1}
    ok = await attempt.mlflow("POST", "runs/log-metric", {"run_id": mine, **point})
    refused = await attempt.mlflow("POST", "runs/log-metric", {"run_id": other, **point})
    assert (ok.status, refused.status) == (200, 404)
    assert (await attempt.mlflow("GET", f"runs/get?run_id={other}")).status == 404


async def test_feed_tokens_open_the_calendar_feed_alone(platform: Platform) -> None:
    """A token made for a calendar program reads the feed; every other route is 403."""
    made = await platform.admin("POST", "/api/v1/leases/feed", {})
    feed = Caller(platform.application, made.json()["token"])
    for route in _routes(platform):
        if route.permission is Permission.PUBLIC or route.websocket or route.feeds:
            continue
        answer = await feed(route.method, _filled(route.path), {})
        assert answer.status == 403, (route.method, route.path, answer.status)
    answer = await feed("GET", made.json()["path"])
    assert (answer.status, answer.body[:15]) == (200, b"BEGIN:VCALENDAR")


async def test_other_teams_see_and_change_nothing(platform: Platform) -> None:
    """With another team's credential every id of ours is 404 and every search is empty."""
    ours = platform.admin
    stranger = await platform.caller("sven", "other", "owner")
    made = await ours.mlflow("POST", "experiments/create", {"name": "secret"})
    experiment = made.json()["experiment_id"]
    run = await ours.mlflow("POST", "runs/create", {"experiment_id": experiment})
    run_id = run.json()["run"]["info"]["run_id"]
    await ours.mlflow("POST", "registered-models/create", {"name": "ours"})
    ids = {
        "experiment_id": experiment,
        "run_id": run_id,
        "run_uuid": run_id,
        "key": "k",
        "value": 1.0,
        "timestamp": 1,
        "metric_key": "k",
        "new_name": "x",
        "name": "ours",
        "version": "1",
        "experiment_name": "secret",
        "alias": "a",
        "stage": "Staging",
        "model_json": "{}",
        "status": "FINISHED",
    }
    query = "&".join(f"{key}={value}" for key, value in ids.items())
    text = {**ids, "value": "1"}
    for route in _routes(platform):
        path = route.path
        creates = path.endswith(
            ("experiments/create", "registered-models/create", "datasets/create")
        )
        if "/mlflow/" not in path or creates or "server-info" in path or "{" in path:
            continue
        if route.permission is Permission.PUBLIC:
            continue
        body = ids if path.endswith("log-metric") else text
        reading = route.method == "GET"
        answer = await stranger(
            route.method, f"{path}?{query}" if reading else path, None if reading else body
        )
        if answer.status == 200:
            assert b"secret" not in answer.body, path
            assert b"ours" not in answer.body, path
            assert run_id.encode() not in answer.body, path
        else:
            assert answer.status in (400, 404, 501), (route.method, path, answer.status)
    search = {"experiment_ids": [experiment]}
    assert (await stranger.mlflow("POST", "runs/search", search)).json() == {}
    assert (await ours.mlflow("POST", "runs/search", search)).json()["runs"]


async def test_a_call_that_names_two_runs_changes_neither(platform: Platform) -> None:
    """Two ids in one body, or another one in the address, are 403; a lone one there is unread."""
    stranger = await platform.caller("sven", "other", "owner")
    runs = []
    for caller in (platform.admin, stranger):
        made = await caller.mlflow("POST", "runs/create", {"experiment_id": "0"})
        runs.append(made.json()["run"])
    ids = [run["info"]["run_id"] for run in runs]
    point = {"key": "k", "value": 1, "timestamp": 1}
    for path, body in (
        ("runs/log-batch", {"metrics": [point]}),
        ("runs/log-metric", point),
        ("runs/log-parameter", {"key": "k", "value": "v"}),
        ("runs/set-tag", {"key": "k", "value": "v"}),
        ("runs/update", {"status": "FAILED"}),
        ("runs/delete", {}),
    ):
        both = {"run_id": ids[0], "run_uuid": ids[1], **body}
        assert (await platform.admin.mlflow("POST", path, both)).status == 403, path
        for mine, other in (ids, ids[::-1]):
            for name in ("run_id", "run_uuid"):
                target = f"{path}?{name}={other}"
                one = {"run_id": mine, "run_uuid": mine, **body}
                assert (await platform.admin.mlflow("POST", target, one)).status == 403, target
        elsewhere = await platform.admin.mlflow("POST", f"{path}?run_id={ids[0]}", body)
        assert elsewhere.status == 400, path
    twice = f"/get-artifact?run_id={ids[0]}&run_uuid={ids[1]}&path=x"
    assert (await platform.admin("GET", twice)).status == 403
    for caller, run in zip((platform.admin, stranger), runs, strict=True):
        found = await caller.mlflow("GET", f"runs/get?run_id={run['info']['run_id']}")
        assert found.json()["run"] == run


async def test_page_tokens_do_not_carry_over(platform: Platform) -> None:
    """A page token handed to another team shows only that team's rows or is refused."""
    stranger = await platform.caller("sven", "other", "owner")
    for _ in range(3):
        await platform.admin.mlflow("POST", "runs/create", {"experiment_id": "0"})
    page = await platform.admin.mlflow(
        "POST", "runs/search", {"experiment_ids": ["0"], "max_results": 1}
    )
    token = page.json()["next_page_token"]
    answer = await stranger.mlflow(
        "POST", "runs/search", {"experiment_ids": ["0"], "max_results": 1, "page_token": token}
    )
    assert answer.status == 400 or "runs" not in answer.json()


async def test_default_experiment_is_ones_own(platform: Platform) -> None:
    """Experiment 0 is each team's own Default."""
    stranger = await platform.caller("sven", "other", "member")
    mine = (await platform.admin.mlflow("GET", "experiments/get?experiment_id=0")).json()
    theirs = (await stranger.mlflow("GET", "experiments/get?experiment_id=0")).json()
    assert mine["experiment"]["experiment_id"] == theirs["experiment"]["experiment_id"] == "0"
    locations = {x["experiment"]["artifact_location"] for x in (mine, theirs)}
    assert len(locations) == 2
