"""Members of a gang hear each other and nobody else."""

from __future__ import annotations

import socket

import pytest

from trackyard.runner.gang.channel import ChannelLost, GangChannel


def pair(first: str, second: str) -> tuple[GangChannel, GangChannel]:
    left, right = socket.socketpair()
    return (
        GangChannel(left, first, is_server=True),
        GangChannel(right, second, is_server=False),
    )


def test_what_one_says_the_other_hears_in_order() -> None:
    server, client = pair("secret", "secret")
    client.greet(30)
    client.send({"a": 1})
    client.send({"b": "ü"})
    assert server.wait(30) == [{"a": 1}, {"b": "ü"}]
    server.send({"c": [2]})
    server.close()
    assert client.wait(30) == [{"c": [2]}]
    with pytest.raises(ChannelLost):
        client.wait(30)


def test_a_line_without_proof_of_the_secret_ends_the_connection() -> None:
    server, client = pair("secret", "another")
    client.greet(30)
    client.send({"line": "rm -rf /"})
    with pytest.raises(ChannelLost, match="no proof"):
        server.wait(30)


def test_a_line_that_was_heard_cannot_be_said_again() -> None:
    server, client = pair("secret", "secret")
    client.greet(30)
    written: list[bytes] = []
    send = client._write
    client._write = lambda data: (written.append(data), send(data))[1]  # type: ignore[method-assign]
    client.send({"line": "true"})
    assert server.wait(30) == [{"line": "true"}]
    send(written[0])
    with pytest.raises(ChannelLost, match="no proof"):
        server.wait(30)
