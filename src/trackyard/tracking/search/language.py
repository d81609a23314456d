"""Which keys each kind of thing is searched by, with their types and operators. Pure declarations.

One grammar serves seven languages: runs, experiments, registered models, model versions, logged
models, traces and evaluation data sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Entity = Literal[
    "attribute",
    "metric",
    "parameter",
    "tag",
    "dataset",
    "metadata",
    "feedback",
    "expectation",
    "span",
]
Aggregate = Literal["latest", "min", "max"]
#: text takes quoted strings, number a float, whole an integer, mixed either kind of number
Type = Literal["text", "number", "whole", "mixed"]
Operator = Literal[
    "=", "!=", ">", ">=", "<", "<=", "LIKE", "ILIKE", "IN", "NOT IN", "IS NULL", "IS NOT NULL"
]

NUMERIC: tuple[Operator, ...] = ("=", "!=", ">", ">=", "<", "<=")
TEXT: tuple[Operator, ...] = ("=", "!=", "LIKE", "ILIKE")
LISTS: tuple[Operator, ...] = ("IN", "NOT IN")
NULLS: tuple[Operator, ...] = ("IS NULL", "IS NOT NULL")


@dataclass(frozen=True, slots=True)
class Field:
    """A key, or any key of an entity: the type of its values and the operators it takes."""

    type: Type
    operators: tuple[Operator, ...]
    #: the key behind an alias
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """What may be asked of one kind of thing."""

    name: str
    #: every spelling of an entity, e.g. `params` and `parameter`
    entities: Mapping[str, Entity]
    #: the keys of each entity; `*` stands for any name
    filters: Mapping[Entity, Mapping[str, Field]]
    orders: Mapping[Entity, Mapping[str, Field]]
    #: whether `min(metrics.x)` and `max(metrics.x)` are known
    aggregates: bool = False
    #: for messages: which keys take a list, and which IS NULL
    lists: str
    nulls: str


_ATTRIBUTE: dict[str, Entity] = dict.fromkeys(("attribute", "attributes", "attr"), "attribute")
_METRIC: dict[str, Entity] = dict.fromkeys(("metric", "metrics"), "metric")
_PARAMETER: dict[str, Entity] = dict.fromkeys(
    ("parameter", "parameters", "param", "params"), "parameter"
)
_TAG: dict[str, Entity] = dict.fromkeys(("tag", "tags"), "tag")
_DATASET: dict[str, Entity] = dict.fromkeys(("dataset", "datasets"), "dataset")

_text = Field("text", TEXT)
_listed = Field("text", TEXT + LISTS)
_nullable = Field("text", TEXT + NULLS)
_time = Field("mixed", NUMERIC)
_whole = Field("whole", NUMERIC)
_value = Field("number", NUMERIC)

_RUN_ATTRIBUTES = {
    "run_id": _listed,
    "run_name": _text,
    "run name": Field("text", TEXT, "run_name"),
    "Run name": Field("text", TEXT, "run_name"),
    "Run Name": Field("text", TEXT, "run_name"),
    "status": _text,
    "user_id": _text,
    "artifact_uri": _text,
    "start_time": _time,
    "end_time": _time,
    "created": Field("mixed", NUMERIC, "start_time"),
    "Created": Field("mixed", NUMERIC, "start_time"),
}

RUNS = Language(
    name="runs",
    entities={**_ATTRIBUTE, "run": "attribute", **_METRIC, **_PARAMETER, **_TAG, **_DATASET},
    filters={
        "attribute": _RUN_ATTRIBUTES,
        "metric": {"*": _value},
        "parameter": {"*": _nullable},
        "tag": {"*": _nullable},
        "dataset": {"name": _listed, "digest": _listed, "context": _listed},
    },
    orders={
        "attribute": _RUN_ATTRIBUTES,
        "metric": {"*": _value},
        "parameter": {"*": _nullable},
        "tag": {"*": _nullable},
    },
    aggregates=True,
    lists="['run_id'] attributes and datasets",
    nulls="tags and params",
)

_EXPERIMENT_ATTRIBUTES = {
    "name": _text,
    "experiment_id": Field("text", ("=", "!=", *LISTS)),
    "creation_time": _whole,
    "last_update_time": _whole,
}

EXPERIMENTS = Language(
    name="experiments",
    entities={**_ATTRIBUTE, **_TAG},
    filters={"attribute": _EXPERIMENT_ATTRIBUTES, "tag": {"*": _nullable}},
    orders={"attribute": _EXPERIMENT_ATTRIBUTES},
    lists="['experiment_id'] attributes",
    nulls="tags",
)

REGISTERED_MODELS = Language(
    name="registered models",
    entities={**_ATTRIBUTE, **_TAG},
    filters={"attribute": {"name": _listed}, "tag": {"*": _text}},
    orders={
        "attribute": {
            "name": _text,
            "creation_timestamp": _whole,
            "last_updated_timestamp": _whole,
            "timestamp": Field("whole", NUMERIC, "last_updated_timestamp"),
        }
    },
    lists="['name'] attributes",
    nulls="no keys of registered models",
)

MODEL_VERSIONS = Language(
    name="model versions",
    entities={**_ATTRIBUTE, **_TAG},
    filters={
        "attribute": {
            "name": _listed,
            "run_id": _listed,
            "source_path": _text,
            "version_number": _whole,
        },
        "tag": {"*": _text},
    },
    orders={
        "attribute": {
            "name": _text,
            "version_number": _whole,
            "creation_timestamp": _whole,
            "last_updated_timestamp": _whole,
        }
    },
    lists="['name', 'run_id'] attributes",
    nulls="no keys of model versions",
)

_LOGGED_MODEL_ATTRIBUTES = {
    "name": _listed,
    "model_id": _listed,
    "model_type": _listed,
    "status": _listed,
    "source_run_id": _listed,
    "creation_timestamp": _time,
    "creation_timestamp_ms": Field("mixed", NUMERIC, "creation_timestamp"),
    "creation_time": Field("mixed", NUMERIC, "creation_timestamp"),
    "last_updated_timestamp": _time,
    "last_updated_timestamp_ms": Field("mixed", NUMERIC, "last_updated_timestamp"),
    "last_updated_time": Field("mixed", NUMERIC, "last_updated_timestamp"),
}

LOGGED_MODELS = Language(
    name="logged models",
    entities={**_ATTRIBUTE, **_METRIC, **_PARAMETER, **_TAG},
    filters={
        "attribute": _LOGGED_MODEL_ATTRIBUTES,
        "metric": {"*": _value},
        "parameter": {"*": _listed},
        "tag": {"*": _listed},
    },
    orders={"attribute": _LOGGED_MODEL_ATTRIBUTES, "metric": {"*": _value}},
    lists="text attributes, params and tags",
    nulls="no keys of logged models",
)

_TRACE_ATTRIBUTES = {
    "trace_id": _listed,
    "request_id": Field("text", TEXT + LISTS, "trace_id"),
    "name": _listed,
    "status": _listed,
    "state": Field("text", TEXT + LISTS, "status"),
    "run_id": Field("text", ("=",)),
    "client_request_id": _text,
    "timestamp_ms": _time,
    "timestamp": Field("mixed", NUMERIC, "timestamp_ms"),
    "request_time": Field("mixed", NUMERIC, "timestamp_ms"),
    "execution_time_ms": _time,
    "execution_time": Field("mixed", NUMERIC, "execution_time_ms"),
    "execution_duration": Field("mixed", NUMERIC, "execution_time_ms"),
    "end_time_ms": _time,
    "end_time": Field("mixed", NUMERIC, "end_time_ms"),
    "text": Field("text", ("LIKE", "ILIKE")),
}
_TRACE_UNORDERED = ("run_id", "text")

TRACES = Language(
    name="traces",
    entities={
        **_ATTRIBUTE,
        "trace": "attribute",
        **_TAG,
        **dict.fromkeys(("metadata", "request_metadata", "trace_metadata"), "metadata"),
        "feedback": "feedback",
        "expectation": "expectation",
        "span": "span",
    },
    filters={
        "attribute": _TRACE_ATTRIBUTES,
        "tag": {"*": _nullable},
        "metadata": {"*": _nullable},
        "feedback": {"*": _nullable},
        "expectation": {"*": _nullable},
        "span": {
            "name": _listed,
            "type": _listed,
            "status": _listed,
            "content": Field("text", ("LIKE", "ILIKE")),
            #: `attributes.` and the name of one
            "*": _listed,
        },
    },
    orders={
        "attribute": {
            key: field for key, field in _TRACE_ATTRIBUTES.items() if key not in _TRACE_UNORDERED
        }
    },
    lists="text attributes and spans",
    nulls="tags, metadata, feedback and expectations",
)

_EVAL_DATASET_ATTRIBUTES = {
    "name": _listed,
    "created_by": _text,
    "last_updated_by": _text,
    "created_time": _time,
    "last_update_time": _time,
}

EVAL_DATASETS = Language(
    name="evaluation data sets",
    entities={**_ATTRIBUTE, **_TAG},
    filters={"attribute": _EVAL_DATASET_ATTRIBUTES, "tag": {"*": _text}},
    orders={"attribute": _EVAL_DATASET_ATTRIBUTES},
    lists="['name'] attributes",
    nulls="no keys of evaluation data sets",
)
