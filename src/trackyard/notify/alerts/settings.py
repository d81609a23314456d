"""The admin's settings of alerts: table [alerts] of the config file. Owns its keys and checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trackyard.core.alerts import CHANNEL_NAME
from trackyard.core.errors import SetupError

SECURITY = ("starttls", "tls", "none")
_KEYS = (
    "smtp",
    "smtp_user",
    "smtp_password_file",
    "smtp_security",
    "mail_from",
    "mail_domains",
    "commands",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program on the server that is given alerts on its standard input."""

    argv: tuple[str, ...]
    #: whether rules of teams may name it, too
    for_teams: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSettings:
    """What the admin allows and how mail leaves."""

    smtp_host: str = ""
    smtp_port: int = 587
    smtp_user: str = ""
    smtp_password_file: str = ""
    smtp_security: str = "starttls"
    mail_from: str = ""
    #: domains that mail may go to; empty: any
    mail_domains: tuple[str, ...] = ()
    commands: Mapping[str, Command] = field(default_factory=dict)


def read_alert_settings(table: Mapping[str, Any]) -> AlertSettings:
    """Read the table, or say what is wrong with it."""
    for key in table:
        if key not in _KEYS:
            raise SetupError(
                f"[alerts] has an unknown key {key!r}", hint=f"keys: {', '.join(_KEYS)}"
            )
    host, _, port = str(table.get("smtp", "")).rpartition(":")
    if not host:
        host, port = port, "587"
    if not port.isdecimal():
        raise SetupError(
            f"[alerts] smtp = {table.get('smtp')!r} is no mail server",
            hint='write it as smtp = "mail.example.org:587"',
        )
    security = str(table.get("smtp_security", SECURITY[0]))
    if security not in SECURITY:
        raise SetupError(
            f"[alerts] smtp_security = {security!r} is not known", hint=f"one of {SECURITY}"
        )
    sender = str(table.get("mail_from", ""))
    if host and "@" not in sender:
        raise SetupError(
            "[alerts] names a mail server but no sender",
            hint='add mail_from = "trackyard@example.org"',
        )
    return AlertSettings(
        smtp_host=host,
        smtp_port=int(port),
        smtp_user=str(table.get("smtp_user", "")),
        smtp_password_file=str(table.get("smtp_password_file", "")),
        smtp_security=security,
        mail_from=sender,
        mail_domains=tuple(str(one).lower() for one in table.get("mail_domains", ())),
        commands=_commands(table.get("commands", {})),
    )


def _commands(given: Any) -> dict[str, Command]:
    found: dict[str, Command] = {}
    for name, one in given.items() if isinstance(given, Mapping) else ():
        argv = one.get("argv") if isinstance(one, Mapping) else None
        if not CHANNEL_NAME.match(name) or not isinstance(argv, list) or not argv:
            raise SetupError(
                f"[alerts.commands.{name}] is no command",
                hint='write argv = ["/usr/local/bin/page", "--now"] below it',
            )
        if not Path(str(argv[0])).is_absolute():
            raise SetupError(
                f"[alerts.commands.{name}] names {argv[0]!r}, which is no whole path",
                hint="name the program by its whole path",
            )
        found[name] = Command(
            argv=tuple(str(word) for word in argv), for_teams=bool(one.get("for_teams", False))
        )
    return found
