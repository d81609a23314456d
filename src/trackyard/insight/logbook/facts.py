"""What a logbook is made of: events, attempts, curves, runs. Plain values, without behaviour
beyond reading them; knows no database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class EventFact(NamedTuple):
    """One event as the log holds it."""

    id: int
    time_ms: int
    actor: str
    kind: str
    subject: str
    subject_id: str
    data: dict[str, Any]

    def text(self, key: str) -> str:
        """Return a field as words; empty where it is something else."""
        value = self.data.get(key)
        return value if isinstance(value, str) else ""

    def number(self, key: str) -> int | None:
        """Return a field as a whole number."""
        value = self.data.get(key)
        return int(value) if isinstance(value, int | float) else None

    def words(self, key: str) -> list[str]:
        """Return a field that is a list of words."""
        value = self.data.get(key)
        return [str(one) for one in value] if isinstance(value, list) else []

    @property
    def attempt(self) -> int | None:
        """The attempt it is about."""
        return self.number("attempt")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFact:
    """An attempt as far as events do not tell."""

    number: int
    nodes: tuple[str, ...]
    admitted_ms: int
    started_ms: int | None = None
    ended_ms: int | None = None
    #: checkpoint step it could resume from, and the last step it reached
    resume_step: int | None = None
    step: int | None = None
    cause: str | None = None
    sentence: str | None = None
    error_line: str | None = None
    #: what its environment was made of
    environment: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A metric as equally wide stretches of steps, in the order of steps."""

    metric: str
    steps: Sequence[int]
    times: Sequence[int]
    #: last value of each stretch (NaN where it is none), and its extremes
    values: Sequence[float]
    least: Sequence[float]
    most: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The run that another goes back to."""

    #: restart of, fork of, resumed from
    relation: str
    run_id: str
    name: str
    params: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""
    #: what was changed since that commit, as git prints it
    diff: str = ""
    #: of its last attempt
    environment: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """Everything that the logbook of one run is made of."""

    run_id: str
    name: str
    user: str = ""
    status: str = ""
    start_ms: int | None = None
    end_ms: int | None = None
    job_id: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""
    diff: str = ""
    #: events of the run and of its job, by id
    events: Sequence[EventFact] = ()
    #: events of the nodes and leases that its attempts were on, while they were
    around: Sequence[EventFact] = ()
    attempts: Sequence[AttemptFact] = ()
    curves: Sequence[Curve] = ()
    #: learning rates that were logged as metrics
    rates: Sequence[Curve] = ()
    parents: Sequence[Parent] = ()
