"""The tables of usage: budgets of teams, and months that were closed.

Owns their shape; knows no query. Shares the metadata of `schema`, which imports this module.
"""

from __future__ import annotations

from sqlalchemy import Column, Float, LargeBinary, PrimaryKeyConstraint, Table, Text

from trackyard.store.schema.columns import integer, ref, words
from trackyard.store.schema.columns import metadata as shared

Table(
    "budgets",
    shared,
    ref("team_id", "teams.id"),
    #: what the team and the teams below it may use in a calendar month; null: no limit of the kind
    Column("gpu_hours", Float(53), nullable=True),
    Column("cost", Float(53), nullable=True),
    #: part of the budget from which on people are warned
    Column("warn_at", Float(53), nullable=True),
    #: 1: beyond it no job of the team starts
    integer("hold"),
    #: what was used of it when it was last counted: in which month, how much, when
    words("month"),
    Column("used_gpu_hours", Float(53), nullable=False),
    Column("used_cost", Float(53), nullable=False),
    integer("counted_ms"),
    #: ok, warned or exhausted
    words("state"),
    integer("updated_ms"),
    PrimaryKeyConstraint("team_id"),
)
Table(
    "closed_months",
    shared,
    #: as in 2026-10
    Column("month", Text, primary_key=True),
    integer("closed_ms"),
    words("actor"),
    #: the month's usage as it was then, with the rates of that day; packed by insight.months
    Column("data", LargeBinary, nullable=False),
)
