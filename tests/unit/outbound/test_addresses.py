"""Which addresses may be called, and how they are read."""

import socket
from typing import Any

import pytest

from trackyard.core.errors import InvalidInput, SetupError
from trackyard.outbound.addresses import AllowedAddresses, read_allowed, read_target, resolve
from trackyard.outbound.client import Answer
from trackyard.outbound.retries import WAITS, next_try

NOTHING = AllowedAddresses()


def answers(monkeypatch: pytest.MonkeyPatch, *found: str) -> None:
    """Let every name resolve to these addresses."""

    def getaddrinfo(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 443)) for one in found]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/",
        "ftp://example.org/",
        "file:///etc/passwd",
        "https:///nowhere",
        "https://user:password@example.org/",
        "https://example.org/a b",
        "https://example.org/\r\nX-More: 1",
        "https://example.org:99999/",
        "https://[::1/",
        "https://example.org/" + "x" * 2000,
        "",
    ],
)
def test_an_address_that_cannot_be_called_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        read_target(url, NOTHING)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.7",
        "172.16.3.4",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "fe80::1",
        "fd00::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
    ],
)
def test_an_inner_address_is_not_called_by_any_of_its_names(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    literal = f"[{address}]" if ":" in address else address
    with pytest.raises(InvalidInput, match="non-public"):
        resolve(read_target(f"https://{literal}/", NOTHING), NOTHING)
    answers(monkeypatch, "93.184.216.34", address)
    with pytest.raises(InvalidInput, match="non-public"):
        resolve(read_target("https://hooks.example.org/", NOTHING), NOTHING)


def test_a_public_address_is_called_where_its_name_led(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, "93.184.216.34")
    target = read_target("https://hooks.example.org:8443/a?b=c", NOTHING)
    assert (target.port, target.path) == (8443, "/a?b=c")
    assert resolve(target, NOTHING) == ["93.184.216.34"]


def test_an_operator_allows_networks_and_names(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = read_allowed(["10.1.0.0/16", "hooks.inside"], plain=True)
    assert resolve(read_target("http://10.1.2.3/", allowed), allowed) == ["10.1.2.3"]
    with pytest.raises(InvalidInput):
        resolve(read_target("http://10.2.2.3/", allowed), allowed)
    answers(monkeypatch, "192.168.7.7")
    assert resolve(read_target("http://hooks.inside/", allowed), allowed) == ["192.168.7.7"]
    with pytest.raises(InvalidInput):
        resolve(read_target("http://other.inside/", allowed), allowed)
    for wrong in ("*", "https://hooks.inside", "10.0.0.0/99"):
        with pytest.raises(SetupError):
            read_allowed([wrong])


def test_tries_grow_apart_and_end() -> None:
    down = Answer(error="cannot connect")
    waits = [next_try(tries, down, jitter=0.0) for tries in range(1, len(WAITS) + 2)]
    assert waits == [*WAITS, None]
    assert next_try(1, Answer(status=404)) is None
    assert next_try(1, Answer(status=200)) is None
    assert next_try(1, Answer(status=503, retry_after=90.0), jitter=0.0) == 90.0
    assert next_try(1, Answer(status=429), jitter=1.0) == WAITS[0] * 1.2
