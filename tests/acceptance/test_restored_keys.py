"""A backup holds no key: a restore says which one is missing, for what, and where it belongs."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.acceptance.serving import TrackingServer
from tests.acceptance.test_backup import yard

NewServer = Callable[..., TrackingServer]


def test_a_restore_names_the_key_that_it_lacks(new_server: NewServer, tmp_path: Path) -> None:
    server = new_server()
    server.start()
    for name in ("API_KEY", "OTHER"):
        answer = server.ask("PUT", f"/api/v1/secrets/{name}", json={"value": "v" * 20})
        assert answer.status_code == 200, answer.text
    waiting = {"command": ["true"], "env": {"A": "b"}, "hold": True}
    server.post("/api/v1/jobs", **waiting, array="0-3")
    done = yard(server, "backup", str(tmp_path / "backup"))
    assert done.returncode == 0, done.stderr
    server.stop()
    home = tmp_path / "restored"
    told = yard(None, "restore", str(tmp_path / "backup"), "--home", str(home))
    assert told.returncode == 0, told.stderr
    said = told.stdout + told.stderr
    assert "2 secrets, and variables of 1 submissions" in said
    assert f"copy `secrets.key` of the old home to {home / 'secrets.key'}" in said
    checked = yard(None, "restore", str(tmp_path / "backup"), "--check", "--json")
    (key,) = json.loads(checked.stdout)["sealed"]
    assert (key["secrets"], key["submissions"]) == (2, 1)
    assert key["key"] in said
    assert not (home / "secrets.key").exists()

    restored = new_server()
    shutil.copytree(home, restored.home)
    restored.start()
    assert f"sealed with the key {key['key']}, which is not in" in restored.log
    restored.stop()
    shutil.copy(server.home / "secrets.key", restored.home / "secrets.key")
    started = len(restored.log)
    restored.start()
    assert "sealed with the key" not in restored.log[started:]
