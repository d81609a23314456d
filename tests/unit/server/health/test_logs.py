"""Log lines: one each, whatever a user's text holds, and never a token."""

import logging
import sys

from trackyard.access.tokens import new_token
from trackyard.server.health.logs import PlainFormatter


def line(message: str, *args: object, with_fault: bool = False) -> str:
    fault = None
    if with_fault:
        try:
            raise ValueError(str(args[0]))
        except ValueError:
            fault = sys.exc_info()
    record = logging.LogRecord("x", logging.WARNING, __file__, 1, message, args, fault)
    return PlainFormatter().format(record)


def test_tokens_are_shown_by_their_id_alone() -> None:
    public, secret = new_token()
    shown = line("refused %s", secret, with_fault=True)
    assert secret not in shown
    assert public in shown


def test_no_text_starts_a_line_of_its_own() -> None:
    shown = line("no %s here", "/x\r\n2026-01-01 ERROR forged\u2028\x1b[31m")
    assert len(shown.splitlines()) == 1
    assert "\\r\\n" in shown
    assert "\x1b" not in shown


def test_a_fault_keeps_its_traceback() -> None:
    assert "Traceback" in line("failed: %s", "why", with_fault=True)
