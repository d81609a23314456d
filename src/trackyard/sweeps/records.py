"""Sweeps and their trials as rows: loading and changing them. Owns `sweeps` and `sweep_trials`.

Each change of a trial raises the version of its sweep, so that whoever keeps rows in memory knows
when they are old. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from trackyard.access.principal import Principal
from trackyard.core.errors import NotFound
from trackyard.core.ids import JOB_NAME, SWEEP_ID
from trackyard.queue.specification import JobRequest
from trackyard.store.database import ReadConnection, Tx
from trackyard.sweeps.space import Point
from trackyard.sweeps.wishes import SweepSpec

RUNNING, FINISHED, STOPPED, FAILED = "running", "finished", "stopped", "failed"
#: States of trials.
LIVE, COMPLETE, PRUNED, BROKEN, ENDED = "running", "complete", "pruned", "failed", "stopped"
SYSTEM = "system"

_decode_spec = msgspec.json.Decoder(SweepSpec).decode
_decode_wish = msgspec.json.Decoder(JobRequest).decode


class SweepRow(NamedTuple):
    """A sweep's row."""

    id: int
    sweep_id: str
    array_id: str
    team_id: int
    user_id: int | None
    user_name: str
    name: str
    state: str
    spec: str
    job: str
    sealed: str
    origin: str
    sentence: str
    created_ms: int
    spent_ms: int
    resumed_ms: int
    ended_ms: int | None
    version: int

    @property
    def asks(self) -> SweepSpec:
        """What the sweep is to do."""
        return _decode_spec(self.spec)

    @property
    def wish(self) -> JobRequest:
        """What each trial submits; values of variables may be sealed apart."""
        return _decode_wish(self.job)

    def elapsed_ms(self, now_ms: int) -> int:
        """For how long it has run in all."""
        return self.spent_ms + (max(0, now_ms - self.resumed_ms) if self.state == RUNNING else 0)


class TrialRow(NamedTuple):
    """A trial's row."""

    sweep: int
    number: int
    job: int
    state: str
    params: str
    attributes: str
    value: float | None
    step: int | None
    bracket: int
    rungs: str
    curve: str
    parent: int | None
    sentence: str
    gpu_seconds: float
    created_ms: int
    ended_ms: int | None

    @property
    def point(self) -> Point:
        """What was chosen for it."""
        found: Point = msgspec.json.decode(self.params)
        return found

    @property
    def at_rungs(self) -> dict[int, float]:
        """The metric at each rung it reached; one that was not a number is NaN."""
        told: dict[str, float | None] = msgspec.json.decode(self.rungs)
        return {int(at): float("nan") if v is None else v for at, v in told.items()}

    @property
    def points(self) -> list[tuple[int, float]]:
        """The metric over steps, thinned out."""
        told: list[tuple[int, float | None]] = msgspec.json.decode(self.curve)
        return [(step, float("nan") if value is None else value) for step, value in told]


SWEEP_COLUMNS = ", ".join(SweepRow._fields)
TRIAL_COLUMNS = ", ".join(TrialRow._fields)


def load_sweeps(
    reader: ReadConnection | Tx, where: str, params: Sequence[Any] = ()
) -> list[SweepRow]:
    """Return sweeps by a condition."""
    rows = reader.all(f"SELECT {SWEEP_COLUMNS} FROM sweeps WHERE {where}", params)
    return [SweepRow(*row) for row in rows]


def load_trials(reader: ReadConnection | Tx, sweep: int) -> list[TrialRow]:
    """Return every trial of a sweep, the first one first."""
    rows = reader.all(
        f"SELECT {TRIAL_COLUMNS} FROM sweep_trials WHERE sweep = ? ORDER BY number", (sweep,)
    )
    return [TrialRow(*row) for row in rows]


