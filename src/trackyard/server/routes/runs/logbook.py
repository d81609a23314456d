"""Logbooks over HTTP: of runs, lineages and teams, digests, notes, and why a run got worse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from trackyard.core.errors import InvalidInput
from trackyard.insight.logbook import loader
from trackyard.insight.logbook.books import lineage_entries, team_entries
from trackyard.insight.logbook.digest import ActivityDigest, month_of, week_of
from trackyard.insight.logbook.entries import (
    KINDS,
    Logbook,
    RunRef,
    count_kinds,
    select,
)
from trackyard.insight.logbook.facts import RunFacts
from trackyard.insight.logbook.notebook import (
    NoteDraft,
    add_note,
    edit_note,
    place_of,
    remove_note,
)
from trackyard.insight.logbook.render import (
    digest_html,
    digest_markdown,
    logbook_html,
    logbook_markdown,
)
from trackyard.insight.logbook.timeline import lanes_of
from trackyard.insight.logbook.why_worse import WhyWorse, explain
from trackyard.server.http.messages import RawJSON, Request, Response
from trackyard.server.routes.body import decode
from trackyard.server.routing import Permission, Route
from trackyard.server.services import Services
from trackyard.store.bounds import Int64, Line, Word
from trackyard.store.database import ReadConnection, Tx

DEFAULT_ENTRIES, MAX_ENTRIES = 500, 5000
WEEK_MS = 7 * 86_400_000
#: A month of a large team may be read for longer than a page.
DIGEST_SECONDS = 30.0
_FORMATS = ("json", "markdown", "html")


class NoteIn(msgspec.Struct, forbid_unknown_fields=True):
    """A note, or its new text."""

    #: Markdown; `@name` tells a member of the team
    text: Line
    #: what it is about, if not this moment
    step: Int64 | None = None
    at_ms: Int64 | None = None
    #: paths of pictures among the run's artifacts
    pictures: Annotated[list[Word], Meta(max_length=20)] = []


class NoteOut(msgspec.Struct):
    """A note that was written: the id of its entry."""

    id: str


class LogbookRoutes:
    """Handlers of logbooks."""

    def __init__(self, services: Services) -> None:
        self._db = services.database
        self._clock = services.clock
        self._directory = services.directory

    async def of_run(self, request: Request) -> Response:
        """GET /api/v1/runs/{run_id}/logbook."""
        principal, run_id = request.principal, request.params["run_id"]
        whole = request.arg("lineage") in ("1", "true")
        wish, now = _EntryQuery(request), self._clock.time_ms()

        def load(reader: ReadConnection) -> bytes:
            if whole:
                facts = loader.load_lineage_facts(reader, principal, run_id)
            else:
                facts = [loader.load_run_facts(reader, principal, run_id)]
            own = next(one for one in facts if one.run_id == run_id)
            entries = lineage_entries(facts)
            book = Logbook(
                subject="lineage" if whole else "run",
                id=run_id,
                name=own.name,
                entries=entries,
                counts=count_kinds(entries),
                runs=[_ref(one) for one in facts],
                lanes=lanes_of(facts, entries, now),
            )
            return wish.write(book)

        return wish.answer(await self._db.read(load), f"logbook-{run_id}")

    async def of_team(self, request: Request) -> Response:
        """GET /api/v1/logbook: the caller's team, by default its last seven days."""
        principal, wish, now = request.principal, _EntryQuery(request), self._clock.time_ms()
        until = request.number("until_ms", now + 1)
        since = request.number("since_ms", max(0, until - WEEK_MS))
        before = request.number("before", 0) or None

        def load(reader: ReadConnection) -> bytes:
            events, older = loader.load_team_events(reader, principal, since, until, before)
            names = loader.load_run_names(reader, principal, events)
            entries = team_entries(events, names)
            book = Logbook(
                subject="team",
                id=principal.team,
                name=principal.team,
                entries=entries,
                counts=count_kinds(entries),
                since_ms=since,
                until_ms=until,
                before=older,
            )
            return wish.write(book)

        return wish.answer(await self._db.read(load), f"logbook-{principal.team}")

    async def digest(self, request: Request) -> Response:
        """GET /api/v1/logbook/digest: a week or a month of the caller's team."""
        principal, now = request.principal, self._clock.time_ms()
        month, week = request.arg("month"), request.arg("week")
        if month is not None and week is not None:
            raise InvalidInput("ask for a week or for a month, not for both")
        period = month_of(month, now) if month is not None else week_of(week or "", now)
        shape = _format(request)

        def load(reader: ReadConnection) -> bytes:
            found = loader.load_digest(reader, principal, period, now)
            writers: dict[str, Callable[[ActivityDigest], str]] = {
                "markdown": digest_markdown,
                "html": digest_html,
            }
            if shape in writers:
                return writers[shape](found).encode()
            return msgspec.json.encode(found)

        answer = await self._db.read(load, seconds=DIGEST_SECONDS)
        return _shaped(answer, shape, f"digest-{principal.team}-{period.name}")

    async def why(self, request: Request) -> Response:
        """GET /api/v1/runs/{run_id}/why-worse."""
        principal, run_id = request.principal, request.params["run_id"]
        if request.arg("step") is None:
            raise InvalidInput("name the step at which it got worse: ?step=1200")
        step, metric = request.number("step", 0), (request.arg("metric") or "")[:1000]

        def load(reader: ReadConnection) -> bytes:
            found = loader.load_moment(reader, principal, run_id, step=step, metric=metric)
            return msgspec.json.encode(explain(found))

        return RawJSON(await self._db.read(load))

    async def add(self, request: Request) -> Response:
        """POST a note to a run, or to the caller's team."""
        note = await decode(request, NoteIn)
        principal, run_id = request.principal, request.params.get("run_id")
        members, draft = await self._members(request), _draft(note)

        def change(tx: Tx) -> str:
            place = place_of(tx, principal, run_id)
            return add_note(tx, principal, place, draft, members)

        made = await self._db.write(change)
        return RawJSON(msgspec.json.encode(NoteOut(made)))

    async def edit(self, request: Request) -> Response:
        """PUT a note's new text."""
        given = await decode(request, NoteIn)
        principal, run_id = request.principal, request.params.get("run_id")
        note, members, draft = request.params["note"], await self._members(request), _draft(given)

        def change(tx: Tx) -> None:
            place = place_of(tx, principal, run_id)
            edit_note(tx, principal, place, note, draft=draft, members=members)

        await self._db.write(change)
        return RawJSON(msgspec.json.encode(NoteOut(note)))

    async def remove(self, request: Request) -> Response:
        """DELETE a note."""
        principal, run_id = request.principal, request.params.get("run_id")
        note = request.params["note"]

        def change(tx: Tx) -> None:
            remove_note(tx, principal, place_of(tx, principal, run_id), note)

        await self._db.write(change)
        return RawJSON(msgspec.json.encode(NoteOut(note)))

    async def _members(self, request: Request) -> Sequence[str]:
        rows = await self._directory.members(request.principal.team_id)
        return [row["user"] for row in rows]


