"""Reports: pages of Markdown about runs, shared within a team.

Owns the `reports` table, who may change a report and the check that nobody overwrites what they
have not seen. Knows nothing of what the blocks of a report mean: the pages draw them.
"""

from __future__ import annotations

import msgspec

from trackyard.access.principal import Principal, Role
from trackyard.core.errors import Conflict, InvalidInput, NotFound
from trackyard.core.ids import REPORT_ID, new_report_id
from trackyard.store.database import Database, ReadConnection, Tx

MAX_TITLE, MAX_TEXT, MAX_REPORTS = 200, 200_000, 2000
_COLUMNS = "report_id, title, version, user_name, changed_by, created_ms, changed_ms"


class ReportSummary(msgspec.Struct, kw_only=True, frozen=True):
    """A report in a list."""

    report_id: str
    title: str
    version: int
    #: who created it, and who saved it last
    user_name: str
    changed_by: str
    created_ms: int
    changed_ms: int


class Report(ReportSummary, kw_only=True, frozen=True):
    """A report with its text."""

    #: Markdown with fenced `runs` and `chart` blocks
    text: str


class Reports:
    """Reads and writes the reports of teams."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def list(self, principal: Principal) -> list[ReportSummary]:
        """Return the team's reports, the one changed last first."""

        def query(reader: ReadConnection) -> list[ReportSummary]:
            rows = reader.all(
                f"SELECT {_COLUMNS} FROM reports WHERE team_id = ?"
                " ORDER BY changed_ms DESC, id DESC",
                (principal.team_id,),
            )
            return [_summary(row) for row in rows]

        return await self._db.read(query)

    async def read(self, principal: Principal, report_id: str) -> Report:
        """Return one report."""
        return await self._db.read(lambda reader: _find(reader, principal, report_id))

    async def create(self, principal: Principal, title: str, text: str) -> Report:
        """Create a report."""
        principal.need(Role.member, "creating a report")
        named = _checked(title, text)

        def operation(tx: Tx) -> Report:
            counted = tx.one(
                "SELECT count(*) FROM reports WHERE team_id = ?", (principal.team_id,)
            )
            if counted is not None and counted[0] >= MAX_REPORTS:
                raise InvalidInput(f"a team keeps at most {MAX_REPORTS} reports; delete one first")
            report = Report(
                report_id=new_report_id(),
                title=named,
                text=text,
                version=1,
                user_name=principal.name,
                changed_by=principal.name,
                created_ms=tx.now_ms,
                changed_ms=tx.now_ms,
            )
            tx.run(
                f"INSERT INTO reports ({_COLUMNS}, text, team_id)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    report.report_id,
                    report.title,
                    report.version,
                    report.user_name,
                    report.changed_by,
                    report.created_ms,
                    report.changed_ms,
                    text,
                    principal.team_id,
                ),
            )
            _event(tx, "report.created", principal, report)
            return report

        return await self._db.write(operation)

    async def save(
        self, principal: Principal, report_id: str, title: str, text: str, *, version: int
    ) -> Report:
        """Change a report, unless someone else saved it after `version` was read."""
        principal.need(Role.member, "changing a report")
        named = _checked(title, text)

        def operation(tx: Tx) -> Report:
            held = _find(tx, principal, report_id)
            if held.title == named and held.text == text:
                return held
            if held.version != version:
                raise Conflict(
                    f"{held.changed_by} saved this report after you opened it (version"
                    f" {held.version}; yours began from {version}). Copy your text, reload the"
                    " report and make your change again"
                )
            saved = msgspec.structs.replace(
                held,
                title=named,
                text=text,
                version=version + 1,
                changed_by=principal.name,
                changed_ms=tx.now_ms,
            )
            tx.run(
                "UPDATE reports SET title = ?, text = ?, version = ?, changed_by = ?,"
                " changed_ms = ? WHERE report_id = ? AND team_id = ?",
                (
                    saved.title,
                    saved.text,
                    saved.version,
                    saved.changed_by,
                    saved.changed_ms,
                    report_id,
                    principal.team_id,
                ),
            )
            _event(tx, "report.updated", principal, saved)
            return saved

        return await self._db.write(operation)

    async def delete(self, principal: Principal, report_id: str) -> None:
        """Delete a report; someone else's takes a maintainer."""
        principal.need(Role.member, "deleting a report")

        def operation(tx: Tx) -> None:
            held = _find(tx, principal, report_id)
            if held.user_name != principal.name:
                principal.need(Role.maintainer, f"deleting a report of {held.user_name}'s")
            tx.run(
                "DELETE FROM reports WHERE report_id = ? AND team_id = ?",
                (report_id, principal.team_id),
            )
            _event(tx, "report.deleted", principal, held)

        await self._db.write(operation)


def _find(reader: ReadConnection | Tx, principal: Principal, report_id: str) -> Report:
    row = None
    if REPORT_ID.match(report_id):
        row = reader.one(
            f"SELECT {_COLUMNS}, text FROM reports WHERE report_id = ? AND team_id = ?",
            (report_id, principal.team_id),
        )
    if row is None:
        raise NotFound(
            f"there is no report {report_id[:40]!r} in team {principal.team}: it may have been"
            " deleted, or belong to another team"
        )
    return Report(**msgspec.structs.asdict(_summary(row[:7])), text=row[7])


def _summary(row: tuple[object, ...]) -> ReportSummary:
    names = _COLUMNS.split(", ")
    return msgspec.convert(dict(zip(names, row, strict=True)), ReportSummary)


def _checked(title: str, text: str) -> str:
    """Return the title as it is kept, or say what is wrong with a report."""
    named = " ".join(title.split())
    if not named:
        raise InvalidInput("a report needs a title")
    if len(named) > MAX_TITLE:
        raise InvalidInput(f"the title has {len(named)} characters; at most {MAX_TITLE} are kept")
    if "\x00" in title or "\x00" in text:
        raise InvalidInput("a report cannot hold the character NUL")
    return named


def _event(tx: Tx, kind: str, principal: Principal, report: ReportSummary) -> None:
    tx.event(
        kind,
        team_id=principal.team_id,
        actor=principal.name,
        subject="report",
        subject_id=report.report_id,
        name=report.title,
        version=report.version,
    )
