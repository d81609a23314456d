"""Budgets: what a team and the teams below it may use in a calendar month (UTC).

Owns `budgets`: the amounts, how much was used when that was last counted, and the events when a
team comes near its budget, beyond it or back. Who counts is elsewhere; here it is written down,
and the queue is told whose jobs it must not start.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from trackyard.access.directory import team_id_of
from trackyard.core.errors import InvalidInput
from trackyard.scheduling.snapshot import BudgetHold
from trackyard.store.database import ReadConnection, Tx

OK, WARNED, EXHAUSTED = "ok", "warned", "exhausted"
_KINDS = {OK: "budget.restored", WARNED: "budget.warned", EXHAUSTED: "budget.exhausted"}
_Amount = Annotated[float, Meta(ge=0, le=1e12)]


class TeamBudget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a team may use in a month; null means no limit of that kind."""

    gpu_hours: _Amount | None = None
    #: in the rate card's currency
    cost: _Amount | None = None
    #: part of it from which on people are warned
    warn_at: Annotated[float, Meta(gt=0, le=1)] = 0.8
    #: whether jobs wait once it is used up, or people are only told
    hold: bool = True


class BudgetRow(NamedTuple):
    """A budget and what was used of it."""

    team: str
    budget: TeamBudget
    month: str
    used_gpu_hours: float
    used_cost: float
    counted_ms: int
    state: str

    @property
    def used_ratio(self) -> float:
        """The greater of the parts used."""
        parts = [
            used / limit if limit else 1.0
            for used, limit in (
                (self.used_gpu_hours, self.budget.gpu_hours),
                (self.used_cost, self.budget.cost),
            )
            if limit is not None
        ]
        return max(parts, default=0.0)


def month_of(ms: int) -> str:
    """Return the month of a moment, as in 2026-10."""
    return datetime.fromtimestamp(ms / 1000, tz=UTC).strftime("%Y-%m")


def month_bounds(month: str) -> tuple[int, int]:
    """Return the first moment of a month and of the next one, in ms."""
    try:
        first = datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
    except ValueError:
        raise InvalidInput(f"{month[:40]!r} is no month: write it as in 2026-10") from None
    year, number = (first.year + 1, 1) if first.month == 12 else (first.year, first.month + 1)
    if year > 9999:
        raise InvalidInput(f"{month[:40]!r} lies too far ahead")
    after = first.replace(year=year, month=number)
    return int(first.timestamp() * 1000), int(after.timestamp() * 1000)


def load_budgets(reader: ReadConnection | Tx) -> list[BudgetRow]:
    """Return every team's budget."""
    rows = reader.all(
        "SELECT t.name, b.gpu_hours, b.cost, b.warn_at, b.hold, b.month, b.used_gpu_hours,"
        " b.used_cost, b.counted_ms, b.state FROM budgets b JOIN teams t ON t.id = b.team_id"
        " ORDER BY t.name"
    )
    return [
        BudgetRow(
            row[0],
            TeamBudget(gpu_hours=row[1], cost=row[2], warn_at=row[3], hold=bool(row[4])),
            *row[5:],
        )
        for row in rows
    ]


def set_budget(tx: Tx, team: str, budget: TeamBudget, *, actor: str) -> None:
    """Give a team a budget, or another one; without any amount it has none."""
    team_id = team_id_of(tx, team)
    if budget.gpu_hours is None and budget.cost is None:
        tx.run("DELETE FROM budgets WHERE team_id = ?", (team_id,))
    else:
        tx.run(
            "INSERT INTO budgets (team_id, gpu_hours, cost, warn_at, hold, month, used_gpu_hours,"
            " used_cost, counted_ms, state, updated_ms)"
            " VALUES (?, ?, ?, ?, ?, '', 0, 0, 0, 'ok', ?)"
            " ON CONFLICT (team_id) DO UPDATE SET gpu_hours = excluded.gpu_hours,"
            " cost = excluded.cost, warn_at = excluded.warn_at, hold = excluded.hold,"
            " updated_ms = excluded.updated_ms",
            (
                team_id,
                budget.gpu_hours,
                budget.cost,
                budget.warn_at,
                int(budget.hold),
                tx.now_ms,
            ),
        )
    tx.event(
        "budget.set",
        team_id=team_id,
        actor=actor,
        subject="team",
        subject_id=team,
        **msgspec.to_builtins(budget),
    )


