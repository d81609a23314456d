"""The caller of a request, and what that caller may reach. Pure; knows neither tokens nor
storage.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from trackyard.core.errors import Denied, InvalidInput


class Role(IntEnum):
    """A user's standing in a team; each role may do what those before it may."""

    viewer = 1  # reads
    member = 2  # logs, uploads, submits, stops own jobs
    maintainer = 3  # stops any job, promotes models, deletes
    owner = 4  # manages members and their tokens

    @classmethod
    def parse(cls, name: str) -> Role:
        """Return the role of a name, or say which names there are."""
        try:
            return cls[name]
        except KeyError:
            choices = ", ".join(role.name for role in cls)
            raise InvalidInput(f"unknown role {name!r}; roles are {choices}") from None


class Purpose(StrEnum):
    """Who holds a token of an attempt: each kind opens routes that the other does not."""

    #: the job's command: tracking, checkpoints, late demands
    COMMAND = "command"
    #: the runner around it: heartbeats, log, samples, health, the exit record
    RUNNER = "runner"
    #: whoever starts the runner where others can read what it is started with: good for one call
    TICKET = "ticket"
    #: issued before the two were told apart, for attempts that an upgrade found running
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptScope:
    """What the token of a running attempt is good for."""

    run_id: str
    attempt: int = 0
    rank: int = 0
    attempt_id: str = ""
    purpose: Purpose = Purpose.COMMAND
    #: of a ticket: what it is traded for, and who has traded it
    key: str = field(default="", repr=False)
    claim: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated caller, acting for one team."""

    #: name shown in events: the user's, or `attempt:<run>`
    name: str
    user_id: int | None
    team_id: int
    team: str
    #: inner id of the experiment this team calls `0`
    default_experiment: int
    role: Role
    is_admin: bool = False
    token_id: str = ""
    scope: AttemptScope | None = None
    #: came with a token that opens the calendar feed and nothing else
    is_feed: bool = False
    #: came with a token that opens the app of this job and nothing else
    app: str = ""
    #: the session's CSRF token, when the caller came with a cookie
    csrf: str | None = None
    #: id of the token that opened the session, which ends with it
    opened_by: str = ""
    #: whether the token is weaker than its user, or was issued by somebody else: what is done with
    #: it keeps to its team and role
    is_narrow: bool = False

    @property
    def issues_with(self) -> str | None:
        """The token that stands above what this caller issues; None for a session without one."""
        return self.token_id or self.opened_by or None

    def may(self, role: Role) -> bool:
        """Tell whether the caller holds at least this role."""
        return self.is_admin or self.role >= role

    def need(self, role: Role, action: str) -> None:
        """Refuse a caller below a role, naming what it takes."""
        if not self.may(role):
            raise Denied(
                f"{action} needs the role {role.name} in team {self.team};"
                f" {self.name} is {self.role.name}. Ask an owner of the team"
            )
