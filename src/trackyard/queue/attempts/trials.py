"""Trials of a hyperparameter search inside a job, as the search itself tells them.

Owns `trials`. A trial is no job: the queue knows only the places that trials run in, as claims.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from trackyard.access.principal import Principal
from trackyard.core.errors import InvalidInput
from trackyard.queue.attempts.demand import speaker
from trackyard.queue.records import AttemptRow, JobRow
from trackyard.store.bounds import Free, Int64, Text, Word
from trackyard.store.database import ReadConnection, Tx

MAX_TRIALS = 10_000
#: Trials in one report, and characters of what describes one.
MAX_REPORT, MAX_CHARACTERS = 500, 16 * 1024
MAX_ERROR = 1000
OPEN_STATES = ("pending", "running", "paused")
STATES = (*OPEN_STATES, "terminated", "error")


class Trial(msgspec.Struct, forbid_unknown_fields=True):
    """One trial as it stands now."""

    trial: Word
    #: its place among the others, from 1
    number: Int64
    #: pending, running, paused, terminated or error
    state: Word
    params: Free = {}
    #: the last numbers that it reported
    metrics: Annotated[dict[Word, float | None], Meta(max_length=1000)] = {}
    iterations: Int64 = 0
    seconds: float = 0.0
    error: Text = ""


class TrialReport(msgspec.Struct, forbid_unknown_fields=True):
    """Trials that changed."""

    trials: Annotated[list[Trial], Meta(max_length=10_000)]
    #: the metric that the search goes by
    metric: Word = ""


class TrialReply(msgspec.Struct):
    """How many trials of the attempt are known now."""

    known: int


class TrialView(msgspec.Struct):
    """A trial in a job's page."""

    trial: str
    number: int
    attempt: int
    #: pending, running, paused, terminated or error; interrupted if its attempt is over
    state: str
    params: dict[str, Any]
    metrics: dict[str, float | None]
    #: the metric that the search goes by, and its last value
    metric: str
    value: float | None
    iterations: int
    seconds: float
    error: str


def report(tx: Tx, principal: Principal, told: TrialReport) -> TrialReply:
    """Keep what an attempt tells of its trials."""
    for trial in told.trials:
        _check(trial)
    if len(told.trials) > MAX_REPORT:
        raise InvalidInput(f"tell at most {MAX_REPORT} trials at once")
    attempt = speaker(tx, principal, lock=True)
    known = {row[0] for row in tx.all("SELECT trial FROM trials WHERE attempt = ?", (attempt.id,))}
    if len(known | {one.trial for one in told.trials}) > MAX_TRIALS:
        raise InvalidInput(f"of one attempt at most {MAX_TRIALS} trials are kept")
    for one in told.trials:
        _keep(tx, attempt, one, told.metric, is_known=one.trial in known)
        known.add(one.trial)
    return TrialReply(len(known))


def _check(trial: Trial) -> None:
    if not 1 <= len(trial.trial) <= 200 or not trial.trial.isprintable():
        raise InvalidInput("a trial's name must be 1 to 200 printable characters")
    if trial.state not in STATES:
        raise InvalidInput(f"state {trial.state[:40]!r} is none of {', '.join(STATES)}")
    if not (1 <= trial.number <= 2**31 and 0 <= trial.iterations <= 2**53):
        raise InvalidInput("number counts from 1, iterations from 0")
    if not 0 <= trial.seconds < 2**40:
        raise InvalidInput("seconds must not be negative")


def _keep(tx: Tx, attempt: AttemptRow, one: Trial, metric: str, *, is_known: bool) -> None:
    params, metrics = (msgspec.json.encode(part).decode() for part in (one.params, one.metrics))
    if len(params) + len(metrics) > MAX_CHARACTERS:
        raise InvalidInput(f"trial {one.trial} has more than {MAX_CHARACTERS} characters")
    values = (
        one.number,
        one.state,
        params,
        metrics,
        metric[:200],
        one.iterations,
        int(one.seconds * 1000),
        one.error[:MAX_ERROR],
        attempt.id,
        one.trial,
    )
    if is_known:
        tx.run(
            "UPDATE trials SET number = ?, state = ?, params = ?, metrics = ?, metric = ?,"
            " iterations = ?, ran_ms = ?, error = ? WHERE attempt = ? AND trial = ?",
            values,
        )
    else:
        tx.run(
            "INSERT INTO trials (number, state, params, metrics, metric, iterations, ran_ms,"
            " error, attempt, trial) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            values,
        )


def load_trials(reader: ReadConnection, job: JobRow) -> list[TrialView]:
    """Show the trials of a job's latest attempt that told of any."""
    rows = reader.all(
        "SELECT t.trial, t.number, a.number, t.state, t.params, t.metrics, t.metric,"
        " t.iterations, t.ran_ms, t.error, a.ended_ms FROM trials t"
        " JOIN attempts a ON a.id = t.attempt WHERE a.job = ? ORDER BY a.number DESC, t.number",
        (job.id,),
    )
    return [_view(row) for row in rows if row[2] == rows[0][2]]


def _view(row: Any) -> TrialView:
    metrics = msgspec.json.decode(row[5])
    is_cut = row[10] is not None and row[3] in OPEN_STATES
    return TrialView(
        trial=row[0],
        number=row[1],
        attempt=row[2],
        state="interrupted" if is_cut else row[3],
        params=msgspec.json.decode(row[4]),
        metrics=metrics,
        metric=row[6],
        value=metrics.get(row[6]),
        iterations=row[7],
        seconds=row[8] / 1000,
        error=row[9],
    )
