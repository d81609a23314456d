"""What the server does for a backup: one at a time, files held while it is open, then let go."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from tests.integration.server.platform import Caller, Platform
from trackyard.server.routes.platform import backup

BASE = "/api/v1/admin/backups"


async def put(caller: Caller, run_id: str, place: str, text: bytes) -> None:
    answer = await caller(
        "PUT", f"/api/2.0/mlflow-artifacts/artifacts/{place}/f.txt", raw=text, headers={}
    )
    assert answer.status == 200, answer.body


async def new_run(caller: Caller) -> tuple[str, str]:
    info = (await caller.mlflow("POST", "runs/create", {"experiment_id": "0"})).json()["run"][
        "info"
    ]
    return info["run_id"], info["artifact_uri"].removeprefix("mlflow-artifacts:/")


def blobs(platform: Platform) -> set[str]:
    folder = platform.services.settings.home / "artifacts" / "blobs"
    return {path.name for path in folder.rglob("*") if path.is_file()}


def is_sqlite(platform: Platform) -> bool:
    return platform.services.database.is_sqlite


async def test_files_of_an_open_backup_are_held(platform: Platform) -> None:
    """What is replaced meanwhile stays until the end; on PostgreSQL, pg_dump is named."""
    admin = platform.admin
    run_id, place = await new_run(admin)
    await put(admin, run_id, place, b"first")
    (first,) = blobs(platform)
    begun = await admin("POST", BASE, {})
    if not is_sqlite(platform):
        assert begun.status == 400
        assert "pg_dump" in begun.json()["message"]
        return
    info = begun.json()
    assert (await admin("POST", BASE, {})).status == 409
    await put(admin, run_id, place, b"second")
    assert first in blobs(platform)
    assert len(blobs(platform)) == 2
    page = (await admin("GET", f"{BASE}/{info['id']}/files")).json()["files"]
    assert [file["blob"] for file in page] == [first]
    assert (await admin("GET", f"{BASE}/{info['id']}/files?after={first}")).json()["files"] == []
    assert (await admin("GET", f"{BASE}/{info['id']}/files/{first}")).body == b"first"
    copy = (await admin("GET", f"{BASE}/{info['id']}/database")).body
    assert len(copy) == info["database_bytes"]
    assert copy.startswith(b"SQLite format 3")
    (second,) = blobs(platform) - {first}
    assert (await admin("GET", f"{BASE}/{info['id']}/files/{second}")).status == 404
    assert (await admin("GET", f"{BASE}/{info['id']}/files/..%2Ftoken")).status in (400, 404)
    assert (await admin("GET", f"{BASE}/{'0' * 16}/database")).status == 404
    assert (await admin("DELETE", f"{BASE}/{info['id']}")).status == 200
    assert blobs(platform) == {second}
    assert list((platform.services.settings.home / "backup").iterdir()) == []
    found = await admin("GET", "/api/v1/events?kind=backup.taken&scope=all")
    assert len(found.json()["events"]) == 1


async def test_sessions_and_codes_are_left_out(platform: Platform, tmp_path: Path) -> None:
    """A restored server knows tokens, but no open session and no unused sign-in code."""
    if not is_sqlite(platform):
        assert (await platform.admin("POST", BASE, {})).status == 400
        return
    code = (await platform.admin("POST", "/api/v1/session/codes", {})).json()["code"]
    answer = await platform.nobody("POST", "/api/v1/session", {"code": code})
    assert answer.status == 200
    await platform.admin("POST", "/api/v1/session/codes", {})
    info = (await platform.admin("POST", BASE, {})).json()
    copy = tmp_path / "copy.db"
    copy.write_bytes((await platform.admin("GET", f"{BASE}/{info['id']}/database")).body)
    await platform.admin("DELETE", f"{BASE}/{info['id']}")
    with sqlite3.connect(copy) as conn:
        for table in ("sessions", "signins", "uploads"):
            assert conn.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
        assert conn.execute("SELECT count(*) FROM tokens").fetchone() == (1,)
        assert conn.execute("SELECT max(id) FROM events").fetchone() == (info["mark"],)


async def test_an_abandoned_backup_ends_by_itself(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody asks for a while: the copy is removed and another backup may begin."""
    monkeypatch.setattr(backup, "IDLE_SECONDS", 0.05)
    if not is_sqlite(platform):
        assert (await platform.admin("POST", BASE, {})).status == 400
        return
    first = (await platform.admin("POST", BASE, {})).json()
    await asyncio.sleep(0.5)
    assert (await platform.admin("GET", f"{BASE}/{first['id']}/database")).status == 404
    second = await platform.admin("POST", BASE, {})
    assert second.status == 200
    await platform.admin("DELETE", f"{BASE}/{second.json()['id']}")
