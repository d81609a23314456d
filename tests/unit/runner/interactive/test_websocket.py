"""Frames of the runner's WebSocket, against the library that the server speaks with."""

import pytest
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from trackyard.runner.interactive import websocket


def _server() -> tuple[ServerProtocol, bytes, bytes]:
    """A server's side that has agreed to our handshake, its answer and our key."""
    request, key = websocket.handshake("yard:8000", "/tunnel", {"X-Yard-Epoch": "1"})
    server = ServerProtocol()
    server.receive_data(request)
    asked = next(iter(server.events_received()))
    assert isinstance(asked, Request)
    server.send_response(server.accept(asked))
    return server, b"".join(server.data_to_send()), key


def test_a_stock_server_agrees_and_its_proof_is_checked() -> None:
    """The handshake is one that `websockets` accepts; a wrong proof is refused."""
    _, answer, key = _server()
    head = answer.partition(b"\r\n\r\n")[0]
    websocket.check_answer(head, key)
    with pytest.raises(websocket.WrongAnswer, match="did not prove"):
        websocket.check_answer(head, b"another key")
    with pytest.raises(websocket.WrongAnswer) as refusal:
        websocket.check_answer(b"HTTP/1.1 409 Conflict\r\n", key)
    assert refusal.value.status == 409


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 300_000])
def test_messages_of_every_length_arrive_whole_both_ways(size: int) -> None:
    """Masked frames are read by the server; its own are read byte by byte."""
    server, _, _ = _server()
    content = bytes(number % 251 for number in range(size))
    server.receive_data(websocket.frame(content))
    (event,) = server.events_received()
    assert isinstance(event, Frame)
    assert (event.opcode, bytes(event.data)) == (Opcode.BINARY, content)
    server.send_binary(content)
    sent = b"".join(server.data_to_send())
    reader = websocket.FrameReader()
    found = [one for at in range(0, len(sent), 997) for one in reader.feed(sent[at : at + 997])]
    assert found == [(websocket.BINARY, content)]


def test_a_frame_that_breaks_the_rules_is_refused() -> None:
    """A masked frame from a server, and one that is too long."""
    with pytest.raises(websocket.WrongAnswer):
        websocket.FrameReader().feed(websocket.frame(b"masked"))
    with pytest.raises(websocket.WrongAnswer):
        websocket.FrameReader().feed(b"\x82\x7f" + (1 << 40).to_bytes(8, "big"))
