"""Entries of a logbook and the reply they come in: shapes, filter, search. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

#: kind -> what its entries are about
KINDS: dict[str, str] = {
    "run": "a run was created, ended, renamed, deleted",
    "job": "a job was submitted, held, changed, ended",
    "attempt": "an attempt began, ended or was lost",
    "checkpoint": "checkpoints that an attempt saved",
    "config": "what differs between attempts, or from the run it goes back to",
    "curve": "notable points of a curve, found by rule",
    "note": "what people wrote",
    "node": "health and state of the nodes it ran on",
    "lease": "leases that began or ended on its nodes",
    "model": "models and versions",
    "alert": "stalls, NaN, out of memory, blocked jobs",
}


class FieldDifference(msgspec.Struct, frozen=True):
    """One thing that is not what it was."""

    #: parameter, command, package, commit, pip, variable, launcher, driver, GPU, ...
    what: str
    name: str
    before: str
    after: str


class LogbookEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a logbook."""

    #: stays the same as long as the fact does: the end of its permalink
    id: str
    time_ms: int
    #: a key of KINDS
    kind: str
    sentence: str
    #: good, bad, warn or plain
    tone: str = "plain"
    run_id: str = ""
    run_name: str = ""
    job_id: str = ""
    attempt: int | None = None
    step: int | None = None
    metric: str = ""
    actor: str = ""
    #: Markdown below the sentence; of a note, its text
    detail: str = ""
    differences: list[FieldDifference] = []
    #: paths of pictures among the run's artifacts
    pictures: list[str] = []
    mentions: list[str] = []
    #: found by a rule over a curve: a hint, not a fact
    is_suggestion: bool = False
    #: of a note that its author changed later
    edited_ms: int | None = None


class LaneSpan(msgspec.Struct, frozen=True):
    """A stretch of a lane; a moment where both ends are the same."""

    from_ms: int
    to_ms: int
    label: str
    #: good, bad, warn, busy or plain
    tone: str
    attempt: int | None = None
    #: the entry that tells more, if any
    entry: str = ""


class TimelineLane(msgspec.Struct, frozen=True):
    """One line of the timeline."""

    name: str
    spans: list[LaneSpan]


class RunRef(msgspec.Struct, frozen=True):
    """A run that a logbook covers."""

    run_id: str
    name: str
    status: str
    #: how it goes back to the run before: restart of, fork of, resumed from; empty for the first
    relation: str = ""
    parent: str = ""


class Logbook(msgspec.Struct):
    """A logbook, the oldest entry first."""

    #: run, lineage or team
    subject: str
    #: run id or team
    id: str
    name: str
    entries: list[LogbookEntry]
    #: entries by kind, before the filter
    counts: dict[str, int]
    runs: list[RunRef] = []
    lanes: list[TimelineLane] = []
    since_ms: int | None = None
    until_ms: int | None = None
    #: where older entries begin; null if there are none
    before: int | None = None


def count_kinds(entries: Iterable[LogbookEntry]) -> dict[str, int]:
    """Count entries by kind."""
    found: dict[str, int] = {}
    for entry in entries:
        found[entry.kind] = found.get(entry.kind, 0) + 1
    return found


def select(
    entries: Iterable[LogbookEntry], *, kinds: Iterable[str] = (), query: str = ""
) -> list[LogbookEntry]:
    """Keep entries of some kinds that hold every word of a query, whatever its case."""
    wanted = set(kinds)
    words = query.casefold().split()
    return [
        entry
        for entry in entries
        if (not wanted or entry.kind in wanted) and all(word in _text(entry) for word in words)
    ]


def _text(entry: LogbookEntry) -> str:
    changed = " ".join(f"{one.name} {one.before} {one.after}" for one in entry.differences)
    parts = (entry.sentence, entry.detail, entry.actor, entry.run_name, entry.metric, changed)
    return " ".join(parts).casefold()
