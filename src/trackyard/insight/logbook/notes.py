"""People's notes as events hold them: mentions, and folding later changes into them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from trackyard.insight.logbook.entries import LogbookEntry
from trackyard.insight.logbook.facts import EventFact
from trackyard.insight.logbook.words import person

NOTE_KINDS = ("note.added", "note.edited", "note.removed")
#: `@name`, not inside a word or an address such as ada@example.org.
_MENTION = re.compile(r"(?<![\w@./-])@([A-Za-z0-9](?:[A-Za-z0-9._-]{0,125}[A-Za-z0-9])?)")
#: Code is quoted, not spoken: decorators in it call nobody.
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
MAX_MENTIONS = 20


def mentioned(text: str) -> list[str]:
    """Return the names that a note calls by @name, each once."""
    names = dict.fromkeys(_MENTION.findall(_CODE.sub(" ", text)))
    return list(names)[:MAX_MENTIONS]


def note_entries(
    events: Iterable[EventFact], *, run_id: str = "", run_name: str = ""
) -> list[LogbookEntry]:
    """Return notes as entries: the latest text of each, without those that were removed."""
    found: dict[str, LogbookEntry] = {}
    for event in events:
        note = event.text("note")
        if event.kind == "note.added":
            about = event.subject_id if event.subject == "run" else run_id
            found[note] = _entry(event, about, run_name)
        elif event.kind == "note.removed":
            found.pop(note, None)
        elif event.kind == "note.edited" and note in found:
            found[note] = _edited(found[note], event)
    return list(found.values())


def _entry(event: EventFact, run_id: str, run_name: str) -> LogbookEntry:
    moment = event.number("at_ms")
    step = event.number("step")
    about = "" if step is None else f" about step {step:,}"
    return LogbookEntry(
        id=event.text("note"),
        time_ms=event.time_ms if moment is None else moment,
        kind="note",
        sentence=f"{person(event.actor)} noted{about}:",
        actor=event.actor,
        run_id=run_id,
        run_name=event.text("run_name") or run_name,
        step=step,
        detail=event.text("text"),
        pictures=event.words("pictures"),
        mentions=event.words("mentions"),
    )


def _edited(entry: LogbookEntry, event: EventFact) -> LogbookEntry:
    return LogbookEntry(
        id=entry.id,
        time_ms=entry.time_ms,
        kind="note",
        sentence=entry.sentence,
        actor=entry.actor,
        run_id=entry.run_id,
        run_name=entry.run_name,
        step=entry.step,
        detail=event.text("text"),
        pictures=event.words("pictures"),
        mentions=event.words("mentions"),
        edited_ms=event.time_ms,
    )
