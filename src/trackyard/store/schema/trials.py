"""The table of trials: what a running attempt tells of its hyperparameter search.

Owns its shape; knows no query. Shares the metadata of `schema`, which imports this module.
"""

from __future__ import annotations

from sqlalchemy import PrimaryKeyConstraint, Table

from trackyard.store.schema.columns import integer, ref, words
from trackyard.store.schema.columns import metadata as shared

Table(
    "trials",
    shared,
    ref("attempt", "attempts.id"),
    #: what the search calls the trial, and its place among the others from 1
    words("trial"),
    integer("number"),
    #: pending, running, paused, terminated or error, as the search says it
    words("state"),
    #: what was chosen for it, and the last numbers it reported; JSON objects
    words("params"),
    words("metrics"),
    #: the metric that the search goes by; empty where it does not say
    words("metric"),
    integer("iterations"),
    integer("ran_ms"),
    words("error"),
    PrimaryKeyConstraint("attempt", "trial"),
)
