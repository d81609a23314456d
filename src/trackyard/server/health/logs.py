"""How the server's log lines look: one line each, without secrets. Knows no event and no route."""

from __future__ import annotations

import logging
import re
import sys

from trackyard.access.tokens import redact

_CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]")


class PlainFormatter(logging.Formatter):
    """Hides tokens and keeps a message on its line, whatever text of a user is in it."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and after it the traceback of a fault."""
        return redact(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        """Return the line with control characters spelled out, so that no user forges one."""
        return _CONTROL.sub(lambda found: repr(found[0])[1:-1], super().formatMessage(record))


def set_up_logging() -> None:
    """Send the log to stderr in our form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PlainFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