class _EntryQuery:
    """Which entries a caller wants, and in which form."""

    def __init__(self, request: Request) -> None:
        self.kinds = request.query.get("kind", [])
        self.query = (request.arg("q") or "")[:1000]
        self.limit = request.number("limit", DEFAULT_ENTRIES)
        self.format = _format(request)
        if not 1 <= self.limit <= MAX_ENTRIES:
            raise InvalidInput(f"limit must be between 1 and {MAX_ENTRIES}")
        unknown = [kind for kind in self.kinds if kind not in KINDS]
        if unknown:
            raise InvalidInput(f"no kind {unknown[0][:40]!r}; kinds are {', '.join(KINDS)}")

    def write(self, book: Logbook) -> bytes:
        """Filter a logbook and write it down."""
        chosen = select(book.entries, kinds=self.kinds, query=self.query)
        book.entries = chosen[-self.limit :]
        if self.format == "markdown":
            return logbook_markdown(book).encode()
        if self.format == "html":
            return logbook_html(book).encode()
        return msgspec.json.encode(book)

    def answer(self, body: bytes, name: str) -> Response:
        """Return the body in its form."""
        return _shaped(body, self.format, name)


def _format(request: Request) -> str:
    shape = request.arg("format") or "json"
    if shape not in _FORMATS:
        raise InvalidInput(f"no format {shape[:40]!r}; formats are {', '.join(_FORMATS)}")
    return shape


