"""The tables of sweeps: searches over parameters whose trials are jobs.

Owns their shape; knows no query. Shares the metadata of `schema`, which imports this module.
"""

from __future__ import annotations

from sqlalchemy import Column, Float, Index, PrimaryKeyConstraint, Table, UniqueConstraint

from trackyard.store.schema.columns import big_id, integer, ref, words
from trackyard.store.schema.columns import metadata as shared

Table(
    "sweeps",
    shared,
    big_id(),
    words("sweep_id"),
    #: the array that the jobs of its trials form
    words("array_id"),
    ref("team_id", "teams.id"),
    integer("user_id", nullable=True),
    words("user_name"),
    words("name"),
    #: running, finished, stopped or failed
    words("state"),
    #: space, sampler, early stopping, budget; JSON of sweeps.wishes.SweepSpec
    words("spec"),
    #: what each trial submits; JSON of queue.specification.JobRequest, its variables sealed
    words("job"),
    words("sealed"),
    #: the sweep whose best trials this one searches around; empty: none
    words("origin"),
    #: what the controller last had to say: why it waits, why it ended
    words("sentence"),
    integer("created_ms"),
    #: time spent running before the last start, and that start; for a budget of time
    integer("spent_ms"),
    integer("resumed_ms"),
    integer("ended_ms", nullable=True),
    #: grows with every change of this row
    integer("version"),
    UniqueConstraint("sweep_id"),
    UniqueConstraint("array_id"),
    Index(None, "state"),
    Index(None, "team_id", "id"),
)
Table(
    "sweep_trials",
    shared,
    ref("sweep", "sweeps.id"),
    #: its place among the others from 0; the index of its job in the array
    integer("number"),
    ref("job", "jobs.id"),
    #: running (or waiting), complete, pruned, failed or stopped
    words("state"),
    #: JSON object of what was chosen
    words("params"),
    #: what the sampler must find again to go on; JSON object
    words("attributes"),
    #: the metric at its end, and at which step
    Column("value", Float(53), nullable=True),
    integer("step", nullable=True),
    #: the bracket of hyperband, and the values at rungs; JSON object of resource -> value
    integer("bracket"),
    words("rungs"),
    #: the metric over steps, thinned out; JSON list of [step, value]
    words("curve"),
    #: the trial whose checkpoint it began with
    integer("parent", nullable=True),
    #: why it ended, in one sentence
    words("sentence"),
    Column("gpu_seconds", Float(53), nullable=False),
    integer("created_ms"),
    integer("ended_ms", nullable=True),
    PrimaryKeyConstraint("sweep", "number"),
    Index(None, "job"),
)
