"""Figures over many traces: counts, latencies and tokens by group and by time, and how two filters
go together. Owns the arithmetic; changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from trackyard.core.errors import InvalidInput
from trackyard.store.database import ReadConnection
from trackyard.tracking.search.sql import Fragment, join
from trackyard.tracking.search.traces import count_traces, matching

#: Rows that one question may look at.
MOST_ROWS = 200_000
MOST_POINTS = 1000
TIME_BUCKET = "time_bucket"
TOKENS_KEY = "mlflow.trace.tokenUsage"
SESSION_KEY = "mlflow.trace.session"
_TOKENS = (
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)
_NUMBERS = ("SUM", "AVG", "PERCENTILE")
_SPAN_GROUPS = ("span_name", "span_type", "span_status")
#: view -> metric -> its aggregations and the dimensions it may be grouped by
_METRICS: dict[str, dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "TRACES": {
        "trace_count": (("COUNT",), ("trace_name", "trace_status")),
        "session_count": (("COUNT",), ()),
        "latency": (("AVG", "PERCENTILE"), ("trace_name",)),
        **dict.fromkeys(_TOKENS, (_NUMBERS, ("trace_name",))),
    },
    "SPANS": {
        "span_count": (("COUNT",), _SPAN_GROUPS),
        "latency": (("AVG", "PERCENTILE"), _SPAN_GROUPS),
    },
    "ASSESSMENTS": {
        "assessment_count": (("COUNT",), ("assessment_name", "assessment_value")),
        "assessment_value": (("AVG", "PERCENTILE"), ("assessment_name",)),
    },
}
_VIEWS = ("", "TRACES", "SPANS", "ASSESSMENTS")
_AGGREGATIONS = ("", "COUNT", "SUM", "AVG", "PERCENTILE")
#: One fact: when, its groups, and its number; a count has none.
Fact = tuple[int, dict[str, str], float | str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of traces, spans or assessments."""

    view: str
    metric: str
    #: kinds of aggregation, each with a percentile where it is one
    aggregations: tuple[tuple[str, float], ...]
    dimensions: tuple[str, ...]
    filters: tuple[str, ...] = ()
    interval_ms: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None


def read_question(
    *,
    view: Any,
    metric: str,
    aggregations: Sequence[dict[str, Any]],
    dimensions: Sequence[str],
    filters: Sequence[str],
    interval_seconds: int | None,
    start_ms: int | None,
    end_ms: int | None,
) -> Question:
    """Check a question by what each metric allows."""
    named = _by_number(view, _VIEWS)
    known = _METRICS.get(named)
    if known is None:
        raise InvalidInput("Missing value for required parameter 'view_type'.")
    if metric not in known:
        raise InvalidInput(f"metric_name must be one of {sorted(known)}, got {metric[:80]!r}")
    allowed, groups = known[metric]
    wanted = []
    for one in aggregations:
        kind = _by_number(one.get("aggregation_type"), _AGGREGATIONS)
        share = one.get("percentile_value")
        if kind not in allowed:
            raise InvalidInput(f"aggregation_type must be one of {list(allowed)}, got {kind!r}")
        if kind == "PERCENTILE" and not (isinstance(share, int | float) and 0 <= share <= 100):
            raise InvalidInput("percentile_value is a number from 0 to 100")
        wanted.append((kind, float(share or 0)))
    if not wanted:
        raise InvalidInput("Missing value for required parameter 'aggregations'.")
    for name in dimensions:
        if name not in groups:
            raise InvalidInput(f"dimensions must be among {list(groups)}, got {name[:80]!r}")
    if interval_seconds is not None and (interval_seconds < 1 or None in (start_ms, end_ms)):
        raise InvalidInput("time_interval_seconds needs start_time_ms and end_time_ms")
    return Question(
        view=named,
        metric=metric,
        aggregations=tuple(wanted),
        dimensions=tuple(dimensions),
        filters=tuple(_plain(text) for text in filters),
        interval_ms=None if interval_seconds is None else interval_seconds * 1000,
        start_ms=start_ms,
        end_ms=end_ms,
    )


