"""The trade of a ticket for a key, and specs that were sealed on the other side."""

import pytest

from trackyard.engines.ray.sealing import seal
from trackyard.runner.ray import ticket
from trackyard.runner.report import ServerReply

KEY = "1f" * 32


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 100_000])
def test_what_was_sealed_is_opened_with_its_key_alone(size: int) -> None:
    data = bytes(n % 251 for n in range(size))
    sealed = seal(KEY, data)
    assert ticket.opened(KEY, sealed) == data
    assert size < 16 or data[:16] not in sealed
    for other in ("2f" * 32, "1e" + KEY[2:]):
        with pytest.raises(ticket.TicketRefused):
            ticket.opened(other, sealed)


def test_what_was_changed_is_not_opened() -> None:
    sealed = bytearray(seal(KEY, b"spec" * 50))
    for at in (0, 31, 32, len(sealed) - 1):
        sealed[at] ^= 1
        with pytest.raises(ticket.TicketRefused):
            ticket.opened(KEY, bytes(sealed))
        sealed[at] ^= 1
    assert ticket.opened(KEY, bytes(sealed)) == b"spec" * 50


def test_a_server_that_is_away_is_asked_again_with_the_same_claim() -> None:
    """The first answer may have been lost: by its claim the runner is known."""
    answers = [
        ServerReply(0, {}),
        ServerReply(503, {}),
        ServerReply(429, {}),
        ServerReply(200, {"key": KEY}),
    ]
    asked: list[bytes] = []

    def post(path: str, body: bytes) -> ServerReply:
        assert path == "/key"
        asked.append(body)
        return answers[len(asked) - 1]

    assert ticket.trade(post, wait=lambda _: None) == KEY
    assert len(asked) == 4
    assert len(set(asked)) == 1


def test_a_refusal_is_final_and_silence_is_not_waited_for_forever() -> None:
    refused = ServerReply(409, {"message": "this ticket was used before"})
    with pytest.raises(ticket.TicketRefused, match="used before"):
        ticket.trade(lambda _path, _body: refused, wait=lambda _: None)
    times = iter(range(0, 10_000, 100))
    with pytest.raises(ticket.TicketRefused, match="has not answered"):
        ticket.trade(
            lambda _path, _body: ServerReply(0, {}), wait=lambda _: None, now=lambda: next(times)
        )
