"""The logbooks themselves: of a run, of a lineage, of a team. Pure: the same facts give the same
entries, in the same order, with the same ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from trackyard.insight.logbook.attempts import ATTEMPT_KINDS, attempt_entries, gather
from trackyard.insight.logbook.curves import curve_entries
from trackyard.insight.logbook.differences import (
    diff_differences,
    difference_words,
    environment_differences,
    parameter_differences,
)
from trackyard.insight.logbook.entries import FieldDifference, LogbookEntry
from trackyard.insight.logbook.facts import EventFact, Parent, RunFacts
from trackyard.insight.logbook.notes import NOTE_KINDS, note_entries
from trackyard.insight.logbook.sentences import TEMPLATES, event_entries

#: Events that the logbook of a run reads, by kind.
RUN_KINDS = tuple(sorted({*TEMPLATES, *ATTEMPT_KINDS, *NOTE_KINDS}))
#: Of a team also; every metric name and file is left to the runs' own pages.
TEAM_KINDS = tuple(kind for kind in RUN_KINDS if kind not in ("run.updated", "run.inputs"))


def run_entries(facts: RunFacts) -> list[LogbookEntry]:
    """Write the logbook of one run."""
    # If a run has a job, the job's own events say when it began and ended.
    own = [
        event
        for event in facts.events
        if not (facts.job_id and event.kind in ("run.created", "run.finished"))
    ]
    known = {one.number: one for one in facts.attempts}
    found = _parent_entries(facts)
    found += event_entries([*own, *facts.around], run_id=facts.run_id, run_name=facts.name)
    found += attempt_entries(
        gather(own), known, run_id=facts.run_id, run_name=facts.name, rates=facts.rates
    )
    found += note_entries(own, run_id=facts.run_id, run_name=facts.name)
    found += curve_entries(facts)
    return in_order(found)


def lineage_entries(runs: Sequence[RunFacts]) -> list[LogbookEntry]:
    """Write the logbook of runs that go back to one another."""
    entries = [entry for facts in runs for entry in run_entries(facts)]
    # A node's event appears once, however many of the runs were on the node.
    return in_order({_key(entry): entry for entry in entries}.values())


def team_entries(events: Iterable[EventFact], names: Mapping[str, str]) -> list[LogbookEntry]:
    """Write the logbook of a team from its events; `names` are the runs' names by id."""
    known = list(events)
    with_job = {event.text("run_id") for event in known if event.subject == "job"}
    by_job: dict[str, list[EventFact]] = {}
    plain: list[EventFact] = []
    for event in known:
        if event.kind in ATTEMPT_KINDS and event.subject == "job":
            by_job.setdefault(event.subject_id, []).append(event)
        elif not (event.subject == "run" and event.subject_id in with_job) or (
            event.kind in NOTE_KINDS or event.kind.startswith("alert.")
        ):
            plain.append(event)
    found = [_named(entry, names) for entry in event_entries(plain)]
    for own in by_job.values():
        run_id = own[-1].text("run_id")
        name = names.get(run_id) or own[-1].text("name")
        made = attempt_entries(gather(own), {}, run_id=run_id, run_name=name)
        # Checkpoints would drown everything else on a team's page.
        found += [entry for entry in made if entry.kind != "checkpoint"]
    found += [_named(entry, names) for entry in note_entries(plain)]
    return in_order(found)


def in_order(entries: Iterable[LogbookEntry]) -> list[LogbookEntry]:
    """Sort entries by time; of one moment, by the order in which their events were written."""
    return sorted(entries, key=lambda entry: (entry.time_ms, _number(entry.id), entry.id))


def _key(entry: LogbookEntry) -> str:
    return entry.id if entry.kind in ("node", "lease") else f"{entry.run_id} {entry.id}"


def _number(entry_id: str) -> int:
    digits = entry_id[1:]
    return int(digits) if digits.isdigit() else 2**62


def _named(entry: LogbookEntry, names: Mapping[str, str]) -> LogbookEntry:
    name = entry.run_name or names.get(entry.run_id, "")
    if name == entry.run_name:
        return entry
    sentence = entry.sentence.replace(entry.run_id, name) if entry.run_id else entry.sentence
    return _replace(entry, run_name=name, sentence=sentence)


def _replace(entry: LogbookEntry, **changes: object) -> LogbookEntry:
    values = {name: getattr(entry, name) for name in entry.__struct_fields__}
    return LogbookEntry(**{**values, **changes})


def _parent_entries(facts: RunFacts) -> list[LogbookEntry]:
    """Return what differs from each run that this one came from."""
    found = []
    for parent in facts.parents:
        changed = _from_parent(facts, parent)
        words = f"Run {facts.name} is {_relation(parent.relation)} {parent.name}"
        more = difference_words(changed)
        begin = facts.start_ms or (facts.events[0].time_ms if facts.events else 0)
        found.append(
            LogbookEntry(
                id=f"p-{parent.run_id}",
                time_ms=begin,
                kind="config",
                sentence=f"{words}; changed: {more}."
                if more
                else f"{words}; nothing else changed.",
                run_id=facts.run_id,
                run_name=facts.name,
                differences=changed,
            )
        )
    return found


def _relation(relation: str) -> str:
    return {"restart of": "a restart of", "fork of": "a fork of"}.get(relation, relation)


def _from_parent(facts: RunFacts, parent: Parent) -> list[FieldDifference]:
    changed = parameter_differences(parent.params, facts.params)
    if parent.commit != facts.commit:
        before, after = parent.commit[:12], facts.commit[:12]
        changed.append(FieldDifference("commit", "git commit", before, after))
    changed += diff_differences(parent.diff, facts.diff)
    if parent.environment and facts.attempts:
        own = facts.attempts[0].environment
        # The commit is compared above: it is known of runs without a job, too.
        found = environment_differences(parent.environment, own)
        changed += [one for one in found if one.what != "commit"]
    return changed