def note_use(tx: Tx, team: str, month: str, *, gpu_hours: float, cost: float) -> bool:
    """Write down what a team has used; say so where that changes something. Return whether."""
    row = next((one for one in load_budgets(tx) if one.team == team), None)
    if row is None:
        return False
    now = row._replace(month=month, used_gpu_hours=gpu_hours, used_cost=cost)
    state = _state(now)
    before = row.state if row.month == month else OK
    team_id = team_id_of(tx, team)
    tx.run(
        "UPDATE budgets SET month = ?, used_gpu_hours = ?, used_cost = ?, counted_ms = ?,"
        " state = ? WHERE team_id = ?",
        (month, gpu_hours, cost, tx.now_ms, state, team_id),
    )
    if state == before:
        return row.month != month and row.state != OK
    used, limit = _words(now)
    tx.event(
        _KINDS[state],
        team_id=team_id,
        actor="system",
        subject="team",
        subject_id=team,
        month=month,
        used_gpu_hours=round(gpu_hours, 3),
        used_cost=round(cost, 2),
        sentence=_sentence(now, state, used, limit),
    )
    return True


def _state(row: BudgetRow) -> str:
    if row.used_ratio >= 1:
        return EXHAUSTED
    return WARNED if row.used_ratio >= row.budget.warn_at else OK


def _sentence(row: BudgetRow, state: str, used: str, limit: str) -> str:
    head = f"Team {row.team} has used {used} of its budget of {limit} in {row.month}"
    if state != EXHAUSTED:
        return f"{head}."
    after = "its waiting jobs stay queued" if row.budget.hold else "its jobs go on"
    return f"{head}; {after}."


def _words(row: BudgetRow) -> tuple[str, str]:
    """Say what was used and what may be, of the kind that is used the most."""
    hours, cost = row.budget.gpu_hours, row.budget.cost
    by_cost = cost is not None and (
        hours is None or row.used_cost * hours >= row.used_gpu_hours * cost
    )
    if by_cost:
        return f"{row.used_cost:.2f}", f"{cost:.2f}"
    return f"{row.used_gpu_hours:.1f} GPU-hours", f"{hours:g}"


def budget_holds(
    reader: ReadConnection | Tx, parents: Mapping[str, str], now_ms: int
) -> dict[str, BudgetHold]:
    """Return the teams whose jobs must not start, for their own budget or a department's."""
    month = month_of(now_ms)
    spent = {
        row.team: row
        for row in load_budgets(reader)
        if row.budget.hold and row.month == month and row.used_ratio >= 1
    }
    if not spent:
        return {}
    until = month_bounds(month)[1] / 1000
    found = {}
    for team in parents:
        at, seen = team, set[str]()
        while at and at not in spent and at not in seen:
            seen.add(at)
            at = parents.get(at, "")
        if at in spent:
            used, limit = _words(spent[at])
            found[team] = BudgetHold(team=at, used=used, budget=limit, until=until)
    return found


def within(team: str, parents: Mapping[str, str]) -> list[str]:
    """Return a team and every department above it."""
    way = [team]
    while (above := parents.get(way[-1], "")) and above not in way:
        way.append(above)
    return way


def as_json(row: BudgetRow) -> dict[str, Any]:
    """Return a budget as plain values."""
    return {
        "team": row.team,
        **msgspec.to_builtins(row.budget),
        "month": row.month,
        "used_gpu_hours": round(row.used_gpu_hours, 4),
        "used_cost": round(row.used_cost, 4),
        "used_ratio": round(row.used_ratio, 4),
        "counted_ms": row.counted_ms,
        "state": row.state,
    }
