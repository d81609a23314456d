"""Overload is told late and kindly: a caller beyond its pace waits, then gets 429; others pass."""

from tests.integration.server.platform import Platform
from trackyard.server.app import Application
from trackyard.server.http.pace import CallPace


async def test_beyond_its_pace_a_caller_is_told_when_to_come_back(platform: Platform) -> None:
    """With its places taken, one token gets 429 and Retry-After; another token is served."""
    pace = CallPace(limit=1, patience=0.05)
    application = Application(platform.application.router, platform.services.gate, pace=pace)
    busy = await platform.caller("ada", "blue", "member")
    idle = await platform.caller("bob", "blue", "member")
    busy.application = idle.application = application
    tokens = await platform.services.directory.tokens(team_id=None, user_id=None)
    (token_id,) = [token["id"] for token in tokens if token["user"] == "ada"]
    assert pace.try_enter((token_id, False))
    for method, path, body in (
        ("POST", "runs/create", {"experiment_id": "0"}),
        ("GET", "experiments/get?experiment_id=0", None),
    ):
        refused = await busy.mlflow(method, path, body)
        assert refused.status == 429
        assert refused.header("retry-after") == "2"
        assert refused.json()["error_code"] == "REQUEST_LIMIT_EXCEEDED"
        assert (await idle.mlflow(method, path, body)).status == 200
    pace.leave((token_id, False))
    assert (await busy.mlflow("POST", "runs/create", {"experiment_id": "0"})).status == 200


async def test_a_body_that_is_not_here_yet_holds_no_place(platform: Platform) -> None:
    """A refused body leaves its caller's places as they were."""
    pace = CallPace(limit=1, patience=0.05)
    application = Application(platform.application.router, platform.services.gate, pace=pace)
    caller = await platform.caller("ada", "blue", "member")
    caller.application = application
    for _ in range(3):
        headers = {"content-type": "application/json", "content-length": "999999999"}
        answer = await caller("POST", "/api/2.0/mlflow/runs/create", raw=b"{}", headers=headers)
        assert answer.status == 413
    assert (await caller.mlflow("POST", "runs/create", {"experiment_id": "0"})).status == 200
