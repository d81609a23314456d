"""Where `yard` looks for its server, and which credential it takes along."""

import json
import os
from pathlib import Path

import pytest

from trackyard.client.api import Api, Unreachable, save_login

ELSEWHERE = "http://127.0.0.1:8765/yard"
#: beyond the greatest number that a process can have
NOBODY = 2**22 + 1


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, in which a server has made its token; nobody is logged in."""
    for name in ("YARD_URL", "YARD_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return _home(tmp_path / "home", monkeypatch)


def _home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder.mkdir()
    (folder / "token").write_text(f"token of {folder.name}\n")
    monkeypatch.setenv("YARD_HOME", str(folder))
    return folder


def _told(home: Path, url: str, pid: int) -> None:
    (home / "server.json").write_text(json.dumps({"url": url, "pid": pid}))


def test_the_local_server_is_found_where_it_listens(home: Path) -> None:
    _told(home, ELSEWHERE, os.getpid())
    api = Api.from_environment()
    assert (api.url, api.token) == (ELSEWHERE, "token of home")


def test_each_home_leads_to_its_own_server(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _told(home, ELSEWHERE, os.getpid())
    other = _home(tmp_path / "other", monkeypatch)
    _told(other, "http://[::1]:9000", os.getpid())
    api = Api.from_environment()
    assert (api.url, api.token) == ("http://[::1]:9000", "token of other")


def test_a_login_comes_before_the_home_and_the_environment_before_both(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _told(home, ELSEWHERE, os.getpid())
    save_login("https://yard.example.com", "stored")
    api = Api.from_environment()
    assert (api.url, api.token) == ("https://yard.example.com", "stored")
    monkeypatch.setenv("YARD_URL", "http://127.0.0.1:9999")
    assert Api.from_environment().url == "http://127.0.0.1:9999"


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_server_that_is_gone_is_one_sentence(home: Path, *, is_clean: bool) -> None:
    _told(home, ELSEWHERE, 0 if is_clean else NOBODY)
    with pytest.raises(Unreachable) as raised:
        Api.from_environment()
    assert str(raised.value) == f"the server of {home} is not running; it was at {ELSEWHERE}"
    assert "`yard up`" in raised.value.hint


@pytest.mark.parametrize("text", ["", "{", "[]", '{"url": 5}', '{"url": "http://x"}'])
def test_a_damaged_note_of_the_address_is_as_none(home: Path, text: str) -> None:
    (home / "server.json").write_text(text)
    assert Api.from_environment().url == "http://127.0.0.1:8000"


def test_the_local_admin_token_is_not_sent_to_another_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("YARD_URL", "https://yard.example.com")
    assert Api.from_environment().token is None
    monkeypatch.setenv("YARD_URL", "http://localhost:9000")
    assert Api.from_environment().token == "token of home"
