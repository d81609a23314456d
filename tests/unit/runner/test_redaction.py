"""Values of secrets do not reach the log, however the command's output is cut into pieces."""

import pytest

from trackyard.runner.redaction import Redactor

SECRET = "hf_abcdefghij"


@pytest.mark.parametrize("size", [1, 2, 5, 13, 1000])
def test_a_secret_is_replaced_wherever_the_pieces_end(size: int) -> None:
    text = f"token {SECRET}, again {SECRET}{SECRET} hf_abc hf_abcdefghi end".encode()
    redactor = Redactor([SECRET])
    got = b"".join(redactor.feed(text[at : at + size]) for at in range(0, len(text), size))
    got += redactor.rest()
    assert got.decode() == "token •••, again •••••• hf_abc hf_abcdefghi end"


def test_nothing_is_held_back_but_what_may_become_a_secret() -> None:
    redactor = Redactor([SECRET])
    assert redactor.feed(b"step 1\n") == b"step 1\n"
    assert redactor.feed(b"step 2 h") == b"step 2 "
    assert redactor.feed(b"i\n") == b"hi\n"


def test_short_values_are_left_alone_and_the_longest_wins() -> None:
    assert Redactor(["a", "12"]).feed(b"a 12") == b"a 12"
    redactor = Redactor(["abcdef", "abcdefgh"])
    assert redactor.feed(b"abcdefgh abcdef.") == "••• •••.".encode()
