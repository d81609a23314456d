"""Writing notes: who may, what they may hold, and the events they are. A note has no row of its
own; the log holds it, so that a logbook needs nothing but events.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from trackyard.access.principal import Principal, Role
from trackyard.core.errors import Denied, InvalidInput, NotFound
from trackyard.core.ids import NOTE_ID, new_note_id
from trackyard.insight.logbook.notes import NOTE_KINDS, mentioned
from trackyard.store.database import ReadConnection, Tx
from trackyard.store.event_log import events_of
from trackyard.tracking.runs import find_active_run

MAX_TEXT, MAX_PICTURES = 20_000, 20
_PICTURE = re.compile(
    r"(?!/)(?!.*\.\.)[^\x00-\x1f\\]{1,500}\.(png|jpe?g|gif|webp)\Z", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class NotePlace:
    """What a note is about: a run of the team, or the team itself."""

    subject: str
    subject_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteDraft:
    """A note as it is written."""

    text: str
    step: int | None = None
    at_ms: int | None = None
    pictures: Sequence[str] = ()


def place_of(tx: Tx, principal: Principal, run_id: str | None) -> NotePlace:
    """Return where a note goes: a run that takes new data, or the caller's team."""
    if run_id is None:
        return NotePlace("team", principal.team)
    find_active_run(tx, principal, run_id)
    return NotePlace("run", run_id)


def add_note(
    tx: Tx, principal: Principal, place: NotePlace, draft: NoteDraft, members: Sequence[str]
) -> str:
    """Write a note and tell whom it names; return its id."""
    _check(place, draft)
    note = new_note_id()
    named = _named(draft.text, members)
    data = {"step": draft.step, "at_ms": draft.at_ms}
    _record(tx, "note.added", principal, place, note=note, draft=draft, named=named, **data)
    _tell(tx, principal, place, note=note, text=draft.text, named=named)
    return note


def edit_note(
    tx: Tx,
    principal: Principal,
    place: NotePlace,
    note: str,
    *,
    draft: NoteDraft,
    members: Sequence[str],
) -> None:
    """Change a note: its author or a maintainer may. Who was named before is not told again."""
    before = _find(tx, principal, place, note)
    _check(place, draft)
    named = _named(draft.text, members)
    _record(tx, "note.edited", principal, place, note=note, draft=draft, named=named)
    new = [one for one in named if one not in before]
    _tell(tx, principal, place, note=note, text=draft.text, named=new)


def remove_note(tx: Tx, principal: Principal, place: NotePlace, note: str) -> None:
    """Remove a note from its logbook; the log keeps that it was there."""
    _find(tx, principal, place, note)
    tx.event(
        "note.removed",
        team_id=principal.team_id,
        actor=principal.name,
        subject=place.subject,
        subject_id=place.subject_id,
        note=note,
    )


def _check(place: NotePlace, draft: NoteDraft) -> None:
    if not draft.text.strip():
        raise InvalidInput("a note needs a text; remove it to take it away")
    if len(draft.text) > MAX_TEXT:
        raise InvalidInput(f"a note holds at most {MAX_TEXT} characters; this has more")
    if draft.pictures and place.subject != "run":
        raise InvalidInput("pictures are artifacts of a run: write the note to that run")
    if len(draft.pictures) > MAX_PICTURES:
        raise InvalidInput(f"a note shows at most {MAX_PICTURES} pictures")
    for path in draft.pictures:
        if not _PICTURE.match(path):
            raise InvalidInput(
                f"{path[:80]!r} is no picture: name the path of a png, jpg, gif or webp file"
                " among the run's artifacts"
            )


def _named(text: str, members: Sequence[str]) -> list[str]:
    known = set(members)
    return [name for name in mentioned(text) if name in known]


def _record(
    tx: Tx,
    kind: str,
    principal: Principal,
    place: NotePlace,
    *,
    note: str,
    draft: NoteDraft,
    named: list[str],
    **more: int | None,
) -> None:
    tx.event(
        kind,
        team_id=principal.team_id,
        actor=principal.name,
        subject=place.subject,
        subject_id=place.subject_id,
        note=note,
        text=draft.text,
        pictures=list(draft.pictures),
        mentions=named,
        run_id=place.subject_id if place.subject == "run" else "",
        **more,
    )


def _tell(
    tx: Tx,
    principal: Principal,
    place: NotePlace,
    *,
    note: str,
    text: str,
    named: Sequence[str],
) -> None:
    for name in named:
        if name != principal.name:
            tx.event(
                "note.mentioned",
                team_id=principal.team_id,
                actor=principal.name,
                subject="user",
                subject_id=name,
                note=note,
                run_id=place.subject_id if place.subject == "run" else "",
                sentence=f"{principal.name} mentioned you: {text[:200]}",
            )


def _find(tx: Tx | ReadConnection, principal: Principal, place: NotePlace, note: str) -> list[str]:
    """Return whom a note named so far; refuse one that is not there or is another's."""
    missing = NotFound(f"no note {note[:40]!r} here; it may have been removed")
    if not NOTE_ID.match(note):
        raise missing
    rows = events_of(
        tx, place.subject, place.subject_id, team_id=principal.team_id, kinds=NOTE_KINDS
    )
    own = [row for row in rows if msgspec.json.decode(row.data).get("note") == note]
    if not own or own[-1].kind == "note.removed":
        raise missing
    if own[0].actor != principal.name and not principal.may(Role.maintainer):
        raise Denied("only its author or a maintainer of the team changes a note")
    return [name for row in own for name in msgspec.json.decode(row.data).get("mentions", [])]
