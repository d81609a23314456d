"""The arguments of MLflow's calls about traces, evaluation data sets and scorers, with their
bounds.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from trackyard.store.bounds import Free, Int64, Line, Lines, Rows, Text, Word

Documents = Annotated[list[Free], Meta(max_length=1000)]


class TraceCall(msgspec.Struct):
    """A call about traces: one described, one asked for, a search, a tag, an assessment."""

    trace: Free | None = None
    trace_id: Word = ""
    trace_ids: Rows | Word = []
    allow_partial: bool | Word = False
    locations: Documents = []
    filter: Line = ""
    order_by: Lines = []
    max_results: Int64 | None = None
    page_token: Line | None = None
    key: Line = ""
    value: Text = ""
    assessment: Free | None = None
    update_mask: Line = ""
    run_id: Word = ""
    experiment_id: Word = ""
    experiment_ids: Rows | Word = []
    request_ids: Rows = []
    max_timestamp_millis: Int64 | None = None
    max_traces: Int64 | None = None
    filter_string1: Line = ""
    filter_string2: Line = ""
    base_filter: Line = ""
    view_type: Word | Int64 | None = None
    metric_name: Word = ""
    aggregations: Documents = []
    dimensions: Lines = []
    filters: Lines = []
    time_interval_seconds: Int64 | None = None
    start_time_ms: Int64 | None = None
    end_time_ms: Int64 | None = None


class EvalDataset(msgspec.Struct):
    """A call about evaluation data sets."""

    name: Line = ""
    tags: Text = ""
    experiment_ids: Rows | Word = []
    records: Annotated[str, Meta(max_length=30_000_000)] = ""
    dataset_record_ids: Rows = []
    filter_string: Line = ""
    order_by: Lines = []
    max_results: Int64 | None = None
    page_token: Line | None = None


class Scorer(msgspec.Struct):
    """A call about scorers."""

    experiment_id: Word = ""
    name: Line = ""
    serialized_scorer: Annotated[str, Meta(max_length=2_000_000)] = ""
    version: Int64 | None = None
    scorer_ids: Rows | Word = []
