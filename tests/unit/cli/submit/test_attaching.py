"""The keys that detach from a terminal."""

from trackyard.cli.submit.attaching import Escape


def test_a_tilde_and_a_dot_at_the_start_of_a_line_detach() -> None:
    """Elsewhere they are typed; two tildes type one."""
    keys = Escape()
    assert keys.feed(b"ls ~.\r") == (b"ls ~.\r", False)
    assert keys.feed(b"~") == (b"", False)
    assert keys.feed(b"/x\r") == (b"~/x\r", False)
    assert keys.feed(b"~~\r") == (b"~\r", False)
    assert keys.feed(b"~.") == (b"", True)
    assert Escape().feed(b"~.") == (b"", True)
