"""Nobody comes in by a door that was never opened: no shipped login, no signing up."""

import base64

from tests.integration.server.platform import Platform, refused

SHIPPED = [
    ("admin", "admin"),
    ("admin", "password"),
    ("admin", "password1234"),
    ("admin", ""),
    ("admin", "admin1234567"),
    ("root", "root"),
    ("mlflow", "mlflow"),
    ("", ""),
    ("admin", "yard_"),
    ("guest", "guest"),
]


async def test_no_login_is_shipped(platform: Platform) -> None:
    """None of the names and passwords that products ship opens anything."""
    for user, password in SHIPPED:
        secret = base64.b64encode(f"{user}:{password}".encode()).decode()
        answer = await platform.nobody(
            "GET",
            "/api/2.0/mlflow/experiments/get?experiment_id=0",
            headers={"authorization": f"Basic {secret}"},
        )
        refused(answer, 401)
        answer = await platform.nobody(
            "GET",
            "/api/2.0/mlflow/experiments/get?experiment_id=0",
            headers={"authorization": f"Bearer {password}"},
        )
        refused(answer, 401)


async def test_nobody_signs_up(platform: Platform) -> None:
    """Users, teams, members and tokens are made by those who may, and by nobody else."""
    viewer = await platform.caller("vera", "default", "viewer")
    wishes = (
        ("POST", "/api/v1/users", {"name": "mallory"}),
        ("POST", "/api/v1/teams", {"name": "mallory"}),
        ("PUT", "/api/v1/teams/default/members/vera", {"role": "owner"}),
        ("POST", "/api/v1/tokens", {"user": "admin", "team": "default", "role": "owner"}),
    )
    for method, path, body in wishes:
        refused(await platform.nobody(method, path, body), 401)
        refused(await viewer(method, path, body), 403)
    for body in ({}, {"code": ""}, {"code": "0" * 32}, {"token": ""}):
        refused(await platform.nobody("POST", "/api/v1/session", body), 400, 401)
    names = (await platform.admin("GET", "/api/v1/users")).json()
    assert "mallory" not in str(names)