def live_trials(reader: ReadConnection | Tx, sweep: int, most: int) -> list[TrialRow]:
    """Return the first trials of a sweep that have not ended."""
    rows = reader.all(
        f"SELECT {TRIAL_COLUMNS} FROM sweep_trials WHERE sweep = ? AND state = ?"
        " ORDER BY number LIMIT ?",
        (sweep, LIVE, most),
    )
    return [TrialRow(*row) for row in rows]


def counts(reader: ReadConnection, sweeps: Sequence[int]) -> dict[int, dict[str, int]]:
    """Return how many trials of each sweep are in which state."""
    found: dict[int, dict[str, int]] = {sweep: {} for sweep in sweeps}
    if sweeps:
        marks = ",".join("?" * len(sweeps))
        for sweep, state, count in reader.all(
            f"SELECT sweep, state, count(*) FROM sweep_trials WHERE sweep IN ({marks})"
            " GROUP BY sweep, state",
            sweeps,
        ):
            found[sweep][state] = int(count)
    return found


def find_sweep(reader: ReadConnection | Tx, principal: Principal, text: str) -> SweepRow:
    """Return the sweep of an id, or the newest of a name, of the caller's team."""
    found: list[SweepRow] = []
    if SWEEP_ID.match(text):
        found = load_sweeps(reader, "sweep_id = ?", (text,))
        if found and found[0].team_id != principal.team_id and not principal.is_admin:
            found = []
    if not found and JOB_NAME.match(text):
        found = load_sweeps(
            reader,
            "team_id = ? AND (name = ? OR array_id = ?) ORDER BY id DESC LIMIT 1",
            (principal.team_id, text, text),
        )
    if not found:
        raise NotFound(
            f"no sweep {text[:80]!r} in team {principal.team}; `yard sweeps` lists them"
        )
    return found[0]


def lock_sweep(tx: Tx, inner: int) -> SweepRow:
    """Return a sweep as a transaction about to change it."""
    row = tx.one(
        f"SELECT {SWEEP_COLUMNS} FROM sweeps WHERE id = ?{tx.dialect.for_update}", (inner,)
    )
    assert row is not None
    return SweepRow(*row)


def insert(tx: Tx, table: str, **columns: Any) -> None:
    """Write a row of either table."""
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    tx.run(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(columns.values()))


def change_sweep(tx: Tx, inner: int, **columns: Any) -> None:
    """Change a sweep."""
    sets = "".join(f"{name} = ?, " for name in columns)
    tx.run(
        f"UPDATE sweeps SET {sets}version = version + 1 WHERE id = ?", (*columns.values(), inner)
    )


def change_trial(tx: Tx, sweep: int, number: int, **columns: Any) -> None:
    """Change a trial; the caller changes its sweep as well."""
    sets = ", ".join(f"{name} = ?" for name in columns)
    tx.run(
        f"UPDATE sweep_trials SET {sets} WHERE sweep = ? AND number = ?",
        (*columns.values(), sweep, number),
    )


def sweep_event(tx: Tx, kind: str, sweep: SweepRow, *, actor: str = SYSTEM, **facts: Any) -> None:
    """Record what happened to a sweep."""
    tx.event(
        kind,
        team_id=sweep.team_id,
        actor=actor,
        subject="sweep",
        subject_id=sweep.sweep_id,
        name=sweep.name,
        **facts,
    )


def end_sweep(
    tx: Tx, sweep: SweepRow, state: str, sentence: str, *, actor: str, **facts: Any
) -> None:
    """Bring a sweep to its end; it can be given more trials later."""
    change_sweep(
        tx,
        sweep.id,
        state=state,
        sentence=sentence,
        ended_ms=tx.now_ms,
        spent_ms=sweep.elapsed_ms(tx.now_ms),
    )
    sweep_event(tx, f"sweep.{state}", sweep, actor=actor, sentence=sentence, **facts)


def encode(value: Any) -> str:
    """Write a value as a column keeps it; NaN becomes null."""
    return msgspec.json.encode(value).decode()