def _shaped(body: bytes, shape: str, name: str) -> Response:
    if shape == "json":
        return RawJSON(body)
    kind, end = ("text/html", "html") if shape == "html" else ("text/markdown", "md")
    # Never shown as a page of this origin: notes are other people's words.
    return Response(
        body,
        headers=[
            ("content-type", f"{kind}; charset=utf-8"),
            ("content-disposition", f'attachment; filename="{name}.{end}"'),
        ],
    )


def _draft(note: NoteIn) -> NoteDraft:
    return NoteDraft(text=note.text, step=note.step, at_ms=note.at_ms, pictures=note.pictures)


def _ref(facts: RunFacts) -> RunRef:
    parent = facts.parents[0] if facts.parents else None
    return RunRef(
        run_id=facts.run_id,
        name=facts.name,
        status=facts.status,
        relation=parent.relation if parent else "",
        parent=parent.run_id if parent else "",
    )


_ENTRIES = {
    "kind": f"kind of entry: {', '.join(KINDS)}; may be repeated",
    "q": "words that an entry must hold",
    "limit": f"entries at most, the latest; {DEFAULT_ENTRIES} unless told, {MAX_ENTRIES} at most",
    "format": "json (default), markdown or html",
}


def routes(services: Services) -> list[Route]:
    """Return the logbook's routes."""
    do, read, log = LogbookRoutes(services), Permission.READ, Permission.LOG
    found = [
        Route(
            method="GET",
            path="/api/v1/runs/{run_id}/logbook",
            handler=do.of_run,
            permission=read,
            gives=Logbook,
            query={"lineage": "1 for the runs it goes back to and that go back to it", **_ENTRIES},
        ),
        Route(
            method="GET",
            path="/api/v1/runs/{run_id}/why-worse",
            handler=do.why,
            permission=read,
            gives=WhyWorse,
            query={"step": "where it got worse", "metric": "its curve; a loss unless told"},
        ),
        Route(
            method="GET",
            path="/api/v1/logbook",
            handler=do.of_team,
            permission=read,
            gives=Logbook,
            query={
                "since_ms": "from when on; seven days before the end unless told",
                "until_ms": "until when; now unless told",
                "before": "`before` of the page that came first, for older entries",
                **_ENTRIES,
            },
        ),
        Route(
            method="GET",
            path="/api/v1/logbook/digest",
            handler=do.digest,
            permission=read,
            gives=ActivityDigest,
            query={
                "week": "this (default), last, or as in 2026-W46",
                "month": "this, last, or as in 2026-11",
                "format": "json (default), markdown or html",
            },
        ),
    ]
    for path in ("/api/v1/runs/{run_id}/notes", "/api/v1/logbook/notes"):
        one = f"{path}/{{note}}"
        written: dict[str, Any] = {"permission": log, "takes": NoteIn, "gives": NoteOut}
        found += [
            Route(method="POST", path=path, handler=do.add, **written),
            Route(method="PUT", path=one, handler=do.edit, **written),
            Route(method="DELETE", path=one, handler=do.remove, permission=log, gives=NoteOut),
        ]
    return found