def query(
    reader: ReadConnection, team_id: int, experiments: Sequence[int], question: Question
) -> list[dict[str, Any]]:
    """Return the figures, one point a group, in the order of the groups."""
    where = matching(reader, team_id, experiments, question.filters)
    groups: dict[tuple[str, ...], list[float | str | None]] = {}
    names = (*([TIME_BUCKET] if question.interval_ms else []), *question.dimensions)
    for time_ms, said, number in _FACTS[question.view](reader, where, question):
        place = dict(said)
        if question.interval_ms:
            place[TIME_BUCKET] = str(time_ms // question.interval_ms * question.interval_ms)
        groups.setdefault(tuple(place.get(name, "") for name in names), []).append(number)
    return [
        {
            "metric_name": question.metric,
            "dimensions": dict(zip(names, place, strict=True)),
            "values": dict(
                _aggregate(kind, share, groups[place]) for kind, share in question.aggregations
            ),
        }
        for place in sorted(groups)
    ]


def correlate(
    reader: ReadConnection,
    team_id: int,
    experiments: Sequence[int],
    filters: tuple[str, str],
    base: str | None,
) -> dict[str, Any]:
    """Count traces by two filters and tell how far these go together (NPMI)."""
    first, second = filters

    def count(*texts: str) -> int:
        return count_traces(reader, matching(reader, team_id, experiments, [base, *texts]))

    total, one, two, both = count(), count(first), count(second), count(first, second)
    answer: dict[str, Any] = {
        "filter1_count": one,
        "filter2_count": two,
        "joint_count": both,
        "total_count": total,
    }
    if one and two:
        answer["npmi"] = -1.0 if not both else _npmi(both, one, two, total, prior=0.0)
        answer["npmi_smoothed"] = _npmi(both, one, two, total, prior=0.5)
    return answer


def _npmi(both: int, one: int, two: int, total: int, *, prior: float) -> float:
    """Return the normalised pointwise mutual information of a table of four counts."""
    cells = [both, one - both, two - both, total - one - two + both]
    whole = sum(cells) + 4 * prior
    joint = (both + prior) / whole
    first, second = (one + 2 * prior) / whole, (two + 2 * prior) / whole
    if joint >= 1:
        return 1.0
    found = math.log(joint / (first * second)) / -math.log(joint)
    return max(-1.0, min(1.0, found))


def _by_number(value: Any, names: tuple[str, ...]) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < len(names):
        return names[value]
    return value if isinstance(value, str) else ""


def _plain(text: str) -> str:
    """Return a filter of figures in the language of searches, which has no `trace.tag.`."""
    for entity in ("tag", "metadata"):
        text = text.replace(f"trace.{entity}.", f"{entity}.")
    return text


def _aggregate(kind: str, share: float, numbers: list[Any]) -> tuple[str, float]:
    if kind == "COUNT":
        distinct = {one for one in numbers if isinstance(one, str)}
        return kind, len(distinct) if distinct else len(numbers)
    values = np.array([one for one in numbers if one is not None], dtype=float)
    name = f"P{share:g}" if kind == "PERCENTILE" else kind
    if not len(values):
        return name, 0.0
    if kind == "SUM":
        return name, float(values.sum())
    return name, float(values.mean() if kind == "AVG" else np.percentile(values, share))


def _times(question: Question, column: str) -> Fragment:
    bounds = [
        Fragment(f"{column} {sign} ?", (bound,))
        for sign, bound in ((">=", question.start_ms), ("<=", question.end_ms))
        if bound is not None
    ]
    return join("AND", bounds)


def _rows(reader: ReadConnection, columns: str, source: str, parts: list[Fragment]) -> list[Any]:
    where = join("AND", parts)
    rows = reader.all(
        f"SELECT {columns} FROM {source} WHERE {where.sql} LIMIT {MOST_ROWS + 1}", where.params
    )
    if len(rows) > MOST_ROWS:
        raise InvalidInput(
            f"the question is about more than {MOST_ROWS} rows; ask for a shorter time"
        )
    return rows


def _trace_facts(reader: ReadConnection, where: Fragment, question: Question) -> Iterator[Fact]:
    parts, metric = [where, _times(question, "t.time_ms")], question.metric
    source, number = "traces t", "t.duration_ms"
    if metric in (*_TOKENS, "session_count"):
        key = SESSION_KEY if metric == "session_count" else TOKENS_KEY
        source += " JOIN trace_metadata m ON m.trace_id = t.id"
        parts.append(Fragment("m.key = ?", (key,)))
        number = "m.value"
    for time_ms, name, state, value in _rows(
        reader, f"t.time_ms, t.name, t.state, {number}", source, parts
    ):
        said = {"trace_name": name, "trace_status": state}
        if metric == "trace_count":
            yield time_ms, said, None
            continue
        found = _token_count(value, metric) if metric in _TOKENS else value
        if found is not None:
            yield time_ms, said, found


def _token_count(text: str, metric: str) -> float | None:
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    value = found.get(metric) if isinstance(found, dict) else None
    return float(value) if isinstance(value, int | float) else None


def _span_facts(reader: ReadConnection, where: Fragment, question: Question) -> Iterator[Fact]:
    parts = [where, _times(question, "(s.start_ns / 1000000)")]
    source = "traces t JOIN trace_spans s ON s.trace_id = t.id"
    for start_ns, data in _rows(reader, "s.start_ns, s.data", source, parts):
        span = msgspec.json.decode(data)
        said = {
            "span_name": str(span.get("name", "")),
            "span_status": str((span.get("status") or {}).get("code", "")).removeprefix(
                "STATUS_CODE_"
            ),
            "span_type": _span_type(span),
        }
        end = span.get("end_time_unix_nano")
        took = (int(end) - start_ns) / 1e6 if end else None
        yield start_ns // 1_000_000, said, took if question.metric == "latency" else None


def _span_type(span: dict[str, Any]) -> str:
    for pair in span.get("attributes", ()):
        if pair.get("key") == "mlflow.spanType":
            return str(pair.get("value", {}).get("string_value", "")).strip('"')
    return "UNKNOWN"


def _assessment_facts(
    reader: ReadConnection, where: Fragment, question: Question
) -> Iterator[Fact]:
    parts = [where, _times(question, "a.created_ms")]
    source = "traces t JOIN assessments a ON a.trace_id = t.id"
    for time_ms, name, value in _rows(reader, "a.created_ms, a.name, a.value", source, parts):
        said = {"assessment_name": name, "assessment_value": value}
        if question.metric == "assessment_count":
            yield time_ms, said, None
            continue
        number = _judged(value)
        if number is not None:
            yield time_ms, said, number


def _judged(value: str) -> float | None:
    """Return the number behind an assessment: yes and true are one, no and false are zero."""
    word = value.strip('"').lower()
    if word in ("true", "yes"):
        return 1.0
    if word in ("false", "no"):
        return 0.0
    try:
        return float(word)
    except ValueError:
        return None


_FACTS: dict[str, Callable[[ReadConnection, Fragment, Question], Iterator[Fact]]] = {
    "TRACES": _trace_facts,
    "SPANS": _span_facts,
    "ASSESSMENTS": _assessment_facts,
}
